"""A limit to be met in k of n runs: what passes, fails and stays open, in any number of runs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.judge.limit_text import parse_limit
from pytest_netperf.judge.limits import resolve
from pytest_netperf.judge.runs import deciding_value, met_in_runs
from pytest_netperf.judge.verdict import Verdict

PASS, FAIL, OPEN, INVALID = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.INVALID


def limit(text):
    return resolve(parse_limit("throughput", text))


FOUR_OF_FIVE = limit(">= 2.3 Gbps in 4 of 5 runs")
EVERY = limit(">= 2.3 Gbps in every run")
GOOD, BAD = 2.35e9, 2.1e9


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([GOOD] * 5, PASS),
        ([GOOD] * 4 + [BAD], PASS),
        ([BAD] + [GOOD] * 4, PASS),
        ([2.3e9] * 4 + [BAD], PASS),  # at the limit it is met
        ([GOOD] * 3 + [BAD] * 2, FAIL),
        ([BAD] * 5, FAIL),
        ([], OPEN),
        ([GOOD], OPEN),
        ([GOOD] * 4, OPEN),  # the fifth is missing although four are enough: it was agreed to make five
        ([GOOD] * 3 + [BAD], OPEN),
        ([BAD, BAD], FAIL),  # no further run can mend this
        ([GOOD] * 6, PASS),
        ([GOOD] * 5 + [BAD], PASS),
        ([GOOD] * 5 + [BAD, BAD], OPEN),
        ([GOOD] * 3 + [BAD, BAD, GOOD, GOOD, GOOD], FAIL),  # runs added afterwards do not mend it
    ],
)
def test_four_of_five(values, verdict):
    found = met_in_runs(values, FOUR_OF_FIVE)
    assert found.verdict is verdict, found.reason
    assert (found.next_step is None) == (verdict is PASS)
    assert found.reason.endswith(".")


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([GOOD], PASS), ([GOOD] * 3, PASS), ([GOOD, GOOD, BAD], FAIL), ([BAD], FAIL), ([], OPEN)],
)
def test_every_run_is_as_many_as_were_made(values, verdict):
    assert met_in_runs(values, EVERY).verdict is verdict


def test_the_reason_counts_and_names_the_worst_run():
    found = met_in_runs([GOOD, 2.29999e9, GOOD, GOOD, GOOD], FOUR_OF_FIVE)
    assert found.reason == (
        "4 of 5 runs meet it, the worst (run 2) with 2.29999 Gbit/s; at least 2.3 Gbit/s is required in 4 of 5."
    )
    assert met_in_runs([GOOD], EVERY).reason.endswith("at least 2.3 Gbit/s is required in every run.")
    missing = met_in_runs([GOOD] * 3, FOUR_OF_FIVE)
    assert missing.reason.startswith("3 of 5 runs were made: 3 of 3 runs meet it")
    assert missing.next_step == "Measure 5 runs in this test (repeat=5)."
    assert met_in_runs([GOOD], FOUR_OF_FIVE).reason.startswith("1 of 5 runs was made")
    assert "the first 5 bear it out, all 7 do not" in met_in_runs([GOOD] * 5 + [BAD] * 2, FOUR_OF_FIVE).reason


def test_bounds_of_every_shape():
    below = limit("<= 2.3 Gbps in 2 of 3 runs")
    assert met_in_runs([BAD, BAD, GOOD], below).verdict is PASS
    assert met_in_runs([BAD, GOOD, GOOD], below).verdict is FAIL
    between = limit("between 2 and 2.3 Gbps in 2 of 3 runs")
    assert met_in_runs([BAD, 2.2e9, GOOD], between).verdict is PASS
    assert met_in_runs([1e9, BAD, GOOD], between).verdict is FAIL
    assert "2 Gbit/s to 2.3 Gbit/s is required in 2 of 3" in met_in_runs([BAD, BAD, BAD], between).reason


def test_the_run_that_decides_is_the_kth_best():
    assert deciding_value([5e9, 1e9, 4e9, 2e9, 3e9], FOUR_OF_FIVE) == 2e9
    assert deciding_value([5e9, 1e9, 4e9], EVERY) == 1e9
    assert deciding_value([5e9, 1e9, 4e9], FOUR_OF_FIVE) == 1e9, "fewer than needed: the worst so far"
    assert deciding_value([], EVERY) is None
    assert deciding_value([5e9, 1e9, 4e9], limit("<= 2 Gbps in 2 of 3 runs")) == 4e9
    found = met_in_runs([2.3e9 * 1.01] * 4 + [BAD], FOUR_OF_FIVE)
    assert found.margin == pytest.approx(0.01)


@pytest.mark.parametrize("broken", [math.nan, math.inf, 0.0, -1.0])
def test_a_run_that_cannot_be_true_makes_no_verdict(broken):
    found = met_in_runs([GOOD, broken, GOOD, GOOD, GOOD], FOUR_OF_FIVE)
    assert found.verdict is INVALID
    assert "Run 2 of 5" in found.reason


counts = st.integers(1, 8).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n)))


@given(counts, st.lists(st.sampled_from([GOOD, BAD]), max_size=12))
def test_no_pass_without_its_runs_and_no_fail_without_its_misses(count, values):
    needed, asked = count
    ours = limit(f">= 2.3 Gbps in {needed} of {asked} runs")
    found = met_in_runs(values, ours)
    missed = values.count(BAD)
    if found.verdict is PASS:
        assert len(values) >= asked
        assert len(values) - missed >= needed
        assert missed <= asked - needed
        assert deciding_value(values, ours) >= 2.3e9
    if found.verdict is FAIL:
        assert values[:asked].count(BAD) > asked - needed
    if len(values) == asked:
        assert found.verdict is (PASS if asked - missed >= needed else FAIL)
        assert (deciding_value(values, ours) >= 2.3e9) == (found.verdict is PASS)


@given(counts, st.lists(st.floats(1e6, 1e11), min_size=1, max_size=8), st.floats(1e6, 1e11))
def test_a_further_run_never_turns_a_fail(count, values, more):
    ours = limit(f">= 2.3 Gbps in {count[0]} of {count[1]} runs")
    if met_in_runs(values, ours).verdict is FAIL:
        assert met_in_runs([*values, more], ours).verdict is FAIL
