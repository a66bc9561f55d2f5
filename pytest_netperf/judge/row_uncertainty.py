"""How sure the value of a row is, and what the decision rule makes of that. Pure.

Of a throughput from its kept intervals, of counts and of what a test states itself from `judge.count_uncertainty`.

Used when a row is judged and when a journal is judged again, so that both say the same to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from pytest_netperf.judge.decision import DecisionRule
from pytest_netperf.judge.interval_statistic import kept_samples
from pytest_netperf.judge.judgement import Judgement, distance_of
from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.statistics import (
    Noise,
    Uncertainty,
    noise_of,
    quantile,
    regroup,
    uncertainty_of,
    without_tail,
)
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import format_value, get_quantity
from pytest_netperf.record.schema import SeriesPoint

__all__ = ["FEWEST_FOR_A_GUARD_BAND", "RowUncertainty", "guard", "uncertainty_of_series"]

FEWEST_FOR_A_GUARD_BAND: Final = 4
"""Intervals below which U is a lower estimate: of 2 it covers 76 to 88 % instead of 95 %, of 4 again 90 to 99 %."""
_FEWEST: Final = 2
_MEASURE_LONGER: Final = f"Measure at least {FEWEST_FOR_A_GUARD_BAND} s (--netperf-duration), or use the simple rule."
_USE_SIMPLE: Final = (
    "Judge this row by the simple rule (netperf_method, or rule in the limits file), or state the uncertainty of what "
    "the test records: netperf_record(..., uncertainty=...)."
)
_REDUCE: Final = "Reduce the uncertainty by a longer run, or agree on another limit or rule."


@dataclass(frozen=True, slots=True, kw_only=True)
class RowUncertainty:
    """The uncertainty of one value, or why it is not known."""

    parts: Uncertainty | None = None
    noise: Noise | None = None
    usual_s: float = 0.0
    """Usual length of the intervals, in s."""
    stated: float | None = None
    """U of a value that has no intervals, in its unit."""
    basis: str = ""
    """Where ``stated`` comes from."""
    missing: str = ""
    """Why there is none."""
    next_step: str = _USE_SIMPLE
    """How one would come to know it, or to do without."""

    @property
    def expanded(self) -> float | None:
        """U (k = 2) in the unit of the value; None when it is not known."""
        return self.stated if self.parts is None else self.parts.expanded_bps

    def facts(self, value: float | None, limit: ResolvedLimit | None) -> dict[str, Any]:
        """The evidence behind U, for the row."""
        if self.stated is not None:
            return {"uncertainty_from": self.basis, **self._distance_in_u(value, limit)}
        if self.parts is None or self.noise is None:
            return {"uncertainty_not_known": self.missing}
        facts: dict[str, Any] = {
            "intervals": self.noise.intervals,
            "n_eff": round(self.noise.n_eff, 3),
            "correlation_time_s": round(self.noise.tau * self.usual_s, 3),
            "uncertainty_within_bps": self.parts.within_bps,
            "uncertainty_between": "not known" if self.parts.between_bps is None else self.parts.between_bps,
            "uncertainty_resolution_bps": self.parts.resolution_bps,
        }
        if self.noise.intervals < FEWEST_FOR_A_GUARD_BAND:
            facts["uncertainty_note"] = f"a lower estimate: {self.noise.intervals} intervals say little of the scatter"
        return facts | self._distance_in_u(value, limit)

    def _distance_in_u(self, value: float | None, limit: ResolvedLimit | None) -> dict[str, float]:
        distance = None if limit is None or value is None else distance_of(value, limit)
        if distance is None or not self.expanded:
            return {}
        return {"margin_over_uncertainty": round(distance / self.expanded, 3)}


def uncertainty_of_series(
    points: Iterable[SeriesPoint],
    counted_by: Literal["receiver", "sender"] | None,
    protocol: object,
    *,
    declared_between: float | None = None,
) -> RowUncertainty:
    """The uncertainty of a throughput from the intervals that count, and from run to run where that is known.

    What a UDP sender counted says nothing about what arrived. A TCP sender's intervals scatter as the receiver's do,
    apart from what its socket buffer holds.
    """
    if counted_by == "sender" and protocol != "tcp":
        return RowUncertainty(missing="only the sender's intervals are known, and they do not say what arrived")
    kept = without_tail(regroup(kept_samples(points)))
    if len(kept) < _FEWEST:
        missing = (
            f"{len(kept) or 'no'} interval{'' if len(kept) == 1 else 's'}, and it takes {_FEWEST} to see a scatter"
        )
        return RowUncertainty(missing=missing, next_step=_MEASURE_LONGER)
    noise = noise_of(kept)
    parts = uncertainty_of(kept, noise, declared_between=declared_between)
    if not math.isfinite(parts.expanded_bps):
        return RowUncertainty(missing="the intervals hold a number that is not finite")
    return RowUncertainty(parts=parts, noise=noise, usual_s=quantile([sample.seconds for sample in kept], 0.5))


def guard(
    judgement: Judgement, value: float | None, known: RowUncertainty, limit: ResolvedLimit | None, rule: DecisionRule
) -> Judgement:
    """A PASS or FAIL of the value alone, under the decision rule. Other verdicts stay, and rule simple changes none."""
    if rule.name == "simple" or judgement.verdict not in (Verdict.PASS, Verdict.FAIL) or limit is None or value is None:
        return judgement
    said = judgement.reason.rstrip(".")
    missing = known.missing
    if known.noise is not None and known.noise.intervals < FEWEST_FOR_A_GUARD_BAND:
        missing = f"{known.noise.intervals} intervals give a lower estimate only"
    if missing or known.expanded is None:
        step = _MEASURE_LONGER if known.noise is not None else known.next_step
        reason = f"{said}, but its uncertainty is not known ({missing}), so rule guarded ({rule.role}) decides nothing."
        return replace(judgement, verdict=Verdict.INCONCLUSIVE, reason=reason, next_step=step)
    if rule.decide(value, known.expanded, limit) is judgement.verdict:
        return judgement
    band = format_value(known.expanded, get_quantity(limit.quantity).unit, 3)
    reason = f"{said}, but the value is within the guard band of {band} (U, k = 2; rule guarded, role {rule.role})."
    return replace(judgement, verdict=Verdict.INCONCLUSIVE, reason=reason, next_step=_REDUCE)
