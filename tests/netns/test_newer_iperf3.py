"""What iperf3 from 3.17 on does that no sample can show: streams read while they are written, runs that are stopped.

The facts about stopped runs are those of the table in docs/explanation/iperf3.md; the installed version has them too.
"""

from __future__ import annotations

import platform
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import newer_iperf3 as newer
import pytest

from pytest_netperf.links.link import Endpoint, Link
from pytest_netperf.links.process import Process
from pytest_netperf.traffic.iperf3 import client_arguments, parse_version, server_arguments
from pytest_netperf.traffic.live import LiveInterval, StreamMeter
from pytest_netperf.traffic.output import read_output
from pytest_netperf.traffic.result import Flow, Interval, Workload

pytestmark = pytest.mark.netns

MakeLink = Callable[..., Link]
RATE = 20e6
WAYS = ("forward", "reverse", "bidirectional")


@dataclass
class Ends:
    """A server and a client at work, and what was read of their streams so far."""

    load: Workload
    client: Process
    server: Process
    meters: dict[str, StreamMeter] = field(default_factory=lambda: {"client": StreamMeter(), "server": StreamMeter()})
    live: dict[str, list[LiveInterval]] = field(default_factory=lambda: {"client": [], "server": []})
    fed: dict[str, int] = field(default_factory=lambda: {"client": 0, "server": 0})

    def look(self) -> bool:
        """Read what there is. True when both have ended."""
        ended = [self.client.wait(0.0), self.server.wait(0.0)]
        for name, process in (("client", self.client), ("server", self.server)):
            text = process.stdout
            self.meters[name].feed(text[self.fed[name] :])
            self.fed[name] = len(text)
            self.live[name] += self.meters[name].take()
        return all(ended)

    def watch(self, until: float) -> bool:
        """Look on until then. Whether both ended before."""
        while not self.look():
            if time.monotonic() >= until:
                return False
            time.sleep(0.005)
        return True

    def receiver_of(self, way: str) -> str:
        return "server" if way == "forward" else "client"

    def flows(self, name: str) -> dict[str, Flow]:
        process = self.client if name == "client" else self.server
        return {flow.direction: flow for flow in read_output(process.stdout, stderr=process.stderr).flows}


@pytest.fixture
def start(make_link: MakeLink) -> Iterator[Callable[[str, Workload], Ends]]:
    """``start(program, load)``: a client and a server of the program, over a link of their own."""
    made: list[Ends] = []

    def begin(program: str, load: Workload, *, stream: bool = True) -> Ends:
        link = make_link()
        port = link.next_port()
        commands = [server_arguments(load, link.b.address, port), client_arguments(load, link.b.address, port)]
        if stream:
            for command in commands:
                command[command.index("-J")] = "--json-stream"
        server = link.b.popen([program, *commands[0]])
        while not link.b.is_listening(port):
            assert not server.wait(0.005), server.stderr + server.stdout
        made.append(Ends(load, link.a.popen([program, *commands[1]]), server))
        return made[-1]

    yield begin
    for ends in made:
        ends.client.end()
        ends.server.end()


def loads(**changes: object) -> list[Workload]:
    """All directions, TCP with two streams and UDP, with a low rate, so that they can run side by side."""
    return [
        Workload(**{"protocol": protocol, "direction": way, "bitrate_bps": RATE, **settings, **changes})
        for way in WAYS
        for protocol, settings in (
            ("tcp", {"streams": 2, "length_bytes": 8192}),
            ("udp", {"streams": 1, "length_bytes": 1448}),
        )
    ]


def as_row(interval: Interval | LiveInterval) -> tuple[object, ...]:
    return (interval.start_s, interval.seconds, interval.bytes, interval.omitted, interval.retransmits)


@pytest.mark.parametrize("suite", newer.newer_versions())
def test_live_intervals_are_those_of_the_final_document(
    newer_iperf3: Callable[[str], Path], start: Callable[..., Ends], suite: str
) -> None:
    program = str(newer_iperf3(suite) / "iperf3")
    runs = [start(program, load) for load in loads(duration_s=2.0, omit_s=1.0, interval_s=0.5)]
    deadline = time.monotonic() + 20
    assert all(run.watch(deadline) for run in runs)
    for run in runs:
        assert (run.client.returncode, run.server.returncode) == (0, 0)
        for name in ("client", "server"):
            flows = run.flows(name)
            assert len(flows) == (2 if run.load.direction == "bidirectional" else 1)
            for way, flow in flows.items():
                live = [i for i in run.live[name] if i.direction == way]
                # The document leaves out a last interval that is very short: the end comes late to one of them.
                if live[-1].seconds < 0.05:
                    live.pop()
                assert [as_row(i) for i in live] == [as_row(i) for i in flow.intervals]
                assert {i.counted_by for i in live} == {flow.intervals_from}
                assert flow.intervals_from == ("receiver" if name == run.receiver_of(way) else "sender")
                counted = [i for i in live if not i.omitted]
                assert len(counted) == 4
                assert sum(i.seconds for i in counted) == pytest.approx(2.0, abs=0.05)
                rate = sum(i.bytes for i in counted) * 8 / sum(i.seconds for i in counted)
                assert rate == pytest.approx(RATE, rel=0.1)
                if name == run.receiver_of(way):  # nothing of the counted seconds is missing
                    assert sum(i.bytes for i in counted) == pytest.approx(flow.received_bytes, rel=0.01)


@pytest.mark.parametrize("suite", newer.newer_versions())
def test_intervals_come_while_the_run_goes_on(
    newer_iperf3: Callable[[str], Path], start: Callable[..., Ends], suite: str
) -> None:
    load = Workload(direction="bidirectional", duration_s=30.0, omit_s=0.0, interval_s=0.2, bitrate_bps=RATE)
    run = start(str(newer_iperf3(suite) / "iperf3"), load)
    deadline = time.monotonic() + 10
    # of each end, both directions of five intervals
    while min(map(len, run.live.values())) < 10:
        assert not run.look()
        assert time.monotonic() < deadline
    assert time.monotonic() < deadline - 7


@pytest.mark.parametrize("version", ["installed", *newer.newer_versions()])
def test_a_run_that_is_stopped_keeps_the_whole_intervals_of_the_receiving_end(
    newer_iperf3: Callable[[str], Path], start: Callable[..., Ends], version: str
) -> None:
    program = "iperf3" if version == "installed" else str(newer_iperf3(version) / "iperf3")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    release = parse_version(said) or (0,)
    runs = [
        start(program, load, stream=release >= (3, 17)) for load in loads(duration_s=30.0, omit_s=0.5, interval_s=0.25)
    ]
    stop = time.monotonic() + 2.1
    assert not any(run.watch(stop) for run in runs[:1])
    for run in runs:
        assert run.client.send_signal(signal.SIGINT)
    assert all(run.watch(stop + 5.0) for run in runs)
    for run in runs:
        assert run.client.returncode == (1 if release < (3, 19) else 0)
        assert run.server.returncode == 0
        assert "interrupt - the client has terminated" in run.client.stdout
        assert "the client has terminated" in run.server.stdout
        for way in ("forward", "reverse") if run.load.direction == "bidirectional" else (run.load.direction,):
            receiver = run.receiver_of(way)
            flow = run.flows(receiver)[way]
            whole = [i for i in flow.intervals if not i.omitted and i.seconds == pytest.approx(0.25, rel=0.2)]
            assert flow.intervals_from == "receiver"
            assert len(whole) >= 5
            starts = [i.start_s for i in whole]
            assert starts == sorted(set(starts))
            assert sum(i.bytes for i in whole) * 8 / sum(i.seconds for i in whole) == pytest.approx(RATE, rel=0.1)
            if receiver == "client":
                assert flow.received_bps == pytest.approx(RATE, rel=0.1)
            else:  # it wrote its last interval twice, and its seconds end with that
                assert flow.received_bps is None
                assert flow.received_bytes >= sum(i.bytes for i in whole)


# --- the newer versions themselves --------------------------------------------------------------------------------


@pytest.mark.parametrize("suite", newer.newer_versions())
def test_the_program_of_a_suite_is_newer_and_is_the_process_that_was_started(
    newer_iperf3: Callable[[str], Path],
    make_link: MakeLink,
    processes_in: Callable[[Endpoint], list[int]],
    suite: str,
) -> None:
    program = str(newer_iperf3(suite) / "iperf3")
    link = make_link()
    assert (parse_version(link.a.run([program, "--version"], check=True).stdout) or (0,)) >= (3, 17)
    with link.a.popen([program, "-s", "-p", "5201"]) as server:
        while not link.a.is_listening(5201):
            assert not server.wait(0.005), server.stderr
        (pid,) = processes_in(link.a)  # no shell is between
        assert "/bin/iperf3\0-s\0" in Path(f"/proc/{pid}/cmdline").read_text()
        server.send_signal(signal.SIGKILL)
        assert server.wait(2.0)
        assert server.returncode == -signal.SIGKILL
    assert processes_in(link.a) == []


@pytest.mark.parametrize("suite", newer.newer_versions()[:1])
def test_a_suite_that_is_not_there_is_an_error_that_says_what_to_do(tmp_path: Path, suite: str) -> None:
    with pytest.raises(newer.FetchError) as caught:
        newer.newer_iperf3("no-such-suite", tmp_path)
    assert re.match(
        r"iperf3 of Debian no-such-suite could not be fetched: `apt-get -q update` failed:\n(?s:.*)no-such-suite"
        r"(?s:.*)\nThe machine needs its Debian mirror for this, once\. Without it, leave the tests out: -m 'not newer",
        str(caught.value),
    ), caught.value
    assert [path.name for path in tmp_path.iterdir()] == ["no-such-suite.lock"]


@pytest.mark.parametrize(
    ("release", "path", "reason"),
    [
        ({"ID": "debian"}, None, None),
        ({"ID": "fedora", "PRETTY_NAME": "Fedora 43"}, None, "this is not Debian but Fedora 43"),
        ({"ID": "debian"}, "/nowhere", "no apt-get and no dpkg-deb in PATH"),
        (OSError(), None, "this is not Debian but unknown"),
    ],
)
def test_who_can_have_newer_versions(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    release: dict[str, str] | OSError,
    path: str | None,
    reason: str | None,
) -> None:
    def read() -> dict[str, str]:
        if isinstance(release, OSError):
            raise release
        return release

    for name in ("apt-get", "dpkg-deb"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(platform, "freedesktop_os_release", read)
    monkeypatch.setenv("PATH", path or str(tmp_path))
    assert newer.why_not() == reason
