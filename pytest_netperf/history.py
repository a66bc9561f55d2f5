"""The station's history in a run of pytest: asked before a measurement, told after a repeated one, and what is wrong.

The process that measures reads and writes it, under xdist each worker; the controller says what could not be done.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_netperf.bench.plan import LinkPlan
    from pytest_netperf.collection import ItemPlan
    from pytest_netperf.judge.method import BetweenRuns
    from pytest_netperf.record.history_store import HistoryKey
    from pytest_netperf.record.schema import Row
    from pytest_netperf.session import NetperfSession, TrafficCall
    from pytest_netperf.traffic.result import Workload

__all__ = ["PROBLEM", "HistoryReport", "ask", "remember"]

PROBLEM = "netperf_history_problem"
"""Key of a worker's output: what it could not read or write."""


def ask(session: NetperfSession, plan: ItemPlan, call: TrafficCall, workload: Workload) -> None:
    """Let a call know what is known about the spread from run to run, before it is made.

    What is declared wins. A call that is repeated will see for itself.
    """
    from pytest_netperf.judge.run_to_run import RunToRun, pooled

    assert plan.link is not None
    store = session.history
    if store is not None:
        call.history = _key(session, plan.link, workload, call.between_runs)
    if plan.method.run_to_run is not None:
        call.run_to_run = RunToRun(relative=plan.method.run_to_run)
    elif store is not None and call.history is not None and call.repeat == 1:
        call.run_to_run = pooled(store.read(call.history), call.between_runs)


def _key(session: NetperfSession, plan: LinkPlan, workload: Workload, between_runs: BetweenRuns) -> HistoryKey:
    import platform

    from pytest_netperf.record.history_store import HistoryKey

    device, link = plan.device, plan.link
    return HistoryKey(
        host=platform.node(),
        kernel=platform.release(),
        cpus=len(os.sched_getaffinity(0)),
        software=session.engine.version,
        slots=session.options.slots,
        device=device.model or device.serial,
        link=link.name,
        topology=link.topology,
        speed_bps=link.line_rate_bps,
        media=link.media,
        simulated=link.simulated,
        fault=link.fault.label if link.fault is not None else None,
        mtu=plan.settings.mtu,
        workload=workload,
        between_runs=between_runs,
        device_state=plan.settings.device_state,
        port_settings=plan.settings.port_conditions,
    )


def remember(session: NetperfSession, calls: Iterable[TrafficCall], rows: Iterable[Row]) -> None:
    """Take the repeated measurements of a test that is over into the history."""
    keys = {call.history.name: call.history for call in calls if call.history is not None and call.repeat > 1}
    if session.history is None or not keys:
        return
    from pytest_netperf.judge.run_to_run import spreads_of

    for name, spread in spreads_of(rows):
        session.history.add(keys[name], spread)


class HistoryReport:
    """Hooks of the controller (or of the only process)."""

    def __init__(self, session: NetperfSession) -> None:
        self._session = session
        self._of_workers: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """xdist: a worker ended."""
        problem = getattr(node, "workeroutput", {}).get(PROBLEM)
        self._of_workers += [problem] if problem else []

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The first problem, once, behind the results."""
        for problem in [*filter(None, [self._session.history_problem]), *self._of_workers][:1]:
            terminalreporter.write_line(f"station history: {problem}")
