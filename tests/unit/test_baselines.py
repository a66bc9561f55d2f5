"""Baselines: which one a limit means, what is expected of a measurement, and how a golden device becomes one."""

from __future__ import annotations

import json
import re

import pytest
from record_samples import RUN, make_row, plan_of

from pytest_netperf import cli
from pytest_netperf.bench.model_profile import load_baselines, parse_profile
from pytest_netperf.errors import BenchError, LimitError
from pytest_netperf.judge.assessment import assess_limits
from pytest_netperf.judge.baselines import Baselines, expected_text
from pytest_netperf.judge.decision import get_rule
from pytest_netperf.judge.judgement import Measured
from pytest_netperf.judge.limit_text import parse_limit
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import Evidence
from pytest_netperf.record.sheet_file import sealed, sheet_bytes

SHIPPED = Baselines(load_baselines())
TRAFFIC = {"protocol": "tcp", "direction": "forward", "streams": 1, "ip_version": 4, "simulated": True}
U4 = {**TRAFFIC, "model": "R86S-U4", "speed": 10e9, "mtu": 1500, "topology": "routed"}
G2 = {**TRAFFIC, "model": "R86S-G2", "speed": 2.5e9, "mtu": 9216, "mss": 216, "topology": "pair"}
APU = {**TRAFFIC, "model": "APU1", "speed": 1e9, "mtu": 1500, "topology": "routed"}


def limit(text, quantity="throughput", **conditions):
    return parse_limit(quantity, text, conditions=conditions)


@pytest.mark.parametrize(
    ("text", "conditions", "value"),
    [
        (">= 95 % of baseline plain", U4, 8.32e9),
        (">= 95 % of baseline plain", {**U4, "mtu": 9000}, 9.89e9),
        (">= 95 % of baseline R86S-U4/plain", {**U4, "model": "other"}, 8.32e9),
        (">= 95 % of baseline R86S-U4", U4, 8.32e9),
        (">= 95 % of baseline R86S-U4", {**U4, "device_state": "ips"}, 0.921e9),
        (">= 40 % of baseline plain", {**U4, "device_state": "ips", "topology": "pair"}, 8.32e9),
        (">= 95 % of baseline pair", G2, 1.62 * 2**30),
        (">= 95 % of baseline pair", {**G2, "zerocopy": True, "mss": 88}, 0.99 * 2**30),
        (">= 95 % of baseline routing", {**APU, "streams": 10, "mss": 600}, 782e6),
        (">= 95 % of baseline routing", APU, 937e6),
    ],
)
def test_the_conditions_choose_the_value(text, conditions, value):
    assert SHIPPED.find(limit(text), conditions).value == value


@pytest.mark.parametrize(
    ("text", "conditions", "says"),
    [
        (
            ">= 95 % of baseline plain",
            {**U4, "mss": 536},
            "no throughput for the conditions of this measurement; it has",
        ),
        (">= 95 % of baseline plain", {**U4, "protocol": "udp"}, "for the conditions of this measurement"),
        (">= 95 % of baseline plain", {**U4, "speed": 1e9}, "8.32 Gbit/s for device_state plain, mtu 1500, speed 10G"),
        (">= 95 % of baseline plain", {**U4, "streams": 4}, "for the conditions of this measurement"),
        (">= 95 % of baseline plain", {**U4, "direction": "reverse"}, "for the conditions of this measurement"),
        (">= 95 % of baseline plain", {**U4, "ip_version": 6}, "for the conditions of this measurement"),
        (">= 95 % of baseline plane", U4, "there is no baseline 'plane' of model 'R86S-U4' (did you mean 'plain'"),
        (">= 95 % of baseline plain", {**U4, "model": None}, "so write MODEL/NAME"),
        (">= 95 % of baseline R86S-U5/plain", U4, "did you mean 'R86S-U4/"),
        (">= 95 % of baseline idle", U4, "baseline idle has no throughput; it has temperature, power"),
    ],
)
def test_no_baseline_is_taken_for_another(text, conditions, says):
    with pytest.raises(LimitError) as refusal:
        SHIPPED.find(limit(text), conditions)
    assert says in str(refusal.value)


def test_several_that_fit_equally_well_decide_nothing():
    """What a test records by hand has no streams: 1 and 10 of them were published."""
    by_hand = {key: value for key, value in APU.items() if key not in TRAFFIC}
    with pytest.raises(LimitError, match="several values of baseline routing fit this measurement equally well"):
        SHIPPED.find(limit("<= 110 % of baseline routing", "dut_cpu"), by_hand)
    assert SHIPPED.find(limit("<= 110 % of baseline idle", "power"), {"model": "R86S-U4"}).value == 14


def test_refused_before_anything_runs():
    known = {"model": "R86S-U4", "speed": 10e9, "simulated": True}
    SHIPPED.refuse_unknown([limit(">= 95 % of baseline plain"), limit(">= 1 Gbps")], known)
    SHIPPED.refuse_unknown([limit(">= 95 % of baseline plane", speed="1G")], known)  # never applies
    with pytest.raises(LimitError, match="did you mean 'plain'"):
        SHIPPED.refuse_unknown([limit(">= 95 % of baseline plane", speed="10G")], known)


# ---- what is expected ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quantity", "conditions", "value"),
    [
        ("throughput", U4, 8.32e9),
        ("retransmits", U4, 2424),
        ("throughput", {**U4, "device_state": "dpi"}, 3.11e9),
        ("throughput", {**U4, "topology": "pair"}, None),
        ("throughput", {**U4, "model": None}, None),
        ("throughput", {**U4, "mss": 1460}, None),
        ("jitter", U4, None),
        ("temperature", {"model": "R86S-U4"}, None),  # of idle and of load: of what else nobody knows
        ("wire_rate", {**APU, "mss": 600}, 920e6),
        ("dut_cpu", {**APU, "device_state": "nat", "streams": 10}, 0.65),
    ],
)
def test_expected_of_the_same_model_under_the_same_conditions(quantity, conditions, value):
    found = SHIPPED.expected(quantity, None, conditions)
    assert (None if found is None else found.value) == value


def test_what_is_expected_says_where_it_comes_from():
    text = expected_text(SHIPPED.expected("throughput", None, G2))
    assert text.startswith("R86S-G2/pair: Table of goodput by MSS: 1.62 at 216; Ubuntu 22.04")
    assert "read as Gibit/s" in text


def test_a_sweep_of_published_values():
    points = SHIPPED.of_sweep("throughput", "mss", {**G2, "speed": 10e9, "zerocopy": True})
    assert [(mss, round(each.value / 2**30, 2)) for mss, each in points] == [
        (88, 1.74), (216, 3.89), (472, 7.41), (984, 5.97), (1240, 8.25), (1478, 8.77), (3960, 9.1), (7960, 9.2),
        (8960, 9.21), (9176, 9.21),
    ]  # fmt: skip


# ---- files -----------------------------------------------------------------------------------------------------------

FILE = """
model = "R86S-U4"
source = "golden"
[[baseline]]
name = "golden"
test = "x"
quantity = "throughput"
value = 2.0e9
speed = "2.5G"
simulated = true
source = "y"
[[baseline]]
name = "golden"
test = "x"
quantity = "throughput"
statistic = "p5 of intervals"
value = 1.9e9
speed = "2.5G"
simulated = true
source = "y"
"""


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "golden.toml"
    path.write_text(FILE)
    return path


def test_a_file_of_the_users(golden):
    known = Baselines(load_baselines([golden]))
    here = {**U4, "speed": 2.5e9}
    assert known.find(limit(">= 95 % of baseline golden"), here).value == 2.0e9
    assert known.find(limit("p5 of intervals >= 95 % of baseline golden"), here).value == 1.9e9
    assert known.find(limit("min interval >= 95 % of baseline golden"), here).value == 2.0e9, "of the mean"
    assert known.find(limit(">= 95 % of baseline plain"), U4).value == 8.32e9, "the published ones stay"


def test_what_was_simulated_says_nothing_about_a_real_device(golden):
    known = Baselines(load_baselines([golden]))
    real = {**U4, "speed": 2.5e9, "simulated": False}
    for refuse in (
        lambda: known.find(limit(">= 95 % of baseline golden"), real),
        lambda: known.refuse_unknown([limit(">= 95 % of baseline golden")], {"model": "R86S-U4", "simulated": False}),
    ):
        with pytest.raises(LimitError, match="baseline golden was measured on simulated links"):
            refuse()
    assert known.expected("throughput", None, {**real, "topology": "pair"}) is None


def test_a_name_of_the_users_takes_the_place_of_a_published_one(golden):
    golden.write_text(FILE.replace('"golden"', '"plain"', 2).replace('name = "golden"', 'name = "plain"'))
    known = [each for each in load_baselines([golden]) if (each.model, each.name) == ("R86S-U4", "plain")]
    assert {each.value for each in known} == {2.0e9, 1.9e9}


def test_files_that_are_none(golden, tmp_path):
    (tmp_path / "again.toml").write_text(FILE)
    with pytest.raises(BenchError, match=r"again.toml|golden.toml"):
        load_baselines([tmp_path])
    with pytest.raises(BenchError, match="cannot be read: No such file"):
        load_baselines([tmp_path / "none.toml"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(BenchError, match="there is no file of baselines"):
        load_baselines([tmp_path / "empty"])
    golden.write_text('model = "X"\nsource = "y"\n[[port]]\nname="a"\ncount=1\nspeed="1G"\ndrivers=["igb"]\n')
    with pytest.raises(BenchError, match=r"there is no \[\[baseline\]\] table in this file"):
        load_baselines([golden])


# ---- judged ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text", "verdict", "says"),
    [
        (8.0e9, ">= 95 % of baseline plain", Verdict.PASS, "95 % of baseline plain"),
        (7.9e9, ">= 95 % of baseline plain", Verdict.FAIL, "below the required 7.904 Gbit/s, 95 % of baseline plain"),
        (9e9, ">= 95 % of baseline burn-in", Verdict.INCONCLUSIVE, "there is no baseline 'burn-in' of model 'R86S-U4'"),
    ],
)
def test_judged_against_a_baseline(value, text, verdict, says):
    measured = Measured(quantity="throughput", unit="bit/s", better="higher", value=value, trusted=True)
    found = assess_limits(measured, [limit(text)], Evidence(), U4, get_rule("simple", None), baselines=SHIPPED)
    assert found.judgement.verdict is verdict
    assert says in found.judgement.reason


# ---- the command -----------------------------------------------------------------------------------------------------


def write_sheet(tmp_path, *rows, **changes):
    import msgspec

    sheet = {
        "schema_version": "1.0",
        "run_id": "R1",
        "complete": True,
        "device": {"serial": "GOLD", "model": "BOX", "firmware": "RouterOS 7"},
        "rows": msgspec.to_builtins(rows),
        **changes,
    }
    path = tmp_path / "sheet.json"
    path.write_text(json.dumps(sheet))
    return path


def test_a_golden_device_becomes_a_baseline(tmp_path, capsys):
    twice = make_row("p4", value=2.2e9, test="t.py::test_rate[GOLD/p4]")
    sheet = write_sheet(
        tmp_path,
        make_row("p1", value=2.35e9, uncertainty=1e6, conditions={**G2, "mss": 1240, "zerocopy": False}),
        make_row("p2", value=2.1e9, statistic="p5 of intervals", simulated=True),
        make_row("p3", Verdict.FAIL, 2.0e9),
        twice,
        twice,
        make_row('p"\\\x7f\n5', value=2.3e9),
    )
    out = tmp_path / "golden.toml"
    assert cli.main(["baseline", "record", str(sheet), "-o", str(out), "--name", "golden"]) == 0
    said = capsys.readouterr().out
    assert said.count("left out") == 3
    assert "3 baselines of BOX, 1 of them SIMULATED" in said
    profile = parse_profile(out.read_text(), out)
    first, second, odd = profile.baselines
    assert (first.model, first.name, first.value, first.uncertainty, first.os) == (
        "BOX",
        "golden",
        2.35e9,
        1e6,
        "RouterOS 7",
    )
    assert first.conditions == {
        "speed": 2.5e9, "mtu": 9216, "mss": 1240, "streams": 1, "direction": "forward", "protocol": "tcp",
        "ip_version": 4, "zerocopy": False, "topology": "pair", "link": "p1", "test": "test_line_rate",
    }  # fmt: skip
    assert (second.statistic, second.simulated, first.simulated) == ("p5 of intervals", True, False)
    assert odd.conditions["link"] == 'p"\\\x7f\n5'
    known = Baselines(load_baselines([out]))
    here = {**G2, "model": "BOX", "mss": 1240, "link": "p1", "test": "test_line_rate", "simulated": False}
    assert known.find(limit(">= 95 % of baseline golden"), here) == first
    with pytest.raises(LimitError, match="for the conditions"):
        known.find(limit(">= 95 % of baseline golden"), {**here, "link": "p9"})
    assert cli.main(["baseline", "record", str(sheet), "-o", str(out)]) == 2
    assert "it is not overwritten" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"complete": False}, "this sheet is INCOMPLETE"),
        ({"device": {"serial": "GOLD"}}, "device GOLD has no model"),
        ({"rows": []}, "no row of this sheet can be a baseline"),
        ({"schema_version": "9.0"}, "its schema version is 9.0"),
        ({"schema_version": None}, "this is no sheet.json"),
        ({"rows": 3}, "this is no sheet.json"),
    ],
)
def test_sheets_that_make_no_baseline(tmp_path, capsys, monkeypatch, changes, says):
    monkeypatch.chdir(tmp_path)
    sheet = write_sheet(tmp_path, make_row(), **changes)
    assert cli.main(["baseline", "record", str(sheet)]) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.glob("*.toml"))


def test_a_sheet_that_was_altered(tmp_path, capsys):
    (sheet,) = build_sheets(RUN, plan_of([make_row()]), [make_row()], complete=True)
    path = tmp_path / "sheet.json"
    path.write_bytes(sheet_bytes(sealed(sheet)))
    command = ["baseline", "record", str(path), "-o", str(tmp_path / "golden.toml")]
    assert cli.main(command) == 0
    (found,) = load_baselines([tmp_path / "golden.toml"])[-1:]
    assert (found.model, found.value) == ("R86S-U4", 2.35e9)
    (tmp_path / "golden.toml").unlink()
    path.write_bytes(path.read_bytes().replace(b"2350000000", b"2360000000"))
    assert cli.main(command) == 2
    assert "this sheet was altered after it was written" in capsys.readouterr().err
    assert not (tmp_path / "golden.toml").exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", "\0"])
def test_files_that_are_no_sheet(tmp_path, capsys, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    assert cli.main(["baseline", "record", str(path)]) == 2
    assert cli.main(["baseline", "record", str(tmp_path / "none.json")]) == 2
    assert re.search(r"x\.json: this is no sheet.*\n.*none\.json: cannot be read", capsys.readouterr().err)


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "x" * 101])
def test_names_that_are_none(tmp_path, capsys, name):
    assert cli.main(["baseline", "record", str(write_sheet(tmp_path, make_row())), "--name", name]) == 2
    assert "must be a short text without a slash" in capsys.readouterr().err


def test_the_list(golden, capsys):
    assert cli.main(["baseline", "list", "R86S-U4", "--baseline", str(golden)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        "R86S-U4/plain  throughput  2.35 Gbit/s  (device_state plain, mtu 1500, speed 2.5G, topology routed)" in lines
    )
    assert "R86S-U4/golden  p5 of intervals throughput  1.9 Gbit/s  (speed 2.5G)  SIMULATED" in lines
    assert not any(line.startswith("APU1") for line in lines)
    assert cli.main(["baseline", "list", "R86S-V4"]) == 2
    assert "did you mean 'R86S-U4'" in capsys.readouterr().err
