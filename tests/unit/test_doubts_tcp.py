"""Doubts about the sockets of a TCP run: by the kernel's account, and by the window where that is missing."""

from __future__ import annotations

import pytest
from doubt_samples import CEILING_BPS, REPLACE, fair, look, run, tcp_flow

from pytest_netperf.judge.doubts import Findings
from pytest_netperf.observe.observation import TcpTimes
from pytest_netperf.traffic.result import Result, TcpState, Workload


def seen(result: Result, *times: TcpTimes, **known) -> Findings:
    return look(result, REPLACE(fair(result), tcp=times), **{"simulated": False, **known})


def names(findings: Findings) -> list[str]:
    return [doubt.name for doubt in findings.named]


def account(rwnd=0.0, sndbuf=0.0, *, busy_s=10.0, rtt_s=100e-6, min_rtt_s=80e-6, **known) -> TcpTimes:
    """The kernel's account of a sender that waited for these shares of its busy time."""
    values = {"direction": "forward", "connections": 1, "mss_bytes": 1448}
    return TcpTimes(
        busy_s=busy_s, rwnd_limited_s=rwnd * busy_s, sndbuf_limited_s=sndbuf * busy_s, rtt_s=rtt_s, min_rtt_s=min_rtt_s,
        **{**values, **known},
    )  # fmt: skip


SLOW = run(tcp_flow(rate_bps=CEILING_BPS / 2))


@pytest.mark.parametrize(
    ("rwnd", "sndbuf", "name"),
    [
        (0.7, 0.0, "Receive window limited"),
        (0.25, 0.5, "Send buffer limited"),
        (0.3, 0.0, "Receive window limited"),
        (0.29, 0.0, None),
        (0.01, 0.04, None),  # what default buffers come to without a shaper
        (0.0, 0.0, None),
    ],
)
def test_a_sender_that_waited_for_buffers(rwnd, sndbuf, name):
    findings = seen(SLOW, account(rwnd, sndbuf))
    assert names(findings) == ([name] if name else [])
    assert (findings.tester_limited_for("throughput") is not None) is (name is not None)


def test_it_says_both_shares():
    (doubt,) = seen(SLOW, account(0.25, 0.5, connections=4)).named
    assert doubt.seen == (
        "Forward, TCP was busy for 10 s (all streams together), and 25 % of it waited for the receiver's window, "
        "50 % for room in its send buffer; round trips took 100 us, the shortest 80 us."
    )


def test_at_line_rate_nothing_held_it():
    assert names(seen(run(tcp_flow()), account(0.7))) == []


@pytest.mark.parametrize(
    ("rtt_s", "min_rtt_s", "raised"),
    [
        (1e-3, 80e-6, False),  # 14 Gbit/s without the queue: the device holds it
        (100e-6, 80e-6, True),
        (90e-6, 5e-6, True),  # hosts that were slow to answer, and no queue
        (110e-6, 5e-6, False),
        (10e-3, 9e-3, True),  # a long way
        (1e-3, None, True),
    ],
)
def test_a_window_that_is_full_because_the_device_is_slow_excuses_nothing(rtt_s, min_rtt_s, raised):
    findings = seen(SLOW, account(0.25, 0.5, rtt_s=rtt_s, min_rtt_s=min_rtt_s))
    assert (names(findings) == ["Send buffer limited"]) is raised
    assert (findings.tester_limited is not None) is raised


def test_a_faulted_link_is_held_against_its_ceiling():
    known = {"simulated": True, "faulted": True}
    assert "Send buffer limited" in names(seen(SLOW, account(0.25, 0.5), **known))
    assert "Send buffer limited" not in names(seen(SLOW, account(0.25, 0.5, rtt_s=1e-3), **known))


def test_without_a_known_speed_the_shares_decide():
    assert names(seen(SLOW, account(0.7, rtt_s=1e-3), ceiling_bps=None, speed_bps=None)) == ["Receive window limited"]


def test_each_direction_has_its_own_account():
    result = run(
        tcp_flow(rate_bps=CEILING_BPS / 2),
        tcp_flow("reverse", rate_bps=CEILING_BPS / 2),
        workload=Workload(direction="bidirectional"),
    )
    (doubt,) = seen(result, account(), account(0.7, direction="reverse")).named
    assert doubt.seen.startswith("Reverse, TCP was busy")


# ---- where the kernel was not asked ----------------------------------------------------------------------------------


def test_the_kernel_knows_better_than_the_window():
    state = TcpState(min_rtt_s=0.0005, max_peer_window_bytes=65_536)
    result = run(tcp_flow(rate_bps=CEILING_BPS / 2, tcp=state))
    assert names(seen(result)) == ["Window limited"]
    assert names(seen(result, account())) == []
    assert names(seen(result, account(busy_s=0.0))) == ["Window limited"]
    assert names(seen(result, account(0.9, busy_s=0.4))) == ["Window limited"]  # the first moments of a run
    assert names(seen(result, account(0.9, busy_s=0.9, connections=2))) == ["Window limited"]
    assert names(seen(result, account(direction="reverse"))) == ["Window limited"]


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
