"""What a long run shows beyond its mean: its slowest interval, and how far its end is from its beginning. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from pytest_netperf.judge.interval_statistic import kept_samples
from pytest_netperf.judge.statistics import Sample, mean_rate_bps, regroup, without_tail
from pytest_netperf.observe.observation import Moment
from pytest_netperf.record.schema import SeriesPoint

__all__ = ["LONG_S", "course_facts", "drift_of", "soak_facts"]

LONG_S: Final = 60.0
_SHORTEST_SOAK_S: Final = 3.0
"""Runs of this length and longer have these facts."""


def soak_facts(points: Sequence[SeriesPoint], *, soak: bool = False) -> dict[str, Any]:
    """The slowest interval (of a second or longer), and the mean of the last third against that of the first.

    ``drift`` is last / first - 1, negative where the rate fell. {} for a run shorter than 60 s, or than 3 s of a soak.
    """
    kept = without_tail(regroup(kept_samples(points)))
    seconds = math.fsum(sample.seconds for sample in kept)
    if seconds < (_SHORTEST_SOAK_S if soak else LONG_S) * 0.99:
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


def drift_of(points: Sequence[SeriesPoint], *, soak: bool = False) -> dict[str, float | None]:
    """The quantity ``drift``: by how much the last third is below the first, as a share of it; 0 where it is not below.

    {} for a run that is too short to tell.
    """
    facts = soak_facts(points, soak=soak)
    return {"drift": max(0.0, -facts["drift"])} if "drift" in facts else {}


def course_facts(course: Sequence[Moment]) -> dict[str, list[Any]]:
    """The course of a long run: ``course_at_s``, ``course_cpu``, ``course_errors``, ``course_carrier_changes``; where
    this machine has a sensor, ``course_temperature_c`` too."""
    if not course:
        return {}
    facts: dict[str, list[Any]] = {
        "course_at_s": [moment.at_s for moment in course],
        "course_cpu": [moment.cpu_busy for moment in course],
        "course_errors": [moment.errors for moment in course],
        "course_carrier_changes": [moment.carrier_changes for moment in course],
    }
    heat = [moment.temperature_c for moment in course]
    if any(each is not None for each in heat):
        facts["course_temperature_c"] = heat
    return facts


def _seconds(samples: Sequence[Sample]) -> float:
    return math.fsum(sample.seconds for sample in samples)
