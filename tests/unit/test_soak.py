"""What a long run shows beyond its mean, and the doubt about heat."""

from __future__ import annotations

import pytest
from doubt_samples import REPLACE, fair, look
from hypothesis import given
from hypothesis import strategies as st
from test_doubts_stream import series, steady

from pytest_netperf.judge.soak import soak_facts
from pytest_netperf.record.schema import SeriesPoint


def points(rates, seconds=1.0):
    return [
        SeriesPoint(start_s=place * seconds, seconds=seconds, throughput_bps=rate) for place, rate in enumerate(rates)
    ]


def test_the_slowest_interval_and_the_drift():
    facts = soak_facts(points([1e9] * 30 + [4e8] + [9e8] * 59))
    assert facts["slowest_interval_bps"] == 4e8
    assert facts["slowest_interval_at_s"] == 30.0
    assert (facts["first_third_bps"], facts["last_third_bps"]) == pytest.approx((1e9, 9e8))
    assert facts["drift"] == pytest.approx(-0.1)


def test_a_short_run_has_none():
    assert soak_facts(points([1e9] * 59)) == {}
    assert soak_facts(points([1e9] * 120, seconds=0.1)) == {}


def test_a_run_that_begins_with_nothing_has_no_drift():
    assert "drift" not in soak_facts(points([0.0] * 30 + [1e9] * 60))


@given(st.lists(st.floats(0, 1e11), min_size=60, max_size=200))
def test_the_slowest_interval_is_one_of_them(rates):
    facts = soak_facts(points(rates))
    assert facts["slowest_interval_bps"] == pytest.approx(min(rates))


def heated(rates, temperatures):
    result = series(rates)
    findings = look(result, REPLACE(fair(result), temperatures_c=temperatures), simulated=False)
    return [doubt for doubt in findings.named if doubt.name == "Slower as it warms up"]


def test_a_machine_that_warms_up_while_its_rate_falls():
    falling = [0.95] * 10 + [0.7] * 10
    (doubt,) = heated(falling, (48.0, 61.5, 78.0))
    assert doubt.kind == "note"
    assert doubt.seen.startswith("From 48 to 78 °C the forward run went from ")


@pytest.mark.parametrize(
    ("rates", "temperatures"),
    [
        (steady(20), (48.0, 78.0)),  # hot, but as fast as before
        ([0.95] * 10 + [0.7] * 10, (48.0, 57.0)),  # slower, but hardly warmer
        ([0.7] * 10 + [0.95] * 10, (48.0, 78.0)),  # faster
        ([0.95] * 10 + [0.7] * 10, (78.0,)),  # looked at once
        ([0.95] * 10 + [0.7] * 10, ()),  # no sensor
    ],
)
def test_heat_alone_or_a_fall_alone_is_not_that(rates, temperatures):
    assert heated(rates, temperatures) == []
