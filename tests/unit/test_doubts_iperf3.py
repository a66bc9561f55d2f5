"""Doubts about iperf3: versions, threads, windows."""

from __future__ import annotations

import pytest
from doubt_samples import CEILING_BPS, UDP, fair, look, run, tcp_flow, udp_flow

from pytest_netperf.judge.doubts import Findings
from pytest_netperf.traffic.result import Result, TcpState, Workload


def seen(result: Result) -> Findings:
    return look(result, fair(result), simulated=False)


def names(findings: Findings) -> list[str]:
    return [doubt.name for doubt in findings.named]


@pytest.mark.parametrize(
    ("versions", "result", "fault"),
    [
        (("3.16", "3.18"), run(tcp_flow(rate_bps=1e9), workload=Workload(bitrate_bps=1e9)), "keep a CPU fully busy"),
        (("3.12", "3.17"), run(tcp_flow(rate_bps=1e9), workload=Workload(bitrate_bps=1e9)), "keep a CPU fully busy"),
        (("3.17", "3.17"), run(), None),
        (("3.18", "3.18"), run(tcp_flow(rate_bps=1e9), workload=Workload(bitrate_bps=1e9)), None),
        (("3.14", "3.13"), run(udp_flow(), workload=UDP), "reports no UDP loss"),
        (("3.14", "3.14"), run(udp_flow(), workload=UDP), None),
        (("3.13", "3.14"), run(udp_flow(), workload=UDP), None),
        (("3.10.1", "3.12"), run(udp_flow(), workload=UDP), "only the sent rate of UDP"),
        (
            ("3.10.1", "3.10.1"),
            run(tcp_flow(), tcp_flow("reverse"), workload=Workload(direction="bidirectional")),
            "under the same keys",
        ),
        (("3.12", "3.12"), run(udp_flow(), workload=UDP), None),
        ((None, "3.12"), run(udp_flow(), workload=UDP), None),
        (("3.7+", "3.12"), run(udp_flow(), workload=UDP), None),
    ],
)
def test_known_faults_strike_only_where_they_concern_the_run(versions, result, fault):
    import msgspec

    result = msgspec.structs.replace(result, client_version=versions[0], server_version=versions[1])
    found = [doubt.seen for doubt in seen(result).named if doubt.name == "Known fault of this iperf3"]
    assert len(found) == (fault is not None)
    if fault:
        assert fault in found[0]


@pytest.mark.parametrize(
    ("version", "streams", "rate", "raised"),
    [("3.12", 4, 0.5, True), ("3.16", 4, 0.5, False), ("3.12", 1, 0.5, False), ("3.12", 4, 0.999, False)],
)
def test_many_streams_in_one_thread(version, streams, rate, raised):
    result = run(
        tcp_flow(rate_bps=CEILING_BPS * rate),
        client_version=version,
        server_version=version,
        workload=Workload(streams=streams),
    )
    assert ("One thread for all streams" in names(seen(result))) is raised


def windowed(rate: float, rtt_s: float | None, offered: int | None, **workload) -> Findings:
    state = TcpState(min_rtt_s=rtt_s, max_peer_window_bytes=offered)
    return seen(run(tcp_flow(rate_bps=CEILING_BPS * rate, tcp=state), workload=Workload(**workload)))


@pytest.mark.parametrize(
    ("rate", "rtt_s", "offered", "workload", "raised"),
    [
        (0.5, 0.0005, 65_536, {}, True),  # 1.05 Gbit/s
        (0.5, 0.0005, 65_536, {"streams": 4}, False),  # of all streams together: no small one, but 4.2 Gbit/s below...
        (0.5, 0.0001, 65_536, {}, False),  # 5.2 Gbit/s: the window is not what holds it
        (0.999, 0.0005, 65_536, {}, False),  # at line rate nothing holds it
        (0.5, 0.005, 262_144, {}, True),
        (0.5, 0.01, 1_000_000, {}, False),  # autotuned, and full because the path is slow
        (0.5, 0.01, 1_000_000, {"window_bytes": 500_000}, True),  # what the test itself asked for
        (0.5, 0.0005, None, {"window_bytes": 65_536}, True),  # before iperf3 3.10
        (0.5, 0.0005, None, {}, False),
        (0.5, None, 65_536, {}, False),
        (0.5, 0.0, 65_536, {}, False),
    ],
)
def test_a_window_too_small_for_the_round_trip(rate, rtt_s, offered, workload, raised):
    if workload.get("streams") == 4:
        offered *= 4
        rtt_s /= 2
    findings = windowed(rate, rtt_s, offered, **workload)
    assert ("Window limited" in names(findings)) is raised
    assert (findings.tester_limited is not None) is raised


def test_the_window_says_its_sum():
    (doubt,) = windowed(0.5, 0.0005, 65_536).named
    assert doubt.seen == (
        "A window of 65536 B and a round-trip time of 500 us allow 1.05 Gbit/s forward, the link 2.354 Gbit/s."
    )
