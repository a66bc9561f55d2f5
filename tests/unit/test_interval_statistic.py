"""Quantiles and extremes of the intervals that count, and what is said where there is none."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.judge.interval_statistic import statistic_of_samples, statistic_value
from pytest_netperf.judge.statistic import Statistic
from pytest_netperf.judge.statistics import Sample
from pytest_netperf.record.schema import SeriesPoint

P1, P5, P50, P95 = (Statistic("quantile", percent=percent) for percent in (1, 5, 50, 95))
MIN, MAX = Statistic("min"), Statistic("max")


def points(rates, omitted=0, seconds=1.0):
    return [
        SeriesPoint(start_s=index * seconds, seconds=seconds, throughput_bps=rate, omitted=index < omitted)
        for index, rate in enumerate(rates)
    ]


def value(statistic, rates, counted_by="receiver", protocol="tcp", **more):
    return statistic_value(statistic, points(rates, **more), counted_by, protocol)


def test_a_quantile_is_a_rate_that_was_seen():
    rates = [float(rate) for rate in range(100, 0, -1)]
    assert [value(each, rates).value_bps for each in (P1, P5, P50, P95, MIN, MAX)] == [1, 5, 50, 95, 1, 100]
    assert value(P5, rates).intervals == 100
    assert value(P5, rates).facts == {"statistic_intervals": 100}
    # By hand: of 30, 5 % are 1.5 intervals, so the second slowest is the first that 5 % do not exceed.
    assert value(P5, rates[:30]).value_bps == 72
    assert value(P5, rates[:20]).value_bps == 81


def test_one_slow_second_moves_the_extreme_and_not_the_quantile():
    rates = [2.35e9] * 40
    rates[17] = 0.0
    assert value(MIN, rates).value_bps == 0
    assert value(P5, rates).value_bps == pytest.approx(2.35e9)


@pytest.mark.parametrize(
    ("statistic", "fewest"),
    [(P1, 100), (Statistic("quantile", percent=99), 100), (P5, 20), (P95, 20), (P50, 2), (MIN, 1), (MAX, 1)],
)
def test_too_few_intervals_say_how_many_are_needed(statistic, fewest):
    assert value(statistic, [1e9] * fewest).value_bps == 1e9
    found = value(statistic, [1e9] * (fewest - 1))
    assert found.value_bps is None
    assert f"{fewest - 1 or 'no'} interval" in found.missing
    assert f"at least {fewest}" in found.next_step
    assert found.facts == {}


def test_what_was_omitted_does_not_count():
    assert value(MIN, [1.0, 2.0, 5.0, 4.0], omitted=2).value_bps == 4
    assert value(MIN, [1.0, 2.0], omitted=2).value_bps is None


def test_short_intervals_are_joined_to_seconds():
    found = value(MIN, [1e9] * 9 + [0.0] + [1e9] * 10, seconds=0.1)
    assert (found.value_bps, found.intervals) == (pytest.approx(0.9e9), 2)


def test_a_part_of_a_second_at_the_end_does_not_count():
    samples = [Sample(1.0, 1e9), Sample(1.0, 1e9), Sample(0.4, 1e6)]
    assert statistic_of_samples(MIN, samples).value_bps == 1e9
    assert statistic_of_samples(MIN, [Sample(0.4, 1e6)]).missing.startswith("no intervals of a second")


def test_long_intervals_hide_what_a_second_shows():
    found = value(MIN, [1e9] * 6, seconds=10.0)
    assert found.value_bps is None
    assert "the intervals are 10 s long" in found.missing
    assert "interval=1" in found.next_step
    assert value(MIN, [1e9] * 6, seconds=2.0).value_bps == 1e9


def test_what_a_udp_sender_counted_says_nothing_of_what_arrived():
    for protocol in ("udp", None):
        found = value(MIN, [1e9] * 30, counted_by="sender", protocol=protocol)
        assert found.value_bps is None
        assert "do not say what arrived" in found.missing
        assert found.next_step
    assert value(MIN, [1e9] * 30, counted_by="receiver", protocol="udp").value_bps == 1e9
    assert value(MIN, [1e9] * 30, counted_by="sender", protocol="tcp").value_bps == 1e9


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_numbers_that_are_none_give_no_statistic(broken):
    found = value(P5, [1e9] * 30 + [broken])
    assert found.value_bps is None
    assert "not finite" in found.missing


@given(st.lists(st.floats(0, 1e11), min_size=100, max_size=150), st.integers(1, 99))
def test_the_definition_of_a_quantile_holds(rates, percent):
    found = value(Statistic("quantile", percent=percent), rates).value_bps
    seen = [rate * 1.0 / 1.0 for rate in rates]
    assert found in seen
    share = percent * len(rates)
    assert sum(rate <= found for rate in seen) * 100 >= share, "at least so many do not exceed it"
    assert sum(rate < found for rate in seen) * 100 < share, "and of no smaller one this is true"


@given(st.lists(st.floats(0, 1e11), min_size=20, max_size=60), st.randoms())
def test_the_order_of_seconds_does_not_matter_and_extremes_enclose(rates, random):
    shuffled = list(rates)
    random.shuffle(shuffled)
    found = [value(each, rates).value_bps for each in (MIN, P5, P50, P95, MAX)]
    assert found == sorted(found)
    assert found == [value(each, shuffled).value_bps for each in (MIN, P5, P50, P95, MAX)]
