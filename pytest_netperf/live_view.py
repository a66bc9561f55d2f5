"""Long measurements on the terminal while they run: chosen by the controller, told by whichever process measures.

RunWatch (each second)  -->  Teller  -->  the view, or over a socket to the controller of xdist and its view
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any

import pytest

from pytest_netperf import long_runs

if TYPE_CHECKING:
    from pytest_netperf.judge.limits import Limit
    from pytest_netperf.live.progress import Progress
    from pytest_netperf.live.relay import Receiver
    from pytest_netperf.live.view import View
    from pytest_netperf.observe.watch import Arrived, Enough, Tell, Way
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
        session.live = self._show

    def _show(self, progress: Progress) -> None:
        """The first look makes the view: a run without measurements pays nothing for it."""
        if self._view is None:
            self._view = self._make_view()
        self._view.show(progress)

    @classmethod
    def of(cls, config: pytest.Config, session: NetperfSession) -> LiveView | None:
        """The view that fits this terminal; None when there is none, or it shall be quiet."""
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if session.options.live == "off" or reporter is None or config.option.verbose < 0:
            return None

        def terminal() -> contextlib.AbstractContextManager[IO[str]]:
            return _uncaptured(config, reporter)

        def make_view() -> View:
            from pytest_netperf.live.view import LinesView, TableView

            is_table = session.options.live == "auto" and reporter.isatty and find_spec("rich") is not None
            return TableView(terminal) if is_table else LinesView(terminal)

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

    def pytest_unconfigure(self) -> None:
        """The run is over."""
        if self._receiver is not None:
            self._receiver.close()
        if self._view is not None:
            self._view.close()


class _Writer(io.StringIO):
    """pytest's terminal as a file."""

    def __init__(self, reporter: Any) -> None:
        super().__init__()
        self._reporter = reporter

    def write(self, text: str) -> int:
        self._reporter.write(text, flush=True)
        return len(text)

    def flush(self) -> None:
        """Every write is."""

    def isatty(self) -> bool:
        return bool(self._reporter.isatty)


@contextlib.contextmanager
def _uncaptured(config: pytest.Config, reporter: Any) -> Iterator[IO[str]]:
    capture = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
        reporter.ensure_newline()
        yield _Writer(reporter)


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
    from pytest_netperf.live.progress import Progress
    from pytest_netperf.screening import Screening

    show: Callable[[Progress], None] = session.live
    limit = _limit(running)
    planned_s = workload.duration_s + workload.omit_s

    def tell(elapsed_s: float, arrived: Mapping[Way, Arrived]) -> None:
        show(
            Progress(
                test=running.nodeid,
                label=running.nodeid.partition("[")[0].rpartition("::")[2] + "".join(running.nodeid.partition("[")[1:]),
                elapsed_s=round(elapsed_s, 1),
                planned_s=planned_s,
                rates_bps=tuple(each.bits / each.seconds for each in arrived.values() if each.seconds > 0),
                limit=None if limit is None else limit.text,
                run=run,
                runs=call.repeat,
                sure=enough.sure if isinstance(enough, Screening) else None,
            )
        )

    return tell


def _limit(running: TestRun) -> Limit | None:
    """The first limit on the mean throughput that may apply."""
    limits = running.plan.limits if running.plan is not None else ()
    return next((limit for limit in sorted(limits, key=lambda each: each.level) if limit.key == "throughput"), None)
