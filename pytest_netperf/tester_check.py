"""The tester reference in a run of pytest: obtained before the first test, held against the limits, and said.

The controller (or the only process) does that; workers of xdist find the result in a memory file of its.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_netperf.errors import NetperfError

if TYPE_CHECKING:
    from pytest_netperf.record.schema import Planned, TesterReference
    from pytest_netperf.recorder import Recorder
    from pytest_netperf.reference import Wanted
    from pytest_netperf.session import NetperfSession

__all__ = ["REFERENCE_FILE", "TesterCheck", "in_words", "limits_beyond", "references_of"]

REFERENCE_FILE = "netperf_reference_file"
"""Key of a worker's input: where the controller leaves the references, and what that file is called."""

_LIMITS_LISTED = 10
_ALWAYS = -9  # at this verbosity and above


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
        from pytest_netperf.reference import wanted

        options = self._session.options
        wants = wanted(planned, self._session.bench.station.reference)
        if not wants:
            if options.reference == "now":
                self._say("tester reference: not measured, because no test of this run has traffic on a link", _ALWAYS)
            return
        if options.reference == "off":
            found = tuple(want.reference(missing="switched off by netperf_reference = off") for want in wants)
        else:
            found = self._obtain(wants, planned)
        self._session.references = found
        if self._fd is not None:
            import msgspec

            os.pwrite(self._fd, msgspec.json.encode(found), 0)
        for line in limits_beyond(planned, found):
            self._say(line, _ALWAYS, yellow=True)

    def _obtain(self, wants: tuple[Wanted, ...], planned: list[Planned]) -> tuple[TesterReference, ...]:
        from pytest_netperf.reference import default_store, obtain

        options = self._session.options
        try:
            engine = self._session.engine
        except NetperfError as error:
            found = tuple(want.reference(missing=str(error)) for want in wants)
            self._say(f"tester reference: not measured: {error}", _ALWAYS)
            return found
        store = default_store()

        def get(some: Iterable[Wanted], fresh: bool) -> tuple[TesterReference, ...]:
            return obtain(some, engine, store, slots=options.slots, fresh=fresh, before=self._announce)

        known = dict(zip(wants, get(wants, options.reference == "now"), strict=True))
        # What another program disturbed speaks against no limit for a whole day.
        weak = [want for want, each in known.items() if each.stored and each.note and limits_beyond(planned, (each,))]
        known |= dict(zip(weak, get(weak, fresh=True), strict=True))
        found = tuple(known.values())
        for reference in found:
            verbosity = 1 if reference.stored else 0 if reference.missing is None else _ALWAYS
            self._say(f"tester reference: {in_words(reference)}", verbosity)
        if store.problem is not None:
            self._say(f"tester reference: {store.problem}", _ALWAYS)
        return found

    def _announce(self, seconds: int) -> None:
        self._say(f"tester reference: measuring what this machine can do without the device ({seconds} s of traffic)")

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
    lines = ["WARNING: this tester cannot show that these limits are met; a FAIL of their rows becomes INCONCLUSIVE:"]
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
    from pytest_netperf.reference import Wanted

    with contextlib.suppress(OSError):
        if path.readlink() == target:
            data = path.read_bytes()
            found: tuple[TesterReference, ...] = msgspec.json.decode(data or b"[]", type=tuple[TesterReference, ...])
            return found
    why = "this worker runs on another host than the run that measured it"
    return tuple(Wanted(link=None, mtu=mtu).reference(missing=why) for mtu in (1500, 9000))
