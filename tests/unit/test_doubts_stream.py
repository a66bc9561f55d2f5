"""Doubts about the data of one run and its rate over time, and about several runs of a link."""

from __future__ import annotations

import random

import pytest
from doubt_samples import CEILING_BPS, NOTHING, REPLACE, UDP, fair, look, run, tcp_flow, udp_flow

from pytest_netperf.judge.doubts import Findings
from pytest_netperf.traffic.result import Interval, Result, TcpState, Workload


def names(findings: Findings) -> list[str]:
    return [doubt.name for doubt in findings.named]


def series(rates: list[float], *, seconds: float = 1.0, omitted: int = 1, **known) -> Result:
    """A run with these interval rates, as shares of the ceiling, and omitted intervals before them."""
    lengths = [seconds] * len(rates)
    intervals = [
        Interval(start_s=(index - omitted) * seconds, seconds=seconds, bytes=int(CEILING_BPS / 8), omitted=True)
        for index in range(omitted)
    ]
    intervals += [
        Interval(start_s=index * seconds, seconds=length, bytes=int(CEILING_BPS * rate * length / 8))
        for index, (rate, length) in enumerate(zip(rates, lengths, strict=True))
    ]
    mean = sum(rates) / len(rates)
    flow = tcp_flow(rate_bps=CEILING_BPS * mean, seconds=seconds * len(rates), intervals=tuple(intervals))
    workload = Workload(duration_s=seconds * len(rates), omit_s=float(omitted), interval_s=seconds, **known)
    return run(flow, workload=workload)


def steady(count: int, level: float = 0.9, noise: float = 0.001) -> list[float]:
    spread = random.Random(7)
    return [level + spread.uniform(-noise, noise) for _ in range(count)]


def seen(result: Result) -> Findings:
    return look(result, fair(result), simulated=False)


# ---- the rate over time ----------------------------------------------------------------------------------------------


def test_a_steady_run_raises_nothing():
    assert seen(series(steady(30))).named == ()
    assert seen(series(steady(10))).named == ()
    assert seen(series(steady(3))).named == ()


def test_a_step():
    (doubt,) = seen(series(steady(10, 0.9) + steady(10, 0.7))).named
    assert doubt.name == "Rate step"
    assert doubt.seen == "The forward rate was 2.117 Gbit/s until 10 s, then 1.647 Gbit/s."


def test_a_trend():
    falling = [level - 0.01 * index for index, level in enumerate(steady(20, 0.95))]
    (doubt,) = seen(series(falling)).named
    assert doubt.name == "Rate trend"
    assert "went from 2.2" in doubt.seen


def test_two_levels():
    spread = random.Random(3)
    switching = [level if spread.random() < 0.5 else level - 0.2 for level in steady(40)]
    assert "Bimodal intervals" in names(seen(series(switching)))


def test_single_outliers():
    rates = steady(20)
    rates[7] = 0.8
    (doubt,) = seen(series(rates)).named
    assert doubt.name == "Outlier intervals"
    assert doubt.seen == (
        "1 of 20 intervals of the forward run stand out, most of all 1.883 Gbit/s at 7 s; the median is 2.118 Gbit/s."
    )


def test_the_start_of_a_run_without_omitted_seconds_is_no_outlier():
    rates = steady(20)
    rates[0] = 0.5
    assert seen(series(rates, omitted=0)).named == ()
    assert names(seen(series(rates, omitted=1))) == ["Outlier intervals"]


@pytest.mark.parametrize(("late", "raised"), [(0.02, False), (0.2, True)])
def test_the_word_that_the_test_is_over_comes_late(late, raised):
    """As many bytes as in the others, over a last interval that was closed after the data had ended."""
    result = series(steady(10))
    (flow,) = result.flows
    last = REPLACE(flow.intervals[-1], seconds=1 + late)
    result = REPLACE(result, flows=(REPLACE(flow, intervals=(*flow.intervals[:-1], last)),))
    assert ("Outlier intervals" in names(seen(result))) is raised


def test_what_ten_milliseconds_deliver_is_no_outlier():
    rates = steady(40, noise=1e-5)
    rates[30] *= 0.91
    assert seen(series(rates, seconds=0.1)).named == ()
    assert names(seen(series(rates, seconds=1.0))) == ["Outlier intervals"]


@pytest.mark.parametrize("left", [0.0, 0.005])
def test_a_stall_is_named_once_and_not_as_an_outlier_too(left):
    rates = steady(20)
    rates[4] = rates[5] = left
    (doubt,) = seen(series(rates)).named
    assert (doubt.name, doubt.kind) == ("Data stall", "device")
    assert doubt.seen == "Next to nothing arrived in 2 of 20 intervals of the forward run, first at 4 s."


def test_an_empty_interval_of_a_trickle_is_no_stall():
    rates = steady(10)
    rates[4] = 0.0
    trickle = REPLACE(series(rates), workload=Workload(bitrate_bps=1e5))
    assert "Data stall" not in names(seen(trickle))
    assert "Data stall" in names(seen(REPLACE(series(rates), workload=Workload(bitrate_bps=1e9))))


@pytest.mark.parametrize(("limited", "raised"), [(True, False), (False, True)])
def test_whole_writes_of_a_limited_rate_are_no_two_levels(limited, raised):
    """500 Mbit/s in intervals of 0.25 s are 119.2 writes of 128 KiB: 119 or 120 of them, 499.1 or 503.3 Mbit/s."""
    writes = [119, 120, 119, 119, 120, 119, 120, 119, 119, 119, 120, 119]
    levels = [count * 131_072 * 8 / 0.25 / CEILING_BPS for count in writes]
    result = series(levels, seconds=0.25, bitrate_bps=5e8 if limited else None)
    assert ("Bimodal intervals" in names(seen(result))) is raised


@pytest.mark.parametrize(
    ("asked", "lasted", "raised"), [(10.0, 9.4, True), (10.0, 9.6, False), (1.0, 0.8, False), (5.0, 4.6, True)]
)
def test_fewer_seconds_than_asked(asked, lasted, raised):
    flow = tcp_flow(rate_bps=1e9, received_seconds=lasted)
    result = run(flow, workload=Workload(duration_s=asked))
    assert ("Run shorter than asked" in names(seen(result))) is raised


def test_intervals_that_end_early():
    assert names(seen(REPLACE(series(steady(20)), workload=Workload(duration_s=24)))) == ["Run shorter than asked"]
    edge = REPLACE(series(steady(19)), workload=Workload(duration_s=20))  # one lies across the edge of -O
    flow = REPLACE(edge.flows[0], received_seconds=20.0)
    assert seen(REPLACE(edge, flows=(flow,))).named == ()


@pytest.mark.parametrize(("count", "says"), [(0, "0 intervals"), (1, "1 interval that"), (2, "2 intervals"), (3, None)])
def test_too_few_intervals(count, says):
    flow = tcp_flow(rate_bps=1e9)
    result = run(REPLACE(flow, intervals=flow.intervals[: count + 1] if count else ()))
    found = [doubt.seen for doubt in seen(result).named if doubt.name == "Too few intervals"]
    assert len(found) == (says is not None)
    if says:
        assert says in found[0]


# ---- lost and stopped ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retransmits", "rate", "raised"),
    [
        (400, 0.999, True),
        (290, 0.999, False),
        (99, 0.01, False),
        (100, 0.01, True),
        (0, 0.999, False),
        (None, 1, False),
    ],
)
def test_retransmits_per_gigabyte(retransmits, rate, raised):
    result = run(tcp_flow(rate_bps=CEILING_BPS * rate, retransmits=retransmits))
    assert ("Many retransmits" in names(seen(result))) is raised


def stopped(arrived: int, window: int | None, mtu: int = 9000, **known) -> Result:
    intervals = [Interval(start_s=0, seconds=1, bytes=arrived)]
    intervals += [Interval(start_s=start, seconds=1, bytes=0) for start in range(1, 10)]
    flow = tcp_flow(
        received_bytes=arrived,
        received_bps=arrived * 0.8,
        sent_bytes=known.pop("sent", 350_000),
        intervals=tuple(intervals),
        tcp=None if window is None else TcpState(last_cwnd_bytes=window),
    )
    return run(flow, workload=Workload(omit_s=0, **known))


@pytest.mark.parametrize("arrived", [0, 100_000])
@pytest.mark.parametrize("window", [8948, 17_896, None])
def test_jumbo_frames_that_do_not_pass(arrived, window):
    result = stopped(arrived, window)
    findings = look(result, fair(result), simulated=False, mtu_bytes=9000)
    assert "Large packets not passed" in names(findings)
    assert "Data stall" not in names(findings)
    assert findings.tester_limited is None


@pytest.mark.parametrize(
    "known", [{"window": 300_000}, {"sent": 9_000_000}, {"arrived": 2_000_000, "sent": 2_500_000}, {"sent": 0}]
)
def test_a_dead_link_or_a_slow_one_is_not_an_mtu(known):
    result = stopped(**{"arrived": 100_000, "window": 8948, **known})
    assert "Large packets not passed" not in names(look(result, fair(result), simulated=False, mtu_bytes=9000))


def test_the_path_that_only_acknowledgements_took():
    result = run(tcp_flow(omit=0), workload=Workload(omit_s=0))
    segments = result.flows[0].received_bytes // 1448
    observation = fair(result)
    only = {"rx_bytes": 1000 + segments // 2 * 66, "rx_packets": 10 + segments // 2}
    acks = REPLACE(observation, b_after=REPLACE(observation.b_after, **only))
    invalid = look(result, acks).invalid
    assert any(text.startswith("ACK-only path: Port b received ") and "66 bytes each" in text for text in invalid)
    few = REPLACE(acks, b_after=REPLACE(acks.b_after, rx_bytes=1000 + 660, rx_packets=20))
    assert any(text.startswith("Path: Port b received 660 B") for text in look(result, few).invalid)


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize(("megabytes", "raised"), [(100, True), (0, False)])
def test_foreign_traffic_against_the_direction_of_a_run(protocol, megabytes, raised):
    result = run() if protocol == "tcp" else run(udp_flow(), workload=UDP)
    honest = fair(result)
    flood, packets = megabytes * 1_000_000, megabytes * 700
    if protocol == "tcp":  # two segments an acknowledgement, and the receiver merged most: 20 times fewer of them
        few = (honest.a_after.rx_packets - 10) // 20
        honest = REPLACE(honest, a_after=REPLACE(honest.a_after, rx_packets=10 + few, rx_bytes=1000 + few * 66))
    more = REPLACE(
        honest,
        a_after=REPLACE(
            honest.a_after, rx_bytes=honest.a_after.rx_bytes + flood, rx_packets=honest.a_after.rx_packets + packets
        ),
    )
    found = [text for text in look(result, more).invalid if "against the direction" in text]
    assert len(found) == raised


@pytest.mark.parametrize(("share", "raised"), [(0.015, False), (0.03, True)])
def test_little_foreign_traffic_shows_where_super_frames_need_few_headers(share, raised):
    result = run(tcp_flow(omit=0), workload=Workload(omit_s=0))
    honest = fair(result, 65_226 / 65_160, payload=65_160)
    more = int(result.flows[0].sent_bytes * share)
    flooded = REPLACE(
        honest,
        b_after=REPLACE(honest.b_after, rx_bytes=honest.b_after.rx_bytes + more),
        a_after=REPLACE(honest.a_after, tx_bytes=honest.a_after.tx_bytes + more),
    )
    found = [text for text in look(result, flooded).invalid if text.startswith("Foreign traffic: ")]
    assert len(found) == 2 * raised


# ---- directions ------------------------------------------------------------------------------------------------------


def both(forward: float, reverse: float | None, **workload) -> Result:
    flows = [tcp_flow(rate_bps=CEILING_BPS * forward)]
    way = tcp_flow("reverse") if reverse is None else tcp_flow("reverse", rate_bps=CEILING_BPS * reverse)
    flows.append(REPLACE(way, received_bps=None) if reverse is None else way)
    return run(*flows, workload=Workload(direction="bidirectional", **workload))


@pytest.mark.parametrize(
    ("forward", "reverse", "raised"), [(0.9, 0.7, True), (0.7, 0.9, True), (0.9, 0.73, False), (0.9, None, False)]
)
def test_the_two_directions_of_one_run(forward, reverse, raised):
    assert ("Directions differ" in names(seen(both(forward, reverse)))) is raised


def test_datagrams_that_were_counted_twice_make_a_rate_invalid():
    flow = udp_flow()
    flow = REPLACE(flow, received_bytes=int(flow.sent_bytes * 1.02), out_of_order=20_000)
    findings = look(run(flow, workload=UDP))
    (text,) = [text for text in findings.invalid if text.startswith("Datagrams counted twice")]
    assert "2 % more" in text
    assert "UDP loss contradicts the bytes" not in names(findings)
    assert "Datagrams out of order" in names(findings)


@pytest.mark.parametrize(
    ("more_bytes", "omit_s"),
    [(0, 0), (9 * 1448, 0), (int(2e9 / 8 * 10 * 0.04), 1)],
    ids=["none", "a few", "on the way at the omit edge"],
)
def test_a_receiver_that_got_hardly_more_than_was_sent_is_no_doubt(more_bytes, omit_s):
    flow = udp_flow()
    flow = REPLACE(flow, received_bytes=flow.sent_bytes + more_bytes)
    assert "Datagrams counted twice" not in names(look(run(flow, workload=REPLACE(UDP, omit_s=omit_s))))


def test_tcp_takes_each_segment_once():
    flow = REPLACE(tcp_flow(), sent_bytes=1_000_000)
    assert "Datagrams counted twice" not in names(look(run(flow)))


@pytest.mark.parametrize(
    ("late", "packets", "doubted"),
    [(None, 10_000, False), (0, 10_000, False), (9, 10_000, False), (10, 10_000, True), (60, 1_000_000, False)],
)
def test_datagrams_that_others_overtook(late, packets, doubted):
    flow = REPLACE(udp_flow(), packets=packets, out_of_order=late)
    findings = look(run(flow, workload=UDP))
    assert ("Datagrams out of order" in names(findings)) is doubted
    assert "Datagrams out of order" not in (findings.tester_limited or ""), "the device may be the cause"


@pytest.mark.parametrize(("seconds", "doubted"), [(1.0, False), (1.69, False), (1.71, True), (4.0, True)])
def test_an_interval_that_came_late_is_the_testers(seconds, doubted):
    flow = tcp_flow(rate_bps=CEILING_BPS * 0.8)
    first, *others = flow.intervals
    long = REPLACE(others[4], seconds=seconds)
    findings = look(run(REPLACE(flow, intervals=(first, *others[:4], long, *others[5:]))))
    assert ("iperf3 held up" in names(findings)) is doubted
    assert ("iperf3 held up" in (findings.tester_limited or "")) is doubted


def test_an_omitted_interval_may_be_late():
    flow = tcp_flow(rate_bps=CEILING_BPS * 0.8)
    first, *others = flow.intervals
    findings = look(run(REPLACE(flow, intervals=(REPLACE(first, seconds=3.0), *others))))
    assert "iperf3 held up" not in names(findings)


def through_a_device(result, share_in=1.0, share_out=1.0):
    """The counters of an honest run whose device counted only a share of it."""
    observation = fair(result)
    payload = result.flows[0].received_bytes
    way_in, way_out = ("device_a", "device_b") if result.flows[0].direction == "forward" else ("device_b", "device_a")
    after = {
        way_in: REPLACE(NOTHING, rx_bytes=NOTHING.rx_bytes + int(payload * 1.045 * share_in)),
        way_out: REPLACE(NOTHING, tx_bytes=NOTHING.tx_bytes + int(payload * 1.045 * share_out)),
    }
    return REPLACE(observation, device_before=dict.fromkeys(after, NOTHING), device_after=after)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_traffic_that_did_not_pass_the_device(direction):
    result = run(tcp_flow(direction), workload=Workload(direction=direction))
    assert look(result, through_a_device(result)).invalid == ()
    sides = ("a", "b") if direction == "forward" else ("b", "a")
    for side, verb, shares in ((sides[0], "received", (0.9, 1.0)), (sides[1], "sent", (1.0, 0.01))):
        (invalid,) = look(result, through_a_device(result, *shares)).invalid
        assert invalid.startswith(f"Device bypassed: The device {verb} ")
        assert f"at its side {side}, but the {direction} run reports" in invalid
