"""Several limits on one device: Student's tail, p-values of rows, Holm's test, and what a sheet makes of them."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_samples import RUN, make_row, plan_of

from pytest_netperf.judge.holm import FAMILY_ALPHA, is_statistical, p_value, step_down
from pytest_netperf.judge.sequential import log_e_value
from pytest_netperf.judge.statistics import small_sample_factor
from pytest_netperf.judge.student import student_tail
from pytest_netperf.judge.verdict import WORST_LAST, DeviceVerdict, Verdict
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import Evidence, Row, Sheet
from pytest_netperf.record.together import OWN_CHECK, together

# ---- Student ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("t", "freedom", "tail"),
    [  # percentage points of every table of the distribution
        (6.314, 1, 0.05), (63.657, 1, 0.005), (2.920, 2, 0.05), (3.182, 3, 0.025), (10.215, 3, 0.001),
        (2.228, 10, 0.025), (3.646, 30, 0.0005), (1.980, 120, 0.025), (1.960, math.inf, 0.025), (3.090, 1e9, 0.001),
    ],
)  # fmt: skip
def test_the_tail_of_students_distribution(t, freedom, tail):
    assert student_tail(t, freedom) == pytest.approx(tail, rel=2e-3)
    assert student_tail(-t, freedom) == pytest.approx(1 - tail, rel=2e-3)


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0, 2.5, 30.0, 1e5])
def test_the_tail_in_closed_forms(t):
    assert student_tail(t, 1) == pytest.approx(math.atan2(1, t) / math.pi, rel=1e-12)
    assert student_tail(t, 2) == pytest.approx(1 / (math.sqrt(t * t + 2) * (math.sqrt(t * t + 2) + t)), rel=1e-12)


@given(st.floats(-50, 50), st.floats(0.5, 500))
def test_the_tail_is_the_integral_of_the_density(t, freedom):
    """By Simpson's rule, from zero."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    steps = 2000
    width = abs(t) / steps
    heights = [scale * (1 + (k * width) ** 2 / freedom) ** (-(freedom + 1) / 2) for k in range(steps + 1)]
    area = (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])) * width / 3
    assert student_tail(t, freedom) == pytest.approx(0.5 - math.copysign(area, t), abs=1e-8)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.floats(0.01, 1e12))
def test_the_tail_falls_and_is_a_probability(one, other, freedom):
    low, high = sorted((one, other))
    assert 0 <= student_tail(high, freedom) <= student_tail(low, freedom) <= 1


@pytest.mark.parametrize("freedom", [0, -1, math.nan])
def test_no_degrees_of_freedom_is_a_mistake(freedom):
    with pytest.raises(ValueError, match="degrees of freedom; expected more than 0"):
        student_tail(1.0, freedom)


# ---- p-values --------------------------------------------------------------------------------------------------------


def facts_of(n_eff: float, within: float, resolution: float = 0.0, **more: Any) -> dict[str, Any]:
    return {
        "n_eff": n_eff,
        "uncertainty_within_bps": within,
        "uncertainty_resolution_bps": resolution,
        "uncertainty_between": "not known",
        **more,
    }


@pytest.mark.parametrize(
    ("value", "low", "high", "p"),
    [
        (98.0, 100.0, None, 0.02275),
        (102.0, None, 100.0, 0.02275),
        (100.0, 100.0, None, 0.5),
        (102.0, 100.0, None, 0.97725),
        (98.0, 100.0, 200.0, 0.02275),
        (98.0, 100.0, 100.0, 0.0455),  # a range without a width is missed on either side
        (150.0, 100.0, 200.0, 1.0),
    ],
)
def test_a_value_with_its_u_alone_is_normal(value, low, high, p):
    assert p_value(value, 2.0, low, high, {}) == pytest.approx(p, abs=2e-5)


@pytest.mark.parametrize("expanded", [None, math.inf, math.nan, -1.0])
def test_without_u_there_is_no_p(expanded):
    assert p_value(1.0, expanded, 2.0, None, {}) is None


def test_without_a_limit_there_is_no_p():
    assert p_value(1.0, 1.0, None, None, {}) is None


def test_u_of_nothing_leaves_no_doubt():
    assert p_value(1.0, 0.0, 2.0, None, {}) == 0
    assert p_value(2.0, 0.0, 2.0, None, {}) == 0.5
    assert p_value(3.0, 0.0, 2.0, None, facts_of(10, 0.0)) == 1


def test_few_intervals_make_the_tail_heavy():
    """The factor that widens U is not counted twice: t is of the plain standard error."""
    within = 1.0 * small_sample_factor(6)
    p = p_value(96.0, 2 * within, 100.0, None, facts_of(6, within))
    assert p == pytest.approx(student_tail(4.0, 5))
    assert p > 10 * student_tail(4.0, math.inf)


def test_what_the_clocks_leave_open_has_no_degrees_of_freedom():
    assert p_value(98.0, 2.0, 100.0, None, facts_of(6, 0.0, 1.0)) == pytest.approx(0.02275, abs=1e-5)


def test_the_spread_between_runs_has_those_of_the_runs():
    between = 1.0 * small_sample_factor(5)
    own = p_value(96.0, 2.0, 100.0, None, facts_of(50, 1e-9, uncertainty_between=between, runs_made=5))
    assert own == pytest.approx(student_tail(4.0, 4), rel=1e-3)
    two = p_value(60.0, 2.0, 100.0, None, facts_of(50, 1e-9, uncertainty_between=1.0, runs_made=2))
    assert two == pytest.approx(student_tail(40.0 * math.sqrt(3), 3), rel=1e-3), "as U, which counts them as four"
    declared = p_value(96.0, 2.0, 100.0, None, facts_of(50, 1e-9, uncertainty_between=1.0))
    assert declared == pytest.approx(student_tail(4.0, math.inf), rel=1e-3)


def test_a_run_that_could_stop_early_has_the_p_of_its_always_valid_bound():
    fixed = p_value(96.0, 2.0, 100.0, None, facts_of(8, 1.0))
    stopped = p_value(96.0, 2.0, 100.0, None, facts_of(8, 1.0, profile="screening"))
    whole = p_value(96.0, 2.0, 100.0, None, facts_of(8, 1.0, profile="type-test"))
    assert fixed is not None
    assert stopped is not None
    assert stopped > fixed == whole
    assert stopped == pytest.approx(0.5 * math.exp(-log_e_value(4.0, 1.0 / small_sample_factor(8) * math.sqrt(8), 8)))
    far = facts_of(4, 1.0)
    assert p_value(-4000.0, 2.0, 100.0, None, {**far, "profile": "screening"}) == pytest.approx(
        60 * p_value(-4000.0, 2.0, 100.0, None, far)
    )
    assert p_value(104.0, 2.0, 100.0, None, facts_of(8, 1.0, profile="screening")) > 0.5


@given(st.floats(50, 150), st.floats(50, 150), st.floats(0.01, 10), st.floats(2, 100), st.booleans())
def test_a_worse_value_never_has_a_larger_p(one, other, within, n_eff, stopped):
    facts = facts_of(n_eff, within, 0.1, **({"profile": "screening"} if stopped else {}))
    worse, better = (p_value(value, 2 * within, 100.0, None, facts) for value in sorted((one, other)))
    assert worse is not None
    assert better is not None
    assert 0 <= worse <= better * (1 + 1e-9) <= 1 + 1e-9


# ---- Holm ------------------------------------------------------------------------------------------------------------

P_VALUES = st.lists(
    st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.001, 0.005, 0.01, 0.0125, 0.025, 0.05])), max_size=7
)


def closed_test(p_values: list[float]) -> list[bool]:
    """Holm by its definition as a closed test: a hypothesis falls when every set that it is in falls by Bonferroni."""
    numbers = range(len(p_values))
    subsets = [set(chosen) for size in range(1, len(p_values) + 1) for chosen in itertools.combinations(numbers, size)]
    fallen = {
        frozenset(chosen): any(p_values[number] * len(chosen) <= FAMILY_ALPHA for number in chosen)
        for chosen in subsets
    }
    return [all(fallen[frozenset(chosen)] for chosen in subsets if number in chosen) for number in numbers]


def stands(p_values: list[float]) -> list[bool]:
    return [step.stands for step in step_down(dict(enumerate(p_values))).values()]


@given(P_VALUES)
def test_holm_is_the_closed_test_of_bonferroni(p_values):
    assert stands(p_values) == closed_test(p_values)


@given(P_VALUES, st.randoms())
def test_the_order_of_the_rows_does_not_matter(p_values, chance):
    order = list(range(len(p_values)))
    chance.shuffle(order)
    assert stands([p_values[number] for number in order]) == [stands(p_values)[number] for number in order]


@given(P_VALUES, st.floats(0, 1))
def test_one_more_limit_never_makes_another_fail(p_values, more):
    assert all(before or not after for before, after in zip(stands(p_values), stands([*p_values, more]), strict=False))


@given(P_VALUES.filter(len), st.data())
def test_a_clearer_failure_never_saves_another(p_values, data):
    number = data.draw(st.integers(0, len(p_values) - 1))
    clearer = [p / 2 if place == number else p for place, p in enumerate(p_values)]
    assert all(after or not before for before, after in zip(stands(p_values), stands(clearer), strict=True))


def test_one_limit_is_tested_as_it_is():
    assert [step.adjusted for step in step_down({"a": 0.03}).values()] == [0.03]
    assert step_down({}) == {}


def test_the_risk_of_a_device_is_kept():
    """2000 devices exactly at 20 limits: 2.5 % a row fail one in 40 % of them, with Holm in 5 % at most."""
    spread = random.Random(11)
    alone = together_ = 0
    for _ in range(2000):
        p_values = [spread.random() for _ in range(20)]
        alone += min(p_values) <= 0.025
        together_ += any(stands(p_values))
    assert alone > 700
    assert together_ < 130


@pytest.mark.parametrize(
    ("rule", "facts", "statistical"),
    [
        ("guarded (buyer)", {}, True),
        ("guarded (vendor)", {}, False),
        ("simple", {}, False),
        (None, {}, False),
        ("simple", {"profile": "screening"}, True),
        ("simple", {"profile": "type-test"}, False),
        ("simple", {"profile": 7}, False),
    ],
)
def test_which_rules_claim_something(rule, facts, statistical):
    assert is_statistical(rule, facts) is statistical


# ---- on the sheet ----------------------------------------------------------------------------------------------------

LIMIT_BPS = 2.3e9
U_BPS = 1e6


def row_at(number: int, distance_in_u: float, **changes: Any) -> Row:
    """A row that misses its limit by so many U, below zero when it meets it; buyer's rule."""
    value = LIMIT_BPS - distance_in_u * U_BPS
    verdict = Verdict.FAIL if distance_in_u > 1 else Verdict.PASS if distance_in_u <= 0 else Verdict.INCONCLUSIVE
    row = make_row(f"p{number}", verdict, value)
    facts = facts_of(50, U_BPS / 2)
    return msgspec.structs.replace(
        row, **{"uncertainty": U_BPS, "rule": "guarded (buyer)", "evidence": Evidence(facts=facts), **changes}
    )


def sheet_of(rows: list[Row]) -> Sheet:
    (sheet,) = build_sheets(RUN, plan_of(rows), rows, complete=True)
    return sheet


GOOD = [row_at(number, -3) for number in range(2, 40)]


def test_a_narrow_failure_among_many_limits_is_not_proven():
    rows = [row_at(1, 1.1), *GOOD]
    sheet = sheet_of(rows)
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN
    assert sheet.counts == {"INCONCLUSIVE": 1, "PASS": 38}
    row = sheet.rows[0]
    assert row.verdict is Verdict.INCONCLUSIVE
    assert row.reason == (
        "The device delivered less than required; but it is one of 39 limits of this device, and so many let one fail "
        "by chance: a device that meets this limit shows such a value with a probability of 1.5 %, which counts as "
        "57 % among them (Holm), more than 5 %."
    )
    assert "repeat=5" in (row.next_step or "")
    facts = row.evidence.facts
    assert facts["holm_verdict"] == "FAIL"
    assert facts["holm_limits"] == 39
    assert facts["holm_adjusted_p"] == pytest.approx(39 * facts["holm_p"])
    assert sheet.sentence.startswith("1 of 39 required rows is not proven: 2.5G port p1 is INCONCLUSIVE: ")


def test_a_clear_failure_stands():
    sheet = sheet_of([row_at(1, 5), *GOOD])
    assert sheet.verdict is DeviceVerdict.REJECTED
    assert sheet.rows[0].reason == "The device delivered less than required."
    assert sheet.rows[0].evidence.facts["holm_verdict"] == "FAIL"
    assert sheet.rows[0].evidence.facts["holm_adjusted_p"] < 1e-6


def test_one_limit_alone_keeps_the_risk_of_its_rule():
    sheet = sheet_of([row_at(1, 1.1)])
    assert sheet.verdict is DeviceVerdict.REJECTED
    assert "holm_verdict" not in sheet.rows[0].evidence.facts


@pytest.mark.parametrize(
    "changes",
    [
        {"rule": "simple"},
        {"rule": "guarded (vendor)"},
        {"rule": None},
        {"uncertainty": None},
        {"uncertainty": 0.0},
        {"statistic": "min interval"},
        {"required": False},
    ],
    ids=str,
)
def test_a_failure_that_rests_on_no_statistics_stays(changes):
    sheet = sheet_of([row_at(1, 1.1, **changes), *GOOD])
    assert sheet.rows[0].verdict is Verdict.FAIL
    assert "holm_verdict" not in sheet.rows[0].evidence.facts


def test_rows_of_other_rules_do_not_count_among_the_limits():
    others = [msgspec.structs.replace(row, rule="simple") for row in GOOD]
    assert sheet_of([row_at(1, 1.3), *others, row_at(50, -3)]).verdict is DeviceVerdict.REJECTED


def test_a_check_of_the_tests_own_is_no_matter_of_statistics():
    failing = row_at(1, 1.1)
    own = msgspec.structs.replace(failing.evidence, facts={**failing.evidence.facts, OWN_CHECK: "assert 1 == 2"})
    assert sheet_of([msgspec.structs.replace(failing, evidence=own), *GOOD]).verdict is DeviceVerdict.REJECTED
    met = row_at(1, -2, verdict=Verdict.FAIL, reason="the test's own check failed: assert 1 == 2")
    assert sheet_of([met, *GOOD]).verdict is DeviceVerdict.REJECTED


def test_each_device_is_a_family_of_its_own():
    rows = [row_at(1, 1.1), *GOOD]
    alone = make_row("p1", Verdict.FAIL, LIMIT_BPS - 1.1 * U_BPS, serial="OTHER")
    alone = msgspec.structs.replace(
        alone, uncertainty=U_BPS, rule="guarded (buyer)", evidence=Evidence(facts=facts_of(50, U_BPS / 2))
    )
    sheets = build_sheets(RUN, plan_of([*rows, alone]), [*rows, alone], complete=True)
    assert [sheet.verdict for sheet in sheets] == [DeviceVerdict.NOT_PROVEN, DeviceVerdict.REJECTED]


def test_looking_again_changes_nothing():
    once = together([row_at(1, 1.1), row_at(2, 4), *GOOD[1:]])
    assert together(once) == once


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12))
def test_no_row_becomes_better_than_inconclusive_and_no_other_verdict_changes(distances):
    rows = [row_at(number, distance) for number, distance in enumerate(distances)]
    for before, after in zip(rows, together(rows), strict=True):
        if before.verdict is Verdict.FAIL:
            assert after.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE)
        else:
            assert after.verdict is before.verdict
        assert WORST_LAST.index(after.verdict) <= WORST_LAST.index(before.verdict)
