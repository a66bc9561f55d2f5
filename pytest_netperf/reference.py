"""The tester reference of a run: what this tester can do without the device, known before the first test.

    plan -> what is wanted -> found in the store of today, or measured -> the limits held against it, and said

The controller (or the only process) does all that; workers of xdist find the result in a memory file of its.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_netperf.errors import NetperfError

if TYPE_CHECKING:
    from pytest_netperf.bench.model import LinkSpec
    from pytest_netperf.record.reference_store import ReferenceKey, ReferenceStore
    from pytest_netperf.record.schema import Planned, TesterReference
    from pytest_netperf.recorder import Recorder
    from pytest_netperf.session import NetperfSession
    from pytest_netperf.traffic.engine import Engine

__all__ = ["REFERENCE_FILE", "TesterCheck", "Wanted", "default_store", "obtain", "references_of", "wanted"]

REFERENCE_FILE = "netperf_reference_file"
"""Key of a worker's input: where the controller leaves the references, and what that file is called."""

_DURATION_S, _OMIT_S = 2, 1
_LIMITS_LISTED = 10


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A reference that a run needs: over a cable-only link of the bench, or an unshaped veth pair (None)."""

    link: LinkSpec | None
    mtu: int

    @property
    def speed_bps(self) -> float | None:
        """Speed of the link in bit/s; None when nothing but the tester limits it."""
        return self.link.line_rate_bps if self.link is not None else None

    @property
    def label(self) -> str:
        """The link in words."""
        if self.link is None:
            return "veth pair, unshaped"
        from pytest_netperf.quantities import format_speed

        speed = f", {format_speed(self.speed_bps)}" if self.speed_bps is not None else ""
        return f"cable-only link {self.link.name}{speed}"

    def reference(self, **known: Any) -> TesterReference:
        """What is known of it."""
        from pytest_netperf.record.schema import TesterReference

        simulated = self.link is None or self.link.simulated
        return TesterReference(
            link=self.label, speed_bps=self.speed_bps, simulated=simulated, mtu=self.mtu, **known
        )  # fmt: skip


def wanted(planned: Iterable[Planned], cables: Iterable[LinkSpec]) -> tuple[Wanted, ...]:
    """The references for the traffic of these planned rows: none for rows without a link, and deselected ones."""
    from pytest_netperf.judge.doubt_reference import reference_mtu
    from pytest_netperf.judge.values import TRAFFIC_QUANTITIES

    needs = {
        (reference_mtu(row.conditions["mtu"]), row.conditions.get("speed"))
        for row in planned
        if row.selected and row.link is not None and row.quantity in TRAFFIC_QUANTITIES and "mtu" in row.conditions
    }
    pairs = [Wanted(link=None, mtu=mtu) for mtu in sorted({mtu for mtu, _ in needs})]
    return (
        *pairs,
        *(
            Wanted(link=cable, mtu=pair.mtu)
            for cable in cables
            for pair in pairs
            if (pair.mtu, cable.speed_bps) in needs
        ),
    )


def default_store() -> ReferenceStore:
    """The store of this user."""
    from pytest_netperf.record.reference_store import ReferenceStore, state_folder

    return ReferenceStore(state_folder(os.environ))


def obtain(
    wants: Iterable[Wanted],
    engine: Engine,
    store: ReferenceStore,
    *,
    slots: int = 1,
    fresh: bool = False,
    before: Callable[[int], None] = lambda _: None,
) -> tuple[TesterReference, ...]:
    """The references, those of today from the store unless ``fresh``, the others measured now and stored.

    ``before`` is told the seconds of traffic before any is measured. One that cannot be measured says why.
    """
    keys = {want: _key(want, engine) for want in wants}

    def stored() -> dict[Wanted, TesterReference]:
        found = {want: store.read(key) for want, key in keys.items()} if not fresh else {}
        return {want: reference for want, reference in found.items() if reference is not None}

    known = stored()
    if len(known) < len(keys):
        before((_DURATION_S + _OMIT_S) * (len(keys) - len(known)))
        with store.lock():
            known = stored()  # somebody may have measured meanwhile
            missing = [want for want in keys if want not in known]
            for want, reference in zip(missing, _measure_all(missing, engine, slots), strict=True):
                known[want] = reference
                if reference.throughput_bps is not None:
                    store.write(keys[want], reference)
    return tuple(known[want] for want in keys)


def _key(want: Wanted, engine: Engine) -> ReferenceKey:
    import platform

    from pytest_netperf.record.reference_store import ReferenceKey

    return ReferenceKey(
        host=platform.node(),
        kernel=platform.release(),
        cpus=len(os.sched_getaffinity(0)),
        software=engine.version,
        link=want.label,
        speed_bps=want.speed_bps,
        mtu=want.mtu,
    )


def _measure_all(wants: list[Wanted], engine: Engine, slots: int) -> Iterable[TesterReference]:
    """Measure one after the other, with a keeper of their own."""
    if not wants:
        return
    from pytest_netperf.links.owner import Owner

    with contextlib.ExitStack() as stack:
        owner, problem = None, ""
        try:
            owner = Owner()
            stack.callback(owner.close)
        except (NetperfError, OSError) as error:
            problem = str(error)
        for want in wants:
            unsupported = want.link.unsupported_reason() if want.link is not None else None
            if unsupported or owner is None:
                yield want.reference(missing=unsupported or problem)
                continue
            try:
                yield _measure(want, engine, owner, slots)
            except (NetperfError, OSError) as error:
                yield want.reference(missing=str(error))


def _measure(want: Wanted, engine: Engine, owner: Any, slots: int) -> TesterReference:
    import platform
    from datetime import UTC, datetime

    from pytest_netperf.judge.doubt_tester import BUSY_PROCESS, STEAL, THROTTLED
    from pytest_netperf.judge.doubts import examine
    from pytest_netperf.links.link import bring_up
    from pytest_netperf.observe.measure import measure
    from pytest_netperf.traffic.framing import ceiling_bps
    from pytest_netperf.traffic.result import Workload

    workload = Workload(duration_s=_DURATION_S, omit_s=_OMIT_S)
    link = bring_up(owner, f"reference-{want}", name=want.label, speed_bps=want.speed_bps, mtu=want.mtu)
    try:
        measured = measure(engine, link, workload, slots=slots)
    finally:
        link.close()
    findings = examine(
        measured.result,
        measured.observation,
        speed_bps=want.speed_bps,
        mtu_bytes=want.mtu,
        simulated=True,
        faulted=False,
        ceiling_bps=ceiling_bps(workload, want.speed_bps, want.mtu) if want.speed_bps is not None else None,
    )
    rate_bps = measured.throughput_bps
    if not measured.result.trusted or findings.invalid or not rate_bps:
        why = " ".join(findings.invalid) or measured.result.reason
        return want.reference(missing=f"the number cannot be trusted: {why}")
    disturbing = {doubt.name for doubt in (BUSY_PROCESS, STEAL, THROTTLED)}
    notes = [doubt.seen for doubt in findings.named if doubt.name in disturbing and doubt.kind == "tester"]
    return want.reference(
        throughput_bps=rate_bps,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        host=platform.node(),
        kernel=platform.release(),
        software=engine.version,
        note=" ".join(notes) or None,
    )


# ---- in a run of pytest ----------------------------------------------------------------------------------------------


class TesterCheck:
    """Hooks of the controller (or of the only process), behind those of the recorder, which has the plan by then."""

    def __init__(self, config: pytest.Config, session: NetperfSession, recorder: Recorder) -> None:
        self._config = config
        self._session = session
        self._recorder = recorder
        self._fd: int | None = None
        self._done = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """xdist: tell a worker where it will find the references."""
        name = f"netperf-reference-{self._recorder.run_id}"
        if self._fd is None:
            self._fd = os.memfd_create(name)
        node.workerinput[REFERENCE_FILE] = [f"/proc/{os.getpid()}/fd/{self._fd}", f"/memfd:{name} (deleted)"]

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """xdist: the first plan is there, and no test runs before all workers have theirs."""
        self._check()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Behind the terminal's own line about the collection."""
        self._check()

    def pytest_unconfigure(self) -> None:
        """The memory file goes."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _check(self) -> None:
        planned = self._recorder.planned
        if self._done or planned is None:
            return
        self._done = True
        options = self._session.options
        wants = wanted(planned, self._session.bench.station.reference)
        if not wants:
            if options.reference == "now":
                self._say("tester reference: not measured, because no test of this run has traffic on a link", -9)
            return
        if options.reference == "off":
            found = tuple(want.reference(missing="switched off by netperf_reference = off") for want in wants)
        else:
            found = self._obtain(wants)
        self._session.references = found
        if self._fd is not None:
            import msgspec

            os.pwrite(self._fd, msgspec.json.encode(found), 0)
        for line in limits_beyond(planned, found):
            self._say(line, -9, yellow=True)

    def _obtain(self, wants: tuple[Wanted, ...]) -> tuple[TesterReference, ...]:
        options = self._session.options
        try:
            engine = self._session.engine
        except NetperfError as error:
            found = tuple(want.reference(missing=str(error)) for want in wants)
            self._say(f"tester reference: not measured: {error}", -9)
            return found
        store = default_store()
        found = obtain(
            wants,
            engine,
            store,
            slots=options.slots,
            fresh=options.reference == "now",
            before=lambda seconds: self._say(
                f"tester reference: measuring what this machine can do without the device ({seconds} s of traffic)"
            ),
        )
        for reference in found:
            verbosity = 1 if reference.stored else 0 if reference.missing is None else -9
            self._say(f"tester reference: {in_words(reference)}", verbosity)
        if store.problem is not None:
            self._say(f"tester reference: {store.problem}", -9)
        return found

    def _say(self, line: str, verbosity: int = 0, **markup: bool) -> None:
        """A line on the terminal, when the user did not ask for less."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and self._config.option.verbose >= verbosity:
            terminal.write_line(line, **markup)


def in_words(reference: TesterReference) -> str:
    """A reference on one line."""
    from pytest_netperf.quantities import format_value

    place = f"at MTU {reference.mtu} ({reference.link})"
    if reference.throughput_bps is None:
        return f"not measured {place}: {reference.missing}"
    when = f", stored at {reference.measured_at}" if reference.stored else ""
    note = f"; it may be too low: {reference.note}" if reference.note else ""
    return f"{format_value(reference.throughput_bps, 'bit/s')} {place}, {reference.software}{when}{note}"


def limits_beyond(planned: Iterable[Planned], references: tuple[TesterReference, ...]) -> list[str]:
    """The lines about limits that this tester cannot show to be met; none when it can. Equal ones share a line."""
    from pytest_netperf.judge.doubt_reference import beyond, slowest
    from pytest_netperf.quantities import format_pair

    groups: dict[tuple[str, float, TesterReference], int] = {}
    for row in planned:
        reference = slowest(references, {**row.conditions, "simulated": row.simulated}) if row.selected else None
        if reference is not None and row.limit_low is not None and beyond(row.limit_low, reference.throughput_bps):
            group = (row.test.split("[", 1)[0], row.limit_low, reference)
            groups[group] = groups.get(group, 0) + 1
    if not groups:
        return []
    lines = [
        "WARNING: this tester cannot show that these limits are met; a FAIL of their rows becomes INCONCLUSIVE:"
    ]
    for (test, low, reference), count in list(groups.items())[:_LIMITS_LISTED]:
        required, delivered = format_pair(low, reference.throughput_bps or 0.0, "bit/s")
        rows = f", {count} rows" if count > 1 else ""
        over = f"at MTU {reference.mtu} ({reference.link})"
        lines.append(f"  {test}: {required} required, tester reference {delivered} {over}{rows}")
    if len(groups) > _LIMITS_LISTED:
        lines.append(f"  ... and {len(groups) - _LIMITS_LISTED} more")
    lines.append(
        "  Measure the reference again when nothing else runs (--netperf-reference), use a faster tester, or lower "
        "the limits."
    )
    return lines


def references_of(session: NetperfSession) -> tuple[TesterReference, ...]:
    """The references of this run; a worker of xdist reads them from its controller's memory file when first asked."""
    if session.reference_file is not None:
        session.references = _from_controller(*map(Path, session.reference_file))
        session.reference_file = None
    return session.references


def _from_controller(path: Path, target: Path) -> tuple[TesterReference, ...]:
    import msgspec

    from pytest_netperf.record.schema import TesterReference

    with contextlib.suppress(OSError):
        if path.readlink() == target:
            data = path.read_bytes()
            found: tuple[TesterReference, ...] = msgspec.json.decode(data or b"[]", type=tuple[TesterReference, ...])
            return found
    why = "this worker runs on another host than the run that measured it"
    return tuple(Wanted(link=None, mtu=mtu).reference(missing=why) for mtu in (1500, 9000))
