"""The mean throughput of a row under a profile, and of repeated runs: from the row's own evidence alone. Pure.

by a profile   the intervals go through the same `judge.series.SeriesJudge` as while the traffic ran
of runs        the mean over the runs; PASS needs each of them to meet the limit, FAIL the mean to miss it
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pytest_netperf.judge.decision import DecisionRule
from pytest_netperf.judge.judgement import Judgement, Measured, judge
from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.profile import Profile, get_profile
from pytest_netperf.judge.row_uncertainty import RowUncertainty, uncertainty_of_series
from pytest_netperf.judge.run_to_run import RunToRun, run_to_run_in
from pytest_netperf.judge.series import SeriesVerdict, judge_series
from pytest_netperf.judge.statistics import Sample, Uncertainty, small_sample_factor
from pytest_netperf.judge.verdict import Verdict, worst
from pytest_netperf.quantities import format_value
from pytest_netperf.record.schema import Evidence

__all__ = ["ByMethod", "by_method", "method_facts"]

_REPEAT: Final = "Find out what differs from run to run (cable, port, heat), then repeat the measurement."
_DECIDED: Final = (Verdict.PASS, Verdict.FAIL)


def method_facts(profile: Profile | None, run_to_run: RunToRun | None) -> dict[str, Any]:
    """What a row must hold so that its method can be applied again."""
    facts: dict[str, Any] = {} if run_to_run is None else run_to_run.facts()
    if profile is not None:
        facts |= {
            "profile": profile.name,
            "profile_duration_s": profile.duration_s,
            "profile_omit_s": profile.omit_s,
        }
    return facts


def _profile_in(facts: Mapping[str, Any]) -> Profile | None:
    """The profile that a row was measured by; None for a row of plain runs."""
    name = facts.get("profile")
    if not isinstance(name, str):
        return None
    return replace(
        get_profile(name),
        duration_s=float(facts.get("profile_duration_s", 0.0)),
        omit_s=float(facts.get("profile_omit_s", 0.0)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ByMethod:
    """What the method of a test makes of a measurement."""

    value: float | None
    """Mean throughput of the window that the verdict rests on, in bit/s."""
    judgement: Judgement
    uncertainty: RowUncertainty
    facts: dict[str, Any] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()


def by_method(
    measured: Measured, limit: ResolvedLimit, evidence: Evidence, protocol: object, rule: DecisionRule
) -> ByMethod | None:
    """Judge the mean throughput as the row's evidence says it was measured; None for a plain run.

    ``measured`` holds the value of the whole run, or the mean of all runs, and whether they can be believed.
    """
    if evidence.runs:
        return _of_runs(measured, limit, evidence, protocol, rule)
    profile = _profile_in(evidence.facts)
    return None if profile is None else _by_profile(measured, limit, evidence, protocol, rule, profile)


def _by_profile(
    measured: Measured,
    limit: ResolvedLimit,
    evidence: Evidence,
    protocol: object,
    rule: DecisionRule,
    profile: Profile,
) -> ByMethod:
    judgement = judge(measured, limit)
    between = run_to_run_in(evidence.facts)
    missing = uncertainty_of_series(evidence.series, evidence.series_from, protocol)
    found = None
    believed = measured.value is not None and judgement.verdict not in (Verdict.ERROR, Verdict.INVALID)
    if believed and missing.parts is not None:
        found = _judge_again(evidence, limit, profile, rule, between)
    if found is None or found.value_bps is None:
        if judgement.verdict in _DECIDED:
            reason = f"The run cannot be judged by profile {profile.name}: {missing.missing or 'it has no intervals'}."
            judgement = Judgement(Verdict.INCONCLUSIVE, reason, missing.next_step, judgement.margin)
        return ByMethod(value=measured.value, judgement=judgement, uncertainty=missing)
    judgement = judge(replace(measured, value=found.value_bps), limit)
    if judgement.verdict in _DECIDED:
        judgement = Judgement(found.verdict, found.reason, found.next_step, found.margin)
    facts: dict[str, Any] = {"traffic_s": round(found.seconds_used, 3)}
    if found.stopped_early:
        facts["time_saved_s"] = round(found.time_saved_s, 3)
    known = RowUncertainty(parts=found.uncertainty, noise=found.noise, usual_s=missing.usual_s)
    named = {doubt.partition(":")[0] for doubt in evidence.doubts}
    doubts = tuple(doubt for doubt in found.doubts if doubt.partition(":")[0] not in named)
    return ByMethod(value=found.value_bps, judgement=judgement, uncertainty=known, facts=facts, doubts=doubts)


def _judge_again(
    evidence: Evidence, limit: ResolvedLimit, profile: Profile, rule: DecisionRule, between: float | None
) -> SeriesVerdict:
    """The series exactly as it would have been judged live; what came after the last interval that counts is left."""
    points = [point for point in evidence.series if point.seconds > 0]
    while points and points[-1].omitted:
        points.pop()
    omit_s = 0.0
    for point in points:
        if not point.omitted:
            break
        omit_s += point.seconds
    samples = [Sample(point.seconds, point.throughput_bps * point.seconds) for point in points]
    return judge_series(samples, limit, replace(profile, omit_s=omit_s), rule, declared_between=between)


# ---- repeated runs ---------------------------------------------------------------------------------------------------


def _of_runs(
    measured: Measured,
    limit: ResolvedLimit,
    evidence: Evidence,
    protocol: object,
    rule: DecisionRule,
) -> ByMethod:
    profile = _profile_in(evidence.facts)
    # A guard band is for the mean; of each run it is only asked whether it agrees.
    each_rule = rule if profile is not None and profile.sequential else DecisionRule()
    ones = []
    for run in evidence.runs:
        one = replace(measured, value=run.throughput_bps)
        if profile is not None:
            ones.append(_by_profile(one, limit, run.evidence, protocol, each_rule, profile))
        else:
            known = uncertainty_of_series(run.evidence.series, run.evidence.series_from, protocol)
            ones.append(ByMethod(value=one.value, judgement=judge(one, limit), uncertainty=known))
    values = [one.value for one in ones if one.value is not None]
    mean = math.fsum(values) / len(values) if len(values) == len(ones) and values else None
    judgement = judge(replace(measured, value=mean), limit)
    known, facts = _spread(values, ones)
    asked = evidence.facts.get("runs_asked", len(ones))
    verdict = worst(tuple(one.judgement.verdict for one in ones))
    if judgement.verdict in _DECIDED and len(ones) < asked:
        reason = f"Only {len(ones)} of {asked} runs were made: {judgement.reason}"
        judgement = Judgement(Verdict.INCONCLUSIVE, reason, "Find out why the others failed.", judgement.margin)
    elif judgement.verdict is Verdict.PASS and verdict is not Verdict.PASS:
        numbers = [number for number, one in enumerate(ones, 1) if one.judgement.verdict is not Verdict.PASS]
        first = ones[numbers[0] - 1].judgement
        reason = (
            f"The mean of {len(ones)} runs meets the limit, but {len(numbers)} of them do not prove it; "
            f"run {numbers[0]}: {first.verdict.value}: {first.reason}"
        )
        judgement = Judgement(Verdict.INCONCLUSIVE, reason, first.next_step or _REPEAT, judgement.margin)
    elif judgement.verdict in _DECIDED:
        reason = f"Mean of {len(ones)} runs: {judgement.reason}"
        judgement = replace(judgement, reason=reason)
    return ByMethod(value=mean, judgement=judgement, uncertainty=known, facts=facts)


def _spread(values: Sequence[float], ones: Sequence[ByMethod]) -> tuple[RowUncertainty, dict[str, Any]]:
    """The uncertainty of the mean: within the runs, and between them (GUM 4.2, of the mean of so many)."""
    size = len(values)
    parts = [one.uncertainty.parts for one in ones if one.uncertainty.parts is not None]
    if size < 2 or len(parts) < size:
        return RowUncertainty(missing="a run has no intervals that count"), {}
    mean = math.fsum(values) / size
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (size - 1))
    within = math.sqrt(math.fsum(part.within_bps**2 for part in parts)) / size
    resolution = math.sqrt(math.fsum(part.resolution_bps**2 for part in parts) / size)
    between = spread / math.sqrt(size) * small_sample_factor(size)
    known = RowUncertainty(
        parts=Uncertainty(within, between, resolution),
        noise=ones[0].uncertainty.noise,
        usual_s=ones[0].uncertainty.usual_s,
    )
    slowest = min(range(size), key=lambda index: values[index])
    facts = {
        "runs_made": size,
        "run_values_bps": list(values),
        "run_to_run_sd_bps": spread,
        "run_to_run": f"standard deviation {format_value(spread / mean if mean else 0.0, 'ratio', 3)} from run to run, "
        f"the slowest (run {slowest + 1}) {format_value(values[slowest], 'bit/s')}",
    }
    return known, facts
