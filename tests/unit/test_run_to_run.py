"""The part of the uncertainty between runs, of a row that has one run: which number it is, and what it can change."""

from __future__ import annotations

import math
import statistics

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_samples import make_row

from pytest_netperf.judge.assessment import assess
from pytest_netperf.judge.decision import get_rule
from pytest_netperf.judge.judgement import Measured
from pytest_netperf.judge.limit_text import parse_limit
from pytest_netperf.judge.limits import resolve
from pytest_netperf.judge.profile import get_profile
from pytest_netperf.judge.run_to_run import (
    DECLARED,
    HISTORY,
    NEWEST,
    REMEMBERED,
    SOURCE,
    RunToRun,
    Spread,
    pooled,
    run_to_run_in,
    spreads_of,
)
from pytest_netperf.judge.throughput import method_facts
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.schema import Evidence, Run, SeriesPoint

VALUES = [941e6, 940e6, 937e6]
DAY = "2026-12-01T10:00:00.000+00:00"


def row_of(values, name="kind", number=0, at=DAY, **changes):
    """A row of a repeated measurement."""
    facts = {HISTORY: name, "rate_explained": False, **changes.pop("facts", {})}
    runs = tuple(Run(throughput_bps=value, evidence=Evidence()) for value in values)
    row = make_row(started_at=at, evidence=Evidence(runs=runs, facts=facts, doubts=changes.pop("doubts", ())))
    return msgspec.structs.replace(row, **{"id": f"test_a::throughput#{number}", **changes})


def spread(relative_sd=0.01, runs=5, at=DAY):
    return Spread(relative_sd=relative_sd, runs=runs, measured_at=at)


# ---- pooling ---------------------------------------------------------------------------------------------------------

MEASUREMENTS = st.lists(st.lists(st.floats(5e8, 1e9), min_size=3, max_size=7), min_size=1, max_size=NEWEST + 5)


@given(MEASUREMENTS)
@settings(deadline=None)
def test_it_is_the_scatter_of_all_runs_around_the_means_of_their_own_measurements(measurements):
    rows = [row_of(values, number=number) for number, values in enumerate(measurements)]
    found = [each for _, each in spreads_of(rows)]
    assert len(found) == len(measurements)
    known = pooled(found, "connection")
    newest = [[value / statistics.fmean(values) for value in values] for values in measurements[-20:]]
    freedom = sum(len(values) - 1 for values in newest)
    if freedom < 4:
        assert known is None
        return
    squares = sum((value - 1) ** 2 for values in newest for value in values)
    expected = math.sqrt(squares / freedom) * math.sqrt(freedom / (freedom - 2))
    assert known.relative == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_one_measurement_is_its_own_spread_widened_as_for_repeated_runs():
    known = pooled([spread(0.01, runs=5)], "connection")
    assert known.relative == pytest.approx(0.01 * math.sqrt(4 / 2))


@pytest.mark.parametrize(("runs", "known"), [((), False), ((3,), False), ((4,), False), ((3, 3), True), ((5,), True)])
def test_too_few_degrees_of_freedom_say_nothing(runs, known):
    assert (pooled([spread(runs=each) for each in runs], "connection") is not None) == known


def test_the_newest_count():
    old, new = [spread(0.5)] * 7, [spread(0.01)] * NEWEST
    assert pooled([*old, *new], "connection").relative == pytest.approx(pooled(new, "connection").relative)
    assert pooled([*old, *new[1:]], "connection").relative > 0.1


def test_it_says_where_it_comes_from():
    three = [spread(at="2026-11-02T08:00:00+00:00"), spread(at="2026-11-03T08:00:00+00:00"), spread()]
    assert pooled(three, "connection").source == (
        "station history: 3 measurements of 5 runs, the last on 2026-12-01; standard deviation 1 % with 12 degrees of "
        "freedom, between two runs a new connection"
    )
    assert pooled([*three, spread(runs=3)], "cold").source == (
        "station history: 4 measurements of 3 to 5 runs, the last on 2026-12-01; standard deviation 1 % with 14 "
        "degrees of freedom, between two runs another link, made anew"
    )
    assert "1 measurement of 5 runs" in pooled([spread()], "link").source


# ---- what is remembered ----------------------------------------------------------------------------------------------


def test_a_repeated_measurement_is_remembered_under_its_name():
    ((name, found),) = spreads_of([row_of(VALUES, "a name")])
    assert name == "a name"
    assert found == Spread(
        relative_sd=pytest.approx(statistics.stdev(VALUES) / statistics.fmean(VALUES)), runs=3, measured_at=DAY
    )


def test_by_a_profile_the_values_of_the_windows_count():
    windows = [941e6, 941e6, 900e6]
    home = row_of(VALUES, facts={"run_values_bps": windows})
    slowest = row_of(VALUES, number=1, statistic="min interval", facts={"raw_output_in": home.id})
    ((_, found),) = spreads_of([slowest, home])
    assert found.relative_sd == pytest.approx(statistics.stdev(windows) / statistics.fmean(windows))


def test_the_rows_of_one_measurement_count_once_and_those_of_two_twice():
    home = row_of(VALUES)
    other = row_of(VALUES, number=1, statistic="min interval", facts={"raw_output_in": home.id})
    assert len(spreads_of([home, other])) == 1
    again = row_of([9e8, 9e8, 9e8], number=2)
    assert [found.relative_sd for _, found in spreads_of([home, other, again])] == [pytest.approx(0.0022, rel=0.1), 0]


JUDGED = (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE)


@pytest.mark.parametrize("verdict", JUDGED)
def test_whatever_was_judged_is_remembered(verdict):
    assert len(spreads_of([row_of(VALUES, verdict=verdict)])) == 1


@pytest.mark.parametrize("verdict", [each for each in Verdict if each not in JUDGED])
def test_what_was_not_judged_is_not_remembered_nor_what_stands_beside_it(verdict):
    home = row_of(VALUES)
    beside = row_of(VALUES, number=1, verdict=verdict, facts={"raw_output_in": home.id})
    assert spreads_of([row_of(VALUES, verdict=verdict)]) == []
    assert spreads_of([home, beside]) == []


LIMITED = {"tester_limited": "run 2: A CPU of the tester was busy."}
ABOVE = "Limit above the tester reference: 390 Gbit/s are required."


@pytest.mark.parametrize(
    ("changes", "remembered"),
    [
        ({"facts": LIMITED}, False),
        ({"facts": {**LIMITED, "rate_explained": True}}, True),  # it ran at the ceiling all the same
        ({"doubts": (ABOVE,)}, False),
        ({"doubts": ("Asymmetry: seen.",)}, True),
        ({"started_at": None}, False),
        ({"facts": {HISTORY: None}}, False),  # switched off
    ],
)
def test_what_the_tester_limited_is_not_remembered(changes, remembered):
    assert bool(spreads_of([row_of(VALUES, **changes)])) == remembered


@pytest.mark.parametrize(
    "values", [VALUES[:2], [*VALUES, None], [*VALUES, 0.0], [*VALUES, -1.0], [*VALUES, math.nan], [*VALUES, math.inf]]
)
def test_too_few_runs_or_one_without_a_value_are_not_remembered(values):
    assert spreads_of([row_of(values)]) == []


def test_a_row_of_one_run_is_not_remembered():
    assert spreads_of([make_row(), row_of([])]) == []


# ---- in the facts of a row -------------------------------------------------------------------------------------------


def test_what_is_declared_wins_over_what_is_remembered():
    assert run_to_run_in({DECLARED: 0.02, REMEMBERED: 0.01}) == 0.02
    assert run_to_run_in({REMEMBERED: 0.01, SOURCE: "station history"}) == 0.01


@pytest.mark.parametrize("facts", [{}, {DECLARED: True}, {REMEMBERED: "1 %"}, {REMEMBERED: None}])
def test_what_is_no_number_is_not_known(facts):
    assert run_to_run_in(facts) is None


@pytest.mark.parametrize("source", [None, "station history: 3 measurements"])
def test_the_facts_of_a_row_hold_the_number(source):
    facts = RunToRun(relative=0.0125, source=source).facts()
    assert run_to_run_in(facts) == 0.0125
    assert facts.get(SOURCE) == source


# ---- what it can change ----------------------------------------------------------------------------------------------

LIMIT = resolve(parse_limit("throughput", ">= 900 Mbps"))
RULES = {"simple": get_rule(), "vendor": get_rule("guarded", "vendor"), "buyer": get_rule("guarded", "buyer")}


def assessed(rates, rule, profile, known):
    """A row of one run, as it is when it is measured and when its journal is judged again."""
    evidence = Evidence(
        series=tuple(SeriesPoint(start_s=at, seconds=1.0, throughput_bps=rate) for at, rate in enumerate(rates)),
        series_from="receiver",
        facts=method_facts(get_profile(profile) if profile else None, known),
    )
    value = Measured(quantity="throughput", unit="bit/s", better="higher", value=statistics.fmean(rates), trusted=True)
    return assess(value, LIMIT, evidence, {"protocol": "tcp"}, RULES[rule])


@given(
    rates=st.lists(st.floats(8.5e8, 9.5e8), min_size=1, max_size=30),
    rule=st.sampled_from(sorted(RULES)),
    profile=st.sampled_from([None, "fixed", "screening"]),
    relative=st.floats(0, 2),
)
@settings(deadline=None)
def test_it_widens_u_and_never_makes_a_verdict_better(rates, rule, profile, relative):
    without = assessed(rates, rule, profile, None)
    known = RunToRun(relative=relative, source="station history: 3 measurements of 5 runs")
    found = assessed(rates, rule, profile, known)
    assert found.value == without.value
    if without.uncertainty.expanded is not None:
        assert found.uncertainty.expanded >= without.uncertainty.expanded
        assert found.facts["uncertainty_between"] == pytest.approx(relative * found.value)
        assert without.facts["uncertainty_between"] == "not known"
    if rule == "simple":
        assert found.judgement.verdict is without.judgement.verdict
    else:
        assert found.judgement.verdict in (without.judgement.verdict, Verdict.INCONCLUSIVE)


def test_a_wide_one_leaves_nothing_proven():
    rates = [940e6, 941e6] * 10
    assert assessed(rates, "vendor", None, RunToRun(relative=0.001)).judgement.verdict is Verdict.PASS
    found = assessed(rates, "vendor", None, RunToRun(relative=0.03))
    assert found.judgement.verdict is Verdict.INCONCLUSIVE
    assert "guard band of 56.4 Mbit/s" in found.judgement.reason
