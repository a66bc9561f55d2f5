"""The tester reference against limits: which one speaks for a row, when it raises its doubt, and what that does."""

from __future__ import annotations

import os

import msgspec
import pytest
from record_samples import make_row

from pytest_netperf.bench.model import LinkSpec
from pytest_netperf.judge.decision import get_rule
from pytest_netperf.judge.doubt_reference import beyond, doubt_limit, limited_by, reference_facts, reference_mtu
from pytest_netperf.judge.judgement import Measured, judge
from pytest_netperf.judge.limit_text import parse_limit
from pytest_netperf.judge.limits import resolve
from pytest_netperf.judge.replay import judge_row
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.options import Options
from pytest_netperf.record import schema
from pytest_netperf.reference import Wanted, wanted
from pytest_netperf.session import NetperfSession
from pytest_netperf.tester_check import in_words, limits_beyond, references_of

MEASURED = {
    "measured_at": "2026-11-30T12:00:00+00:00",
    "host": "bench-1",
    "kernel": "6.1.0",
    "software": "iperf 3.12",
}
CABLE = LinkSpec(name="loop", speed_bps=2.5e9, simulated=True)


def veth(rate_bps: float | None = 20e9, mtu: int = 1500, **known) -> schema.TesterReference:
    return Wanted(link=None, mtu=mtu).reference(throughput_bps=rate_bps, **{**MEASURED, **known})


def cable(rate_bps: float | None = 2.35e9, mtu: int = 1500, **known) -> schema.TesterReference:
    return Wanted(link=CABLE, mtu=mtu).reference(throughput_bps=rate_bps, **{**MEASURED, **known})


def conditions(speed=2.5e9, mtu=1500, **more) -> dict[str, object]:
    return {"speed": speed, "mtu": mtu, "simulated": True, "streams": 1, **more}


def at_least(rate: str):
    return resolve(parse_limit("throughput", f">= {rate}"))


# ---- which reference speaks for a row --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mtu", "expected"), [(68, 1500), (1280, 1500), (1500, 1500), (1501, 9000), (9000, 9000), (65535, 9000)]
)
def test_the_mtu_of_a_reference_is_never_the_slower_one(mtu, expected):
    assert reference_mtu(mtu) == expected


def rate_of(references, row) -> float | None:
    return reference_facts(references, row).get("reference_bps")


def test_the_veth_pair_speaks_for_every_link_at_its_mtu():
    both = (veth(20e9), veth(26e9, mtu=9000))
    assert rate_of(both, conditions()) == 20e9
    assert rate_of(both, conditions(speed=None)) == 20e9
    assert rate_of(both, conditions(mtu=9000, simulated=False)) == 26e9
    assert reference_facts((), conditions()) == {}
    assert reference_facts((veth(),), conditions(mtu=9000)) == {}
    assert reference_facts(both, {"device": "A"}) == {}, "a row without a link has none"


def test_a_cable_speaks_for_links_of_its_speed_and_kind():
    both = (veth(), cable())
    assert rate_of(both, conditions()) == 2.35e9
    assert rate_of(both, conditions(speed=10e9)) == 20e9
    assert rate_of(both, conditions(simulated=False)) == 20e9
    assert rate_of(both, conditions(mtu=9000)) is None
    assert rate_of((veth(1e9), cable()), conditions()) == 1e9, "of several the slowest"


def test_a_reference_that_is_missing_says_why_unless_another_speaks():
    gone = cable(None, missing="no permission")
    assert reference_facts((gone,), conditions()) == {"reference_not_measured": "no permission"}
    assert rate_of((gone, veth()), conditions()) == 20e9


def test_the_facts_tell_a_stranger_everything():
    assert reference_facts((veth(stored=True, note="busy"),), conditions()) == {
        "reference_bps": 20e9,
        "reference_link": "veth pair, unshaped",
        "reference_mtu": 1500,
        "reference_measured_at": "2026-11-30T12:00:00+00:00",
        "reference_kernel": "6.1.0",
        "reference_software": "iperf 3.12",
        "reference_stored": True,
        "reference_note": "busy",
    }


# ---- the doubt -------------------------------------------------------------------------------------------------------


def facts(rate_bps=20e9, **more) -> dict[str, object]:
    return {**reference_facts((veth(rate_bps),), conditions()), "client_version": "3.12", **more}


@pytest.mark.parametrize(("low", "expected"), [(19e9, False), (20e9, False), (20.2e9, False), (20.21e9, True)])
def test_beyond_begins_one_per_cent_above(low, expected):
    assert beyond(low, 20e9) == expected


@pytest.mark.parametrize(("low", "reference"), [(None, 20e9), (20e9, None), (None, None)])
def test_nothing_is_beyond_what_is_not_known(low, reference):
    assert not beyond(low, reference)


def test_it_says_what_is_required_and_what_the_tester_did():
    doubt = doubt_limit("throughput", at_least("40 Gbps"), conditions(), facts())
    assert doubt is not None
    assert doubt.kind == "tester"
    assert doubt.text.startswith(
        "Limit above the tester reference: 40 Gbit/s are required; without the device this tester delivered 20 Gbit/s "
        "(veth pair, unshaped, MTU 1500). This tester cannot show"
    )


@pytest.mark.parametrize(
    ("quantity", "limit", "row", "known"),
    [
        ("throughput", at_least("19 Gbps"), conditions(), facts()),
        ("throughput", resolve(parse_limit("throughput", "<= 40 Gbps")), conditions(), facts()),
        ("throughput", None, conditions(), facts()),
        ("retransmits", resolve(parse_limit("retransmits", ">= 40000000000")), conditions(), facts()),
        ("throughput", at_least("40 Gbps"), conditions(), {}),
        ("throughput", at_least("40 Gbps"), conditions(), {"reference_not_measured": "off"}),
        ("throughput", at_least("40 Gbps"), conditions(), {"reference_bps": "fast"}),
        # every direction delivered what its link can: the tester did not slow it
        ("throughput", at_least("40 Gbps"), conditions(), facts(rate_explained=True)),
        # a thread for each stream can do more than the one of the reference
        ("throughput", at_least("40 Gbps"), conditions(streams=4), facts(client_version="3.16")),
    ],
)
def test_no_doubt(quantity, limit, row, known):
    assert doubt_limit(quantity, limit, row, known) is None


@pytest.mark.parametrize(
    ("row", "known"),
    [
        (conditions(streams=4), facts()),
        (conditions(streams=4), facts(client_version=None)),
        (conditions(), facts(client_version="3.20")),
        (conditions(), facts(rate_explained=False)),
    ],
)
def test_one_thread_is_held_against_it(row, known):
    assert doubt_limit("throughput", at_least("40 Gbps"), row, known) is not None


def judged(value: float) -> Verdict:
    limit = at_least("40 Gbps")
    measured = Measured(
        quantity="throughput", unit="bit/s", better="higher", value=value, trusted=True, received_bytes=1
    )
    return judge(limited_by(measured, doubt_limit("throughput", limit, conditions(), facts())), limit).verdict


def test_a_fail_becomes_inconclusive_and_a_pass_stays():
    assert judged(30e9) is Verdict.INCONCLUSIVE
    assert judged(41e9) is Verdict.PASS


def test_it_joins_what_is_known_of_the_tester_already():
    measured = Measured(
        quantity="throughput", unit="bit/s", better="higher", value=1e9, trusted=True, tester_limited="Busy."
    )
    doubt = doubt_limit("throughput", at_least("40 Gbps"), conditions(), facts())
    assert limited_by(measured, doubt).tester_limited == f"Busy. {doubt.text}"
    assert limited_by(measured, None) is measured


# ---- a journal that is judged again ----------------------------------------------------------------------------------


def recorded(**known) -> schema.Row:
    row = make_row("p1", value=2.0e9)
    more = {**reference_facts((veth(2.1e9),), conditions()), "rate_explained": False, **known}
    return msgspec.structs.replace(row, evidence=msgspec.structs.replace(row.evidence, facts=more))


@pytest.mark.parametrize(
    ("limit", "known", "verdict"),
    [
        (">= 2.3 Gbps", {}, Verdict.INCONCLUSIVE),
        (">= 2.05 Gbps", {}, Verdict.FAIL),
        (">= 1.9 Gbps", {}, Verdict.PASS),
        (">= 2.3 Gbps", {"rate_explained": True}, Verdict.FAIL),
    ],
)
def test_the_new_limit_is_held_against_the_recorded_reference(limit, known, verdict):
    found = judge_row(recorded(**known), [parse_limit("throughput", limit)], get_rule(), source="limits.toml")
    assert found.new is verdict, found.reason
    assert ("Limit above the tester reference" in found.reason) == (verdict is Verdict.INCONCLUSIVE)


def test_an_older_journal_without_a_reference_fails_as_before():
    row = make_row("p1", value=2.0e9)
    found = judge_row(row, [parse_limit("throughput", ">= 2.3 Gbps")], get_rule(), source="limits.toml")
    assert found.new is Verdict.FAIL


# ---- what a run needs ------------------------------------------------------------------------------------------------


def planned(name="p1", *, test="test_a.py::test_a", quantity="throughput", low=None, **changes) -> schema.Planned:
    row = schema.Planned(
        id=f"{test}[{name}]::{quantity}",
        test=f"{test}[{name}]",
        device=schema.DeviceInfo(serial="A"),
        link=name,
        quantity=quantity,
        limit_low=low,
        conditions={"speed": 2.5e9, "mtu": 1500},
        simulated=True,
    )
    return msgspec.structs.replace(row, **changes)


def test_nothing_is_wanted_for_rows_without_traffic_on_a_link():
    rows = [
        planned(link=None, conditions={}),
        planned(quantity="power"),
        planned(quantity="measurement"),
        planned(selected=False),
    ]
    assert wanted(rows, [CABLE]) == ()


def test_each_mtu_is_wanted_once_and_a_cable_where_its_speed_is():
    jumbo = planned(conditions={"speed": 10e9, "mtu": 9000})
    rows = [planned("a"), planned("b", quantity="retransmits"), planned("c", conditions={"mtu": 576}), jumbo]
    assert wanted(rows, []) == (Wanted(link=None, mtu=1500), Wanted(link=None, mtu=9000))
    assert wanted(rows, [CABLE])[2:] == (Wanted(link=CABLE, mtu=1500),)
    assert wanted([jumbo], [CABLE]) == (Wanted(link=None, mtu=9000),)


# ---- what is said at the start ---------------------------------------------------------------------------------------


def test_limits_that_the_tester_can_show_are_not_mentioned():
    assert limits_beyond([planned(low=2.3e9), planned(low=None)], (veth(),)) == []
    assert limits_beyond([planned(low=40e9)], ()) == []
    assert limits_beyond([planned(low=40e9)], (veth(None, missing="off"),)) == []
    assert limits_beyond([planned(low=40e9, selected=False)], (veth(),)) == []


def test_rows_of_one_test_and_limit_share_a_line():
    rows = [planned(f"p{number}", low=40e9) for number in range(300)]
    rows += [planned("x", test="test_a.py::test_b", low=50e9), planned("y", low=2.3e9)]
    lines = limits_beyond(rows, (veth(),))
    assert lines[0].startswith("WARNING: this tester cannot show that these limits are met; a FAIL of their rows")
    over = "tester reference 20 Gbit/s at MTU 1500 (veth pair, unshaped)"
    assert lines[1:-1] == [
        f"  test_a.py::test_a: 40 Gbit/s required, {over}, 300 rows",
        f"  test_a.py::test_b: 50 Gbit/s required, {over}",
    ]
    assert lines[-1].startswith("  Measure the reference again when nothing else runs (--netperf-reference)")


def test_many_limits_are_cut_short_and_counted():
    lines = limits_beyond([planned(test=f"test_a.py::test_{n}", low=40e9) for n in range(25)], (veth(),))
    assert len(lines) == 1 + 10 + 1 + 1
    assert lines[-2] == "  ... and 15 more"


def test_a_cable_that_is_slower_than_its_speed_is_named():
    lines = limits_beyond([planned(low=2.3e9)], (veth(), cable(2.0e9)))
    assert "tester reference 2 Gbit/s at MTU 1500 (cable-only link loop, 2.5G)" in lines[1]


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (veth(), "20 Gbit/s at MTU 1500 (veth pair, unshaped), iperf 3.12"),
        (veth(stored=True), "20 Gbit/s at MTU 1500 (veth pair, unshaped), iperf 3.12, stored at 2026-11-30T12:00:00"),
        (veth(note="Busy."), "iperf 3.12; it may be too low: Busy."),
        (veth(None, missing="no iperf3"), "not measured at MTU 1500 (veth pair, unshaped): no iperf3"),
        (cable(), "2.35 Gbit/s at MTU 1500 (cable-only link loop, 2.5G), iperf 3.12"),
    ],
)
def test_a_reference_on_one_line(reference, words):
    assert words in in_words(reference)


# ---- what a worker of xdist learns -----------------------------------------------------------------------------------


def worker(path: str, name: str) -> NetperfSession:
    session = NetperfSession(Options())
    session.reference_file = [path, name]
    return session


def test_a_worker_finds_what_its_controller_left():
    fd = os.memfd_create("netperf-reference-test")
    try:
        session = worker(f"/proc/{os.getpid()}/fd/{fd}", "/memfd:netperf-reference-test (deleted)")
        os.pwrite(fd, msgspec.json.encode((veth(), cable())), 0)
        assert references_of(session) == (veth(), cable())
    finally:
        os.close(fd)
    assert references_of(session) == (veth(), cable()), "it asks once"


def test_without_a_plan_there_is_nothing_to_find():
    fd = os.memfd_create("netperf-reference-test")
    try:
        path = f"/proc/{os.getpid()}/fd/{fd}"
        assert references_of(worker(path, "/memfd:netperf-reference-test (deleted)")) == ()
    finally:
        os.close(fd)


@pytest.mark.parametrize("path", ["/proc/1/fd/1234567", "/proc/self/exe", "/nowhere"])
def test_a_worker_on_another_host_has_none_and_says_so(path):
    found = references_of(worker(path, "/memfd:netperf-reference-test (deleted)"))
    assert [each.mtu for each in found] == [1500, 9000]
    facts = reference_facts(found, conditions())
    assert facts == {"reference_not_measured": "this worker runs on another host than the run that measured it"}
