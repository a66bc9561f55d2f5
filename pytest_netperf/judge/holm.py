"""Several limits on one device: how many of its FAILs the evidence carries together (Holm 1979). Pure.

A FAIL that rests on statistics is wrong now and then: under rule guarded, role buyer, in up to 2.5 % of the rows whose
true rate is exactly at the limit, by profile screening in 1 %. With one limit that is the risk of the sheet; with 40
such rows, more than half of the devices that are just good enough would get a FAIL by chance. So the FAILs of a device
are held against Holm's step-down test: with m limits and the p-values in order, the k-th smallest counts as

    max over j <= k of (m - j + 1) x p(j)

and stands when that is 5 % or less. The probability that any row of a device fails wrongly is then 5 % at most, however
the rows depend on one another. m counts every limit that could have failed by chance, not only those that did: picking
the failed ones first would undo the correction.

A PASS needs no correction: the device is accepted only when every row passes, and the probability that all of several
limits are passed wrongly is no larger than that of the one that is missed (an intersection-union test, Berger 1982).

p is the probability to see a value as bad as this, or worse, though the device meets the limit:

    t = distance from the limit / u,   u^2 = within^2 + between^2 + resolution^2

by Student's distribution, with the degrees of freedom of Welch and Satterthwaite (GUM G.4.1); the parts are without the
factor that widens them in U for small samples, because the distribution has it. A value that has only its U: normal,
u = U / 2. A run that was allowed to stop early: the smaller of 1 / (2 E) of its always-valid bound (`judge.sequential`)
and p times the number of looks, one a second (Bonferroni); the former is sharper near the limit, the latter far off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pytest_netperf.judge.profile import PROFILES
from pytest_netperf.judge.sequential import log_e_value
from pytest_netperf.judge.statistics import small_sample_factor
from pytest_netperf.judge.student import student_tail

__all__ = ["FAMILY_ALPHA", "Step", "is_statistical", "p_value", "step_down"]

Key = TypeVar("Key")

FAMILY_ALPHA: Final = 0.05
"""Probability that any FAIL of a device is wrong, of those that rest on statistics."""
_CLAIMS: Final = "guarded (buyer)"
"""The one rule whose FAIL claims something with an error of its own; else it is the value against the limit."""
_LEAST_SAMPLE: Final = 4.0
"""As in U (`small_sample_factor`): with the tail of fewer, no miss of a limit would ever be large enough among many."""


@dataclass(frozen=True, slots=True)
class Step:
    """What the test says of one limit."""

    p: float
    adjusted: float
    """What p counts as among all limits; at most 1."""
    limits: int
    """How many limits were tested together."""

    @property
    def stands(self) -> bool:
        """Whether it fails also when all limits are looked at together."""
        return self.adjusted <= FAMILY_ALPHA


def is_statistical(rule: str | None, facts: Mapping[str, Any]) -> bool:
    """Whether a FAIL under this rule, of a row with these facts, rests on a statistical decision."""
    return rule == _CLAIMS or _may_stop(facts)


def step_down(p_values: Mapping[Key, float]) -> dict[Key, Step]:
    """Holm's test of all limits of one device: key -> what it says, in the order of the keys."""
    limits = len(p_values)
    steps: dict[Key, Step] = {}
    adjusted = 0.0
    for place, (key, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        adjusted = max(adjusted, min(1.0, (limits - place) * p))
        steps[key] = Step(p, adjusted, limits)
    return {key: steps[key] for key in p_values}


def p_value(
    value: float, expanded: float | None, low: float | None, high: float | None, facts: Mapping[str, Any]
) -> float | None:
    """Probability of a value so far on the bad side, or farther, at a device that meets the limit; None when U is not
    known. ``expanded`` is U, ``facts`` are those of the row.
    """
    if expanded is None or not math.isfinite(expanded) or expanded < 0:
        return None
    distances = [sign * (bound - value) for bound, sign in ((low, 1), (high, -1)) if bound is not None]
    if not distances:
        return None
    width = high - low if low is not None and high is not None else math.inf
    worst = max(distances)
    p = min(1.0, _tail(worst, expanded, facts) + _tail(worst + width, expanded, facts))
    return max(p, _stopped_p(p, worst, facts)) if _may_stop(facts) else p


def _tail(distance: float, expanded: float, facts: Mapping[str, Any]) -> float:
    if math.isinf(distance):
        return 0.0
    within, between, resolution, n_eff = (
        _number(facts, name)
        for name in ("uncertainty_within_bps", "uncertainty_between", "uncertainty_resolution_bps", "n_eff")
    )
    if within is None or resolution is None or n_eff is None:
        return student_tail(_ratio(distance, expanded / 2), math.inf)
    runs = _number(facts, "runs_made")
    in_run = (within / small_sample_factor(n_eff), max(n_eff, _LEAST_SAMPLE) - 1)
    if between is None:
        return _welch_tail(distance, resolution, in_run)
    if runs is not None and runs >= 2:
        return _welch_tail(
            distance, resolution, in_run, (between / small_sample_factor(runs), max(runs, _LEAST_SAMPLE) - 1)
        )
    # A spread that others measured may make a FAIL less certain, but never, by its degrees of freedom, more so.
    return max(
        _welch_tail(distance, resolution, in_run), _welch_tail(distance, resolution, in_run, (between, math.inf))
    )


def _welch_tail(distance: float, resolution: float, *parts: tuple[float, float]) -> float:
    """Of parts of u with their degrees of freedom (Welch and Satterthwaite)."""
    u = math.hypot(resolution, *(part for part, _ in parts))
    if not u > 0:
        return student_tail(_ratio(distance, u), math.inf)
    spent = math.fsum((part / u) ** 4 / freedom for part, freedom in parts)
    return student_tail(distance / u, 1 / spent if spent > 0 else math.inf)


def _may_stop(facts: Mapping[str, Any]) -> bool:
    profile = PROFILES.get(str(facts.get("profile")))
    return profile is not None and profile.sequential


def _stopped_p(p: float, distance: float, facts: Mapping[str, Any]) -> float:
    """p of a run that may have been stopped because it looked bad, where a run of fixed length has ``p``."""
    looks = max(1.0, _number(facts, "profile_duration_s") or PROFILES[str(facts["profile"])].duration_s)
    bounds = [0.5, looks * p]  # a half is what any value on the bad side says
    within, n_eff = _number(facts, "uncertainty_within_bps"), _number(facts, "n_eff")
    if distance > 0 and within is not None and n_eff is not None:
        sd = within / small_sample_factor(n_eff) * math.sqrt(max(n_eff, 1.0))
        bounds.append(0.5 * math.exp(-log_e_value(distance, sd, n_eff)))
    return min(bounds)


def _ratio(distance: float, u: float) -> float:
    return distance / u if u > 0 else math.copysign(math.inf, distance) if distance else 0.0


def _number(facts: Mapping[str, Any], name: str) -> float | None:
    found = facts.get(name)
    if not isinstance(found, int | float) or isinstance(found, bool) or not math.isfinite(found):
        return None
    return float(found)
