"""Doubts about how the ports were set, what their drivers counted, and what their link negotiated."""

from __future__ import annotations

import pytest
from doubt_samples import CEILING_BPS, REPLACE, SPEED_BPS, UDP, fair, look, run, tcp_flow, udp_flow

from pytest_netperf.judge.doubts import Findings
from pytest_netperf.judge.port_evidence import port_facts_of
from pytest_netperf.observe.observation import Host, PortFacts, PortQueue
from pytest_netperf.traffic.result import Result, Workload

GOOD = PortFacts(
    driver="igc",
    speed_bps=SPEED_BPS,
    duplex="full",
    offloads={"tso": "on", "gso": "on", "gro": "on", "lro": "cannot", "tx-checksum": "on", "rx-checksum": "on"},
    counters={"rx_pause": 0, "tx_pause": 0, "rx_crc_errors": 0, "rx_missed": 0},
    queues=(PortQueue(kind="mq", root=True, limits=False, rate_bps=None, ours=False),),
)
FAST = run()
SLOW = run(tcp_flow(rate_bps=CEILING_BPS / 2))


def port(**known) -> PortFacts:
    return REPLACE(GOOD, **known)


def off(*names: str, state="off") -> PortFacts:
    return port(offloads={**GOOD.offloads, **dict.fromkeys(names, state)})


def counting(**counters) -> PortFacts:
    return port(counters={**GOOD.counters, **counters})


def queued(*queues: tuple[str, float | None], limits=True, ours=False) -> PortFacts:
    made = [PortQueue(kind=kind, root=True, limits=limits, rate_bps=rate, ours=ours) for kind, rate in queues]
    return port(queues=tuple(made))


def seen(result: Result, a=GOOD, b=GOOD, a_before=None, b_before=None, cpu=(0.9, 0.3), **known) -> Findings:
    """Look at a run whose ports were like this; ``a_before`` and ``b_before`` only where they were other ones."""
    observed = REPLACE(
        fair(result),
        cpu_busy=cpu,
        host=Host(seconds=10.0),
        a_port_before=a if a_before is None else a_before,
        a_port_after=a,
        b_port_before=b if b_before is None else b_before,
        b_port_after=b,
    )
    return look(result, observed, **{"simulated": False, **known})


def names(findings: Findings) -> list[str]:
    return [doubt.name for doubt in findings.named]


@pytest.mark.parametrize("result", [FAST, SLOW, run(udp_flow(), workload=UDP)], ids=["fast", "slow", "UDP"])
def test_good_ports_raise_nothing(result):
    assert names(seen(result)) == []


def test_ports_that_nobody_read_raise_nothing():
    assert names(look(SLOW, fair(SLOW), simulated=False)) == []
    assert names(seen(SLOW, PortFacts(), PortFacts())) == []


# ---- offloads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        (off("tso"), GOOD, "At port a tso was off; the busiest CPU was 90 % busy."),
        (off("gso", "tso"), GOOD, "At port a tso, gso were off; the busiest CPU was 90 % busy."),
        (GOOD, off("gro"), "At port b gro was off; the busiest CPU was 90 % busy."),
        (GOOD, off("rx-checksum"), "At port b rx-checksum was off; the busiest CPU was 90 % busy."),
        (off("gro", "rx-checksum"), off("tso", "tx-checksum"), None),  # not what a forward run uses
        (off("tso", state="cannot"), GOOD, None),  # nobody can switch it on
        (GOOD, off("lro"), None),
        (GOOD, port(offloads={**GOOD.offloads, "gro": "off", "lro": "on"}), None),
        (port(offloads={}), port(offloads={}), None),
    ],
)
def test_an_offload_that_is_off(a, b, says):
    findings = seen(SLOW, a, b)
    assert [doubt.seen for doubt in findings.named] == ([says] if says else [])
    assert (findings.tester_limited_for("throughput") is not None) is (says is not None)


def test_the_reverse_direction_has_the_other_sender():
    result = run(tcp_flow("reverse", rate_bps=CEILING_BPS / 2), workload=Workload(direction="reverse"))
    assert names(seen(result, off("tso"), GOOD)) == []
    assert names(seen(result, GOOD, off("tso"))) == ["Offload off at the tester"]


def test_both_directions_use_both_ports():
    slow = (tcp_flow(rate_bps=CEILING_BPS / 2), tcp_flow("reverse", rate_bps=CEILING_BPS / 2))
    (doubt,) = seen(run(*slow, workload=Workload(direction="bidirectional")), off("tso", "gro")).named
    assert doubt.seen.startswith("At port a tso, gro were off")


def test_at_line_rate_it_does_not_matter():
    assert names(seen(FAST, off("tso"), off("gro"))) == []


def test_with_time_to_spare_it_is_a_note_and_excuses_nothing():
    findings = seen(SLOW, off("tso"), cpu=(0.69, 0.1))
    assert [doubt.kind for doubt in findings.named] == ["note"]
    assert findings.tester_limited is None
    assert [doubt.kind for doubt in seen(SLOW, off("tso"), cpu=()).named] == ["tester"]  # nobody knows


def test_datagrams_are_neither_cut_nor_joined():
    result = run(udp_flow(rate_bps=1e9), workload=UDP)
    assert names(seen(result, off("tso", "gso"), off("gro"))) == []
    assert names(seen(result, off("tx-checksum"), GOOD)) == ["Offload off at the tester"]


def test_what_a_fault_of_a_simulated_link_switches_off_is_no_finding():
    assert "Offload off at the tester" not in names(seen(SLOW, off("tso"), off("gro"), simulated=True, faulted=True))
    assert "Offload off at the tester" not in names(seen(SLOW, GOOD, off("gro"), simulated=True))  # a veth is made so
    assert "Offload off at the tester" in names(seen(SLOW, off("tso"), GOOD, simulated=True))
    assert "Offload off at the tester" in names(seen(SLOW, off("tx-checksum"), GOOD, simulated=True, faulted=True))


# ---- queues ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [
        (queued(("tbf", 1.25e9)), GOOD, "tester"),  # it lets through what was measured
        (queued(("htb", None)), GOOD, "tester"),
        (queued(("netem", None)), GOOD, "tester"),
        (queued(("tbf", 2.4e9)), GOOD, "note"),  # clearly more than was measured
        (queued(("tbf", 10e9)), GOOD, None),  # more than the link
        (queued(("tbf", 1.25e9), ours=True), GOOD, None),
        (queued(("fq_codel", None), limits=False), GOOD, None),
        (port(queues=None), GOOD, None),
        (port(queues=()), GOOD, None),
        (GOOD, queued(("tbf", 1.25e9)), "note"),  # only acknowledgements leave there
        (GOOD, queued(("tbf", 20e6)), "tester"),  # too few of them
        (GOOD, queued(("netem", None)), "tester"),
    ],
)
def test_a_queue_that_limits(a, b, kind):
    findings = seen(SLOW, a, b)
    assert [(doubt.name, doubt.kind) for doubt in findings.named] == ([("Shaper at the tester", kind)] if kind else [])
    assert (findings.tester_limited_for("throughput") is not None) is (kind == "tester")


def test_it_names_the_queue():
    (doubt,) = seen(SLOW, queued(("cake", 1.2e9))).named
    assert doubt.seen == "Port a has the queue cake 1.2 Gbit/s."


def test_at_line_rate_a_queue_matters_only_for_what_was_lost():
    assert names(seen(FAST, queued(("netem", None)))) == []
    lossy = run(tcp_flow(retransmits=10))
    findings = seen(lossy, queued(("netem", None)))
    assert names(findings) == ["Shaper at the tester"]
    assert findings.tester_limited_for("throughput") is None
    assert findings.tester_limited_for("retransmits")


def test_datagrams_need_no_acknowledgements():
    result = run(udp_flow(rate_bps=1e9), workload=UDP)
    assert [doubt.kind for doubt in seen(result, GOOD, queued(("netem", None))).named] == ["note"]


def test_a_fast_direction_beside_a_slow_one_is_not_held_back():
    flows = (tcp_flow(rate_bps=CEILING_BPS * 0.999), tcp_flow("reverse", rate_bps=CEILING_BPS / 2))
    result = run(*flows, workload=Workload(direction="bidirectional"))
    assert [doubt.kind for doubt in seen(result, queued(("tbf", 2.5e9))).named if "Shaper" in doubt.name] == ["note"]


# ---- speed and duplex ------------------------------------------------------------------------------------------------


def test_a_link_that_was_another_one_afterwards():
    findings = seen(SLOW, port(speed_bps=1e9), a_before=GOOD)
    assert [doubt.seen for doubt in findings.named if doubt.name == "Link changed during the run"] == [
        "Port a went from 2.5 Gbit/s full duplex to 1 Gbit/s full duplex."
    ]
    assert findings.tester_limited is None
    assert "Link changed during the run" in names(seen(SLOW, port(duplex="half"), a_before=GOOD))


@pytest.mark.parametrize("known", [{"speed_bps": None}, {"speed_bps": None, "duplex": None}])
def test_without_a_carrier_there_is_no_speed_to_compare(known):
    assert names(seen(SLOW, port(**known), a_before=GOOD)) == []
    assert names(seen(SLOW, GOOD, a_before=port(**known))) == []


@pytest.mark.parametrize(
    ("a", "known", "says"),
    [
        (port(speed_bps=100e6), {}, "Port a ran at 100 Mbit/s, rated 2.5 Gbit/s."),
        (port(speed_bps=SPEED_BPS), {}, None),
        (port(speed_bps=10e9), {}, None),
        (port(speed_bps=None), {}, None),
        (port(speed_bps=1e9), {"simulated": True}, None),  # a veth has no line
        (port(speed_bps=1e9), {"speed_bps": None, "ceiling_bps": None}, None),  # nothing is declared
    ],
)
def test_a_port_below_its_rating(a, known, says):
    found = [doubt for doubt in seen(SLOW, a, **known).named if doubt.name == "Link speed below the rated one"]
    assert [doubt.seen for doubt in found] == ([says] if says else [])
    assert all(doubt.kind == "device" for doubt in found)


def test_one_that_trained_down_during_the_run_is_below_it_too():
    assert "Link speed below the rated one" in names(seen(SLOW, port(speed_bps=1e9), a_before=GOOD))
    assert "Link speed below the rated one" in names(seen(SLOW, GOOD, a_before=port(speed_bps=1e9)))


def test_half_duplex():
    findings = seen(FAST, b=port(duplex="half"))
    assert [doubt.seen for doubt in findings.named] == ["Port b ran in half duplex."]
    assert findings.tester_limited is None


# ---- what drivers count ----------------------------------------------------------------------------------------------


def test_pause_frames_say_who_asked_whom_to_stop():
    findings = seen(SLOW, counting(rx_pause=12_000, rx_pause_s=2.17), counting(tx_pause=12_000), GOOD, GOOD)
    assert [doubt.seen for doubt in findings.named] == [
        "Port a received 12000 pause frames, 1200 a second: the other end asked it to stop; 50 % of what the link "
        "delivers forward is missing.",
        "Port b sent 12000 pause frames, 1200 a second: it asked the other end to stop; 50 % of what the link delivers "
        "forward is missing.",
    ]
    assert findings.tester_limited is None  # both ports may be the device's


def test_pause_frames_say_for_how_long_where_the_driver_does():
    before = counting(rx_pause=5, rx_pause_s=1.0)
    (doubt,) = seen(FAST, counting(rx_pause=12_005, rx_pause_s=3.17), a_before=before).named
    assert doubt.seen == (
        "Port a received 12000 pause frames, 1200 a second, for 21.7 % of the time: the other end asked it to stop."
    )


@pytest.mark.parametrize(
    ("result", "count", "raised"), [(FAST, 10, False), (FAST, 11, True), (SLOW, 1, True), (SLOW, 0, False)]
)
def test_few_pause_frames_at_line_rate_are_no_finding(result, count, raised):
    assert (names(seen(result, counting(rx_pause=count), a_before=GOOD)) == ["Pause frames"]) is raised


@pytest.mark.parametrize(
    ("end", "counter", "concerned"),
    [("a", "rx_pause", True), ("b", "tx_pause", True), ("a", "tx_pause", False), ("b", "rx_pause", False)],
)
def test_pause_frames_stop_one_direction(end, counter, concerned):
    """What a slow forward run does not wait for are the pause frames that stop its acknowledgements, if few."""
    after = {end: counting(**{counter: 5})}
    assert (names(seen(SLOW, **after, a_before=GOOD, b_before=GOOD)) == ["Pause frames"]) is concerned


def test_a_counter_that_fell_or_is_missing_says_nothing():
    assert names(seen(SLOW, counting(rx_pause=5), a_before=counting(rx_pause=50))) == []
    assert names(seen(SLOW, counting(rx_pause=5), a_before=port(counters={}))) == []
    assert names(seen(SLOW, port(counters={}), a_before=counting(rx_pause=5))) == []


def test_frames_not_fetched_are_a_note():
    findings = seen(SLOW, b=counting(rx_missed=7), b_before=GOOD)
    assert [(doubt.name, doubt.kind) for doubt in findings.named] == [("Frames not fetched", "note")]


def test_damaged_frames_that_only_the_driver_counts():
    result = FAST
    assert names(seen(result, b=counting(rx_crc_errors=3), b_before=GOOD)) == ["Port errors"]


def test_damaged_frames_are_named_once():
    observed = REPLACE(
        fair(FAST), a_port_before=GOOD, a_port_after=GOOD, b_port_before=GOOD, b_port_after=counting(rx_crc_errors=3)
    )
    observed = REPLACE(observed, b_after=REPLACE(observed.b_after, rx_errors=3))
    (doubt,) = look(FAST, observed, simulated=False).named
    assert doubt.seen == "Port b had 3 receive errors."


# ---- EEE -------------------------------------------------------------------------------------------------------------

AWAKE = port(eee_supported=True, eee_enabled=True, eee_active=False)
ASLEEP = port(eee_supported=True, eee_enabled=True, eee_active=True)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (FAST, None),
        (SLOW, None),
        (run(tcp_flow(retransmits=99)), None),
        (run(tcp_flow(retransmits=200)), None),  # 68 per GB
        (run(tcp_flow(retransmits=400)), "400 segments of the forward run were sent again"),
        (run(udp_flow(lost=5), workload=UDP), "the forward run lost 5 datagrams"),
    ],
)
def test_eee_with_loss(result, says):
    found = [doubt.seen for doubt in seen(result, ASLEEP, ASLEEP).named if doubt.name.startswith("Energy")]
    assert found == ([f"EEE is active at ports a and b, and {says}."] if says else [])
    for quiet in (AWAKE, GOOD):
        assert not [name for name in names(seen(result, quiet, quiet)) if name.startswith("Energy")]


def test_eee_with_damaged_frames():
    after = REPLACE(ASLEEP, counters={**GOOD.counters, "rx_crc_errors": 4})
    found = [doubt.seen for doubt in seen(FAST, b=after, b_before=ASLEEP).named if doubt.name.startswith("Energy")]
    assert found == ["EEE is active at port b, and port b received 4 frames with a wrong checksum."]


# ---- as facts of a row -----------------------------------------------------------------------------------------------


def test_the_facts_of_a_row():
    before = port(counters={"rx_pause": 10}, speed_bps=1e9)
    after = port(
        counters={"rx_pause": 25}, version="6.1", pause_rx=True, pause_tx=False, aspm=(), eee_active=False,
        queues=(PortQueue(kind="tbf", root=True, limits=True, rate_bps=1e9, ours=True),), pcie=(),
    )  # fmt: skip
    observed = REPLACE(fair(FAST), a_port_before=before, a_port_after=after)
    assert port_facts_of(observed) == {
        "port_a_driver": "igc",
        "port_a_driver_version": "6.1",
        "port_a_speed_bps": SPEED_BPS,
        "port_a_speed_bps_before": 1e9,
        "port_a_duplex": "full",
        "port_a_pause_rx": True,
        "port_a_pause_tx": False,
        "port_a_eee_active": False,
        "port_a_offloads_on": ["gro", "gso", "rx-checksum", "tso", "tx-checksum"],
        "port_a_offloads_off": [],
        "port_a_offloads_cannot": ["lro"],
        "port_a_rx_pause": 15,
        "port_a_queues": ["tbf 1 Gbit/s, the shaper of this link"],
        "port_a_pcie": [],
        "port_a_aspm": "none enabled",
    }


def test_what_nobody_read_is_no_fact():
    assert port_facts_of(fair(FAST)) == {}
    nothing = REPLACE(fair(FAST), a_port_before=PortFacts(), a_port_after=PortFacts())
    assert {name: value for name, value in port_facts_of(nothing).items() if value != []} == {}


def test_the_speed_of_a_veth_is_no_fact():
    veth = PortFacts(driver="veth", speed_bps=1e10, duplex="full")
    facts = port_facts_of(REPLACE(fair(FAST), b_port_before=veth, b_port_after=veth))
    assert facts["port_b_driver"] == "veth"
    assert not [name for name in facts if "speed" in name or "duplex" in name]
