"""A quantile or an extreme of the intervals of a run: its value, or why there is none. Pure.

An interval is a second: shorter ones are joined, longer ones hide what a second shows. The rate of each is what the
receiver got in it. A quantile is one of these rates, by nearest rank (Hyndman & Fan 1996, definition 1): p5 is the
smallest rate that at least 5 % of the intervals do not exceed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pytest_netperf.judge.statistic import Statistic
from pytest_netperf.judge.statistics import Sample, quantile, regroup
from pytest_netperf.record.schema import SeriesPoint

__all__ = ["IntervalStatistic", "kept_samples", "statistic_of_samples", "statistic_value"]

_SECOND: Final = 1.0
_WHOLE: Final = 0.95  # clocks of the two ends do not tick together
_LONGEST_S: Final = 2.0
_LONGER: Final = "Measure at least {} s after the omit (duration=..., --netperf-duration)."


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalStatistic:
    """The rate of one interval of a run in bit/s, or why it is not known and what to do about that."""

    statistic: Statistic
    value_bps: float | None = None
    intervals: int = 0
    """How many intervals it was chosen from."""
    missing: str = ""
    next_step: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """The evidence behind it, for the row."""
        return {"statistic_intervals": self.intervals} if self.value_bps is not None else {}


def kept_samples(points: Iterable[SeriesPoint]) -> list[Sample]:
    """The intervals of a recorded series that count."""
    return [
        Sample(point.seconds, point.throughput_bps * point.seconds)
        for point in points
        if not point.omitted and point.seconds > 0
    ]


def statistic_value(
    statistic: Statistic,
    points: Iterable[SeriesPoint],
    counted_by: Literal["receiver", "sender"] | None,
    protocol: object,
) -> IntervalStatistic:
    """The statistic of a recorded series. What a UDP sender counted says nothing about what arrived."""
    if counted_by == "sender" and protocol != "tcp":
        return IntervalStatistic(
            statistic=statistic,
            missing="only the sender's intervals are known, and they do not say what arrived",
            next_step="Find out why the output of the receiving end is missing, then run this test again.",
        )
    return statistic_of_samples(statistic, kept_samples(points))


def statistic_of_samples(statistic: Statistic, samples: Sequence[Sample]) -> IntervalStatistic:
    """The statistic of the intervals that count; a part of a second at their end is left out."""
    whole = [sample for sample in regroup(samples, _SECOND) if sample.seconds >= _WHOLE * _SECOND]
    fewest = _fewest(statistic)
    if len(whole) < fewest:
        made = f"{len(whole) or 'no'} interval{'' if len(whole) == 1 else 's'}"
        asked = f"{statistic.text} takes at least {fewest} to be one of them" if fewest > 1 else "it takes 1"
        return IntervalStatistic(
            statistic=statistic, missing=f"{made} of a second or longer, and {asked}", next_step=_LONGER.format(fewest)
        )
    usual_s = quantile([sample.seconds for sample in whole], 0.5)
    if usual_s > _LONGEST_S:
        return IntervalStatistic(
            statistic=statistic,
            missing=f"the intervals are {usual_s:.3g} s long, and a mean over so long hides what a second shows",
            next_step="Measure with intervals of a second (interval=1).",
        )
    rates = sorted(sample.rate_bps for sample in whole)
    if not all(map(math.isfinite, rates)):
        return IntervalStatistic(
            statistic=statistic,
            missing="the intervals hold a number that is not finite",
            next_step="Find out where it comes from, then run this test again.",
        )
    return IntervalStatistic(statistic=statistic, value_bps=rates[_place(statistic, len(rates))], intervals=len(rates))


def _fewest(statistic: Statistic) -> int:
    """Intervals from which on a quantile is none of the extremes' stand-ins: 20 for p5 and p95, 100 for p1."""
    if statistic.kind != "quantile":
        return 1
    return -(-100 // min(statistic.percent, 100 - statistic.percent))


def _place(statistic: Statistic, size: int) -> int:
    if statistic.kind == "quantile":
        return -(-statistic.percent * size // 100) - 1
    return 0 if statistic.kind == "min" else size - 1
