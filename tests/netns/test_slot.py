"""The measurement slot: who has it, who waits, and that the kernel hands it on however its holder ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_netperf.errors import StationError
from pytest_netperf.links import slot
from pytest_netperf.links.slot import measurement_slot

pytestmark = pytest.mark.alone

HOLD_SECONDS = 0.05


@pytest.fixture
def own_slots(monkeypatch: pytest.MonkeyPatch) -> str:
    """Slots of the test's own, so that it need not wait for other work on this machine."""
    prefix = f"\0pytest-netperf/test-slot-{os.getpid()}-{time.monotonic_ns()}/"
    monkeypatch.setattr(slot, "_name", lambda number: f"{prefix}{number}")
    return prefix


@pytest.fixture
def holder(own_slots: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``holder(slots, seconds)``: a process that takes a slot, prints when it got it and when it gave it back."""
    started = []

    def start(slots: int = 1, seconds: float = HOLD_SECONDS) -> subprocess.Popen[str]:
        text = (
            "import sys, time\nfrom pytest_netperf.links import slot\n"
            f"slot._name = lambda number: {own_slots!r} + str(number)\n"
            f"with slot.measurement_slot({slots}):\n"
            "    print(time.monotonic(), flush=True)\n"
            f"    time.sleep({seconds})\n"
            "    print(time.monotonic(), flush=True)\n"
        )
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", text],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        with process:
            pass


def spans_of(processes: list[subprocess.Popen[str]]) -> list[tuple[float, float]]:
    """From when to when each process held its slot."""
    spans = []
    for process in processes:
        said, _ = process.communicate(timeout=60)
        begin, end = map(float, said.split())
        spans.append((begin, end))
    return sorted(spans)


def most_at_once(spans: list[tuple[float, float]]) -> int:
    edges = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    now = most = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most


# One slot


def test_two_processes_never_overlap(holder: Callable[..., subprocess.Popen[str]]):
    spans = spans_of([holder() for _ in range(5)])
    assert len(spans) == 5
    assert most_at_once(spans) == 1


def test_threads_of_one_process_take_turns_too(own_slots: str):
    """And many waiters: each gets its turn, without a pause in between that anyone would notice."""
    spans: list[tuple[float, float]] = []
    waits: list[float] = []

    def measure() -> None:
        with measurement_slot(1) as waited_s:
            begin = time.monotonic()
            time.sleep(0.01)
            spans.append((begin, time.monotonic()))
            waits.append(waited_s)

    threads = [threading.Thread(target=measure) for _ in range(20)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(spans) == 20
    assert most_at_once(spans) == 1
    assert time.monotonic() - started < 20 * 0.01 + 2
    assert max(waits) <= time.monotonic() - started
    assert sorted(waits)[10] > 0.05  # they did wait


def test_the_wait_is_told(own_slots: str):
    with measurement_slot(1) as waited_s:
        assert 0 <= waited_s < 0.5
        later = threading.Timer(1.2, lambda: None)
        later.start()
        got: list[float] = []
        heard: list[float] = []

        def wait() -> None:
            with measurement_slot(1, waits=heard.append) as waited_s:
                got.append(waited_s)

        waiter = threading.Thread(target=wait)
        waiter.start()
        later.join()
    waiter.join(10)
    assert 1.15 < got[0] < 6
    assert heard[0] == pytest.approx(1.0, abs=0.5), "once a second"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_holder_frees_it_at_once(
    holder: Callable[..., subprocess.Popen[str]], own_slots: str, number: signal.Signals
):
    process = holder(seconds=1000)
    assert process.stdout is not None
    process.stdout.readline()  # it has it
    got: list[float] = []

    def wait() -> None:
        with measurement_slot(1):
            got.append(time.monotonic())

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.1)
    assert got == []
    killed = time.monotonic()
    process.send_signal(number)
    waiter.join(10)
    assert got[0] - killed < slot._LOOK_AGAIN_SECONDS / 2  # woken, not by looking again


def test_a_failing_measurement_frees_it(own_slots: str):
    with pytest.raises(ZeroDivisionError), measurement_slot(1):
        1 / 0  # noqa: B018
    with measurement_slot(1, timeout=0) as waited_s:
        assert waited_s < 0.5


def test_a_program_started_meanwhile_does_not_hold_it(own_slots: str):
    with measurement_slot(1):
        process = subprocess.Popen(["sleep", "1000"], close_fds=False)
    try:
        with measurement_slot(1, timeout=0):
            pass
    finally:
        process.kill()
        process.wait()


def test_the_timeout_says_who_has_it_and_the_way_out(holder: Callable[..., subprocess.Popen[str]]):
    process = holder(seconds=1000)
    assert process.stdout is not None
    process.stdout.readline()
    started = time.monotonic()
    with (
        pytest.raises(
            StationError,
            match=rf"no measurement slot .* within 0\.2 s.*process {process.pid}\b.*--netperf-slots",
        ),
        measurement_slot(1, timeout=0.2),
    ):
        pass
    assert 0.2 <= time.monotonic() - started < 1.0


# Several slots


@pytest.mark.parametrize("slots", [2, 3])
def test_so_many_at_once_and_no_more(holder: Callable[..., subprocess.Popen[str]], slots: int):
    spans = spans_of([holder(slots, 0.5) for _ in range(slots + 2)])
    assert most_at_once(spans) == slots


def test_a_waiter_for_any_of_several_takes_the_first_that_comes_free(own_slots: str):
    free = [threading.Event(), threading.Event()]
    taken = [threading.Event(), threading.Event()]

    def hold(number: int) -> None:
        with measurement_slot(2):
            taken[number].set()
            free[number].wait(10)

    threads = [threading.Thread(target=hold, args=(number,)) for number in range(2)]
    for number, thread in enumerate(threads):
        thread.start()
        assert taken[number].wait(10)
    threading.Timer(0.1, free[1].set).start()  # the second slot, while the first stays taken
    with measurement_slot(2, timeout=10) as waited_s:
        assert 0.05 < waited_s < 1
    free[0].set()
    for thread in threads:
        thread.join(10)


# In pytest: the windows of iperf3 itself, logged by a wrapper around the client


SUITE = """
import time
import pytest

@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 1 Mbps")
@pytest.mark.parametrize("n", range(4))
def test_measured(iperf3, n):
    iperf3.tcp(duration=1, omit=0)

@pytest.mark.parametrize("n", range(4))
def test_functional(netperf_link, netperf_record, n):
    begin = time.monotonic()
    assert netperf_link.a.run(["sleep", "0.7"]).returncode == 0
    with open("functional.log", "a") as log:
        log.write(f"{begin} {time.monotonic()}\\n")
"""


@pytest.mark.netns
@pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")
@pytest.mark.parametrize(("slots", "most"), [(1, 1), (2, 2)])
@pytest.mark.needs_xdist
def test_workers_measure_in_turns_and_do_all_else_at_once(owner: object, tmp_path: Path, slots: int, most: int):
    (tmp_path / "test_it.py").write_text(SUITE)
    real = shutil.which("iperf3")
    wrapper = tmp_path / "bin" / "iperf3"
    wrapper.parent.mkdir()
    wrapper.write_text(
        textwrap.dedent(f"""\
        #!{sys.executable}
        import subprocess, sys, time
        begin = time.monotonic()
        code = subprocess.call([{real!r}, *sys.argv[1:]])
        if "-c" in sys.argv:
            with open({str(tmp_path / "measured.log")!r}, "a") as log:
                log.write(f"{{begin}} {{time.monotonic()}}\\n")
        sys.exit(code)
        """)
    )
    wrapper.chmod(0o755)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-n4",
            f"--netperf-slots={slots}",
            "-pno:cacheprovider",
            "-q",
            "-onetperf_reference=off",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PATH": f"{wrapper.parent}:{os.environ['PATH']}"},
        check=False,
    )
    measured = spans_in(tmp_path / "measured.log")
    functional = spans_in(tmp_path / "functional.log")
    assert (len(measured), len(functional)) == (4, 4), done.stdout + done.stderr
    assert most_at_once(measured) == most, done.stdout
    assert most_at_once(functional) >= 2
    (sheet,) = tmp_path.glob("netperf-results/*/*/sheet.json")
    rows = [row for row in json.loads(sheet.read_text())["rows"] if row["quantity"] == "throughput"]
    assert len(rows) == 4
    assert all(row["value"] > 1e6 for row in rows)


def spans_in(path: Path) -> list[tuple[float, float]]:
    with contextlib.suppress(FileNotFoundError):
        lines = path.read_text().splitlines()
        return [(float(begin), float(end)) for begin, end in (line.split() for line in lines)]
    return []
