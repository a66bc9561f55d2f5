"""Limits files: what a good one says, and every mistake of a bad one at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.errors import LimitError
from pytest_netperf.judge.decision import get_rule
from pytest_netperf.judge.limit_text import parse_limit
from pytest_netperf.judge.limits import LEVEL_FILE, select_limit
from pytest_netperf.judge.limits_file import parse_limits_file

GOOD = """\
# Acceptance limits of the R86S-U4
[[limit]]
source = "Data sheet 4.2: every 2.5GbE port forwards at line rate"
model = "R86S-U4"
speed = "2.5G"
mtu = [1500, 9000]
throughput = ">= 2.3 Gbps"
retransmits = "<= 50"

[[limit]]
source = "Purchase contract, annex B: 10GbE with jumbo frames"
speed = "10G"
mtu = 9000
test = "test_jumbo*"
throughput = ">= 98 % of ceiling"
"""


def refusals(text: str) -> list[str]:
    with pytest.raises(LimitError) as caught:
        parse_limits_file(text, "limits.toml")
    return str(caught.value).splitlines()


def test_a_good_file():
    rate, retransmits, jumbo = parse_limits_file(GOOD, "limits.toml")
    assert (rate.quantity, rate.low, rate.level, rate.text) == ("throughput", 2.3e9, LEVEL_FILE, ">= 2.3 Gbit/s")
    assert rate.source == "Data sheet 4.2: every 2.5GbE port forwards at line rate"
    assert rate.conditions == (("model", "R86S-U4"), ("mtu", (1500, 9000)), ("speed", 2.5e9))
    assert (retransmits.quantity, retransmits.high, retransmits.conditions) == ("retransmits", 50, rate.conditions)
    assert (jumbo.relative_to, jumbo.low) == ("ceiling", 0.98)
    actual = {"model": "R86S-U4", "speed": 2.5e9, "mtu": 9000, "test": "test_rate"}
    assert select_limit([rate, jumbo], actual) is rate
    assert select_limit([rate, jumbo], {"speed": 1e10, "mtu": 9000, "test": "test_jumbo_rate"}) is jumbo


def test_a_mark_in_the_test_wins_over_the_file():
    mark = parse_limit("throughput", ">= 1 Gbps", level=3)
    (file, *_) = parse_limits_file(GOOD, "limits.toml")
    assert select_limit([file, mark], {"model": "R86S-U4", "speed": 2.5e9, "mtu": 1500}) is mark


def test_a_byte_order_mark_is_no_mistake():
    assert len(parse_limits_file("\ufeff" + GOOD, "limits.toml")) == 3


def test_broken_toml_names_the_line():
    (only,) = refusals('[[limit]]\nsource = "x"\nthroughput = ">= 2.3 Gbps\n')
    assert only.startswith("limits.toml: this is not TOML: ")
    assert "line 3" in only


def test_a_key_written_twice_is_broken_toml():
    assert "this is not TOML" in refusals("[[limit]]\nmtu = 1500\nmtu = 9000\n")[0]


@pytest.mark.parametrize("text", ["", "# nothing\n", "limit = []\n"])
def test_an_empty_file_is_refused(text):
    assert refusals(text) == ["limits.toml: no limit is given; write at least one [[limit]] table."]


@pytest.mark.parametrize("text", ["[limit]\nthroughput = '>= 1 Gbps'\n", "limit = 5\n", "limit = ['x']\n"])
def test_single_brackets_are_explained(text):
    assert refusals(text) == ["limits.toml: limit must be tables written [[limit]], with double brackets."]


def test_a_limit_needs_its_source():
    for line in ("", "source = 5\n", "source = '  '\n"):
        (only,) = refusals(f"[[limit]]\n{line}throughput = '>= 1 Gbps'\n")
        assert "limits.toml: limit 1: source must be the sentence that says where the numbers come from" in only


def test_all_mistakes_are_listed_at_once_with_their_place():
    found = refusals(
        """\
titel = "x"
[[limit]]
source = "s"
spead = "2.5G"
mtu = "jumbo"
throughput = ">= 2.3"
[[limit]]
source = "s"
speed = "10G"
[[limits]]
x = 1
[[limit]]
retransmits = "50"
"""
    )
    assert found[0].startswith("limits.toml: 'titel' is not known here")
    assert found[1] == (
        "limits.toml: 'limits' is not known here (did you mean 'limit'?); the file holds [[limit]] tables."
    )
    rest = "\n".join(found[2:])
    assert len(found) == 8
    assert "limit 1: condition mtu: 'jumbo'" in rest
    assert "limit 1: unknown quantity 'spead'" in rest
    assert "As a condition (did you mean 'speed'?)" in rest
    assert "limit 1: throughput limit '>= 2.3': '2.3': a rate needs its unit" in rest
    assert "limit 2: nothing is limited here" in rest
    assert "limit 3: source must be" in rest
    assert "limit 3: retransmits limit '50': it does not say which way" in rest


def test_limits_that_contradict_one_another_are_found_before_anything_runs():
    table = "[[limit]]\nsource = 's'\nspeed = '2.5G'\nmtu = 1500\nthroughput = '{}'\n"
    (only,) = refusals(table.format(">= 2.3 Gbps") + table.format(">= 2.2 Gbps"))
    assert "limit 2: throughput '>= 2.2 Gbit/s' contradicts '>= 2.3 Gbit/s' of limit 1" in only
    assert "mtu 1500, speed 2.5G" in only
    (only,) = refusals("[[limit]]\nsource='s'\nthroughput='>= 1 Gbps'\n[[limit]]\nsource='s'\nthroughput='>= 2 Gbps'\n")
    assert "both for all conditions" in only
    assert len(parse_limits_file(table.format(">= 2.3 Gbps") * 2, "limits.toml")) == 2


def test_values_of_a_wrong_type_are_mistakes_not_crashes():
    found = refusals(
        "[[limit]]\nsource='s'\nthroughput = 5\nretransmits = {max = 5}\nmtu = 1979-05-27\ndevice = [[]]\nspeed = nan\n"
    )
    assert len(found) == 5
    assert all(line.startswith("limits.toml: limit 1: ") for line in found)


def test_warnings_travel_with_the_limit():
    (only,) = parse_limits_file("[[limit]]\nsource='s'\nretransmits = '>= 50'\n", "limits.toml")
    assert "did you mean '<='" in only.warnings[0]


@given(st.text(max_size=40) | st.integers(0, len(GOOD)).map(lambda cut: GOOD[:cut]))
def test_any_text_is_read_or_refused(text):
    message = "limits.toml: refused"
    try:
        limits = parse_limits_file(text, "limits.toml")
    except LimitError as error:
        message = str(error)
    else:
        assert limits
        assert all(limit.source for limit in limits)
    assert message.startswith("limits.toml: ")


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "1" * 5000, "a = \x00", "\ud800"])
def test_hostile_text_is_refused_too(text):
    assert refusals(text)[0].startswith("limits.toml: this is not TOML")


# ---- statistics ------------------------------------------------------------------------------------------------------


def test_a_list_limits_several_statistics_of_one_quantity():
    texts = [">= 2.3 Gbps", "p5 of intervals >= 2.2 Gbps", ">= 2 Gbps in 4 of 5 runs"]
    found = parse_limits_file(f"[[limit]]\nsource = 's'\nthroughput = {texts}\n", "limits.toml")
    assert [limit.key for limit in found] == ["throughput", "throughput.p5", "throughput.4-of-5-runs"]


def test_statistics_contradict_only_themselves():
    mean = "[[limit]]\nsource = 's'\nthroughput = '>= 2.3 Gbps'\n"
    slow = "[[limit]]\nsource = 's'\nthroughput = '{} of intervals >= {} Gbps'\n"
    assert len(parse_limits_file(mean + slow.format("p5", 2) + slow.format("p50", 2.3), "limits.toml")) == 3
    (only,) = refusals(mean + slow.format("p5", 2) + slow.format("p5", 2.1))
    assert "'p5 of intervals >= 2.1 Gbit/s' contradicts 'p5 of intervals >= 2 Gbit/s' of limit 2" in only
    (only,) = refusals("[[limit]]\nsource = 's'\nthroughput = ['>= 1 Gbps', '>= 2 Gbps']\n")
    assert "limit 1: throughput is limited twice here" in only
    (only,) = refusals("[[limit]]\nsource = 's'\nthroughput = []\n")
    assert "limit 1: throughput limit []: a limit is text, not list" in only


# ---- decision rules --------------------------------------------------------------------------------------------------

TABLE = "[[limit]]\nsource = 's'\nthroughput = '>= 2.3 Gbps'\n"
VENDOR, BUYER, SIMPLE = get_rule("guarded", "vendor"), get_rule("guarded", "buyer"), get_rule()


@pytest.mark.parametrize(
    ("top", "inside", "rule"),
    [
        ("", "", None),
        ("", "rule = 'guarded'\nrole = 'vendor'\n", VENDOR),
        ("", "rule = 'simple'\n", SIMPLE),
        ("rule = 'guarded'\nrole = 'buyer'\n", "", BUYER),
        ("rule = 'guarded'\nrole = 'buyer'\n", "rule = 'simple'\n", SIMPLE),
        ("rule = 'guarded'\nrole = 'buyer'\n", "role = 'vendor'\n", VENDOR),
        ("rule = 'guarded'\nrole = 'buyer'\n", "rule = 'guarded'\n", BUYER),
        ("rule = 'guarded'\nrole = 'buyer'\n", "rule = 'guarded'\nrole = 'vendor'\n", VENDOR),
        ("rule = 'simple'\n", "rule = 'guarded'\nrole = 'vendor'\n", VENDOR),
        ("rule = 'simple'\n", "", SIMPLE),
    ],
)
def test_the_rule_of_a_table_is_its_own_or_that_of_the_file(top, inside, rule):
    (only,) = parse_limits_file(f"{top}{TABLE}{inside}", "limits.toml")
    assert only.rule == rule
    assert only.conditions == ()


def test_each_limit_of_a_table_has_its_rule_and_other_tables_have_not():
    text = (
        f"{TABLE}retransmits = '<= 5'\nrule = 'guarded'\nrole = 'vendor'\n[[limit]]\nsource = 's'\npower = '<= 9 W'\n"
    )
    assert [limit.rule for limit in parse_limits_file(text, "limits.toml")] == [VENDOR, VENDOR, None]


@pytest.mark.parametrize(
    ("top", "inside", "says"),
    [
        ("", "rule = 'guarded'\n", "limits.toml: limit 1: the guarded rule needs a role: vendor"),
        ("", "rule = 'strict'\n", "limit 1: unknown decision rule 'strict'"),
        ("", "rule = 'gaurded'\nrole = 'vendor'\n", "(did you mean 'guarded'?)"),
        ("", "rule = 'guarded'\nrole = 'seller'\n", "limit 1: unknown role 'seller'"),
        ("", "rule = 'simple'\nrole = 'vendor'\n", "role 'vendor' has no meaning under the simple rule"),
        ("", "role = 'vendor'\n", "role 'vendor' alone names no rule; write rule = 'guarded' beside it"),
        ("", "rule = 5\n", "limit 1: rule must be text, one of 'simple', 'guarded'; found 5"),
        ("", "rule = 'guarded'\nrole = ['vendor']\n", "role must be text, one of 'vendor', 'buyer'; found ['vendor']"),
        ("rule = 'guarded'\n", "", "limits.toml: the guarded rule needs a role"),
        ("role = 'vendor'\n", "", "limits.toml: role 'vendor' alone names no rule"),
        ("rule = 'strict'\n", "", "limits.toml: unknown decision rule 'strict'"),
        ("rule = 'simple'\n", "role = 'vendor'\n", "limit 1: role 'vendor' has no meaning under the simple rule"),
        ("roll = 'vendor'\n", "", "'roll' is not known here (did you mean 'role'?)"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_place(top, inside, says):
    found = refusals(f"{top}{TABLE}{inside}")
    assert len(found) == 1, found
    assert says in found[0]


def test_the_same_limit_by_two_rules_contradicts_itself():
    (only,) = refusals(f"{TABLE}rule = 'simple'\n{TABLE}rule = 'guarded'\nrole = 'vendor'\n")
    assert "contradicts '>= 2.3 Gbit/s' by another rule of limit 1" in only
    assert len(parse_limits_file(f"{TABLE}rule = 'simple'\n{TABLE}rule = 'simple'\n", "limits.toml")) == 2


def test_two_rules_that_meet_only_in_a_measurement_are_refused_there():
    one, other = parse_limits_file(
        f"{TABLE}speed = '1G'\nrule = 'simple'\n{TABLE}mtu = 1500\nrule = 'guarded'\nrole = 'vendor'\n", "limits.toml"
    )
    with pytest.raises(LimitError, match=r"'>= 2.3 Gbit/s' by rule guarded \(vendor\) for mtu 1500"):
        select_limit([one, other], {"speed": 1e9, "mtu": 1500})
