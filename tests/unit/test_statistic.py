"""The statistic that a limit names: every form, every near miss with its way out, and which limit then wins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.errors import ConfigError, LimitError
from pytest_netperf.judge.limit_text import is_limit_text, parse_limit, read_limits
from pytest_netperf.judge.limits import check_possible, resolve, select_limit
from pytest_netperf.judge.statistic import MEAN, Statistic, quantity_of

P5, MIN, MAX = Statistic("quantile", percent=5), Statistic("min"), Statistic("max")
FOUR_OF_FIVE, EVERY = Statistic("runs", needed=4, runs=5), Statistic("runs")


@pytest.mark.parametrize(
    ("text", "statistic", "low", "high", "base", "canonical"),
    [
        (">= 2.3 Gbps", MEAN, 2.3e9, None, None, ">= 2.3 Gbit/s"),
        ("p5 of intervals >= 2.2 Gbps", P5, 2.2e9, None, None, "p5 of intervals >= 2.2 Gbit/s"),
        ("p5 of intervals>=2.2Gbps", P5, 2.2e9, None, None, "p5 of intervals >= 2.2 Gbit/s"),
        (" p5  of\nintervals \u2265 2.2 Gbps", P5, 2.2e9, None, None, "p5 of intervals >= 2.2 Gbit/s"),
        ("p99 of intervals >= 1 Gbps", Statistic("quantile", percent=99), 1e9, None, None, None),
        ("p1 of intervals >= 1 Gbps", Statistic("quantile", percent=1), 1e9, None, None, None),
        ("min interval >= 2.0 Gbps", MIN, 2e9, None, None, "min interval >= 2 Gbit/s"),
        ("max interval <= 2.4 Gbps", MAX, None, 2.4e9, None, "max interval <= 2.4 Gbit/s"),
        ("min interval between 1 and 2 Gbps", MIN, 1e9, 2e9, None, "min interval between 1 Gbit/s and 2 Gbit/s"),
        ("p5 of intervals >= 95 % of ceiling", P5, 0.95, None, "ceiling", "p5 of intervals >= 95 % of ceiling"),
        ("min interval >= 90 % of the link speed", MIN, 0.9, None, "link speed", "min interval >= 90 % of link speed"),
        (">= 9.8 Gbps in 4 of 5 runs", FOUR_OF_FIVE, 9.8e9, None, None, ">= 9.8 Gbit/s in 4 of 5 runs"),
        (">= 98 % of ceiling in 4 of 5 runs", FOUR_OF_FIVE, 0.98, None, "ceiling", ">= 98 % of ceiling in 4 of 5 runs"),
        (">= 2.3 Gbps in every run", EVERY, 2.3e9, None, None, ">= 2.3 Gbit/s in every run"),
        ("between 1 and 2 Gbps in 1 of 1 runs", Statistic("runs", needed=1, runs=1), 1e9, 2e9, None, None),
        (">= 95 % of baseline golden in every run", EVERY, 0.95, None, "baseline:golden", None),
        (">= 95 % of baseline built in house", MEAN, 0.95, None, "baseline:built in house", None),
        (">= 95 % of baseline in 2026", MEAN, 0.95, None, "baseline:in 2026", None),
    ],
)
def test_every_form(text, statistic, low, high, base, canonical):
    found = parse_limit("throughput", text)
    assert (found.statistic, found.low, found.high, found.relative_to) == (statistic, low, high, base)
    assert canonical is None or found.text == canonical
    assert is_limit_text(text)
    again = parse_limit("throughput", found.text)
    assert (again.text, again.statistic, again.low, again.high) == (found.text, statistic, low, high)
    assert parse_limit("goodput", text).key == found.key


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("P5 of intervals >= 2 Gbps", "'P5 of intervals' is not used here; write 'p5 of intervals'"),
        ("p5 >= 2 Gbps", "write 'p5 of intervals'"),
        ("p5 of interval >= 2 Gbps", "write 'p5 of intervals'"),
        ("p5 of the intervals >= 2 Gbps", "write 'p5 of intervals'"),
        ("p 5 of intervals >= 2 Gbps", "write 'p5 of intervals'"),
        ("p05 of intervals >= 2 Gbps", "write 'p5 of intervals'"),
        ("p5 of runs >= 2 Gbps", "write 'p5 of intervals'"),
        ("5th percentile of intervals >= 2 Gbps", "write 'p5 of intervals'"),
        ("5 % quantile >= 2 Gbps", "write 'p5 of intervals'"),
        ("p0 of intervals >= 2 Gbps", "there is no p0; write 'min interval'"),
        ("p100 of intervals >= 2 Gbps", "from p1 to p99; write 'max interval'"),
        ("p101 of intervals >= 2 Gbps", "from p1 to p99"),
        (f"p{'9' * 5000} of intervals >= 2 Gbps", "from p1 to p99"),
        ("p2.5 of intervals >= 2 Gbps", "quantiles are whole percentages"),
        ("median of intervals >= 2 Gbps", "write 'p50 of intervals'"),
        ("min >= 2 Gbps", "write 'min interval'"),
        ("minimum interval >= 2 Gbps", "write 'min interval'"),
        ("min of intervals >= 2 Gbps", "write 'min interval'"),
        ("worst interval >= 2 Gbps", "write 'min interval'"),
        ("Min interval >= 2 Gbps", "write 'min interval'"),
        ("maximum of intervals <= 2 Gbps", "write 'max interval'"),
        ("mean >= 2 Gbps", "the mean is meant when nothing is said"),
        ("average of intervals >= 2 Gbps", "the mean is meant when nothing is said"),
        ("most intervals >= 2 Gbps", "'most intervals' is no statistic of intervals; known: 'p5 of intervals'"),
        ("p5 of intervals 2.2 Gbps", "it does not say which way"),
        ("p5 of intervals", "it does not say which way"),
        ("p5 of intervals > 2 Gbps", "'>' is not used here; use '>='"),
        ("p5 of intervals >= 2", "a rate needs its unit"),
        ("p5 of intervals >= 0 Gbps", "could never fail"),
        ("p5 of intervals >= 101 % of ceiling", "can never be reached"),
        ("p5 of intervals >= 3 Gbps in 4 of 5 runs", "it names two statistics, 'p5 of intervals' and 'in 4 of 5 runs'"),
        (">= 2 Gbps in 6 of 5 runs", "of 5 runs at most 5 can meet it; write 'in 5 of 6 runs'"),
        (">= 2 Gbps in 0 of 5 runs", "could never fail"),
        (">= 2 Gbps in 0 of 0 runs", "without a run nothing is measured"),
        (">= 2 Gbps in 4 of 5", "write 'in 4 of 5 runs'"),
        (">= 2 Gbps in 4/5 runs", "write 'in 4 of 5 runs'"),
        (">= 2 Gbps in 4 out of 5 runs", "write 'in 4 of 5 runs'"),
        (">= 2 Gbps in 4 of the 5 runs", "write 'in 4 of 5 runs'"),
        (">= 2 Gbps in 1 of 1 run", "write 'in 1 of 1 runs'"),
        (">= 2 Gbps in all runs", "write 'in every run'"),
        (">= 2 Gbps in each run", "write 'in every run'"),
        (">= 2 Gbps in all 5 runs", "write 'in every run'"),
        (">= 2 Gbps in most runs", "'in most runs' is not used here; write 'in 4 of 5 runs' or 'in every run'"),
        (">= 2 Gbps in 4 runs", "write 'in 4 of 5 runs' or 'in every run'"),
        (">= 2 Gbps in 4 of 5000 runs", "at most 1000 runs"),
        ("4 of 5 runs >= 2 Gbps", "stands behind the number, as in '>= 2.3 Gbps in 4 of 5 runs'"),
        ("every run >= 2 Gbps", "stands behind the number"),
        ("in 4 of 5 runs", "it does not say which way"),
    ],
)
def test_near_misses_say_what_to_write(text, says):
    with pytest.raises(LimitError) as caught:
        parse_limit("throughput", text)
    assert says in str(caught.value)
    assert str(caught.value).startswith("throughput limit ")


@pytest.mark.parametrize(
    ("quantity", "text", "says"),
    [
        ("retransmits", "p5 of intervals <= 5", "intervals are kept of the throughput alone, not of retransmits"),
        ("power", "max interval <= 15 W", "leave 'max interval' out"),
        ("retransmits", "<= 5 in 4 of 5 runs", "runs are kept of the throughput alone"),
        ("jitter", "<= 5 ms in every run", "leave 'in every run' out"),
        ("frame_rate", "p5 of intervals >= 1 kpps", "limit the throughput, to which it is proportional"),
        ("wire_rate", "min interval >= 1 Gbps", "limit the throughput, to which it is proportional"),
        ("mtu", "min interval >= 9000 B", "not of mtu"),
    ],
)
def test_what_has_no_intervals_has_no_statistic_of_them(quantity, text, says):
    with pytest.raises(LimitError) as caught:
        parse_limit(quantity, text)
    assert says in str(caught.value)


def test_the_wrong_way_round_warns_as_for_the_mean():
    assert "did you mean '>='" in parse_limit("throughput", "max interval <= 2 Gbps").warnings[0]
    assert parse_limit("throughput", "p5 of intervals >= 2 Gbps").warnings == ()


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        ("p5 of intervals >= 9000 B", True),
        ("min interval >= 2 Gbps", True),
        ("P5 >= 2", True),  # a near miss is still a limit, so that it is refused as one
        ("p2", False),
        ("p2*", False),
        ("min", False),
        ("p5 of intervals", False),
        (1500, False),
        (None, False),
    ],
)
def test_what_is_written_as_a_limit(value, is_one):
    assert is_limit_text(value) is is_one


def test_keys_tell_statistics_apart_and_lead_back_to_the_quantity():
    statistics = [MEAN, P5, Statistic("quantile", percent=50), MIN, MAX, FOUR_OF_FIVE, EVERY]
    keys = [each.key_of("throughput") for each in statistics]
    assert keys == [
        "throughput", "throughput.p5", "throughput.p50", "throughput.min", "throughput.max",
        "throughput.4-of-5-runs", "throughput.every-run",
    ]  # fmt: skip
    assert {quantity_of(key) for key in keys} == {"throughput"}


@given(st.integers(1, 99), st.floats(1, 1e11, allow_nan=False), st.sampled_from([">=", "<="]))
def test_any_quantile_is_read_back_from_its_own_words(percent, rate, operator):
    found = parse_limit("throughput", f"p{percent} of intervals {operator} {rate!r} bit/s")
    assert found.statistic == Statistic("quantile", percent=percent)
    again = parse_limit("throughput", found.text)
    assert (again.statistic, again.low, again.high) == (found.statistic, found.low, found.high)


@given(st.integers(1, 1000).flatmap(lambda runs: st.tuples(st.integers(1, runs), st.just(runs))))
def test_any_count_of_runs_is_read_back_from_its_own_words(counts):
    needed, runs = counts
    found = parse_limit("throughput", f">= 1 Gbps in {needed} of {runs} runs")
    assert found.statistic == Statistic("runs", needed=needed, runs=runs)
    assert parse_limit("throughput", found.text) == found


words = st.sampled_from(
    ["p5", "p0", "of", "intervals", "interval", "min", "max", "in", "4", "5", "runs", "run", "every", ">=", "<=",
     "between", "and", "2.3", "Gbps", "%", "ceiling", "baseline", "the", "/", "\u2265", "\u0665"]
)  # fmt: skip


@given(st.lists(words, max_size=9).map(" ".join) | st.text(max_size=30))
def test_any_words_are_read_or_refused(text):
    for quantity in ("throughput", "retransmits"):
        try:
            found = parse_limit(quantity, text)
        except ConfigError as error:
            assert str(error).startswith(f"{quantity} limit ")  # noqa: PT017 - either outcome is fine
        else:
            assert parse_limit(quantity, found.text).text == found.text


# ---- several statistics of one quantity ------------------------------------------------------------------------------


def test_a_list_gives_a_limit_for_each_statistic():
    limits, mistakes = read_limits({"throughput": [">= 2.3 Gbps", "p5 of intervals >= 2.2 Gbps"], "mtu": [1500, 9000]})
    assert mistakes == ()
    assert [limit.key for limit in limits] == ["throughput", "throughput.p5"]
    assert all(limit.conditions == (("mtu", (1500, 9000)),) for limit in limits)
    assert len(read_limits({"throughput": (">= 2.3 Gbps", "min interval >= 1 Gbps")})[0]) == 2


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([], "throughput limit []: a limit is text, not list"),
        ([">= 1 Gbps", 5], "throughput limit 5: a limit is text, not int"),
        ([">= 1 Gbps", [">= 2 Gbps"]], "a limit is text, not list"),
        ([">= 1 Gbps", ">= 2 Gbps"], "throughput is limited twice here"),
        (["p5 of intervals >= 1 Gbps", "p5 of intervals <= 2 Gbps"], "throughput (p5 of intervals) is limited twice"),
        ([">= 1 Gbps", "p5 >= 1 Gbps"], "write 'p5 of intervals'"),
    ],
)
def test_a_wrong_list_is_refused(value, says):
    _, mistakes = read_limits({"throughput": value})
    assert any(says in mistake for mistake in mistakes), mistakes


def test_a_list_of_limits_on_what_is_also_a_condition():
    limits, mistakes = read_limits({"mtu": [">= 9000 B"], "speed": "10G"})
    assert ([limit.quantity for limit in limits], mistakes) == (["mtu"], ())
    _, mistakes = read_limits({"mtu": [1500, ">= 9000 B"]})
    assert any("mtu limit 1500: a limit is text, not int" in mistake for mistake in mistakes)


def test_each_statistic_has_its_own_winner():
    far = parse_limit("throughput", "p5 of intervals >= 1 Gbps", level=2)
    near = parse_limit("throughput", "p5 of intervals >= 2 Gbps", level=0)
    mean = parse_limit("throughput", ">= 2.3 Gbps", level=1)
    assert select_limit([far, near], {}) is near
    assert select_limit([mean], {}) is mean
    with pytest.raises(ValueError, match="quantity and statistic"):
        select_limit([near, mean], {})
    other = parse_limit("throughput", "p5 of intervals >= 2.1 Gbps", level=0)
    with pytest.raises(LimitError, match=r"two limits of throughput \(p5 of intervals\) apply with equal right"):
        select_limit([near, other], {})


def test_resolving_keeps_the_statistic_and_says_what_is_relative():
    found = resolve(parse_limit("throughput", "p5 of intervals >= 95 % of ceiling"), ceiling=2e9)
    assert (found.statistic, found.low, found.relative) == (P5, 1.9e9, "95 % of ceiling")
    assert found.text == "p5 of intervals >= 95 % of ceiling (1.9 Gbit/s)"
    found = resolve(parse_limit("throughput", ">= 98 % of ceiling in 4 of 5 runs"), ceiling=1e9)
    assert (found.text, found.relative) == (">= 98 % of ceiling in 4 of 5 runs (980 Mbit/s)", "98 % of ceiling")
    assert resolve(parse_limit("throughput", "min interval >= 1 Gbps")).statistic == MIN


def test_a_statistic_above_the_ceiling_can_never_be_reached():
    limit = resolve(parse_limit("throughput", "min interval >= 3 Gbps"))
    problem = check_possible(limit, 2.35e9, of="a 2.5G link")
    assert problem is not None
    assert problem.startswith("throughput (min interval) limit 3 Gbit/s can never be reached")
    assert check_possible(limit, 3e9) is None
