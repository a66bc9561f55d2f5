"""What the evidence around a run says: each rule by itself, and what no rule may ever do."""

from __future__ import annotations

import pytest
from doubt_samples import (
    CEILING_BPS,
    REPLACE,
    SPEED_BPS,
    SUPER_FRAME,
    UDP,
    fair,
    look,
    ports,
    run,
    tcp_flow,
    udp_flow,
)  # fmt: skip
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.judge.doubts import RULES, examine
from pytest_netperf.judge.judgement import Measured, judge
from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.observe.observation import BusyProcess, Host, Observation, PortCounters
from pytest_netperf.physics import goodput_ceiling_bps
from pytest_netperf.traffic.result import Flow, Interval, Result, TcpState, Workload

HONEST = {
    "forward": run(),
    "reverse": run(tcp_flow("reverse")),
    "bidirectional": run(tcp_flow(), tcp_flow("reverse"), workload=Workload(direction="bidirectional")),
    "no omit": run(tcp_flow(omit=0), workload=Workload(omit_s=0)),
    "some retransmits": run(tcp_flow(retransmits=290)),
    "rate from text": run(tcp_flow(received_bytes=None)),
    "udp": run(udp_flow(), workload=UDP),
    "udp, iperf3's own length": run(udp_flow(), workload=REPLACE(UDP, length_bytes=None)),
    "limited": run(tcp_flow(rate_bps=5e8), workload=Workload(bitrate_bps=5e8)),
}


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("framing", [1514 / 1448, 1518 / 1448, SUPER_FRAME / 65_160])
def test_an_honest_run_raises_nothing_that_changes_a_verdict(name, framing):
    result = HONEST[name]
    findings = look(result, fair(result, framing))
    assert findings.invalid == ()
    assert findings.tester_limited is None
    assert findings.doubts == ()
    assert findings.rate_explained


def test_small_segments_carry_more_framing():
    flow = tcp_flow(rate_bps=goodput_ceiling_bps(SPEED_BPS, 1500, mss_bytes=216))
    result = run(flow, workload=Workload(mss_bytes=216))
    framing = (204 + 66) / 204
    ceiling = goodput_ceiling_bps(SPEED_BPS, 1500, mss_bytes=216)
    assert look(result, fair(result, framing, payload=204), ceiling_bps=ceiling).invalid == ()
    assert (
        look(run(flow), fair(result, framing, payload=204)).invalid != ()
    )  # with full segments nothing explains so many headers


# ---- the path --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_data_that_never_crossed_the_link(direction):
    result = run(tcp_flow(direction, received_bytes=3_000_000_000))
    findings = look(result, ports(50_000, 40_000, packets=300))
    sender, receiver = ("a", "b") if direction == "forward" else ("b", "a")
    shown = {"forward": "50000 B", "reverse": "40000 B"}[direction]
    ends = (
        f"but the {direction} run reports 3 GB of payload. The data did not all cross this link. "
        "Check the cabling, the addresses and the routes."
    )
    assert findings.invalid == (
        f"Path: Port {receiver} received {shown}, {ends}",
        f"Path: Port {sender} sent {shown}, {ends}",
    )


def test_one_byte_less_than_the_payload_is_too_little():
    flow = tcp_flow(omit=0)
    result = run(flow, workload=Workload(omit_s=0))
    assert flow.received_bytes is not None
    assert look(result, ports(flow.received_bytes, packets=10**6)).invalid == ()
    short = look(result, ports(flow.received_bytes - 1, packets=10**6)).invalid
    assert len(short) == 2
    assert "Port b received 2.939190506 GB, but the forward run reports 2.939190507 GB of payload" in short[0]


def test_half_of_the_data_over_another_card():
    result = run()
    honest = fair(result)
    half = REPLACE(honest, b_after=REPLACE(honest.b_after, rx_bytes=honest.b_after.rx_bytes // 2))
    invalid = look(result, half).invalid
    assert any("Port b received" in text and "did not all cross" in text for text in invalid)
    assert any("port b received only" in text for text in invalid)


@pytest.mark.parametrize("more", [0.10, 0.5, 3])
def test_more_on_the_port_than_the_run_explains(more):
    result = run(tcp_flow(omit=0), workload=Workload(omit_s=0))
    honest = fair(result, 1514 / 1448 * (1 + more))
    assert any(text.startswith("Foreign traffic: ") for text in look(result, honest).invalid)


def test_the_omitted_second_explains_itself_and_not_more():
    result = run()
    second = CEILING_BPS / 8
    assert look(result, ports(11 * second * 1.05, packets=10**6)).invalid == ()
    assert look(result, ports(14 * second * 1.05, packets=10**6)).invalid != ()


def test_unknown_retransmits_explain_anything_above():
    result = run(tcp_flow(retransmits=None))
    assert look(result, fair(result, 1.3)).invalid == ()


def test_frames_from_elsewhere():
    result = run()
    honest = fair(result)
    elsewhere = REPLACE(honest, a_after=REPLACE(honest.a_after, tx_bytes=1_000_000))
    assert any("frames came from elsewhere" in text for text in look(result, elsewhere).invalid)


def test_the_loss_of_a_device_in_the_middle_is_no_contradiction():
    flow = udp_flow(lost=500_000)
    sent = flow.sent_bytes * 1490 / 1448
    arrived = flow.received_bytes * 1490 / 1448
    honest = ports(sent, packets=flow.packets)
    lossy = REPLACE(
        honest,
        b_after=REPLACE(honest.b_after, rx_bytes=1000 + int(arrived), rx_packets=10 + flow.packets - flow.lost_packets),
    )
    assert look(run(flow, workload=UDP), lossy, simulated=False).invalid == ()
    unreported = run(REPLACE(flow, lost_packets=0), workload=UDP)
    assert any("ports are not the two ends" in text for text in look(unreported, lossy, simulated=False).invalid)


@pytest.mark.parametrize("counter", ["rx_bytes", "tx_packets", "carrier_changes", "udp_buffer_errors"])
def test_counters_that_ran_backwards(counter):
    honest = fair(run())
    before = REPLACE(honest.b_before, **{counter: getattr(honest.b_after, counter) + 1})
    findings = look(run(), REPLACE(honest, b_before=before))
    assert findings.invalid == (
        "Counters ran backwards: The counters of port b ran backwards during the run. The card or its driver was "
        "reset. Look into the kernel's log and run it again.",
    )


def test_a_card_that_left_the_bus_reads_all_ones():
    honest = fair(run())
    ones = REPLACE(honest, b_after=REPLACE(honest.b_after, rx_bytes=2**64 - 1))
    assert look(run(), ones).invalid != ()


def test_without_counters_there_is_a_doubt():
    findings = examine(
        run(),
        None,
        speed_bps=None,
        mtu_bytes=1500,
        simulated=False,
        faulted=False,
        ceiling_bps=None,
    )
    (doubt,) = findings.doubts
    assert doubt.startswith(
        "Path not observed: No port counters were read. Nothing proves that the data crossed this link. "
    )
    assert findings.invalid == ()


def test_a_run_without_bytes_is_doubted():
    result = run(tcp_flow(received_bytes=None, received_bps=None))
    assert look(result, fair(run())).doubts[0].startswith("Path not observed: The forward run has no byte count")


# ---- the ports -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "says"),
    [
        ("rx_errors", "Port errors: Port b had 3 receive errors."),
        ("tx_errors", "Port errors: Port b had 3 transmit errors."),
        ("rx_dropped", "Port drops: Port b had 3 frames dropped on receipt."),
        ("tx_dropped", "Port drops: Port b had 3 frames dropped on sending."),
        ("carrier_changes", "Link changed during the run: Port b had 3 changes of its carrier."),
    ],
)
def test_trouble_at_a_port_is_a_doubt(counter, says):
    honest = fair(run())
    after = REPLACE(honest.b_after, **{counter: getattr(honest.b_after, counter) + 3})
    findings = look(run(), REPLACE(honest, b_after=after))
    assert len(findings.doubts) == 1
    assert findings.doubts[0].startswith(says)
    assert findings.invalid == ()
    assert findings.tester_limited is None


# ---- the tester ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "says"),
    [
        ({"cpu_busy": (0.2, 0.96)}, "Tester CPU bound: CPU 1 of this machine was 96 % busy."),
        ({"cpu_busy": (0.95, 0.1)}, "Tester CPU bound: CPU 0 of this machine was 95 % busy."),
        ({"cpu_steal": 0.05}, "CPU taken by a hypervisor: A hypervisor took 5 % of a CPU"),
        ({"cpu_busy": (0.949, 0.949), "cpu_steal": 0.049}, None),
        ({"cpu_busy": ()}, None),
    ],
)
def test_a_busy_tester(load, says):
    result = run(tcp_flow(rate_bps=1e9))
    observation = REPLACE(fair(result), **load)
    limited = look(result, observation, simulated=False).tester_limited
    assert limited is None if says is None else limited.startswith(says)


def test_a_busy_tester_did_not_slow_a_rate_that_reached_what_its_link_delivers():
    result = run()
    findings = look(result, REPLACE(fair(result), cpu_busy=(1.0, 1.0)))
    assert findings.tester_limited
    assert findings.tester_limited_for("throughput") is None
    assert findings.tester_limited_for("retransmits") == findings.tester_limited


@pytest.mark.parametrize("expected", [None, {"forward": goodput_ceiling_bps(1.9e9, 1500)}])
def test_a_known_bad_link_is_the_device_s_fault_even_on_a_busy_tester(expected):
    result = run(tcp_flow(rate_bps=goodput_ceiling_bps(1.9e9, 1500) * 0.998))
    findings = look(result, REPLACE(fair(result), cpu_busy=(0.99, 0.99)), faulted=True, expected_bps=expected)
    if expected is None:  # nobody said what the fault leaves, so the CPU may be it
        assert findings.tester_limited_for("throughput")
    else:
        assert findings.tester_limited_for("throughput") is None


def test_a_simulated_link_that_is_too_slow_is_this_machine_s_doing():
    slow = run(tcp_flow(rate_bps=CEILING_BPS * 0.98))
    findings = look(slow)
    assert findings.tester_limited.startswith(
        "Simulated link too slow: A simulated link without a fault can only be slowed by this machine: "
        "it delivered 2.307 Gbit/s of 2.354 Gbit/s forward. "
    )
    assert not findings.rate_explained
    assert look(slow, simulated=False).tester_limited is None
    assert look(slow, faulted=True).tester_limited is None
    assert look(slow, ceiling_bps=None).tester_limited is None
    assert look(run(tcp_flow(rate_bps=CEILING_BPS * 0.991))).tester_limited is None
    below_fault = look(slow, faulted=True, expected_bps={"forward": CEILING_BPS})
    assert "with this fault can only be slowed further" in below_fault.tester_limited
    offered = run(tcp_flow(rate_bps=5e8), workload=Workload(bitrate_bps=5e8))
    assert look(offered).tester_limited is None
    one_way = run(tcp_flow(), tcp_flow("reverse", rate_bps=1e9), workload=Workload(direction="bidirectional"))
    assert "1 Gbit/s of 2.354 Gbit/s reverse" in look(one_way).tester_limited


def lossy_udp(lost: int, *, at_port: int = 0, thrown: int = 0) -> tuple[Result, Observation]:
    """A UDP run with ``lost`` datagrams, of which ``at_port`` never reached port b."""
    flow = udp_flow(lost=lost)
    result = run(flow, workload=UDP)
    full = ports(flow.sent_bytes * 1490 / 1448, packets=flow.packets, b={"udp_buffer_errors": thrown})
    b_after = REPLACE(
        full.b_after,
        rx_bytes=full.b_after.rx_bytes - at_port * 1490,
        rx_packets=full.b_after.rx_packets - at_port,
    )
    return result, REPLACE(full, b_after=b_after)


@pytest.mark.parametrize(
    ("lost", "at_port", "thrown", "faulted", "says"),
    [
        (10_000, 10_000, 0, False, None),  # lost on the way: the device
        (10_000, 0, 0, False, "10000 datagrams are reported lost, but only 0 of them before port b"),
        (10_000, 4_000, 0, False, "only 4000 of them before port b"),
        (10_000, 6_000, 0, False, None),
        (10_000, 0, 9_000, False, "9000 datagrams reached port b and were thrown away"),
        (10_000, 0, 9_000, True, "9000 datagrams reached port b and were thrown away"),
        (10_000, 0, 0, True, None),  # a simulated loss drops behind the counter, on purpose
        (0, 0, 0, False, None),
    ],
)
def test_udp_loss_behind_the_port_is_the_tester_s(lost, at_port, thrown, faulted, says):
    result, observation = lossy_udp(lost, at_port=at_port, thrown=thrown)
    findings = look(result, observation, simulated=faulted, faulted=faulted)
    assert findings.invalid == ()
    assert (findings.tester_limited is None) == (says is None)
    if says:
        assert says in findings.tester_limited


def test_a_few_buffer_errors_beside_much_loss_are_only_a_doubt():
    result, observation = lossy_udp(10_000, at_port=9_950, thrown=50)
    findings = look(result, observation, simulated=False)
    assert findings.tester_limited is None
    assert "50 datagrams reached port b" in findings.doubts[0]
    assert [doubt.kind for doubt in findings.named if doubt.name == "UDP loss in the tester"] == ["note"]


# ---- the numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [{"lost_packets": 10**9}, {"frame_loss_ratio": -0.1}, {"frame_loss_ratio": 1.5}])
def test_impossible_loss(known):
    flow = udp_flow(**known)
    invalid = look(run(flow, workload=UDP)).invalid
    assert any(text.startswith("Impossible loss: ") and "datagrams lost" in text for text in invalid)


def test_loss_of_zero_although_bytes_are_missing():
    flow = REPLACE(udp_flow(lost=100_000), frame_loss_ratio=0.0, lost_packets=0)
    result, observation = lossy_udp(100_000, at_port=100_000)
    findings = look(REPLACE(result, flows=(flow,)), observation, simulated=False)
    assert any("0 % of its datagrams lost, but 5.79 % of the bytes are missing" in text for text in findings.doubts)
    honest = lossy_udp(100_000, at_port=100_000)
    assert look(*honest, simulated=False).doubts == ()


@pytest.mark.parametrize(
    ("ratio", "unit"),
    [(1e9 / 2**30, "Gibit/s"), (0.9335, "Gibit/s"), (1e6 / 2**20, "Mibit/s"), (0.92, None), (0.998, None)],
)
def test_a_rate_that_looks_binary(ratio, unit):
    findings = look(run(tcp_flow(rate_bps=CEILING_BPS * ratio)))
    hints = [text for text in findings.doubts if text.startswith("Binary-looking units: ")]
    assert len(hints) == (unit is not None)
    if unit:
        assert f"as if in {unit}." in hints[0]


def test_the_review_printed_in_binary_units_is_recognised():
    ceiling = goodput_ceiling_bps(2.5e9, 9216, mss_bytes=1478)
    flow = tcp_flow(rate_bps=2.19e9)
    findings = look(run(flow, workload=Workload(mss_bytes=1478)), ceiling_bps=ceiling, mtu_bytes=9216)
    assert any("as if in Gibit/s" in text for text in findings.doubts)


@pytest.mark.parametrize(
    ("ratio", "tolerance", "raised"),
    [(1.0001, 0.0, False), (1.0003, 0.0, True), (1.01, 0.02, False), (1.03, 0.02, True), (float("nan"), 0.0, False)],
)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_no_direction_is_above_the_ceiling(ratio, tolerance, raised, direction):
    """The slower direction is the value of a row; the faster one must be true too."""
    other = tcp_flow("reverse" if direction == "forward" else "forward", rate_bps=CEILING_BPS / 1.2)
    result = run(REPLACE(tcp_flow(direction), received_bps=CEILING_BPS * ratio), other)
    invalid = look(result, bound_bps=CEILING_BPS, bound_tolerance=tolerance).invalid
    assert any(text.startswith(f"Above the ceiling: The {direction} rate of ") for text in invalid) is raised
    if raised:
        assert "the most that physics allows here" in invalid[0]
    assert look(result).invalid == ()


def test_a_row_lists_what_limited_the_tester_only_where_it_may_have_spoilt_the_quantity():
    result = run(tcp_flow(retransmits=5000))
    findings = look(result, REPLACE(fair(result), cpu_busy=(1.0, 1.0)))
    assert [text.partition(":")[0] for text in findings.shown_for("throughput")] == ["Many retransmits"]
    shown = findings.shown_for("retransmits")
    assert [text.partition(":")[0] for text in shown] == ["Tester CPU bound", "Many retransmits"]
    lying = look(run(), ports(50_000, 40_000, packets=300))
    assert lying.invalid
    assert not set(lying.invalid) & set(lying.shown_for("throughput"))  # they are its reason


def test_different_versions():
    findings = look(run(client_version="3.16", server_version="3.12"))
    (doubt,) = findings.doubts
    assert doubt.startswith("Different iperf3 versions: The client is iperf3 3.16, the server 3.12. ")
    assert look(run(client_version=None)).doubts == ()


def test_a_stall_that_the_mean_hides():
    flow = tcp_flow()
    intervals = list(flow.intervals)
    intervals[4] = REPLACE(intervals[4], bytes=0)
    intervals[0] = REPLACE(intervals[0], bytes=0)  # omitted
    findings = look(run(REPLACE(flow, intervals=tuple(intervals))))
    (doubt,) = findings.doubts
    assert doubt.startswith(
        "Data stall: Next to nothing arrived in 1 of 10 intervals of the forward run, first at 3 s. "
    )


# ---- what must always hold -------------------------------------------------------------------------------------------


def test_every_rule_is_listed_once_and_says_what_it_is_about():
    names = [rule.__name__ for rule in RULES]
    assert len(set(names)) == len(names)
    assert all(rule.__doc__ for rule in RULES)


def test_no_flow_at_all_is_no_crash():
    empty = Result(workload=Workload(), trusted=False, reason="x", flows=(), engine="iperf3")
    findings = look(empty, fair(run()))
    assert not findings.rate_explained


counts = st.none() | st.integers(0, 2**40)
rates = st.none() | st.floats(0, 1e11)
flows = st.builds(
    Flow,
    direction=st.sampled_from(["forward", "reverse"]),
    received_bytes=counts,
    received_seconds=st.none() | st.floats(0, 100),
    received_bps=rates,
    sent_bytes=counts,
    sent_bps=rates,
    retransmits=counts,
    packets=counts,
    lost_packets=counts,
    frame_loss_ratio=st.none() | st.floats(-1, 2),
    intervals=st.lists(
        st.builds(
            Interval, start_s=st.just(0.0), seconds=st.just(1.0), bytes=st.integers(0, 10**9), omitted=st.booleans()
        ),
        max_size=12,
    ).map(tuple),
    tcp=st.none() | st.builds(TcpState, min_rtt_s=st.floats(0, 1), max_peer_window_bytes=counts),
)
workloads = st.builds(
    Workload,
    protocol=st.sampled_from(["tcp", "udp"]),
    omit_s=st.sampled_from([0.0, 1.0]),
    mss_bytes=st.none() | st.integers(88, 9216),
    bitrate_bps=st.none() | st.floats(1e3, 1e10),
    length_bytes=st.none() | st.integers(16, 65507),
    ip_version=st.sampled_from([4, 6]),
)
results = st.builds(
    Result,
    workload=workloads,
    trusted=st.booleans(),
    reason=st.just("x"),
    flows=st.lists(flows, max_size=2).map(tuple),
    engine=st.just("iperf3"),
    client_version=st.sampled_from([None, "3.6", "3.12", "3.16", "3.20", "odd"]),
    server_version=st.sampled_from([None, "3.12", "3.17"]),
    client_cpu=st.none() | st.floats(0, 3),
)
counters = st.builds(
    PortCounters,
    **{name: st.integers(0, 2**41) for name in ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_errors")},
)
observations = st.none() | st.builds(
    Observation,
    a_before=st.just(PortCounters(rx_bytes=0, tx_bytes=0, rx_packets=0, tx_packets=0)) | counters,
    a_after=counters,
    b_before=st.just(PortCounters(rx_bytes=0, tx_bytes=0, rx_packets=0, tx_packets=0)),
    b_after=counters,
    cpu_busy=st.lists(st.floats(0, 1), max_size=2).map(tuple),
    cpu_steal=st.floats(0, 1),
    cpu_softirq=st.lists(st.floats(0, 1), max_size=2).map(tuple),
    host=st.none()
    | st.builds(
        Host,
        seconds=st.floats(0, 100),
        clock_step_s=st.floats(-10, 10),
        suspended_s=st.floats(0, 10),
        softnet_dropped=counts,
        softnet_squeezed=counts,
        throttle_events=counts,
        others=st.lists(st.builds(BusyProcess, name=st.just("x"), cpu_s=st.floats(0, 200)), max_size=2).map(tuple),
    ),
)
scenes = st.tuples(
    results,
    observations,
    st.fixed_dictionaries(
        {
            "speed_bps": st.none() | st.just(SPEED_BPS),
            "mtu_bytes": st.sampled_from([1280, 1500, 9000]),
            "simulated": st.booleans(),
            "faulted": st.booleans(),
            "ceiling_bps": st.none() | st.just(CEILING_BPS),
            "expected_bps": st.none() | st.just({"forward": 1.7e9}),
            "bound_bps": st.none() | st.just(CEILING_BPS),
        }
    ),
)


@given(scenes, st.sampled_from(["throughput", "retransmits"]), st.floats(0, 3e9), st.floats(1, 3e9))
def test_no_finding_ever_turns_a_verdict_into_a_pass_or_a_fail(scene, quantity, value, bound):
    result, observation, options = scene
    findings = examine(result, observation, **options)
    higher = quantity == "throughput"
    limit = ResolvedLimit(quantity, bound if higher else None, None if higher else bound, "some")
    plain = Measured(
        quantity=quantity,
        unit="bit/s" if higher else "1",
        better="higher" if higher else "lower",
        value=value,
        trusted=True,
    )
    examined = Measured(
        quantity=quantity,
        unit=plain.unit,
        better=plain.better,
        value=value,
        trusted=True,
        invalid=findings.invalid,
        tester_limited=findings.tester_limited_for(quantity),
    )
    before, after = judge(plain, limit).verdict, judge(examined, limit).verdict
    assert after in (before, Verdict.INVALID, Verdict.INCONCLUSIVE)
    if findings.invalid:
        assert after is Verdict.INVALID
    if before is Verdict.PASS and not findings.invalid:
        assert after is Verdict.PASS  # a met limit stays met, tester-limited or not
    assert all(text.strip().endswith(".") for text in (*findings.invalid, *findings.doubts))


@given(st.integers(0, 2**33), st.integers(0, 2**33))
def test_payload_that_a_port_did_not_count_is_always_invalid(received, counted):
    result = run(tcp_flow(received_bytes=received, sent_bytes=received), workload=Workload(omit_s=0))
    findings = look(result, ports(counted, packets=counted // 1448))
    if counted < received:
        assert findings.invalid
