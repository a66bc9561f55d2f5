"""Doubts about iperf3: versions and threads."""

from __future__ import annotations

import pytest
from doubt_samples import CEILING_BPS, UDP, fair, look, run, tcp_flow, udp_flow

from pytest_netperf.judge.doubts import Findings
from pytest_netperf.traffic.result import Result, Workload


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
