"""Limits: reading every form, refusing every wrong one, choosing the one that applies, turning it into numbers."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.errors import ConfigError, LimitError, QuantityError
from pytest_netperf.judge.conditions import CONDITION_KEYS, describe, parse_conditions
from pytest_netperf.judge.limit_text import is_limit_text, parse_limit, read_limits
from pytest_netperf.judge.limits import Limit, ResolvedLimit, applies, check_possible, resolve, select_limit


def limit(quantity="throughput", text=">= 2.3 Gbps", level=0, source=None, **conditions) -> Limit:
    return parse_limit(quantity, text, conditions=conditions, level=level, source=source)


@pytest.mark.parametrize(
    ("quantity", "text", "low", "high", "canonical"),
    [
        ("throughput", ">= 9.8 Gbps", 9.8e9, None, ">= 9.8 Gbit/s"),
        ("throughput", ">=9.8Gbps", 9.8e9, None, ">= 9.8 Gbit/s"),
        ("throughput", "\u2265 9.8 Gbit/s", 9.8e9, None, ">= 9.8 Gbit/s"),
        ("goodput", ">= 2.3 Gibit/s", 2469606195.2, None, ">= 2.4696061952 Gbit/s"),
        ("retransmits", "<= 50", None, 50, "<= 50"),
        ("retransmits", "<= 0", None, 0, "<= 0"),
        ("retransmits", "\u226450", None, 50, "<= 50"),
        ("throughput", "between 2.3 and 2.5 Gbps", 2.3e9, 2.5e9, "between 2.3 Gbit/s and 2.5 Gbit/s"),
        ("throughput", "between 2.3 Gbps and 2.5 Gbps", 2.3e9, 2.5e9, "between 2.3 Gbit/s and 2.5 Gbit/s"),
        ("throughput", "between  900 Mbps\nand 2.5 Gbps", 9e8, 2.5e9, "between 900 Mbit/s and 2.5 Gbit/s"),
        ("retransmits", "between 0 and 50", 0, 50, "between 0 and 50"),
        ("temperature", "between -5 and 60 degC", -5, 60, "between -5 \u00b0C and 60 \u00b0C"),
        ("temperature", ">= -10 degC", -10, None, ">= -10 \u00b0C"),
        ("frame_loss_ratio", "<= 0.1 %", None, 0.001, "<= 0.1 %"),
        ("jitter", "<= 200 us", None, 200e-6, "<= 200 us"),
        ("power", "<= 15 W", None, 15, "<= 15 W"),
        ("mtu", ">= 9000 B", 9000, None, ">= 9000 B"),
    ],
)
def test_absolute_limits(quantity, text, low, high, canonical):
    found = parse_limit(quantity, text)
    assert (found.low, found.high, found.relative_to, found.text) == (low, high, None, canonical)
    assert found.quantity == {"goodput": "throughput"}.get(quantity, quantity)
    again = parse_limit(quantity, found.text)
    assert (again.low, again.high) == (low, high)


@pytest.mark.parametrize(
    ("quantity", "text", "low", "high", "base", "canonical"),
    [
        ("throughput", ">= 98 % of ceiling", 0.98, None, "ceiling", ">= 98 % of ceiling"),
        ("throughput", ">= 98% of the ceiling", 0.98, None, "ceiling", ">= 98 % of ceiling"),
        ("throughput", ">= 94 % of link speed", 0.94, None, "link speed", ">= 94 % of link speed"),
        ("throughput", "between 90 and 100 % of ceiling", 0.9, 1, "ceiling", "between 90 % and 100 % of ceiling"),
        ("frame_rate", ">= 99 % of ceiling", 0.99, None, "ceiling", ">= 99 % of ceiling"),
        ("throughput", ">= 95 % of baseline v1.2", 0.95, None, "baseline:v1.2", ">= 95 % of baseline v1.2"),
        (
            "rtt_p99",
            "<= 110 % of baseline golden unit",
            None,
            1.1,
            "baseline:golden unit",
            "<= 110 % of baseline golden unit",
        ),
    ],
)
def test_relative_limits(quantity, text, low, high, base, canonical):
    found = parse_limit(quantity, text)
    assert (found.low, found.high, found.relative_to, found.text) == (low, high, base, canonical)
    assert parse_limit(quantity, canonical).text == canonical


@pytest.mark.parametrize(
    ("quantity", "text", "says"),
    [
        ("throughput", "> 9.8 Gbps", "'>' is not used here; use '>='"),
        ("retransmits", "< 50", "'<' is not used here; use '<='"),
        ("throughput", "=> 9.8 Gbps", "write '>='"),
        ("throughput", "=< 9.8 Gbps", "write '<='"),
        ("throughput", "== 9.8 Gbps", "use 'between a and b'"),
        ("throughput", "!= 9.8 Gbps", "a limit says what is allowed"),
        ("throughput", "~ 9.8 Gbps", "'~' is not used here; Write '>= 9.8 Gbps'"),
        ("throughput", "9.8 Gbps", "it does not say which way"),
        ("throughput", "", "it does not say which way"),
        ("throughput", "at least 9.8 Gbps", "it does not say which way"),
        ("throughput", "between 2.3 Gbps", "it does not say which way"),
        ("retransmits", 50, "a limit is text, not int"),
        ("retransmits", None, "a limit is text, not NoneType"),
        ("retransmits", ["<= 50"], "a limit is text, not list"),
        ("throughput", ">= 9.8", "a rate needs its unit"),
        ("throughput", ">= 9.8 gbps", "did you mean 'Gbps'?"),
        ("throughput", ">= Gbps", "the number is missing"),
        ("throughput", ">=", "empty, expected a rate"),
        ("throughput", ">= nan Gbps", "must be a finite number"),
        ("throughput", "<= inf Gbps", "must be a finite number"),
        ("throughput", ">= -1 Gbps", "cannot be negative"),
        ("throughput", ">= 0 Gbps", "could never fail"),
        ("retransmits", ">= 0", "could never fail"),
        ("throughput", ">= 0 % of ceiling", "could never fail"),
        ("throughput", "<= 0 % of baseline x", "0 % of anything is zero"),
        ("throughput", ">= 2 s", "unit of time, expected a rate"),
        ("retransmits", "<= 50 %", "a count takes no unit"),
        ("throughput", "between 5 Gbps and 3 Gbps", "contradictory bounds, no value is both"),
        ("throughput", "between 5 and 3 Gbps", "contradictory bounds, no value is both"),
        ("throughput", "between 3 and 3 Gbps", "the bounds are equal"),
        ("throughput", "between 3 and 5", "a rate needs its unit"),
        ("throughput", ">= 2 Gbps <= 3 Gbps", "two bounds are written 'between a and b'"),
        ("throughput", ">= 2 Gbps and <= 3 Gbps", "two bounds are written 'between a and b'"),
        ("throughput", "between 1 and 2 and 3 Gbps", "two bounds are written 'between a and b'"),
        ("throughput", ">= 101 % of ceiling", "101 % of ceiling can never be reached"),
        ("throughput", ">= 120 % of link speed", "120 % of link speed can never be reached"),
        ("throughput", ">= 0.98 of ceiling", "a ratio needs its unit"),
        ("throughput", ">= 9.8 Gbps of ceiling", "'Gbps' is a unit of rate, expected a ratio"),
        ("throughput", ">= 98 % of cieling", "'of' what?"),
        ("throughput", ">= 98 % of baseline", "'of' what?"),
        ("retransmits", "<= 98 % of ceiling", "retransmits has no ceiling"),
        ("power", "<= 98 % of link speed", "power has no link speed to relate to"),
        ("frame_rate", ">= 98 % of link speed", "frame_rate has no link speed"),
    ],
)
def test_a_wrong_limit_is_refused_with_its_own_message(quantity, text, says):
    with pytest.raises(LimitError) as caught:
        parse_limit(quantity, text)
    assert says in str(caught.value)
    assert repr(text) in str(caught.value)
    assert quantity in str(caught.value)


def test_an_unknown_quantity_is_refused_with_near_misses():
    with pytest.raises(QuantityError, match="did you mean 'throughput'"):
        parse_limit("troughput", ">= 9.8 Gbps")


@pytest.mark.parametrize(
    ("quantity", "text", "warns"),
    [
        ("retransmits", ">= 50", "did you mean '<='"),
        ("jitter", ">= 1 ms", "did you mean '<='"),
        ("throughput", "<= 9.8 Gbps", "did you mean '>='"),
        ("throughput", ">= 9.8 Gbps", None),
        ("retransmits", "<= 50", None),
        ("throughput", "between 1 and 2 Gbps", None),
        ("retransmits", "between 1 and 2", None),
    ],
)
def test_a_limit_the_wrong_way_round_warns(quantity, text, warns):
    found = parse_limit(quantity, text).warnings
    assert len(found) == (warns is not None)
    if warns:
        assert warns in found[0]
        assert text in found[0]


# ---- conditions ------------------------------------------------------------------------------------------------------


def test_conditions_are_checked_and_kept_in_one_form():
    found = limit(speed="2.5G", mtu=[1500, 9000], direction="reverse", simulated=False, link="sfp*").conditions
    assert found == (
        ("direction", "reverse"),
        ("link", "sfp*"),
        ("mtu", (1500, 9000)),
        ("simulated", False),
        ("speed", 2.5e9),
    )
    assert describe(found) == "direction reverse, link sfp*, mtu 1500 or 9000, simulated False, speed 2.5G"
    assert describe(()) == ""
    assert limit(mtu=[1500]).conditions == (("mtu", 1500),)


@pytest.mark.parametrize(
    ("conditions", "says"),
    [
        ({"spead": "2.5G"}, "unknown condition 'spead' (did you mean 'speed'?)"),
        ({"throughput": 5}, "unknown condition 'throughput'"),
        ({"speed": 2.5}, "condition speed: 2.5: a link speed is written as text"),
        ({"speed": "2.5"}, "a link speed needs its unit"),
        ({"mtu": "jumbo"}, "condition mtu: 'jumbo'"),
        ({"mtu": 0}, "must be above zero"),
        ({"mtu": True}, "not as bool"),
        ({"mtu": []}, "the list is empty, so the limit would never apply"),
        ({"mtu": [1500, "x"]}, "condition mtu: 'x'"),
        ({"streams": 0}, "at least 1"),
        ({"streams": "4"}, "at least 1"),
        ({"direction": "backward"}, "expected 'forward' or 'reverse' or 'bidirectional'"),
        ({"protocol": "icmp"}, "expected 'tcp' or 'udp'"),
        ({"ip_version": 5}, "expected 4 or 6"),
        ({"topology": "star"}, "expected 'pair'"),
        ({"simulated": "yes"}, "expected true or false"),
        ({"simulated": 1}, "expected true or false"),
        ({"device": 7}, "expected a text that is not empty"),
        ({"device": " "}, "expected a text that is not empty"),
    ],
)
def test_a_wrong_condition_is_refused(conditions, says):
    with pytest.raises(LimitError) as caught:
        parse_conditions(conditions)
    assert says in str(caught.value)


ACTUAL = {
    "speed": 2.5e9,
    "mtu": 1500,
    "direction": "forward",
    "protocol": "tcp",
    "streams": 4,
    "link": "p2",
    "device": "R86S-U4-0007",
    "model": "R86S-U4",
    "simulated": True,
    "ip_version": 4,
    "topology": "pair",
    "test": "TestPort::test_rate",
}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, True),
        ({"speed": "2.5G"}, True),
        ({"speed": "2500 Mbps"}, True),
        ({"speed": "10G"}, False),
        ({"speed": ["10G", "2.5G"]}, True),
        ({"mtu": [1500, 9000]}, True),
        ({"mtu": 9000}, False),
        ({"link": "p*"}, True),
        ({"link": "p[13]"}, False),
        ({"link": ["sfp", "p?"]}, True),
        ({"device": "R86S-*-0007"}, True),
        ({"device": "r86s-*"}, False),
        ({"model": "R86S-U4"}, True),
        ({"simulated": True}, True),
        ({"simulated": False}, False),
        ({"test": "test_rate"}, True),
        ({"test": "TestPort::test_rate"}, True),
        ({"test": "test_*"}, True),
        ({"test": "test_jumbo"}, False),
        ({"speed": "2.5G", "mtu": 9000}, False),
        ({"streams": 4, "direction": "forward", "protocol": "tcp", "ip_version": 4, "topology": "pair"}, True),
        ({"ring": "rx 512*"}, False),  # no test asked for it
        ({"mss": 600}, False),  # not known of this run: it does not apply
        ({"media": "dac"}, False),
    ],
)
def test_when_a_limit_applies(conditions, expected):
    assert applies(limit(**conditions), ACTUAL) is expected
    assert (select_limit([limit(**conditions)], ACTUAL) is not None) is expected
    set_to = {**ACTUAL, "ring": "rx 512, tx 64", "offloads": "tso off"}
    assert applies(limit(ring="rx 512*", offloads=["tso off", "gro off"]), set_to)
    assert not applies(limit(ring="rx 64*"), set_to)


def test_before_the_run_what_is_not_known_yet_may_still_apply():
    early = {"speed": 2.5e9, "mtu": 1500, "mss": None}
    assert not applies(limit(direction="reverse"), early)
    assert applies(limit(direction="reverse"), early, unknown_matches=True)
    assert applies(limit(mss=600), early, unknown_matches=True)
    assert not applies(limit(direction="reverse", speed="10G"), early, unknown_matches=True)


def test_a_name_with_brackets_matches_itself():
    assert applies(limit(link="lan[1]"), {"link": "lan[1]"})
    assert not applies(limit(link="lan[2]"), {"link": "lan[1]"})


def test_speeds_of_the_run_may_be_text():
    assert applies(limit(speed="2.5G"), {"speed": "2.5 Gbit/s"})


def test_a_flag_is_no_number():
    assert not applies(limit(streams=1), {"streams": True})


# ---- choosing --------------------------------------------------------------------------------------------------------


def test_the_closest_limit_wins_then_the_most_specific():
    module = limit(text=">= 1 Gbps", level=2, speed="2.5G", mtu=1500)
    klass = limit(text=">= 2 Gbps", level=1)
    function = limit(text=">= 2.1 Gbps")
    special = limit(text=">= 2.2 Gbps", speed="2.5G")
    elsewhere = limit(text=">= 9 Gbps", speed="10G", mtu=9000)
    file = limit(text=">= 2.3 Gbps", level=9, speed="2.5G", mtu=1500, direction="forward")
    every = [file, module, klass, function, special, elsewhere]
    for shuffled in (every, every[::-1]):
        assert select_limit(shuffled, ACTUAL) is special
    assert select_limit([file, module, klass, function], ACTUAL) is function
    assert select_limit([file, module, klass, elsewhere], ACTUAL) is klass
    assert select_limit([file, module, elsewhere], ACTUAL) is module
    assert select_limit([file, elsewhere], ACTUAL) is file
    assert select_limit([elsewhere], ACTUAL) is None
    assert select_limit([], ACTUAL) is None


def test_two_limits_with_equal_right_are_refused_naming_both():
    first = limit(text=">= 2.3 Gbps", source="marks of test_rate", speed="2.5G")
    second = limit(text=">= 2.0 Gbps", source="the other mark", mtu=1500)
    with pytest.raises(LimitError) as caught:
        select_limit([first, second], ACTUAL)
    for part in ("'>= 2.3 Gbit/s' for speed 2.5G (marks of test_rate)", "'>= 2 Gbit/s' for mtu 1500 (the other mark)"):
        assert part in str(caught.value)
    with pytest.raises(LimitError):
        select_limit([limit(text=">= 98 % of ceiling"), limit(text=">= 98 % of link speed")], ACTUAL)
    assert select_limit([first, dataclasses.replace(second, level=1)], ACTUAL) is first
    same = limit(text=">= 2300 Mbps", mtu=1500)
    assert select_limit([first, same], ACTUAL) is first
    assert select_limit([first, second, limit(speed="2.5G", mtu=1500)], ACTUAL).text == ">= 2.3 Gbit/s"


def test_limits_of_several_quantities_are_not_mixed():
    with pytest.raises(ValueError, match="one quantity"):
        select_limit([limit(), limit("retransmits", "<= 50")], ACTUAL)


# ---- resolving -------------------------------------------------------------------------------------------------------


def test_resolving():
    ceiling = 2_353_706_111.8
    found = resolve(limit(text=">= 98 % of ceiling", source="ours"), ceiling=ceiling)
    assert found.low == pytest.approx(0.98 * ceiling)
    assert found.high is None
    assert found.text == ">= 98 % of ceiling (2.307 Gbit/s)"
    assert found.relative == "98 % of ceiling"
    assert found.source == "ours"
    assert resolve(limit()) == ResolvedLimit("throughput", 2.3e9, None, ">= 2.3 Gbit/s")
    both = resolve(limit(text="between 90 and 99 % of link speed"), link_speed=2.5e9)
    assert (both.low, both.high) == (2.25e9, 2.475e9)
    assert both.text == "between 90 % and 99 % of link speed (2.25 Gbit/s to 2.475 Gbit/s)"
    slower = resolve(limit("rtt_p99", "<= 110 % of baseline v1"), baselines={"v1": 0.001})
    assert slower.high == pytest.approx(0.0011)
    assert slower.text == "<= 110 % of baseline v1 (1.1 ms)"


@pytest.mark.parametrize(
    ("text", "known", "says"),
    [
        (">= 98 % of ceiling", {}, "the ceiling is not known here"),
        (">= 98 % of link speed", {"ceiling": 1e9}, "the link speed is not known here"),
        (">= 98 % of baseline v1", {"baselines": {"v11": 1e9}}, "no baseline 'v1' (did you mean 'v11'?); known: v11"),
        (">= 98 % of baseline v1", {}, "known: none"),
        (">= 98 % of ceiling", {"ceiling": math.nan}, "not a finite number above zero"),
        (">= 98 % of ceiling", {"ceiling": 0.0}, "not a finite number above zero"),
        (">= 98 % of baseline v1", {"baselines": {"v1": math.inf}}, "baseline v1 is inf"),
    ],
)
def test_what_a_limit_relates_to_must_be_known(text, known, says):
    with pytest.raises(LimitError) as caught:
        resolve(limit(text=text), **known)
    assert says in str(caught.value)


@pytest.mark.parametrize("bounds", [(None, None), (math.nan, None), (None, math.inf), (1.0, math.nan)])
def test_no_limit_without_a_finite_bound_reaches_the_judge(bounds):
    with pytest.raises(LimitError, match="cannot be judged"):
        ResolvedLimit("throughput", *bounds, "x")


def test_a_limit_above_the_ceiling_can_never_hold():
    ceiling = 2_353_706_111.8
    message = check_possible(resolve(limit(text=">= 2.4 Gbps")), ceiling, of="a 2.5G link at MTU 1500")
    assert message is not None
    assert "2.4 Gbit/s can never be reached" in message
    assert "above the ceiling 2.354 Gbit/s of a 2.5G link at MTU 1500" in message
    close = check_possible(resolve(limit(text=">= 2.354 Gbps")), ceiling)
    assert close is not None
    assert "limit 2.354 Gbit/s can never be reached: it is above the ceiling 2.3537 Gbit/s" in close
    assert check_possible(resolve(limit(text="between 2.4 and 2.6 Gbps")), ceiling) is not None
    assert check_possible(resolve(limit(text=">= 2.3 Gbps")), ceiling) is None
    assert check_possible(resolve(limit(text="<= 2.4 Gbps")), ceiling) is None
    assert check_possible(resolve(limit(text=">= 100 % of ceiling"), ceiling=ceiling), ceiling) is None
    assert check_possible(resolve(limit(text=">= 99 % of link speed"), link_speed=2.5e9), ceiling) is not None
    assert check_possible(resolve(limit(text=">= 2.4 Gbps")), None) is None


# ---- marks and tables ------------------------------------------------------------------------------------------------


def test_conditions_and_limits_side_by_side():
    limits, mistakes = read_limits(
        {"throughput": ">= 2.3 Gbps", "retransmits": "<= 50", "speed": "2.5G", "mtu": 1500}, level=1, source="here"
    )
    assert mistakes == ()
    assert [(each.quantity, each.conditions, each.level, each.source) for each in limits] == [
        ("throughput", (("mtu", 1500), ("speed", 2.5e9)), 1, "here"),
        ("retransmits", (("mtu", 1500), ("speed", 2.5e9)), 1, "here"),
    ]


def test_mtu_is_a_limit_when_it_is_written_as_one():
    (only,), mistakes = read_limits({"mtu": ">= 9000 B", "speed": "10G"})
    assert (only.quantity, only.low, only.conditions, mistakes) == ("mtu", 9000, (("speed", 1e10),), ())
    assert is_limit_text(" between 1 and 2")
    assert is_limit_text("\u2265 5")
    assert not is_limit_text("between-ports")
    assert not is_limit_text("9000 B")
    assert not is_limit_text(9000)


def test_all_mistakes_of_a_mark_are_listed_at_once():
    _, mistakes = read_limits(
        {"throughput": ">= 2.3", "goodput": ">= 1 Gbps", "throughput2": 1, "spead": "1G", "mtu": "big", "streams": 0}
    )
    text = "\n".join(mistakes)
    assert len(mistakes) == 5
    for part in ("needs its unit", "unknown quantity 'throughput2'", "condition mtu", "condition streams"):
        assert part in text
    assert "unknown quantity 'spead'" in text
    assert "As a condition (did you mean 'speed'?)" in text


def test_a_quantity_is_limited_once_per_mark():
    _, mistakes = read_limits({"throughput": ">= 2.3 Gbps", "goodput": ">= 2.3 Gbps"})
    assert mistakes == ("throughput is limited twice here (once as 'goodput'); keep one of them.",)


@pytest.mark.parametrize("arguments", [{}, {"speed": "1G"}])
def test_a_mark_that_limits_nothing_is_a_mistake(arguments):
    limits, mistakes = read_limits(arguments)
    assert limits == ()
    assert len(mistakes) == 1
    assert "nothing is limited here" in mistakes[0]


@given(
    st.sampled_from(["throughput", "retransmits", "power", "frame_loss_ratio", "nothing"]),
    st.text(max_size=25)
    | st.sampled_from([">= 1 Gbps", "<= 5", "between 1 and 2 Gbps", "<= 5 % of ceiling"])
    | st.builds("{} {}".format, st.sampled_from([">=", "<=", "between"]), st.text(max_size=15)),
)
def test_whatever_is_written_is_a_sound_limit_or_a_clear_refusal(quantity, text):
    try:
        found = parse_limit(quantity, text)
    except ConfigError:
        return
    assert found.low is not None or found.high is not None
    assert all(bound is None or math.isfinite(bound) for bound in (found.low, found.high))
    assert found.low is None or found.high is None or found.low < found.high


levels = st.integers(0, 3)


@given(st.lists(st.tuples(levels, st.sets(st.sampled_from(["mtu", "streams", "protocol"]))), max_size=6))
def test_the_choice_does_not_depend_on_the_order(shapes):
    limits = [
        parse_limit("throughput", f">= {number + 1} Mbps", conditions={key: ACTUAL[key] for key in names}, level=level)
        for number, (level, names) in enumerate(shapes)
    ]

    def choose(order):
        try:
            return select_limit(order, ACTUAL)
        except LimitError:
            return "refused"

    chosen = choose(limits)
    assert choose(limits[::-1]) == chosen
    if isinstance(chosen, Limit):
        rank = (chosen.level, -len(chosen.conditions))
        assert all(rank < (other.level, -len(other.conditions)) for other in limits if other is not chosen)


def test_every_condition_key_is_known_by_the_contract():
    assert set(CONDITION_KEYS) == {
        "speed", "mtu", "direction", "protocol", "streams", "link", "device", "model", "batch", "simulated",
        "ip_version", "media", "topology", "test", "mss", "zerocopy", "device_state",
        "offloads", "ring", "pause", "eee", "negotiation", "irq_cpus", "governor",
    }  # fmt: skip
