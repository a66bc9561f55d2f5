"""What a long run shows beyond its mean: its slowest interval, and how far its end is from its beginning. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from pytest_netperf.judge.interval_statistic import kept_samples
from pytest_netperf.judge.statistics import Sample, mean_rate_bps, regroup, without_tail
from pytest_netperf.record.schema import SeriesPoint

__all__ = ["LONG_S", "soak_facts"]

LONG_S: Final = 60.0
"""Runs of this length and longer have these facts."""


def soak_facts(points: Sequence[SeriesPoint]) -> dict[str, Any]:
    """The slowest interval (of a second or longer), and the mean of the last third against that of the first.

    ``drift`` is last / first - 1, negative where the rate fell. {} for a run shorter than 60 s.
    """
    kept = without_tail(regroup(kept_samples(points)))
    seconds = math.fsum(sample.seconds for sample in kept)
    if seconds < LONG_S * 0.99:
        return {}
    slowest = min(range(len(kept)), key=lambda place: kept[place].rate_bps)
    third = len(kept) // 3
    first, last = mean_rate_bps(kept[:third]), mean_rate_bps(kept[-third:])
    return {
        "slowest_interval_bps": kept[slowest].rate_bps,
        "slowest_interval_at_s": round(_seconds(kept[:slowest]), 3),
        "first_third_bps": first,
        "last_third_bps": last,
        **({"drift": round(last / first - 1, 6)} if first > 0 else {}),
    }


def _seconds(samples: Sequence[Sample]) -> float:
    return math.fsum(sample.seconds for sample in samples)
