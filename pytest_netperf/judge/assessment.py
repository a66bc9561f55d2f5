"""A measurement, its evidence and a limit: value, verdict, uncertainty and risk of the row. Pure.

Used when a row is judged and when a journal is judged again, so that both say the same to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_netperf.judge.count_uncertainty import ZERO_LOSS, counted_uncertainty, frames_of, zero_loss_bound
from pytest_netperf.judge.decision import DecisionRule
from pytest_netperf.judge.interval_statistic import statistic_value
from pytest_netperf.judge.judgement import Judgement, Measured, compare, judge
from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.row_uncertainty import RowUncertainty, guard, uncertainty_of_series
from pytest_netperf.judge.runs import deciding_value, met_in_runs
from pytest_netperf.judge.statistic import MEAN, Statistic
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import format_value
from pytest_netperf.record.schema import Evidence

__all__ = ["Assessment", "assess", "risk_of"]


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
    judgement = judge(measured, limit, no_limit=no_limit)
    value, facts = measured.value, {}
    possible = measured.value is not None and judgement.verdict not in (Verdict.ERROR, Verdict.INVALID)
    runs = _runs(measured, evidence)
    if statistic.of_intervals:
        found = statistic_value(statistic, evidence.series, evidence.series_from, conditions.get("protocol"))
        value, facts = found.value_bps, found.facts
        if possible and limit is not None:
            judgement = (
                Judgement(Verdict.INCONCLUSIVE, f"{statistic.text} is not known: {found.missing}.", found.next_step)
                if value is None
                else _named(compare(measured, value, limit), f"{statistic.text} ({found.intervals} of them)")
            )
    elif statistic.kind == "runs" and possible and limit is not None:
        value = deciding_value(runs, limit)
        judgement = _of_runs(measured, runs, limit)
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
        risk=risk_of(rule, statistic, len(runs)),
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


def _runs(measured: Measured, evidence: Evidence) -> list[float]:
    """The values of the runs behind a measurement; a single one is a run too."""
    made = [run.throughput_bps for run in getattr(evidence, "runs", ())]
    if made:
        return [math.nan if value is None else value for value in made]
    return [] if measured.value is None else [measured.value]


def _of_runs(measured: Measured, runs: list[float], limit: ResolvedLimit) -> Judgement:
    """The verdict over the runs, unless the tester may have made the deciding one worse than it is."""
    judgement = met_in_runs(runs, limit)
    value = deciding_value(runs, limit)
    if judgement.verdict not in (Verdict.PASS, Verdict.FAIL) or value is None:
        return judgement
    one = compare(measured, value, limit)
    if one.verdict is not Verdict.INCONCLUSIVE:
        return judgement
    reason = f"{judgement.reason.rstrip('.')}, but the tester may be the cause: {measured.tester_limited}"
    return replace(one, reason=reason)


def _named(judgement: Judgement, what: str) -> Judgement:
    return replace(judgement, reason=f"{what}: {judgement.reason}")


def _uncertainty(
    measured: Measured, evidence: Evidence, conditions: Mapping[str, Any], statistic: Statistic, verdict: Verdict
) -> RowUncertainty:
    if measured.value is None or verdict is Verdict.INVALID:
        return RowUncertainty(missing="there is no value that can be true")
    if statistic.kind != "mean":
        return RowUncertainty(missing=f"none is determined for a limit {statistic.text}")
    if measured.quantity == "throughput" and "source" not in evidence.facts:
        return uncertainty_of_series(evidence.series, evidence.series_from, conditions.get("protocol"))
    expanded, basis = counted_uncertainty(measured.quantity, measured.value, evidence.facts)
    if expanded is None:
        return RowUncertainty(missing=basis)
    return RowUncertainty(stated=expanded, basis=basis)


def _zero_loss(measured: Measured, evidence: Evidence) -> float | None:
    """What no loss among so many frames leaves possible; None where there was one, or nobody knows the frames."""
    if measured.quantity != "frame_loss_ratio" or measured.value != 0:
        return None
    frames = frames_of(0.0, evidence.facts)
    return None if frames is None else zero_loss_bound(frames)
