"""The tester reference: what this tester can do without the device.

    plan -> what is wanted -> found in the store of today, or measured

`tester_check` does that before the first test of a run, and holds the limits against it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_netperf.errors import NetperfError

if TYPE_CHECKING:
    from pytest_netperf.bench.model import LinkSpec
    from pytest_netperf.record.reference_store import ReferenceKey, ReferenceStore
    from pytest_netperf.record.schema import Planned, TesterReference
    from pytest_netperf.traffic.engine import Engine

__all__ = ["Wanted", "default_store", "obtain", "reference_key", "wanted"]

_DURATION_S, _OMIT_S = 2, 1


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

        simulated = self.link is None or self.link.without_hardware
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
    from pytest_netperf.record.reference_store import ReferenceStore
    from pytest_netperf.record.state_folder import state_folder

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
    keys = {want: reference_key(want, engine) for want in wants}
    known: dict[Wanted, TesterReference] = {}
    for want in keys:
        unsupported = want.link.unsupported_reason() if want.link is not None else None
        if unsupported is not None:
            known[want] = want.reference(missing=unsupported)

    def unknown() -> list[Wanted]:
        for want, key in keys.items():
            found = store.read(key) if want not in known and not fresh else None
            if found is not None:
                known[want] = found
        return [want for want in keys if want not in known]

    if missing := unknown():
        before((_DURATION_S + _OMIT_S) * len(missing))
        with store.lock():
            missing = unknown()  # somebody may have measured meanwhile
            for want, reference in zip(missing, _measure_all(missing, engine, slots), strict=True):
                known[want] = reference
                if reference.throughput_bps is not None:
                    store.write(keys[want], reference)
    return tuple(known[want] for want in keys)


def reference_key(want: Wanted, engine: Engine) -> ReferenceKey:
    """Under which the store keeps a reference of this machine."""
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
            if owner is None:
                yield want.reference(missing=problem)
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
    from pytest_netperf.links.lent_ports import bring_up_ports
    from pytest_netperf.links.link import bring_up
    from pytest_netperf.observe.measure import measure
    from pytest_netperf.traffic.framing import ceiling_bps
    from pytest_netperf.traffic.result import Workload

    workload = Workload(duration_s=_DURATION_S, omit_s=_OMIT_S)
    simulated = want.link is None or want.link.simulated
    about: dict[str, Any] = {"name": want.label, "speed_bps": want.speed_bps, "mtu": want.mtu}
    if want.link is None or simulated:
        link = bring_up(owner, f"reference-{want}", **about)
    else:
        link = bring_up_ports(owner, f"reference-{want}", ports=want.link.physical_ports, asked={}, **about)
    try:
        measured = measure(engine, link, workload, slots=slots)
    finally:
        link.close()
    findings = examine(
        measured.result,
        measured.observation,
        speed_bps=want.speed_bps,
        mtu_bytes=want.mtu,
        simulated=simulated,
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
