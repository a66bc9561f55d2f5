"""A measurement, its evidence and a limit: value, verdict, uncertainty and risk of the row. Pure.

Used when a row is judged and when a journal is judged again, so that both say the same to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from pytest_netperf.errors import LimitError
from pytest_netperf.judge.baselines import Baselines, baseline_of
from pytest_netperf.judge.count_uncertainty import ZERO_LOSS, counted_uncertainty, frames_of, zero_loss_bound
from pytest_netperf.judge.decision import DecisionRule
from pytest_netperf.judge.doubt_reference import doubt_limit, limited_by
from pytest_netperf.judge.interval_statistic import statistic_value
from pytest_netperf.judge.judgement import Judgement, Measured, compare, distance_of, judge
from pytest_netperf.judge.limits import Limit, ResolvedLimit, resolve, select_limit
from pytest_netperf.judge.row_uncertainty import RowUncertainty, guard, uncertainty_of_series
from pytest_netperf.judge.run_to_run import run_to_run_in
from pytest_netperf.judge.runs import deciding_value, met_in_runs
from pytest_netperf.judge.statistic import MEAN, Statistic
from pytest_netperf.judge.throughput import by_method
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import format_value
from pytest_netperf.record.schema import Evidence

__all__ = ["Assessment", "assess", "assess_limits", "risk_of"]

_CORRECT: Final = "Correct the limit and run again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What a row says of one statistic of one measurement."""

    value: float | None
    """The value of the statistic, in the unit of the quantity."""
    judgement: Judgement
    uncertainty: RowUncertainty
    rule: DecisionRule
    risk: str
    """What the rule leaves open, in one sentence."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The evidence behind value and uncertainty, for the row."""
    doubts: tuple[str, ...] = ()
    """What the limit and the method of the measurement add to the doubts of the evidence."""
    limit: Limit | None = None
    """The limit that applies."""
    resolved: ResolvedLimit | None = None
    """The same in plain numbers; None when it cannot be resolved."""


def assess_limits(
    measured: Measured,
    limits: Sequence[Limit],
    evidence: Evidence,
    conditions: Mapping[str, Any],
    rule: DecisionRule,
    *,
    statistic: Statistic = MEAN,
    own_rule: DecisionRule | None = None,
    link_speed_bps: float | None = None,
    no_limit: str | None = None,
    baselines: Baselines | None = None,
) -> Assessment:
    """Judge one statistic of a measurement by those of some limits that apply.

    The rule is ``own_rule``, that of the test itself, or that of the limit, or ``rule``, that of the run.
    """
    limit: Limit | None = None
    resolved: ResolvedLimit | None = None
    refused: str | None = None
    try:
        limit = select_limit([each for each in limits if each.key == statistic.key_of(measured.quantity)], conditions)
        if limit is not None:
            name, known = baseline_of(limit), None
            if name is not None and baselines is not None:
                known = {name: baselines.find(limit, conditions).value}
            resolved = resolve(limit, ceiling=measured.ceiling, link_speed=link_speed_bps, baselines=known)
    except LimitError as error:
        refused = str(error)
    doubt = doubt_limit(measured.quantity, resolved, conditions, evidence.facts)
    doubts = () if doubt is None else (doubt.text,)
    found = assess(
        limited_by(measured, doubt),
        resolved,
        msgspec.structs.replace(evidence, doubts=(*evidence.doubts, *doubts)),
        conditions,
        own_rule or (limit.rule if limit is not None else None) or rule,
        statistic=statistic,
        no_limit=refused or no_limit,
    )
    if refused is not None and found.judgement.verdict is Verdict.INCONCLUSIVE and measured.value is not None:
        found = replace(found, judgement=replace(found.judgement, next_step=_CORRECT))
    return replace(found, limit=limit, resolved=resolved, doubts=(*doubts, *found.doubts))


def assess(
    measured: Measured,
    limit: ResolvedLimit | None,
    evidence: Evidence,
    conditions: Mapping[str, Any],
    rule: DecisionRule,
    *,
    statistic: Statistic = MEAN,
    no_limit: str | None = None,
) -> Assessment:
    """Judge one statistic of a measurement. ``measured`` holds the mean, from which its truth is known.

    ``statistic`` is that of the limit, or of the limits of which none applies.
    """
    if statistic.of_intervals:
        value, judgement, facts = _of_intervals(statistic, measured, limit, evidence, conditions, no_limit)
    elif statistic.kind == "runs":
        value, judgement, facts = _of_runs(measured, limit, evidence, no_limit)
    else:
        found = None
        if limit is not None and measured.quantity == "throughput":
            found = by_method(measured, limit, evidence, conditions.get("protocol"), rule)
        if found is not None:
            judgement = guard(found.judgement, found.value, found.uncertainty, limit, rule)
            return Assessment(
                value=found.value,
                judgement=judgement,
                uncertainty=found.uncertainty,
                rule=rule,
                risk=rule.risk,
                facts=found.facts | found.uncertainty.facts(found.value, limit),
                doubts=found.doubts,
            )
        value, judgement, facts = measured.value, judge(measured, limit, no_limit=no_limit), {}
    known = _uncertainty(measured, evidence, conditions, statistic, judgement.verdict)
    judgement = guard(judgement, value, known, limit, rule)
    if measured.quantity == "throughput" or known.expanded is not None:
        facts |= known.facts(value, limit)
    bound = _zero_loss(measured, evidence)
    if bound is not None and judgement.verdict is not Verdict.INVALID:
        facts[ZERO_LOSS] = bound
        shown = format_value(bound, "ratio", 2)
        reason = f"{judgement.reason.rstrip('.')}; no loss in so many frames leaves up to {shown} possible (95 %)."
        judgement = replace(judgement, reason=reason)
    return Assessment(
        value=value,
        judgement=judgement,
        uncertainty=known,
        rule=rule,
        risk=risk_of(rule, statistic, len(evidence.runs) or 1),
        facts=facts,
    )


def risk_of(rule: DecisionRule, statistic: Statistic, runs_made: int = 1) -> str:
    """What can go wrong under a rule, for one statistic of a measurement."""
    if statistic.kind == "mean":
        return rule.risk
    if rule.name == "guarded":
        return f"No device is accepted or rejected by it: the uncertainty of a limit {statistic.text} is not known."
    if statistic.of_intervals:
        return f"A device whose {statistic.text} is exactly at the limit is accepted or rejected by chance."
    runs = statistic.runs or max(runs_made, 1)
    lucky = sum(math.comb(runs, met) for met in range(statistic.needed or runs, runs + 1))
    return (
        "A device of which each run meets the limit by chance, in half of the cases, is accepted in "
        f"{format_value(lucky / 2**runs, 'ratio', 3)} of the cases."
    )


_Found = tuple[float | None, Judgement, dict[str, Any]]


def _of_intervals(
    statistic: Statistic,
    measured: Measured,
    limit: ResolvedLimit | None,
    evidence: Evidence,
    conditions: Mapping[str, Any],
    no_limit: str | None,
) -> _Found:
    """Of repeated runs the worst one: each of them must keep the limit."""
    of_mean = judge(measured, limit, no_limit=no_limit)
    protocol = conditions.get("protocol")
    ones = [
        statistic_value(statistic, each.series, each.series_from, protocol)
        for each in ([run.evidence for run in evidence.runs] or [evidence])
    ]
    place, found = min(enumerate(ones, 1), key=lambda item: _how_good(item[1].value_bps, limit))
    if limit is None or not _possible(measured, of_mean):
        return found.value_bps, of_mean, found.facts
    where = f", run {place} of {len(ones)}" if len(ones) > 1 else ""
    if found.value_bps is None:
        reason = f"{statistic.text}{where} is not known: {found.missing}."
        return None, Judgement(Verdict.INCONCLUSIVE, reason, found.next_step), {}
    judgement = compare(measured, found.value_bps, limit)
    judgement = replace(judgement, reason=f"{statistic.text} ({found.intervals} of them{where}): {judgement.reason}")
    return found.value_bps, _with_all_runs(judgement, evidence), found.facts


def _how_good(value: float | None, limit: ResolvedLimit | None) -> float:
    """The smaller, the worse; what is not known is the worst."""
    if value is None:
        return -math.inf
    return value if limit is None else distance_of(value, limit)


def _of_runs(measured: Measured, limit: ResolvedLimit | None, evidence: Evidence, no_limit: str | None) -> _Found:
    """The verdict over the runs, unless the tester may have made the deciding one worse than it is."""
    of_mean = judge(measured, limit, no_limit=no_limit)
    if limit is None or measured.value is None or not _possible(measured, of_mean):
        return measured.value, of_mean, {}
    made = [run.throughput_bps for run in evidence.runs] or [measured.value]  # a single run is a run too
    runs = [math.nan if value is None else value for value in made]
    judgement, value = met_in_runs(runs, limit), deciding_value(runs, limit)
    if judgement.verdict in (Verdict.PASS, Verdict.FAIL) and value is not None:
        one = compare(measured, value, limit)
        if one.verdict is Verdict.INCONCLUSIVE:
            reason = f"{judgement.reason.rstrip('.')}, but the tester may be the cause: {measured.tester_limited}"
            judgement = replace(one, reason=reason)
    return value, _with_all_runs(judgement, evidence), {}


def _possible(measured: Measured, judgement: Judgement) -> bool:
    return measured.value is not None and judgement.verdict not in (Verdict.ERROR, Verdict.INVALID)


def _with_all_runs(judgement: Judgement, evidence: Evidence) -> Judgement:
    """A run that was asked for and never made may be the one that misses the limit."""
    made, asked = len(evidence.runs), evidence.facts.get("runs_asked", 0)
    if judgement.verdict is not Verdict.PASS or not made or not isinstance(asked, int) or made >= asked:
        return judgement
    reason = f"Only {made} of {asked} runs were made: {judgement.reason}"
    return Judgement(Verdict.INCONCLUSIVE, reason, "Find out why the others failed.", judgement.margin)


def _uncertainty(
    measured: Measured, evidence: Evidence, conditions: Mapping[str, Any], statistic: Statistic, verdict: Verdict
) -> RowUncertainty:
    if measured.value is None or verdict is Verdict.INVALID:
        return RowUncertainty(missing="there is no value that can be true")
    if statistic.kind != "mean":
        return RowUncertainty(missing=f"none is determined for a limit {statistic.text}")
    if measured.quantity == "throughput" and "source" not in evidence.facts:
        between = run_to_run_in(evidence.facts)
        protocol = conditions.get("protocol")
        return uncertainty_of_series(evidence.series, evidence.series_from, protocol, declared_between=between)
    facts = _facts_of_loss(measured.value, evidence) if measured.quantity == "frame_loss_ratio" else evidence.facts
    expanded, basis = counted_uncertainty(measured.quantity, measured.value, facts)
    if expanded is None:
        return RowUncertainty(missing=basis)
    return RowUncertainty(stated=expanded, basis=basis)


def _zero_loss(measured: Measured, evidence: Evidence) -> float | None:
    """What no loss among so many frames leaves possible; None where there was one, or nobody knows the frames."""
    if measured.quantity != "frame_loss_ratio" or measured.value != 0:
        return None
    frames = frames_of(0.0, _facts_of_loss(0.0, evidence))
    return None if frames is None else zero_loss_bound(frames)


def _facts_of_loss(ratio: float, evidence: Evidence) -> Mapping[str, Any]:
    """The facts that hold the frames behind a loss ratio: of repeated runs, those of the run with this ratio."""
    every = (evidence.facts, *(run.evidence.facts for run in evidence.runs))
    return next((facts for facts in every if frames_of(ratio, facts) is not None), evidence.facts)
