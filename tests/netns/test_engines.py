"""The conformance suite of the traffic engines: both must do, refuse and survive the same.

Real links, real traffic. Other work may run on this machine, so that rates are only bounded from above tightly: by
physics and one bucket of the shaper.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from newer_iperf3 import SUITES, newer_versions

from pytest_netperf.errors import ConfigError, MarkError, TrafficError
from pytest_netperf.links.link import Endpoint, Link
from pytest_netperf.links.owner import Owner
from pytest_netperf.traffic import ends
from pytest_netperf.traffic.engine import Engine, EngineFailure, make_engine
from pytest_netperf.traffic.framing import bound_bps, packet_bytes
from pytest_netperf.traffic.result import Flow, Result, Workload

pytestmark = pytest.mark.netns

GIGABIT = 1e9
BUSY_SHARE = 0.4  # of the ceiling, on a machine that does much else
CLOCK_TOLERANCE = 1.003
FIRST_BYTES = 2_000_000  # traffic flows: neither handshake nor start-up

MakeLink = Callable[..., Link]
ProcessesIn = Callable[[Endpoint], list[int]]


@pytest.fixture
def engine(request: pytest.FixtureRequest, newer_iperf3: Callable[[str], Path]) -> Engine:
    if request.param in SUITES:
        newer = newer_iperf3(request.param)
        request.getfixturevalue("monkeypatch").setenv("PATH", f"{newer}:{os.environ['PATH']}")
        return make_engine("iperf3")
    return make_engine(request.param)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        newer = newer_versions() if metafunc.definition.get_closest_marker("every_version") else []
        metafunc.parametrize("engine", ["iperf3", "libiperf", *newer], indirect=True)


@pytest.fixture(autouse=True)
def _nothing_left(make_link: MakeLink, processes_in: ProcessesIn, request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test no process may be left in a namespace that it used."""
    yield
    for link in request.node.stash.get(USED, []):
        for endpoint in (link.a, link.b):
            assert processes_in(endpoint) == [], f"left in the namespace of {endpoint}"


USED = pytest.StashKey[list[Link]]()


@pytest.fixture
def new_link(make_link: MakeLink, request: pytest.FixtureRequest) -> MakeLink:
    used = request.node.stash.setdefault(USED, [])

    def make(**settings: object) -> Link:
        used.append(make_link(**settings))
        return used[-1]

    return make


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "_PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(ends, "_SERVER_LAST_WORDS_SECONDS", 1.0)


def workload(**changes: object) -> Workload:
    settings: dict[str, object] = {"duration_s": 1.0, "omit_s": 0.0, "interval_s": 0.5}
    return Workload(**{**settings, **changes})  # type: ignore[arg-type]


def run(engine: Engine, link: Link, load: Workload) -> Result:
    link.shape(packet_bytes(load, link.mtu))
    return engine.run(link, load)


def good(result: Result, link: Link, load: Workload, *, at_least: float = BUSY_SHARE) -> tuple[Flow, ...]:
    """Check what every good result must be, and return its flows."""
    assert result.trusted, result.reason
    wanted = {"forward": ["forward"], "reverse": ["reverse"], "bidirectional": ["forward", "reverse"]}
    assert [flow.direction for flow in result.flows] == wanted[load.direction]
    assert link.speed_bps
    bound = bound_bps(load, link.speed_bps, link.mtu)
    for flow in result.flows:
        assert flow.received_bytes
        assert flow.received_seconds == pytest.approx(load.duration_s, rel=0.3)
        assert flow.received_bps == pytest.approx(flow.received_bytes * 8 / flow.received_seconds, rel=0.001)
        assert at_least * bound < flow.received_bps
        assert flow.received_bps * flow.received_seconds < CLOCK_TOLERANCE * (
            bound * flow.received_seconds + link.burst_bits
        )
        counted = [interval for interval in flow.intervals if not interval.omitted]
        assert len(counted) >= load.duration_s / load.interval_s - 1
        assert sum(interval.bytes for interval in counted) > 0
        assert all(interval.seconds > 0 for interval in counted)
        if load.protocol == "tcp":
            assert flow.retransmits is not None
    assert result.workload == load
    return result.flows


def document(result: Result, end: str = "client") -> dict[str, dict]:
    """What one end printed, its intervals left out where it is a stream."""
    text = result.client_output if end == "client" else result.server_output
    if not text.startswith('{"event"'):
        return json.loads(text)
    return {event["event"]: event["data"] for event in map(json.loads, text.splitlines())}


def is_kept(text: str) -> bool:
    """Whether the document of an end that did not come to its end is there. A stream has no intervals yet."""
    return '"intervals"' in text or text.startswith('{"event":"start"')


# --- what a good run is -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_tcp(engine: Engine, new_link: MakeLink, direction: str, mtu: int) -> None:
    link = new_link(mtu=mtu)
    load = workload(direction=direction)
    good(run(engine, link, load), link, load)


@pytest.mark.every_version
def test_the_result_says_who_measured_how_and_keeps_what_both_ends_printed(engine: Engine, new_link: MakeLink) -> None:
    link = new_link()
    load = workload()
    result = run(engine, link, load)
    (flow,) = good(result, link, load)
    assert result.engine == engine.name
    assert result.client_version == result.server_version == engine.version.split()[-1]
    assert result.client_version.startswith("3.")
    assert document(result)["start"]["connecting_to"]["host"] == link.b.address
    assert "accepted_connection" in document(result, "server")["start"]
    assert link.b.address in " ".join(result.client_command)
    assert link.b.address in " ".join(result.server_command)
    assert flow.intervals_from == "receiver"
    assert load.duration_s < result.elapsed_s < 60


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_udp_without_loss_delivers_what_was_offered(engine: Engine, new_link: MakeLink, direction: str) -> None:
    link = new_link()
    load = workload(protocol="udp", bitrate_bps=20e6, length_bytes=1472, direction=direction)
    for flow in good(run(engine, link, load), link, load, at_least=0.0):
        assert flow.received_bps == pytest.approx(20e6, rel=0.25)
        assert flow.packets > 1000
        assert flow.frame_loss_ratio < 0.1  # only a stalled machine loses any
        assert flow.jitter_s < 0.1
        assert flow.retransmits is None


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("lossy", "lowest", "highest"), [("a-to-b", 0.05, 0.25), ("b-to-a", 0.0, 0.05)])
def test_udp_loss_is_what_the_link_loses_in_that_direction(
    engine: Engine, new_link: MakeLink, lossy: str, lowest: float, highest: float
) -> None:
    link = new_link(fault={"loss_ratio": 0.1, "direction": lossy})
    # slow enough for the kernel's receive buffer to bridge 0.1 s in which a busy machine does not run the server
    load = workload(protocol="udp", bitrate_bps=10e6, length_bytes=1472)
    for _ in range(8):  # now and then the datagram that opens the stream is among the lost ones
        with contextlib.suppress(EngineFailure):
            (flow,) = good(run(engine, link, load), link, load, at_least=0.0)
            break
    assert lowest <= flow.frame_loss_ratio < highest
    assert flow.lost_packets / flow.packets == pytest.approx(flow.frame_loss_ratio, rel=0.1, abs=1e-3)
    assert (flow.received_bytes < 0.95 * flow.sent_bytes) is (lossy == "a-to-b")


@pytest.mark.usefixtures("impatient")
def test_a_lost_opening_datagram_is_named(engine: Engine, new_link: MakeLink) -> None:
    if shutil.which("nft") is None:
        pytest.skip("needs nft to drop every datagram")
    link = new_link()
    rules = "table ip t { chain c { type filter hook input priority 0; meta l4proto udp drop; }; }"
    link.b.run(["nft", rules], check=True)
    load = workload(protocol="udp", bitrate_bps=50e6, length_bytes=1472)
    with pytest.raises(EngineFailure, match=r"no traffic ever flowed: the datagram that opens a stream, or its answer"):
        engine.run(link, load)


# --- each option does what it says --------------------------------------------------------------------------------


@pytest.mark.every_version
def test_streams_share_the_link_and_are_summed(engine: Engine, new_link: MakeLink) -> None:
    link = new_link()
    load = workload(streams=4)
    result = run(engine, link, load)
    (flow,) = good(result, link, load)
    streams = document(result)["end"]["streams"]
    assert len(streams) == 4
    assert flow.received_bytes == sum(stream["receiver"]["bytes"] for stream in streams)


def test_bitrate_is_of_all_streams_together(engine: Engine, new_link: MakeLink) -> None:
    link = new_link()
    load = workload(streams=4, bitrate_bps=100e6, length_bytes=16_384, duration_s=2.0)
    (flow,) = good(run(engine, link, load), link, load, at_least=0.0)
    assert 50e6 < flow.received_bps < 125e6


def test_omitted_seconds_do_not_count(engine: Engine, new_link: MakeLink) -> None:
    link = new_link()
    load = workload(omit_s=1.0, duration_s=2.0)
    result = run(engine, link, load)
    (flow,) = good(result, link, load)
    assert document(result)["start"]["test_start"]["omit"] == 1
    assert any(interval.omitted for interval in flow.intervals)
    assert result.elapsed_s > 3.0


def test_interval(engine: Engine, new_link: MakeLink) -> None:
    link = new_link()
    load = workload(interval_s=0.1)
    (flow,) = good(run(engine, link, load), link, load)
    assert sorted(interval.seconds for interval in flow.intervals)[len(flow.intervals) // 2] == pytest.approx(
        0.1, rel=0.5
    )


def test_mss(engine: Engine, new_link: MakeLink) -> None:
    link = new_link()
    load = workload(mss_bytes=536)
    result = run(engine, link, load)
    good(result, link, load, at_least=0.2)  # small segments are dear
    assert document(result)["start"]["tcp_mss"] == 536


def test_window(engine: Engine, new_link: MakeLink) -> None:
    link = new_link()
    load = workload(window_bytes=65_536)
    result = run(engine, link, load)
    good(result, link, load, at_least=0.02)
    assert document(result)["start"]["sock_bufsize"] == 65_536


@pytest.mark.parametrize("name", ["cubic", "reno"])
def test_congestion(engine: Engine, new_link: MakeLink, name: str) -> None:
    link = new_link()
    load = workload(congestion=name)
    result = run(engine, link, load)
    good(result, link, load)
    assert result.congestion == name


def test_length(engine: Engine, new_link: MakeLink) -> None:
    link = new_link()
    load = workload(length_bytes=8_192)
    result = run(engine, link, load)
    good(result, link, load)
    assert document(result)["start"]["test_start"]["blksize"] == 8_192


def test_udp_length_left_out_never_fragments(engine: Engine, new_link: MakeLink) -> None:
    link = new_link()
    load = workload(protocol="udp", bitrate_bps=20e6)
    result = run(engine, link, load)
    good(result, link, load, at_least=0.0)
    assert document(result)["start"]["test_start"]["blksize"] == 1448


@pytest.mark.parametrize("dscp", [46, 8])
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_dscp_is_on_the_wire(engine: Engine, new_link: MakeLink, protocol: str, dscp: int) -> None:
    link = new_link()
    load = workload(protocol=protocol, bitrate_bps=20e6, length_bytes=1400, dscp=dscp)
    with link.b.socket(socket.AF_PACKET, socket.SOCK_DGRAM) as tap:
        tap.bind((link.b.interface, 0x0800))
        tap.setblocking(False)
        good(run(engine, link, load), link, load, at_least=0.0)
        seen = []
        with contextlib.suppress(BlockingIOError):
            while True:
                packet = tap.recv(64)
                if len(seen) < 500:
                    seen.append(packet[1] >> 2)
    # the control connection is unmarked
    assert seen.count(dscp) > len(seen) // 2, sorted(set(seen))


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_zerocopy(engine: Engine, new_link: MakeLink, direction: str) -> None:
    link = new_link()
    load = workload(zerocopy=True, direction=direction)
    good(run(engine, link, load), link, load)


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_ipv6(engine: Engine, new_link: MakeLink, protocol: str) -> None:
    link = new_link()
    load = workload(protocol=protocol, ip_version=6, bitrate_bps=50e6, length_bytes=1400)
    result = run(engine, link, load)
    good(result, link, load, at_least=0.0)
    assert document(result)["start"]["connected"][0]["remote_host"] == link.b.address6


def test_a_fast_link_pins_its_ends(engine: Engine, new_link: MakeLink) -> None:
    link = new_link(speed_bps=5e9, mtu=9000)
    load = workload()
    good(run(engine, link, load), link, load, at_least=0.05)


def test_an_unshaped_link_has_no_bound(engine: Engine, new_link: MakeLink) -> None:
    result = engine.run(new_link(speed_bps=None), workload())
    assert result.trusted, result.reason
    assert result.flows[0].received_bytes > 0


@pytest.mark.every_version
def test_all_options_at_once(engine: Engine, new_link: MakeLink) -> None:
    link = new_link(mtu=9000)
    load = workload(
        direction="bidirectional",
        streams=2,
        omit_s=1.0,
        mss_bytes=1400,
        zerocopy=True,
        window_bytes=400_000,
        congestion="cubic",
        bitrate_bps=60e6,
        length_bytes=16_384,
        dscp=10,
        ip_version=6,
    )
    result = run(engine, link, load)
    good(result, link, load, at_least=0.0)
    start = document(result)["start"]
    assert start["tcp_mss"] == 1400
    assert start["test_start"]["tos"] == 40
    assert start["test_start"]["num_streams"] == 2


# --- size -----------------------------------------------------------------------------------------------------------


@pytest.mark.every_version
def test_documents_beyond_a_pipes_64_kib_do_not_hang(engine: Engine, new_link: MakeLink) -> None:
    link = new_link()
    load = workload(streams=20, duration_s=2.0, interval_s=0.1, bitrate_bps=100e6, length_bytes=4096)
    result = run(engine, link, load)
    good(result, link, load, at_least=0.0)
    assert len(result.client_output) > 65_536
    assert len(result.server_output) > 65_536


def test_more_than_120_intervals_do_not_hang(new_link: MakeLink) -> None:
    # the case in which the package hangs for ever
    link = new_link()
    load = workload(duration_s=13.0, interval_s=0.1, bitrate_bps=20e6, length_bytes=4096)
    result = run(make_engine("libiperf"), link, load)
    (flow,) = good(result, link, load, at_least=0.0)
    assert len(flow.intervals) > 120
    assert len(result.client_output) > 65_536


# --- any end is clean ---------------------------------------------------------------------------------------------


class MidRun:
    """An engine at work in another thread, caught while its traffic flows."""

    def __init__(self, engine: Engine, link: Link, load: Workload, processes_in: ProcessesIn) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(1)
        before = link.counters()[1].rx_bytes
        self.outcome = self._executor.submit(engine.run, link, load)
        deadline = time.monotonic() + 30
        while link.counters()[1].rx_bytes - before < FIRST_BYTES:
            assert not self.outcome.done(), self.outcome.result()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (self.client,) = processes_in(link.a)
        (self.server,) = processes_in(link.b)

    def failure(self) -> EngineFailure:
        """What the engine raised. It must have been an EngineFailure, in good time."""
        try:
            with pytest.raises(EngineFailure) as caught:
                self.outcome.result(timeout=30)
        finally:
            self._executor.shutdown()
        return caught.value


def works_again(engine: Engine, link: Link) -> None:
    load = workload()
    good(run(engine, link, load), link, load, at_least=0.1)


@pytest.mark.every_version
def test_server_killed(engine: Engine, new_link: MakeLink, processes_in: ProcessesIn) -> None:
    link = new_link()
    running = MidRun(engine, link, workload(duration_s=20.0), processes_in)
    os.kill(running.server, signal.SIGKILL)
    failure = running.failure()
    assert "server was killed by SIGKILL" in str(failure)
    assert is_kept(failure.documents["client"])
    works_again(engine, link)


@pytest.mark.every_version
def test_client_killed(engine: Engine, new_link: MakeLink, processes_in: ProcessesIn) -> None:
    link = new_link()
    running = MidRun(engine, link, workload(duration_s=20.0), processes_in)
    os.kill(running.client, signal.SIGKILL)
    failure = running.failure()
    assert "client was killed by SIGKILL" in str(failure)
    assert is_kept(failure.documents["server"])
    works_again(engine, link)


@pytest.mark.usefixtures("impatient")
def test_server_frozen(engine: Engine, new_link: MakeLink, processes_in: ProcessesIn) -> None:
    link = new_link()
    running = MidRun(engine, link, workload(duration_s=2.0), processes_in)
    os.kill(running.server, signal.SIGSTOP)
    failure = running.failure()
    assert "did not end within 3 s" in str(failure)
    assert "the server was frozen" in str(failure)
    assert is_kept(failure.documents["client"])  # its last words
    works_again(engine, link)


@pytest.mark.usefixtures("impatient")
def test_client_frozen(engine: Engine, new_link: MakeLink, processes_in: ProcessesIn) -> None:
    link = new_link()
    running = MidRun(engine, link, workload(duration_s=2.0), processes_in)
    os.kill(running.client, signal.SIGSTOP)
    failure = running.failure()
    assert "did not end within 3 s" in str(failure)
    assert "the client was frozen" in str(failure)
    assert "server" in failure.documents
    works_again(engine, link)


@pytest.mark.usefixtures("impatient")
def test_both_frozen(engine: Engine, new_link: MakeLink, processes_in: ProcessesIn) -> None:
    link = new_link()
    running = MidRun(engine, link, workload(duration_s=1.0), processes_in)
    os.kill(running.client, signal.SIGSTOP)
    os.kill(running.server, signal.SIGSTOP)
    assert "the client and the server was frozen" in str(running.failure())
    works_again(engine, link)


@pytest.mark.every_version
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_end_is_never_a_result(
    engine: Engine, new_link: MakeLink, processes_in: ProcessesIn, number: int
) -> None:
    link = new_link()
    running = MidRun(engine, link, workload(duration_s=20.0), processes_in)
    os.kill(running.client, number)
    refused = False
    try:
        refused = not running.outcome.result(timeout=30).trusted
    except EngineFailure:
        refused = True
    assert refused
    works_again(engine, link)


@pytest.mark.every_version
@pytest.mark.usefixtures("impatient")
def test_the_wire_is_cut(engine: Engine, new_link: MakeLink, processes_in: ProcessesIn) -> None:
    link = new_link()
    running = MidRun(engine, link, workload(duration_s=2.0), processes_in)
    set_port(link.a, up=False)
    failure = running.failure()
    assert "did not end within 3 s" in str(failure)
    assert "the data stopped flowing" in str(failure)
    assert is_kept(failure.documents["client"])
    set_port(link.a, up=True)
    assert engine.run(link, workload()).trusted


def set_port(endpoint: Endpoint, *, up: bool) -> None:
    """ip link set ... up or down, without ip: SIOCSIFFLAGS of netdevice(7)."""
    import fcntl
    import struct

    with endpoint.socket() as handle:
        request = struct.pack("16sh14x", endpoint.interface.encode(), 0x1 if up else 0)
        fcntl.ioctl(handle, 0x8914, request)


def test_port_in_use(engine: Engine, new_link: MakeLink, monkeypatch: pytest.MonkeyPatch) -> None:
    link = new_link()
    with link.b.socket() as other:
        other.bind((link.b.address, 23_456))
        other.listen()
        with monkeypatch.context() as patch:
            patch.setattr(link, "next_port", lambda: 23_456)
            with pytest.raises(EngineFailure, match=r"port 23456 is in use in the namespace of end b .*listens there"):
                engine.run(link, workload())
        works_again(engine, link)


def test_a_foreign_server_never_answers_for_ours(
    engine: Engine, new_link: MakeLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = new_link()
    foreign = link.b.popen(["iperf3", "-s", "-1", "-J", "-p", "23457"])
    try:
        while not link.b.is_listening(23_457):
            assert not foreign.wait(0.01), foreign.stderr
        monkeypatch.setattr(link, "next_port", lambda: 23_457)
        with pytest.raises(EngineFailure, match="port 23457 is in use"):
            engine.run(link, workload())
    finally:
        foreign.end()


def test_port_taken_between_the_look_and_the_start(
    engine: Engine, new_link: MakeLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = new_link()
    with link.b.socket() as other, monkeypatch.context() as patch:
        other.bind((link.b.address, 23_458))  # bound, not listening: the server cannot have it
        patch.setattr(link, "next_port", lambda: 23_458)
        with pytest.raises(EngineFailure, match=r"server ended before it listened: (?s:.*)[Aa]ddress already in use"):
            engine.run(link, workload())
    works_again(engine, link)


@pytest.mark.every_version
def test_refused(engine: Engine, new_link: MakeLink, monkeypatch: pytest.MonkeyPatch) -> None:
    link = new_link()
    popen = link.b.popen
    looks = iter([False, True])
    with monkeypatch.context() as patch:
        patch.setattr(ends, "_SERVER_LAST_WORDS_SECONDS", 0.1)
        patch.setattr(link.b, "popen", lambda *_, **__: popen(["sleep", "30"]))
        patch.setattr(link.b, "is_listening", lambda _: next(looks))
        with pytest.raises(EngineFailure, match="Connection refused"):
            engine.run(link, workload())
    works_again(engine, link)


def test_ctrl_c(engine: Engine, new_link: MakeLink) -> None:
    link = new_link()
    before = link.counters()[1].rx_bytes

    def press() -> None:
        while link.counters()[1].rx_bytes - before < FIRST_BYTES:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        engine.run(link, workload(duration_s=20.0))
    thread.join()
    works_again(engine, link)


def test_an_interrupted_request_leaves_no_answer_for_the_next(
    new_link: MakeLink, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = new_link()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, "_receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            link.b.is_listening(5)
        with pytest.raises(KeyboardInterrupt):
            link.b.socket()
    assert link.counters()[1].rx_packets > 0
    assert link.b.is_listening(5) is False


# --- what cannot be is refused by name ----------------------------------------------------------------------------


def test_an_address_family_that_the_link_lacks(engine: Engine, new_link: MakeLink) -> None:
    link = new_link(mtu=1000)
    with pytest.raises(MarkError, match=r"ip_version=6: link test-\d+ has no IPv6 addresses"):
        engine.run(link, workload(ip_version=6))


def test_a_congestion_control_that_the_kernel_lacks(engine: Engine) -> None:
    with pytest.raises(MarkError, match=r"congestion='veno': this kernel offers .*modprobe tcp_veno"):
        engine.check(workload(congestion="veno"))


def test_an_unknown_engine() -> None:
    with pytest.raises(ConfigError, match="unknown traffic engine 'netperf': choose 'iperf3' or 'libiperf'"):
        make_engine("netperf")


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Engine]:
    """``pretend("iperf 3.6")``: the program engine with an iperf3 in PATH that calls itself so."""

    def make(says: str) -> Engine:
        script = tmp_path / "iperf3"
        script.write_text(f"#!/bin/sh\necho '{says}'\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return make_engine("iperf3")

    return make


@pytest.mark.parametrize(
    ("says", "asked", "message"),
    [
        (
            "iperf 3.6 (cJSON 1.5.2)",
            {"direction": "bidirectional"},
            r"bidirectional needs iperf3 3\.7 .*has iperf 3\.6",
        ),
        ("iperf 3.1.3", {"dscp": 46}, r"dscp needs iperf3 3\.2 or newer \(--dscp\); this machine has iperf 3\.1\.3"),
    ],
)
def test_an_option_newer_than_the_program(
    pretend: Callable[[str], Engine], says: str, asked: dict[str, object], message: str
) -> None:
    engine = pretend(says)
    engine.check(workload())
    with pytest.raises(MarkError, match=message):
        engine.check(workload(**asked))


def test_the_version_that_brought_an_option_may_use_it(pretend: Callable[[str], Engine]) -> None:
    pretend("iperf 3.7 (cJSON 1.5.2)").check(workload(direction="bidirectional", dscp=46, congestion="cubic"))


def test_a_program_that_is_too_old(pretend: Callable[[str], Engine]) -> None:
    with pytest.raises(TrafficError, match=r"iperf 3\.0\.11 is too old: iperf3 3\.1 or newer is needed"):
        pretend("iperf 3.0.11").check(workload(direction="bidirectional"))


@pytest.mark.parametrize("says", ["iperf version 2.1.9 (14 March 2023) pthreads", "", "iperf 4.0"])
def test_a_program_that_is_no_iperf3(pretend: Callable[[str], Engine], says: str) -> None:
    with pytest.raises(TrafficError, match="is not iperf3: asked for its version it said"):
        pretend(says)


def test_no_program_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TrafficError, match=r"not found in PATH.*apt-get install iperf3.*--netperf-engine libiperf"):
        make_engine("iperf3")


def test_the_library_needs_no_program(new_link: MakeLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = new_link()
    monkeypatch.setenv("PATH", str(tmp_path))
    load = workload()
    good(run(make_engine("libiperf"), link, load), link, load)
