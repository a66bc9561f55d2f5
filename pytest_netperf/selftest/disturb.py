"""What happens beside a measurement in a case of the selftest: busy programs, signals, other traffic, wrong clocks.

Each is a context manager around the traffic call. It acts when the iperf3 client of this link runs, and not while
another measurement has the slot; and it ends what it started, at the latest when the call returns. A hog also ends by
itself: when its parent is gone, or after a while.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from pytest_netperf.observe import host

if TYPE_CHECKING:
    from pytest_netperf.links.link import Endpoint, Link
    from pytest_netperf.observe.observation import PortCounters

__all__ = ["DISTURBANCES"]

_POLL_SECONDS: Final = 0.1  # of who waits for the measurement slot; looking for a process costs some milliseconds
_BEFORE_SECONDS: Final = 1.0
"""How long the traffic flows undisturbed."""
_HOGS_A_CPU: Final = 40
_HOG_SECONDS: Final = 3
"""As long as the traffic of these cases: the two iperf3 need some CPU to end."""
_FLOOD_PORT: Final = 5300

# Many small ones on each CPU. Each is a session of its own: where the kernel shares a CPU between sessions first, each
# gets its part. They end with their parent, which ends on SIGTERM, with its own parent, or after a while.
_HOGS: Final = """
import os, signal, sys, time
cpus, count, parent = sys.argv[1].split(), int(sys.argv[2]), int(sys.argv[3])
end, master, hogs = time.monotonic() + float(sys.argv[4]), os.getpid(), []
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
try:
    for cpu in cpus * count:
        hog = os.fork()
        if not hog:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            os.sched_setaffinity(0, {int(cpu)})
            while os.getppid() == master and time.monotonic() < end:
                for _ in range(20_000):
                    pass
            os._exit(0)
        hogs.append(hog)
    while os.getppid() == parent and time.monotonic() < end:
        time.sleep(0.05)
finally:
    for hog in hogs:
        os.kill(hog, signal.SIGKILL)
"""

_Action = Callable[["Link", threading.Event], None]


def _during(action: _Action) -> Callable[[Link], contextlib.AbstractContextManager[None]]:
    """A context manager that does this in a thread once the client runs; what fails in it fails the test."""

    @contextlib.contextmanager
    def around(link: Link) -> Iterator[None]:
        over = threading.Event()
        failed: list[BaseException] = []

        def run() -> None:
            try:
                action(link, over)
            except BaseException as error:  # noqa: BLE001 - handed on below
                failed.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            if failed:
                raise failed[0]

    return around


def _processes(endpoint: Endpoint, role: str) -> list[int]:
    """The iperf3 processes of this role ("-c" or "-s") in the namespace of one end."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it ended, or is not ours to look at
            if entry.name.isdigit() and os.stat(entry / "ns" / "net").st_ino == endpoint.namespace:  # noqa: PTH116
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
                if role.encode() in arguments and any(each.endswith(b"iperf3") for each in arguments):
                    found.append(int(entry.name))
    return found


def _await(endpoint: Endpoint, role: str, over: threading.Event) -> int:
    """The process id of that iperf3, as soon as it runs; the measurement slot may be taken for a while."""
    while not over.is_set():
        for pid in _processes(endpoint, role):
            return pid
        over.wait(_POLL_SECONDS)
    raise RuntimeError(f"the call ended before an iperf3 {role} was seen at end {endpoint.end}")


def _signal(end: str, role: str, *numbers: signal.Signals, pause_s: float = 0.0) -> _Action:
    def act(link: Link, over: threading.Event) -> None:
        _await(link.a, "-c", over)
        endpoint = link.a if end == "a" else link.b
        pid = _await(endpoint, role, over)
        over.wait(_BEFORE_SECONDS)
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            over.wait(pause_s)

    return act


def _hog(end: str | None) -> _Action:
    """Busy programs on one CPU, to which the iperf3 of that end is bound; or on all CPUs."""

    def act(link: Link, over: threading.Event) -> None:
        client = _await(link.a, "-c", over)
        cpus = sorted(os.sched_getaffinity(0))
        if end is not None:
            pid = client if end == "a" else _await(link.b, "-s", over)
            cpus = cpus[:1] if end == "a" else cpus[-1:]
            _yields(pid, cpus)
        else:
            _yields(client, cpus)
            _yields(_await(link.b, "-s", over), cpus)
        command = [sys.executable, "-S", "-E", "-c", _HOGS, " ".join(map(str, cpus)), str(_HOGS_A_CPU)]
        with subprocess.Popen([*command, str(os.getpid()), str(_HOG_SECONDS)]) as hogs:
            over.wait(_HOG_SECONDS)
            hogs.terminate()

    return act


def _yields(pid: int, cpus: list[int]) -> None:
    """Let a process run on these CPUs only, and only when nobody else wants to: the hogs come first, as they should."""
    for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - every thread of it
        os.sched_setaffinity(int(task), cpus)
        os.sched_setscheduler(int(task), os.SCHED_IDLE, os.sched_param(0))


def _flood(*, back: bool) -> _Action:
    """Other traffic on the link: UDP at 200 Mbit/s, until the measurement is over."""

    def act(link: Link, over: threading.Event) -> None:
        _await(link.a, "-c", over)
        source, target = (link.b, link.a) if back else (link.a, link.b)
        with target.popen(["iperf3", "-s", "-1", "-p", str(_FLOOD_PORT)]) as server:
            while not target.is_listening(_FLOOD_PORT):
                if over.wait(_POLL_SECONDS):
                    return
            command = ["iperf3", "-c", target.address, "-p", str(_FLOOD_PORT), "-u", "-b", "200M", "-t", "30"]
            with source.popen(command) as client:
                while not over.wait(_POLL_SECONDS) and not client.wait(0):
                    pass
                client.end(grace=0.0)
            server.end(grace=0.0)

    return act


@contextlib.contextmanager
def _step_the_clock(link: Link) -> Iterator[None]:  # noqa: ARG001 - as the others
    """The clock of the day that the plugin reads is 5 s ahead when read again; the machine's own is left alone."""
    readings = itertools.count()

    def clock_gettime(clock: int) -> float:
        ahead = 5.0 if clock == time.CLOCK_REALTIME and next(readings) else 0.0
        return time.clock_gettime(clock) + ahead

    clocks = {name: getattr(time, name) for name in dir(time) if not name.startswith("_")}
    with mock.patch.object(host, "time", SimpleNamespace(**{**clocks, "clock_gettime": clock_gettime})):
        yield


@contextlib.contextmanager
def _stop_the_counters_of_b(link: Link) -> Iterator[None]:
    """Port b counts nothing, as behind a driver that does not."""
    counters = link.all_counters
    still = counters()["b"]

    def half() -> dict[str, PortCounters]:
        return {**counters(), "b": still}

    with mock.patch.object(link, "all_counters", half):
        yield


DISTURBANCES: Final[dict[str, Callable[[Any], contextlib.AbstractContextManager[None]]]] = {
    "hog_the_sender": _during(_hog("a")),
    "hog_the_receiver": _during(_hog("b")),
    "hog_every_cpu": _during(_hog(None)),
    "pause_the_server": _during(_signal("b", "-s", signal.SIGSTOP, signal.SIGCONT, pause_s=1.0)),
    "pause_the_client": _during(_signal("a", "-c", signal.SIGSTOP, signal.SIGCONT, pause_s=1.0)),
    "freeze_the_server": _during(_signal("b", "-s", signal.SIGSTOP)),
    "kill_the_server": _during(_signal("b", "-s", signal.SIGKILL)),
    "kill_the_client": _during(_signal("a", "-c", signal.SIGKILL)),
    "interrupt_the_client": _during(_signal("a", "-c", signal.SIGINT)),
    "flood": _during(_flood(back=False)),
    "flood_back": _during(_flood(back=True)),
    "step_the_clock": _step_the_clock,
    "stop_the_counters_of_b": _stop_the_counters_of_b,
}
