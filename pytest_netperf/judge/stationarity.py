"""Does one number describe the run? Steps, trends, two modes, outliers and stalls in a series. Pure, plain Python.

Each finder looks at the rates of intervals and answers None, or a `Shape` with the levels that the mean hides. All
allow for memory in the noise: on a steady series with a lag-1 autocorrelation of 0 to 0.6 a step, a trend or two modes
are reported in about 1 % of the runs or less (`benchmarks/decision.py` measures it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from pytest_netperf.judge.statistics import Sample, floor_sd_bps, mean_rate_bps, persistence, quantile

__all__ = ["FEWEST", "Shape", "bimodality", "outliers", "stalls", "step", "trend"]

FEWEST: Final = 10
"""Fewer intervals than this show no shape."""
_SHORTEST: Final = 3  # intervals of a level
_MATERIAL_STEP: Final = 0.0025  # of the value: below this nobody cares, and line-limited series have almost no noise
_MATERIAL_SHAPE: Final = 0.005
_LEAST_TAU: Final = 1.5
_SMALLER_MODE: Final = 0.2
_FAR: Final = 6.0  # robust standard deviations
_MATERIAL_OUTLIER: Final = 0.01
_STALLED: Final = 0.01


class Shape(NamedTuple):
    """A way in which a series is not steady."""

    kind: Literal["step", "trend", "bimodal"]
    levels_bps: tuple[float, float]
    """Before and after a step, begin and end of a trend, lower and higher mode."""
    at: int
    """First interval after a step; 0 for the others."""
    unexplained: float
    """Share of the squares that the shape leaves over: the smaller one of two describes the series better."""


class _Series(NamedTuple):
    rates: list[float]
    mean: float
    squares: float
    floor: float
    usual_s: float


def _series(samples: Sequence[Sample]) -> _Series | None:
    if len(samples) < FEWEST:
        return None
    rates = [sample.rate_bps for sample in samples]
    mean = math.fsum(rates) / len(rates)
    usual_s = quantile([sample.seconds for sample in samples], 0.5)
    floor = floor_sd_bps(mean_rate_bps(samples), usual_s)
    return _Series(rates, mean, math.fsum((rate - mean) ** 2 for rate in rates), floor, usual_s)


def _long_run_variance(residuals: Sequence[float], fitted: int, series: _Series) -> float:
    """Variance of one interval times tau, from what a fit left over."""
    count = len(residuals)
    squares = math.fsum(each * each for each in residuals)
    product = math.fsum(a * b for a, b in pairwise(residuals))
    phi = persistence(product / squares if squares > 0 else 0.0, count, series.usual_s, fitted=fitted)
    tau = max(_LEAST_TAU, (1 + phi) / (1 - phi))
    return (squares / (count - fitted) + series.floor**2) * tau


def step(samples: Sequence[Sample]) -> Shape | None:
    """The one change of level that explains most, when it stands out from the noise.

    Exact least squares over every place with 3 intervals on both sides. The threshold was found by simulation: it is
    exceeded by 1 % of the AR(1) series without a step, phi 0.6, of 10 to 1000 intervals (phi 0: by 0.01 %).
    """
    series = _series(samples)
    if series is None:
        return None
    rates, count = series.rates, len(series.rates)
    best, place, before = 0.0, 0, 0.0
    running = 0.0
    for at in range(1, count - _SHORTEST + 1):
        running += rates[at - 1] - series.mean
        gain = running * running * count / (at * (count - at))
        if at >= _SHORTEST and gain > best:
            best, place, before = gain, at, running
    if place == 0:
        return None
    low = series.mean + before / place
    high = series.mean - before / (count - place)
    residuals = [rate - (low if index < place else high) for index, rate in enumerate(rates)]
    variance = _long_run_variance(residuals, 2, series)
    far = best > variance * (3.8 + 1.7 * min(1.0, 30 / count)) ** 2
    if not far or abs(high - low) < _MATERIAL_STEP * abs(series.mean):
        return None
    return Shape("step", (low, high), place, _unexplained(residuals, series))


def trend(samples: Sequence[Sample]) -> Shape | None:
    """A steady rise or fall over the whole window that stands out from the noise and is at least 0.5 % of the value."""
    series = _series(samples)
    if series is None:
        return None
    count, middle = len(series.rates), (len(series.rates) - 1) / 2
    spread = count * (count * count - 1) / 12
    slope = math.fsum((index - middle) * (rate - series.mean) for index, rate in enumerate(series.rates)) / spread
    residuals = [rate - series.mean - slope * (index - middle) for index, rate in enumerate(series.rates)]
    variance = _long_run_variance(residuals, 2, series)
    far = slope * slope * spread > variance * (2.7 + 1.9 * min(1.0, 20 / count)) ** 2
    if not far or abs(slope) * (count - 1) < _MATERIAL_SHAPE * abs(series.mean):
        return None
    levels = (series.mean - slope * middle, series.mean + slope * middle)
    return Shape("trend", levels, 0, _unexplained(residuals, series))


def bimodality(samples: Sequence[Sample]) -> Shape | None:
    """Two clusters of rates, each with 20 % of the intervals or more, that leave little between them.

    The best cut of the sorted rates explains 64 % of the squares of a normal sample and 75 % of an even one; the
    threshold (95 % for 10 intervals, 88 % for many) is exceeded by 0.1 % of the normal ones.
    """
    series = _series(samples)
    if series is None or not series.squares > 0:
        return None
    ranked, count = sorted(series.rates), len(series.rates)
    fewest = max(_SHORTEST, math.ceil(_SMALLER_MODE * count))
    best, place, below, running = 0.0, 0, 0.0, 0.0
    for at in range(1, count - fewest + 1):
        running += ranked[at - 1] - series.mean
        gain = running * running * count / (at * (count - at))
        if at >= fewest and gain > best:
            best, place, below = gain, at, running
    if place == 0:
        return None
    levels = (series.mean + below / place, series.mean - below / (count - place))
    total = series.squares + count * series.floor**2
    if best < (0.88 + 0.7 / count) * total or levels[1] - levels[0] < _MATERIAL_SHAPE * abs(series.mean):
        return None
    return Shape("bimodal", levels, 0, 1 - best / series.squares)


def outliers(samples: Sequence[Sample]) -> list[int]:
    """Places of single intervals far from the others: 6 robust standard deviations (MAD) and 1 % of the median."""
    series = _series(samples)
    if series is None:
        return []
    median = quantile(series.rates, 0.5)
    mad = quantile([abs(rate - median) for rate in series.rates], 0.5)
    far = max(_FAR * math.hypot(1.4826 * mad, series.floor), _MATERIAL_OUTLIER * abs(median))
    return [index for index, rate in enumerate(series.rates) if abs(rate - median) > far]


def stalls(samples: Sequence[Sample]) -> list[int]:
    """Places of intervals in which next to nothing arrived (below 1 % of the median, or nothing)."""
    if not samples:
        return []
    rates = [sample.rate_bps for sample in samples]
    least = _STALLED * quantile(rates, 0.5)
    return [index for index, rate in enumerate(rates) if rate <= 0 or rate < least]


def _unexplained(residuals: Sequence[float], series: _Series) -> float:
    return math.fsum(each * each for each in residuals) / series.squares if series.squares > 0 else 1.0
