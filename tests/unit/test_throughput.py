"""The mean throughput of a row under a profile and of repeated runs, from recorded evidence alone."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.judge.decision import DecisionRule, get_rule
from pytest_netperf.judge.judgement import Measured
from pytest_netperf.judge.limit_text import parse_limit
from pytest_netperf.judge.limits import resolve
from pytest_netperf.judge.profile import get_profile
from pytest_netperf.judge.throughput import by_method, method_facts
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.schema import Evidence, Run, SeriesPoint

SIMPLE = DecisionRule()
LIMIT = resolve(parse_limit("throughput", ">= 900 Mbps"), ceiling=None, link_speed=None)
SCREENING, FIXED = get_profile("screening"), get_profile("fixed")


def points(rates, omit=0):
    return tuple(
        SeriesPoint(start_s=place - omit, seconds=1.0, throughput_bps=rate, omitted=place < omit)
        for place, rate in enumerate(rates)
    )


def noisy(mean, count, sd=1e6, seed=1):
    rng = random.Random(seed)
    return [rng.gauss(mean, sd) for _ in range(count)]


def evidence(rates, profile=SCREENING, omit=0, **facts):
    return Evidence(series=points(rates, omit), series_from="receiver", facts={**method_facts(profile, None), **facts})


def measured(rates):
    return Measured(quantity="throughput", unit="bit/s", better="higher", value=sum(rates) / len(rates), trusted=True)


def judged(rates, profile=SCREENING, rule=SIMPLE, **more):
    return by_method(measured(rates), LIMIT, evidence(rates, profile, **more), "tcp", rule)


def test_a_plain_run_is_not_touched():
    assert by_method(measured([1e9]), LIMIT, Evidence(series=points([1e9] * 20)), "tcp", SIMPLE) is None


@pytest.mark.parametrize(("mean", "verdict"), [(941e6, Verdict.PASS), (753e6, Verdict.FAIL)])
def test_a_run_that_was_stopped_says_what_it_saved(mean, verdict):
    found = judged(noisy(mean, 10))
    assert found.judgement.verdict is verdict
    assert "Decided after 10 s, 50 s saved" in found.judgement.reason
    assert found.facts == {"traffic_s": 10.0, "time_saved_s": 50.0}
    assert found.value == pytest.approx(mean, rel=0.002)


def test_what_was_omitted_before_and_left_over_behind_counts_for_nothing():
    rates = [*[1e6] * 3, *noisy(941e6, 10)]
    tail = SeriesPoint(start_s=10.0, seconds=0.15, throughput_bps=5e9, omitted=True)
    given_ = Evidence(
        series=(*points(rates, omit=3), tail), series_from="receiver", facts=method_facts(SCREENING, None)
    )
    found = by_method(measured(rates[3:]), LIMIT, given_, "tcp", SIMPLE)
    assert found.value == pytest.approx(941e6, rel=0.002)
    assert found.judgement.verdict is Verdict.PASS
    assert found.facts["traffic_s"] == 13.0


def test_too_few_intervals_prove_nothing():
    found = judged(noisy(941e6, 7))
    assert found.judgement.verdict is Verdict.INCONCLUSIVE
    assert "7 intervals" in found.judgement.reason


def test_a_mean_that_hides_a_step_over_the_limit_is_no_pass():
    found = judged([*noisy(990e6, 40), *noisy(800e6, 20, seed=2)], FIXED)
    assert found.judgement.verdict is Verdict.INCONCLUSIVE
    assert "the mean describes no part of the run" in found.judgement.reason


def test_intervals_that_only_a_udp_sender_counted_are_no_basis():
    given_ = Evidence(series=points([941e6] * 10), series_from="sender", facts=method_facts(SCREENING, None))
    found = by_method(measured([941e6]), LIMIT, given_, "udp", SIMPLE)
    assert found.judgement.verdict is Verdict.INCONCLUSIVE
    assert "only the sender's intervals are known" in found.judgement.reason


@pytest.mark.parametrize("value", [None, float("nan"), 0.0])
def test_no_profile_turns_what_cannot_be_true_into_a_verdict(value):
    found = by_method(replace(measured([941e6]), value=value), LIMIT, evidence(noisy(941e6, 10)), "tcp", SIMPLE)
    assert found.judgement.verdict in (Verdict.INVALID, Verdict.INCONCLUSIVE)


def test_a_limited_tester_leaves_a_fail_of_a_profile_open():
    limited = replace(measured(noisy(753e6, 10)), tester_limited="a CPU was busy.")
    found = by_method(limited, LIMIT, evidence(noisy(753e6, 10)), "tcp", SIMPLE)
    assert found.judgement.verdict is Verdict.INCONCLUSIVE
    assert "the tester may be the cause" in found.judgement.reason


# ---- repeated runs ---------------------------------------------------------------------------------------------------


def repeated(means, asked=None, profile=None, rule=SIMPLE):
    runs = []
    for number, mean in enumerate(means):
        rates = noisy(mean, 10, seed=number)
        runs.append(Run(throughput_bps=sum(rates) / 10, evidence=evidence(rates, profile)))
    of_all = Evidence(
        series=runs[0].evidence.series,
        series_from="receiver",
        facts={**method_facts(profile, None), "runs_asked": asked or len(means)},
        runs=tuple(runs),
    )
    return by_method(measured(list(means)), LIMIT, of_all, "tcp", rule)


def test_every_run_must_meet_the_limit():
    found = repeated([940e6, 941e6, 942e6])
    assert found.judgement.verdict is Verdict.PASS
    assert found.value == pytest.approx(941e6, rel=1e-3)
    assert found.facts["runs_made"] == 3
    assert found.uncertainty.parts.between_bps == pytest.approx(1e6 / 3**0.5 * 3**0.5, rel=0.5)


def test_one_run_below_the_limit_is_not_hidden_by_the_mean():
    found = repeated([941e6, 890e6, 942e6])
    assert found.judgement.verdict is Verdict.INCONCLUSIVE
    assert "1 of them do not prove it; run 2: FAIL" in found.judgement.reason


def test_a_mean_below_the_limit_fails():
    found = repeated([880e6, 890e6, 902e6])
    assert found.judgement.verdict is Verdict.FAIL


@pytest.mark.parametrize("mean", [941e6, 753e6])
def test_missing_runs_leave_everything_open(mean):
    found = repeated([mean, mean], asked=5)
    assert found.judgement.verdict is Verdict.INCONCLUSIVE
    assert "Only 2 of 5 runs were made" in found.judgement.reason


def test_the_spread_of_the_runs_widens_the_uncertainty():
    calm, wild = repeated([940e6, 941e6, 942e6]), repeated([910e6, 941e6, 972e6])
    assert wild.uncertainty.expanded > 10 * calm.uncertainty.expanded


def test_runs_of_a_profile_are_each_judged_by_it():
    found = repeated([941e6] * 3, profile=get_profile("type-test"))
    assert found.judgement.verdict is Verdict.INCONCLUSIVE  # 10 s are no type test
    assert "The series is too short" in found.judgement.reason


@given(
    st.lists(st.floats(5e8, 1e9), min_size=1, max_size=6),
    st.integers(0, 3),
    st.sampled_from([None, FIXED]),
    st.sampled_from([SIMPLE, get_rule("guarded", "vendor"), get_rule("guarded", "buyer")]),
)
def test_a_pass_is_never_better_than_its_worst_run(means, missing, profile, rule):
    found = repeated(means, asked=len(means) + missing, profile=profile, rule=rule)
    if found.judgement.verdict is Verdict.PASS:
        assert missing == 0
        assert all(mean > 900e6 - 5e6 for mean in means)
