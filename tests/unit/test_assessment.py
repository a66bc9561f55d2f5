"""Rows of every statistic and of counts: value, verdict, uncertainty under each rule, and the risk that is left."""

from __future__ import annotations

import dataclasses
import math

import pytest

from pytest_netperf.judge.assessment import assess, assess_limits, risk_of
from pytest_netperf.judge.count_uncertainty import STATED, ZERO_LOSS
from pytest_netperf.judge.decision import get_rule
from pytest_netperf.judge.judgement import Measured
from pytest_netperf.judge.limit_text import parse_limit
from pytest_netperf.judge.limits import resolve
from pytest_netperf.judge.statistic import MEAN, Statistic
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import get_quantity
from pytest_netperf.record.schema import Evidence, Run, SeriesPoint

PASS, FAIL, OPEN, INVALID, ERROR = (
    Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.INVALID, Verdict.ERROR,
)  # fmt: skip
SIMPLE, VENDOR, BUYER = get_rule(), get_rule("guarded", "vendor"), get_rule("guarded", "buyer")
P5 = Statistic("quantile", percent=5)
TCP = {"protocol": "tcp"}


def measured(value=2.34e9, quantity="throughput", **more):
    known = get_quantity(quantity)
    return Measured(quantity=quantity, unit=known.unit, better=known.better, value=value, trusted=True, **more)


def evidence(rates=(), **facts):
    series = tuple(SeriesPoint(start_s=i, seconds=1, throughput_bps=rate) for i, rate in enumerate(rates))
    return Evidence(series=series, series_from="receiver" if series else None, facts=facts)


def judged(text, rates=(), rule=SIMPLE, mean=2.34e9, **more):
    limit = resolve(parse_limit("throughput", text))
    return assess(measured(mean, **more), limit, evidence(rates), TCP, rule, statistic=limit.statistic)


DIP = [2.35e9] * 38 + [1.0e9] * 2


@pytest.mark.parametrize(
    ("text", "verdict", "value"),
    [
        (">= 2.3 Gbps", PASS, 2.34e9),
        ("p5 of intervals >= 2.3 Gbps", FAIL, 1.0e9),
        ("p10 of intervals >= 2.3 Gbps", PASS, 2.35e9),
        ("min interval >= 0.9 Gbps", PASS, 1.0e9),
        ("min interval >= 2.3 Gbps", FAIL, 1.0e9),
        ("max interval <= 2.36 Gbps", PASS, 2.35e9),
        (">= 2.3 Gbps in every run", PASS, 2.34e9),
        (">= 2.3 Gbps in 4 of 5 runs", OPEN, 2.34e9),
        (">= 2.4 Gbps in 1 of 1 runs", FAIL, 2.34e9),
    ],
)
def test_each_statistic_is_judged_on_its_own_value(text, verdict, value):
    found = judged(text, DIP)
    assert found.judgement.verdict is verdict, found.judgement.reason
    assert found.value == pytest.approx(value)
    assert (found.judgement.next_step is None) == (verdict is PASS)


def test_the_reason_names_the_statistic():
    found = judged("p5 of intervals >= 2.3 Gbps", DIP)
    assert found.judgement.reason.startswith("p5 of intervals (40 of them): 1 Gbit/s is below the required 2.3 Gbit/s")
    assert found.judgement.margin == pytest.approx(1 / 2.3 - 1)
    assert found.facts["statistic_intervals"] == 40
    short = judged("p5 of intervals >= 2.3 Gbps", DIP[:10])
    assert short.judgement.verdict is OPEN
    assert short.value is None
    assert short.judgement.reason == (
        "p5 of intervals is not known: 10 intervals of a second or longer, and p5 of intervals takes at least 20 to be "
        "one of them."
    )


def test_a_second_without_a_byte_is_a_failure_and_not_an_impossible_number():
    found = judged("min interval >= 1 Gbps", [2.35e9] * 9 + [0.0])
    assert found.judgement.verdict is FAIL
    assert found.value == 0
    assert "100 % short" in found.judgement.reason


def test_a_burst_above_the_ceiling_is_no_impossible_number_but_a_mean_above_it_is():
    found = judged("max interval <= 2.5 Gbps", [2.3e9] * 9 + [2.4e9], bound=2.36e9)
    assert found.judgement.verdict is PASS
    found = judged("p5 of intervals >= 2 Gbps", [2.5e9] * 30, mean=2.5e9, bound=2.36e9)
    assert found.judgement.verdict is INVALID
    for text in ("min interval >= 1 Gbps", ">= 1 Gbps in every run"):
        assert judged(text, DIP, mean=math.nan).judgement.verdict is INVALID
        assert judged(text, DIP, mean=None).judgement.verdict is OPEN
        assert judged(text, DIP, error="the peer died").judgement.verdict is ERROR
        assert judged(text, DIP, received_bytes=0).judgement.verdict is INVALID


@pytest.mark.parametrize("text", ["min interval >= 2.3 Gbps", ">= 2.4 Gbps in every run", ">= 2.4 Gbps in 1 of 1 runs"])
def test_a_limited_tester_leaves_a_failure_open_and_a_pass_a_pass(text):
    found = judged(text, DIP, tester_limited="A CPU was busy.")
    assert found.judgement.verdict is OPEN
    assert "the tester may be the cause: A CPU was busy." in found.judgement.reason
    assert judged("min interval >= 0.9 Gbps", DIP, tester_limited="A CPU was busy.").judgement.verdict is PASS
    assert judged(">= 2.3 Gbps in every run", DIP, tester_limited="A CPU was busy.").judgement.verdict is PASS


def test_without_a_limit_that_applies_nothing_is_decided():
    for statistic in (MEAN, P5, Statistic("runs")):
        found = assess(measured(), None, evidence(DIP), TCP, SIMPLE, statistic=statistic, no_limit="None applies.")
        assert (found.judgement.verdict, found.judgement.reason) == (OPEN, "None applies.")
        assert found.value is not None


@pytest.mark.parametrize("rule", [VENDOR, BUYER])
@pytest.mark.parametrize(
    "text",
    ["p5 of intervals >= 2 Gbps", "p5 of intervals >= 0.5 Gbps", "min interval >= 2 Gbps", ">= 2 Gbps in every run"],
)
def test_a_statistic_has_no_guard_band_so_guarded_decides_nothing(rule, text):
    found = judged(text, DIP, rule=rule)
    assert found.judgement.verdict is OPEN
    assert "its uncertainty is not known (none is determined for a limit " in found.judgement.reason
    assert "netperf_method" in found.judgement.next_step
    assert found.risk.startswith("No device is accepted or rejected by it")


def test_the_mean_is_guarded_as_ever():
    assert judged(">= 2.0 Gbps", [2.34e9, 2.341e9] * 10, rule=VENDOR).judgement.verdict is PASS
    near = judged(">= 2.3399 Gbps", [2.34e9, 2.36e9, 2.32e9] * 5, rule=VENDOR)
    assert near.judgement.verdict is OPEN
    assert near.uncertainty.expanded > 0
    assert near.facts["intervals"] == 15


# ---- counts ----------------------------------------------------------------------------------------------------------


def loss(ratio, text, rule, frames=100_000, **facts):
    limit = resolve(parse_limit("frame_loss_ratio", text))
    facts = {"packets": frames, "lost_packets": round(ratio * frames), "frame_loss_ratio": ratio, **facts}
    return assess(measured(ratio, "frame_loss_ratio"), limit, evidence(**facts), {"protocol": "udp"}, rule)


@pytest.mark.parametrize(
    ("ratio", "frames", "rule", "verdict"),
    [
        (0.0005, 100_000, VENDOR, PASS),
        (0.00095, 100_000, VENDOR, OPEN),
        (0.0011, 100_000, VENDOR, FAIL),
        (0.0011, 100_000, BUYER, OPEN),
        (0.0015, 100_000, BUYER, FAIL),
        (0.0, 100_000, VENDOR, PASS),
        (0.0, 3000, VENDOR, OPEN),  # 3000 frames without a loss do not prove 0.1 %
        (0.0, 3000, SIMPLE, PASS),
    ],
)
def test_a_loss_ratio_is_guarded_by_its_frames(ratio, frames, rule, verdict):
    found = loss(ratio, "<= 0.1 %", rule, frames)
    assert found.judgement.verdict is verdict, found.judgement.reason
    assert found.uncertainty.expanded > 0
    assert "Clopper and Pearson" in found.facts["uncertainty_from"]


@pytest.mark.parametrize("rule", [SIMPLE, VENDOR, BUYER])
def test_no_loss_says_what_it_leaves_possible_under_any_rule(rule):
    found = loss(0.0, "<= 0.1 %", rule)
    assert found.facts[ZERO_LOSS] == pytest.approx(3e-5, rel=0.01)
    assert found.judgement.reason.endswith("no loss in so many frames leaves up to 0.003 % possible (95 %).")
    assert ZERO_LOSS not in loss(0.001, "<= 0.1 %", rule).facts
    unknown = assess(measured(0.0, "frame_loss_ratio"), None, evidence(), {}, rule)
    assert ZERO_LOSS not in unknown.facts


@pytest.mark.parametrize(("quantity", "text"), [("retransmits", "<= 50"), ("errors", "<= 50")])
def test_an_exact_count_has_no_guard_band(quantity, text):
    limit = resolve(parse_limit(quantity, text))
    for rule in (VENDOR, BUYER):
        for value, verdict in ((50.0, PASS), (51.0, FAIL)):
            found = assess(measured(value, quantity), limit, evidence(), TCP, rule)
            assert found.judgement.verdict is verdict
            assert found.uncertainty.expanded == 0
            assert found.facts["uncertainty_from"].startswith("exact: ")


@pytest.mark.parametrize(
    ("value", "rule", "verdict"),
    [(14.0, VENDOR, PASS), (14.9, VENDOR, OPEN), (15.1, VENDOR, FAIL), (15.1, BUYER, OPEN), (15.3, BUYER, FAIL)],
)
def test_a_recorded_value_is_guarded_by_what_the_test_states(value, rule, verdict):
    limit = resolve(parse_limit("power", "<= 15 W"))
    facts = {"source": "recorded by the test", STATED: 0.2}
    found = assess(measured(value, "power"), limit, evidence(**facts), {}, rule)
    assert found.judgement.verdict is verdict
    assert found.uncertainty.expanded == 0.2
    if verdict is OPEN:
        assert "guard band of 200 mW" in found.judgement.reason or "0.2 W" in found.judgement.reason
    without = assess(measured(value, "power"), limit, evidence(source="recorded by the test"), {}, rule)
    assert without.judgement.verdict is OPEN
    assert "uncertainty=..." in without.judgement.next_step


def test_the_band_is_shown_in_the_unit_of_the_quantity():
    limit = resolve(parse_limit("temperature", "<= 60 degC"))
    facts = {"source": "recorded by the test", STATED: 1.5}
    found = assess(measured(59.5, "temperature"), limit, evidence(**facts), {}, VENDOR)
    assert "guard band of 1.5 \u00b0C" in found.judgement.reason


def test_the_worst_loss_of_repeated_runs_has_the_frames_of_its_run():
    def run(ratio, frames):
        return Run(throughput_bps=1e8, evidence=evidence(packets=frames, frame_loss_ratio=ratio))

    whole = Evidence(facts={"packets": 1000, "frame_loss_ratio": 0.0}, runs=(run(0.0, 1000), run(0.01, 5000)))
    found = assess(measured(0.01, "frame_loss_ratio"), None, whole, {"protocol": "udp"}, SIMPLE)
    assert "5000 frames" in found.facts["uncertainty_from"]
    assert ZERO_LOSS not in found.facts
    none = Evidence(facts={"packets": 1000, "frame_loss_ratio": 0.0}, runs=(run(0.0, 1000), run(0.0, 5000)))
    found = assess(measured(0.0, "frame_loss_ratio"), None, none, {"protocol": "udp"}, SIMPLE)
    assert found.facts[ZERO_LOSS] == pytest.approx(3 / 1000, rel=0.01)


# ---- the limit and the rule that apply -------------------------------------------------------------------------------


def by_limits(*texts, own=None, run=SIMPLE, statistic=MEAN, value=2.34e9, **conditions):
    limits = [parse_limit("throughput", text, conditions=given, rule=rule) for text, given, rule in texts]
    known = {"protocol": "tcp", "mtu": 1500, **conditions}
    return assess_limits(
        measured(value), limits, evidence(DIP), known, run, statistic=statistic, own_rule=own, no_limit="None."
    )


@pytest.mark.parametrize(
    ("own", "of_limit", "of_run", "rule"),
    [
        (None, None, SIMPLE, SIMPLE),
        (None, None, VENDOR, VENDOR),
        (None, BUYER, VENDOR, BUYER),
        (None, SIMPLE, VENDOR, SIMPLE),
        (VENDOR, BUYER, SIMPLE, VENDOR),
        (SIMPLE, BUYER, VENDOR, SIMPLE),
    ],
)
def test_the_rule_is_that_of_the_test_then_of_the_limit_then_of_the_run(own, of_limit, of_run, rule):
    assert by_limits((">= 2 Gbps", {}, of_limit), own=own, run=of_run).rule == rule


def test_each_statistic_takes_its_own_limit():
    both = [(">= 2 Gbps", {}, None), ("min interval >= 2 Gbps", {}, None)]
    mean, slowest = by_limits(*both), by_limits(*both, statistic=Statistic("min"))
    assert (mean.limit.text, mean.judgement.verdict) == (">= 2 Gbit/s", PASS)
    assert (slowest.limit.text, slowest.judgement.verdict) == ("min interval >= 2 Gbit/s", FAIL)
    neither = by_limits(*both, statistic=P5)
    assert (neither.limit, neither.judgement.verdict, neither.judgement.reason) == (None, OPEN, "None.")


def test_limits_with_an_equal_claim_decide_nothing_and_mend_nothing():
    two = [(">= 2 Gbps", {"mtu": 1500}, None), (">= 1 Gbps", {"protocol": "tcp"}, None)]
    found = by_limits(*two)
    assert (found.judgement.verdict, found.limit, found.resolved) == (OPEN, None, None)
    assert "apply with equal right" in found.judgement.reason
    assert found.judgement.next_step == "Correct the limit and run again."
    assert by_limits(*two, value=math.nan).judgement.verdict is INVALID
    unresolved = by_limits((">= 90 % of link speed", {}, None))
    assert unresolved.judgement.verdict is OPEN
    assert unresolved.limit is not None
    assert unresolved.resolved is None
    assert "the link has no speed" in unresolved.judgement.reason


# ---- risk ------------------------------------------------------------------------------------------------------------


def test_the_risk_is_that_of_the_rule_and_the_statistic():
    assert risk_of(SIMPLE, MEAN) == SIMPLE.risk
    assert risk_of(VENDOR, MEAN) == VENDOR.risk
    assert "exactly at the limit" in risk_of(SIMPLE, P5)
    # By hand: of 5 coins at least 4 show heads in 6 of 32 cases.
    assert "is accepted in 18.8 % of the cases" in risk_of(SIMPLE, Statistic("runs", needed=4, runs=5))
    assert "is accepted in 12.5 % of the cases" in risk_of(SIMPLE, Statistic("runs"), 3)
    assert "is accepted in 50 % of the cases" in risk_of(SIMPLE, Statistic("runs"))


def test_the_rule_of_the_assessment_is_the_one_it_was_given():
    limit = resolve(parse_limit("throughput", ">= 2 Gbps"))
    for rule in (SIMPLE, VENDOR):
        found = assess(measured(), limit, evidence(DIP), TCP, rule)
        assert (found.rule, found.risk) == (rule, rule.risk)
    assert dataclasses.is_dataclass(found)
