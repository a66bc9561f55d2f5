"""Long measurements on the terminal while they run: chosen by the controller, told by whichever process measures.

RunWatch (each second)  -->  Teller  -->  the view, or over a socket to the controller of xdist and its view
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from pytest_netperf import long_runs

if TYPE_CHECKING:
    from pytest_netperf.judge.limits import Limit
    from pytest_netperf.live.progress import Progress
    from pytest_netperf.live.relay import Receiver
    from pytest_netperf.live.view import View
    from pytest_netperf.observe.watch import Arrived, Enough, Tell, Way
    from pytest_netperf.screening import Screening
    from pytest_netperf.session import NetperfSession, TestRun, TrafficCall
    from pytest_netperf.traffic.result import Workload

__all__ = ["ADDRESS", "LiveView", "join", "teller"]

ADDRESS = "netperf_live"
"""Key of a worker's input: where its controller listens."""


class LiveView:
    """Of the controller, or of the only process. Made when somebody may see it."""

    def __init__(self, session: NetperfSession, make_view: Callable[[], View]) -> None:
        self._make_view = make_view
        self._view: View | None = None
        self._receiver: Receiver[Progress] | None = None
        self._is_over = False
        session.live = self._show

    def _show(self, progress: Progress) -> None:
        """The first look makes the view: a run without measurements pays nothing for it."""
        if self._is_over:
            return
        if self._view is None:
            self._view = self._make_view()
        self._view.show(progress)

    @classmethod
    def of(cls, config: pytest.Config, session: NetperfSession) -> LiveView | None:
        """The view that fits this terminal; None when there is none, or it shall be quiet."""
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if session.options.live == "off" or reporter is None or config.option.verbose < 0:
            return None

        def make_view() -> View:
            from pytest_netperf.live.view import LinesView, TableView
            from pytest_netperf.live_terminal import Below, Between

            if session.options.live == "auto" and reporter.isatty and find_spec("rich") is not None:
                return TableView(Below(config) if Below.fits(config, reporter) else Between(config, reporter))
            return LinesView(Between(config, reporter))

        return cls(session, make_view)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """A worker of xdist is about to start: tell it where to tell."""
        if self._receiver is None:
            from pytest_netperf.live.relay import Receiver, progress_of

            self._receiver = Receiver(self._show, progress_of)
        node.workerinput[ADDRESS] = self._receiver.address

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test is over; the terminal is about to be written to."""
        if self._view is not None and (report.when != "setup" or not report.passed):
            self._view.done(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Ctrl-C: what measures now is cut short, and workers may go on to tell of it for a moment."""
        self._close()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """The summary is about to be written."""
        self._close()

    def _close(self) -> None:
        self._is_over = True
        if self._view is not None:
            self._view.close()

    def pytest_unconfigure(self) -> None:
        """The run is over."""
        self._close()
        if self._receiver is not None:
            self._receiver.close()


def join(config: pytest.Config, session: NetperfSession) -> None:
    """In a worker of xdist: tell the controller how measurements go, if it listens, and what they showed so far."""
    told = getattr(config, "workerinput", {})
    config.add_cleanup(long_runs.join(told, session))
    if ADDRESS in told:
        from pytest_netperf.live.relay import Sender

        sender = Sender(told[ADDRESS])
        session.live = sender
        config.add_cleanup(sender.close)


def teller(
    session: NetperfSession, running: TestRun, call: TrafficCall, workload: Workload, run: int, enough: Enough | None
) -> Tell | None:
    """What a run tells of itself each second; None when nobody looks."""
    if session.live is None:
        return None
    from pytest_netperf.screening import Screening

    return _Teller(session.live, running, call, workload, run, enough if isinstance(enough, Screening) else None)


class _Teller:
    """See `observe.watch.Tell`."""

    def __init__(
        self,
        show: Callable[[Progress], None],
        running: TestRun,
        call: TrafficCall,
        workload: Workload,
        run: int,
        screening: Screening | None,
    ) -> None:
        from pytest_netperf.live.progress import Progress

        self._show, self._screening = show, screening
        name, bracket, parameters = running.nodeid.partition("[")
        limit = _limit(running)
        self._first = Progress(
            test=running.nodeid,
            label=name.rpartition("::")[2] + bracket + parameters,
            elapsed_s=0.0,
            planned_s=workload.duration_s + workload.omit_s,
            limit=None if limit is None else limit.text,
            run=run,
            runs=call.repeat,
        )

    def waits(self, waited_s: float) -> None:
        self._tell(waited_s=waited_s)

    def __call__(self, elapsed_s: float, arrived: Mapping[Way, Arrived]) -> None:
        rates = tuple(each.bits / each.seconds for each in arrived.values() if each.seconds > 0)
        sure = None if self._screening is None else self._screening.sure
        self._tell(elapsed_s=round(elapsed_s, 1), rates_bps=rates, sure=sure)

    def _tell(self, **more: Any) -> None:
        from msgspec.structs import replace

        self._show(replace(self._first, **more))


def _limit(running: TestRun) -> Limit | None:
    """The first limit on the mean throughput that may apply."""
    limits = running.plan.limits if running.plan is not None else ()
    return next((limit for limit in sorted(limits, key=lambda each: each.level) if limit.key == "throughput"), None)
