"""Doubts on real links: each fault that this machine can make is named, and a good link has none."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from observed import named, observe

from pytest_netperf.links.link import Endpoint, Link

pytestmark = [pytest.mark.netns, pytest.mark.alone]

MakeLink = Callable[..., Link]
ProcessesIn = Callable[[Endpoint], list[int]]
MOST_TRIES = 5  # other work may disturb a run on this machine


@contextlib.contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Do this beside the measurement; what fails in it fails the test."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed on below
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failed:
        raise failed[0]


def iperf3_in(endpoint: Endpoint, processes_in: ProcessesIn, role: bytes = b"-c") -> int:
    """The process id of the iperf3 client (or server) in this namespace, once it runs.

    Another run on this machine may hold the measurement slot before.
    """
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for pid in processes_in(endpoint):
            with contextlib.suppress(OSError):
                if b"iperf3\0" + role + b"\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        time.sleep(0.02)
    raise AssertionError(f"no iperf3 {role!r} was started")


def freeze(pid: int, seconds: float) -> None:
    """Stop a process for a while, 0.8 s from now."""
    time.sleep(0.8)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


def flood(source: Endpoint, target: Endpoint, rate: str) -> None:
    """A second source of UDP traffic on the link, for 2 s."""
    server = target.popen(["iperf3", "-s", "-1", "-p", "5300"])
    try:
        end = time.monotonic() + 5
        while not target.is_listening(5300):
            assert time.monotonic() < end
            time.sleep(0.01)
        client = source.popen(["iperf3", "-c", target.address, "-p", "5300", "-u", "-b", rate, "-t", "2"])
        try:
            assert client.wait(10)
            assert client.returncode == 0, client.stderr
        finally:
            client.end()
    finally:
        server.end()


@pytest.mark.parametrize(
    "settings",
    [
        {"omit_s": 1.0},
        {"omit_s": 1.0, "direction": "bidirectional"},
        {"protocol": "udp", "bitrate_bps": 100e6, "length_bytes": 1448},
    ],
    ids=["TCP", "bidirectional", "UDP"],
)
def test_a_good_link_has_no_doubt(make_link: MakeLink, settings: dict[str, object]) -> None:
    link = make_link(speed_bps=1e9)
    texts: list[str] = []
    for _ in range(MOST_TRIES):
        measured, findings = observe(link, **settings)
        assert findings.invalid == ()
        assert measured.observation.host is not None
        if not (shown := findings.shown_for("throughput")):
            assert findings.rate_explained
            return
        texts.append(" | ".join(shown))
    pytest.fail("each run has doubts:\n" + "\n".join(texts))


def test_a_cpu_hog_on_the_core_of_the_receiver(make_link: MakeLink, tmp_path: Path) -> None:
    hog = tmp_path / "netperf-hog"
    hog.symlink_to(sys.executable)
    cpu = sorted(os.sched_getaffinity(0))[-1]
    code = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
    with subprocess.Popen([hog, "-S", "-c", code]) as running:
        try:
            _, findings = observe(make_link(speed_bps=None))
        finally:
            running.kill()
    assert "busiest other process" in named(findings, "Tester CPU bound")  # on a busy machine it may be another
    assert "netperf-hog" in named(findings, "Another process busy")
    assert findings.invalid == ()
    assert findings.tester_limited_for("throughput")


def test_a_window_too_small(make_link: MakeLink) -> None:
    """The kernel's own account: it waited for the receiver's window, and nothing queued on the way."""
    measured, findings = observe(make_link(speed_bps=2.5e9), window_bytes=4096)
    said = named(findings, "Receive window limited")
    (times,) = measured.observation.tcp
    assert times.connections == 1
    assert times.rwnd_limited + times.sndbuf_limited > 0.3, said
    assert findings.tester_limited_for("throughput")
    assert not [doubt for doubt in findings.named if doubt.name == "Window limited"], "the kernel knows better"


@pytest.mark.parametrize(
    "settings",
    [{}, {"window_bytes": 16_384}, {"window_bytes": 16_384, "direction": "reverse"}],
    ids=["default buffers", "small window", "small window, reverse"],
)
def test_a_window_that_is_full_because_the_device_is_slow(make_link: MakeLink, settings: dict[str, object]) -> None:
    """Buffers run full behind any slow device: that excuses nothing."""
    measured, findings = observe(make_link(speed_bps=1e9, fault={"rate_bps": 100e6}), **settings)
    (times,) = measured.observation.tcp
    assert times.direction == measured.flows[0].direction
    assert times.busy_s > 1
    if settings:
        assert times.rwnd_limited + times.sndbuf_limited > 0.3
    else:
        assert times.rwnd_limited + times.sndbuf_limited < 0.3
    assert not {doubt.name for doubt in findings.named} & {"Receive window limited", "Send buffer limited"}
    assert "window" not in (findings.tester_limited or "")


@pytest.mark.parametrize("ip_version", [4, 6])
def test_both_directions_and_all_streams_have_an_account(make_link: MakeLink, ip_version: int) -> None:
    measured, _ = observe(make_link(speed_bps=1e9), direction="bidirectional", streams=2, ip_version=ip_version)
    forward, reverse = measured.observation.tcp
    assert (forward.direction, reverse.direction) == ("forward", "reverse")
    for times in (forward, reverse):
        assert times.connections == 2
        assert 1 < times.busy_s <= 2 * 4
        assert 0 <= times.rwnd_limited + times.sndbuf_limited <= 1
        assert 1000 < times.mss_bytes <= 1460
        assert times.min_rtt_s is not None
        assert 0 < times.min_rtt_s <= times.rtt_s < 1


def test_a_client_that_was_stopped_for_a_while(make_link: MakeLink, processes_in: ProcessesIn) -> None:
    link = make_link(speed_bps=1e9)

    with meanwhile(lambda: freeze(iperf3_in(link.a, processes_in), 1.5)):
        _, findings = observe(link, duration_s=4.0)
    assert "of the forward run" in named(findings, "Data stall")
    assert findings.invalid == ()


@pytest.mark.parametrize(("source", "rate"), [("a", "500M"), ("b", "150M")])
def test_foreign_traffic(make_link: MakeLink, processes_in: ProcessesIn, source: str, rate: str) -> None:
    """With the direction of the run, and against it."""
    link = make_link(speed_bps=1e9)
    ends = (link.a, link.b) if source == "a" else (link.b, link.a)

    def beside_the_run() -> None:
        iperf3_in(link.a, processes_in)
        flood(*ends, rate)

    with meanwhile(beside_the_run):
        _, findings = observe(link)
    assert ("against the direction" in named(findings, "Foreign traffic")) is (source == "b")
    assert findings.invalid


def test_a_link_that_loses(make_link: MakeLink) -> None:
    """The fault of a device: named, and no excuse."""
    _, findings = observe(make_link(speed_bps=1e9, fault={"loss_ratio": 0.01}), duration_s=2.0, congestion="cubic")
    assert "per GB" in named(findings, "Many retransmits")
    assert findings.invalid == ()
    assert "retransmits" not in (findings.tester_limited or "")


def test_datagrams_that_the_receiver_could_not_hold(make_link: MakeLink, processes_in: ProcessesIn) -> None:
    """Its buffer is too small for the pauses that a stopped receiver makes: the tester lost them, not the device."""
    link = make_link(speed_bps=1e9)

    with meanwhile(lambda: freeze(iperf3_in(link.b, processes_in, b"-s"), 0.5)):
        measured, findings = observe(link, protocol="udp", bitrate_bps=400e6, length_bytes=1448, window_bytes=65_536)
    assert measured.result.frame_loss_ratio
    assert "were thrown away" in named(findings, "UDP loss in the tester")
    assert findings.tester_limited_for("frame_loss_ratio")


def test_one_direction_that_is_slow(make_link: MakeLink) -> None:
    link = make_link(speed_bps=1e9, fault={"rate_bps": 300e6, "direction": "b-to-a"})
    _, findings = observe(link, duration_s=1.0, direction="bidirectional")
    assert "reverse delivered" in named(findings, "Directions differ")
