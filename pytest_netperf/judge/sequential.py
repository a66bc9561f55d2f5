"""When has a run said enough? An always-valid bound, so that looking after every interval costs nothing. Pure.

A t-test that is repeated every second until it is significant ends, at the limit itself, with an unjustified verdict in
15 to 92 % of the runs. Here each look asks for evidence that cannot be found by looking often:

    E = sqrt(g / (n+g)) x [ (1 + t^2/v) / (1 + t^2/v x g/(n+g)) ] ^ (n/2)
    t = (mean - limit) / (s / sqrt(n)),  v = n - 1,  g = 0.1

is the likelihood ratio of "the mean is off the limit, by a number of standard deviations that is normal with variance
1/g" to "the mean is at the limit", the unknown standard deviation integrated out by its right Haar prior (Robbins 1970;
Lai 1976; Wang & Ramdas, Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance). For
independent normal intervals it is a nonnegative martingale, so the probability that it ever exceeds 1 / (2 alpha) is at
most 2 alpha (Ville's inequality), half of it on either side.

Intervals have memory, so n is the effective sample size: tau comes from the persistence of the series, drawn towards
that of a typical link, and is at least 1.5. That makes the bound approximate; docs/explanation/statistics.md has the
measured error rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.statistics import Noise, Sample, mean_rate_bps, noise_of

__all__ = ["ALPHA", "DECIDES", "LEAST_TAU", "Evidence", "Side", "evidence", "log_e_value", "side_of", "side_of_limit"]

ALPHA: Final = 0.01
"""Probability of ever deciding for the wrong side of a limit at which the rate really is."""
DECIDES: Final = math.log(1 / (2 * ALPHA))
"""What log E must reach."""
LEAST_TAU: Final = 1.5
_PRECISION: Final = 0.1  # g: effects of about three standard deviations are expected, as on most links
_RECENT: Final = 0.25

Side = Literal["good", "bad"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a window says about one bound."""

    log_e: float
    above: bool

    @property
    def decides(self) -> bool:
        """Whether it is enough for a verdict."""
        return self.log_e >= DECIDES


def log_e_value(difference: float, sd: float, n_eff: float) -> float:
    """Logarithm of E for a mean that is ``difference`` off the limit.

    With fewer than about 3.2 effective intervals it never decides, however far the mean is off.
    """
    freedom = n_eff - 1
    if freedom <= 0 or not sd > 0:
        return 0.0
    ratio = difference / sd
    squared = ratio * ratio * n_eff / freedom
    if math.isinf(squared):
        squared = 1e300
    shrunk = _PRECISION / (n_eff + _PRECISION)
    return 0.5 * math.log(shrunk) + n_eff / 2 * (math.log1p(squared) - math.log1p(squared * shrunk))


def evidence(samples: Sequence[Sample], bound_bps: float, noise: Noise | None = None) -> Evidence:
    """The evidence that the rate behind a window is not ``bound_bps``."""
    noise = noise_of(samples, geyer=False) if noise is None else noise
    difference = mean_rate_bps(samples) - bound_bps
    n_eff = noise.intervals / max(noise.tau, LEAST_TAU)
    return Evidence(log_e_value(difference, noise.sd_bps, n_eff), difference >= 0)


def side_of(
    samples: Sequence[Sample], bound_bps: float, noise: Noise | None = None
) -> Literal["above", "below"] | None:
    """On which side of the bound the rate is, or None while the evidence does not decide.

    The last quarter of the window (at least 3 intervals) must lie on the same side: a rate that has just crossed the
    bound is not decided by its past.
    """
    found = evidence(samples, bound_bps, noise)
    if not found.decides:
        return None
    recent = samples[-max(3, math.ceil(_RECENT * len(samples))) :]
    if (mean_rate_bps(recent) >= bound_bps) != found.above:
        return None
    return "above" if found.above else "below"


def side_of_limit(samples: Sequence[Sample], limit: ResolvedLimit) -> Side | None:
    """Whether a limit is met, as far as the evidence decides: good on every bound, or bad on any."""
    noise = noise_of(samples, geyer=False)
    sides = [
        _side(side_of(samples, bound, noise), good)
        for bound, good in ((limit.low, "above"), (limit.high, "below"))
        if bound is not None
    ]
    if "bad" in sides:
        return "bad"
    return "good" if all(side == "good" for side in sides) else None


def _side(found: str | None, good: str) -> Side | None:
    if found is None:
        return None
    return "good" if found == good else "bad"
