"""What a series of intervals says about the rate behind it: value, noise, memory, uncertainty. Pure, plain Python.

    value              total bits / total seconds of the window (intervals weigh by their length)
    correlation time   tau = 1 + 2 x sum of the autocorrelations, over Geyer's initial positive sequence (Geyer 1992,
                       Practical Markov chain Monte Carlo, section 3.3), in intervals
    persistence        lag-1 autocorrelation, corrected for its bias (Kendall 1954) and drawn towards a typical link
    effective size     n_eff = n / tau: as many independent intervals would say as much
    uncertainty        U = 2 x root of the squares of its parts (GUM, JCGM 100:2008, 6.2)

Neighbouring one-second intervals are alike: over 16,985 recorded series tau has a median of 2.3 s, and an interval of
confidence that takes them for independent covers 41 to 51 % instead of 95 %.

Rates are bit/s, lengths s. All functions are deterministic to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

__all__ = [
    "BURST_BITS",
    "Noise",
    "Sample",
    "Uncertainty",
    "autocorrelations",
    "correlation_time",
    "floor_sd_bps",
    "mean_rate_bps",
    "mser5",
    "noise_of",
    "persistence",
    "quantile",
    "regroup",
    "small_sample_factor",
    "uncertainty_of",
    "without_tail",
]

BURST_BITS: Final = 64 * 1024 * 8
"""The kernel hands data over in lots of up to 64 KiB: so much may fall on either side of the edge of an interval."""
SCALE: Final = 2e-4
"""Two clocks of 100 ppm each (IEEE 802.3) stand behind every rate."""
_MOST_BURST: Final = 1e-3  # of an interval: at low rates the lots are smaller than 64 KiB
_TAIL: Final = 0.1
_TYPICAL_PERSISTENCE: Final = 0.4  # of one second: (1 + 0.4) / (1 - 0.4) = 2.3 s
_TYPICAL_WEIGHT: Final = 20.0  # intervals
_MOST_PERSISTENCE: Final = 0.92
_LAGS: Final = 200


class Sample(NamedTuple):
    """One interval of a series."""

    seconds: float
    bits: float

    @property
    def rate_bps(self) -> float:
        """Mean rate of the interval."""
        return self.bits / self.seconds


class Noise(NamedTuple):
    """How the intervals of a window scatter about their mean."""

    intervals: int
    sd_bps: float
    """Standard deviation of one interval, never below what the clocks and the lots of data leave open."""
    tau: float
    """Correlation time in intervals, at least 1."""

    @property
    def n_eff(self) -> float:
        """How many independent intervals would say as much."""
        return self.intervals / self.tau


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Standard uncertainties of a value by their causes, in bit/s. None is not known, which is not zero."""

    within_bps: float
    """Scatter inside the run, from the effective sample size."""
    between_bps: float | None
    """From one run to the next (new connection, reboot, cable): repetitions, station history or a declared value."""
    resolution_bps: float
    """Clocks, and the data that may belong to the neighbouring interval at both edges of the window."""

    @property
    def expanded_bps(self) -> float:
        """U, with a coverage factor of 2 (about 95 %)."""
        return 2 * math.hypot(self.within_bps, self.between_bps or 0.0, self.resolution_bps)


# ---- the window ------------------------------------------------------------------------------------------------------


def mean_rate_bps(samples: Iterable[Sample]) -> float:
    """Total bits over total seconds. ValueError without any seconds."""
    listed = list(samples)
    seconds = math.fsum(sample.seconds for sample in listed)
    if not seconds > 0:
        raise ValueError("a rate needs at least one interval of some length")
    return math.fsum(sample.bits for sample in listed) / seconds


def regroup(samples: Iterable[Sample], shortest_s: float = 1.0) -> list[Sample]:
    """Neighbours joined until each interval is at least ``shortest_s`` long (less 5 %); what is left over stays last.

    The noise of shorter intervals is that of the scheduler, and their number would pretend to be evidence.
    """
    joined: list[Sample] = []
    seconds = bits = 0.0
    for sample in samples:
        seconds, bits = seconds + sample.seconds, bits + sample.bits
        if seconds >= 0.95 * shortest_s:
            joined.append(Sample(seconds, bits))
            seconds = bits = 0.0
    return [*joined, Sample(seconds, bits)] if seconds > 0 else joined


def without_tail(samples: Sequence[Sample]) -> list[Sample]:
    """Without a last interval shorter than 10 % of the usual length: its rate may be 3 times the mean."""
    kept = list(samples)
    if len(kept) > 1:
        usual = quantile([sample.seconds for sample in kept], 0.5)
        if kept[-1].seconds < _TAIL * usual:
            kept.pop()
    return kept


def mser5(values: Sequence[float]) -> int:
    """How many leading values MSER-5 would cut as warm-up: a multiple of 5, at most half of them.

    The cut that makes the standard error of the rest smallest, over means of five (White, Cobb, Spratt 2000).
    """
    means = [math.fsum(values[at : at + 5]) / 5 for at in range(0, len(values) - len(values) % 5, 5)]
    total = square = 0.0
    centre = math.fsum(means) / len(means) if means else 0.0
    best, cut = math.inf, 0
    for index in range(len(means) - 1, -1, -1):  # from the end, so that each sum is one step from the last
        deviation = means[index] - centre
        total, square = total + deviation, square + deviation * deviation
        size = len(means) - index
        if index * 10 <= len(values) and size > 1:
            error = max(0.0, square - total * total / size) / (size * size)
            if error <= best:
                best, cut = error, index * 5
    return cut


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` (0 to 1) of the values lie, between neighbours by line (Hyndman & Fan type 7)."""
    if not values or not 0 <= share <= 1:
        raise ValueError("a quantile needs values, and a share from 0 to 1")
    ranked = sorted(values)
    position = share * (len(ranked) - 1)
    below = int(position)
    above = min(below + 1, len(ranked) - 1)
    return ranked[below] + (position - below) * (ranked[above] - ranked[below])


# ---- memory ----------------------------------------------------------------------------------------------------------


def autocorrelations(values: Sequence[float], lags: int) -> list[float]:
    """Autocorrelation at lags 0 to ``lags`` (divisor n); all zero but the first where nothing varies."""
    mean = math.fsum(values) / len(values)
    deviations = [value - mean for value in values]
    whole = math.fsum(deviation * deviation for deviation in deviations)
    if not whole > 0:
        return [1.0] + [0.0] * lags
    return [
        math.fsum(a * b for a, b in zip(deviations, deviations[lag:], strict=False)) / whole for lag in range(lags + 1)
    ]


def correlation_time(values: Sequence[float]) -> float:
    """tau in intervals, at least 1: sums of neighbouring autocorrelations are added while they are positive.

    At most 200 lags and a third of the series are looked at, so the cost is linear.
    """
    most = min(_LAGS, len(values) // 3)
    if most < 1:
        return 1.0
    rho = autocorrelations(values, most)
    tau = -1.0
    smallest = math.inf
    for lag in range(0, most, 2):
        pair = rho[lag] + rho[lag + 1]
        if pair <= 0:
            break
        smallest = min(smallest, pair)  # initial monotone sequence: never above the pair before it
        tau += 2 * smallest
    return max(1.0, tau)


def persistence(lag1: float, intervals: int, usual_s: float = 1.0, *, fitted: int = 1) -> float:
    """Lag-1 autocorrelation to reckon with, from the one that was estimated after fitting ``fitted`` levels.

    A short series always looks less persistent than it is (Kendall 1954: by about (1 + 3 phi) / n for each fitted
    level), and any estimate from ten intervals is poor. So the corrected one counts with its n intervals, and what is
    typical of links (0.4 from second to second) with 20.
    """
    room = intervals - 3 * fitted
    own = (lag1 * intervals + fitted) / room if room > 0 else lag1
    typical = math.pow(_TYPICAL_PERSISTENCE, usual_s)
    mixed = (intervals * own + _TYPICAL_WEIGHT * typical) / (intervals + _TYPICAL_WEIGHT)
    return min(max(mixed, 0.0), _MOST_PERSISTENCE)


def floor_sd_bps(value_bps: float, usual_s: float) -> float:
    """The smallest standard deviation of one interval that can be believed: clocks, and one lot of data at its edge."""
    burst = min(BURST_BITS / usual_s, _MOST_BURST * abs(value_bps))
    return math.hypot(SCALE * value_bps, burst / math.sqrt(12))


def noise_of(samples: Sequence[Sample], *, geyer: bool = True) -> Noise:
    """The noise of a window. tau is the larger of Geyer's and that of the persistence; only the latter if not asked."""
    rates = [sample.rate_bps for sample in samples]
    intervals = len(rates)
    usual_s = quantile([sample.seconds for sample in samples], 0.5)
    floor = floor_sd_bps(mean_rate_bps(samples), usual_s)
    if intervals < 2:
        return Noise(intervals, floor, 1.0)
    mean = math.fsum(rates) / intervals
    deviations = [rate - mean for rate in rates]
    square = math.fsum(each * each for each in deviations)
    lag1 = math.fsum(a * b for a, b in pairwise(deviations)) / square if square > 0 else 0.0
    phi = persistence(lag1, intervals, usual_s)
    tau = (1 + phi) / (1 - phi)
    if geyer:
        tau = max(tau, correlation_time(rates))
    own, least = square / (intervals - 1), floor * floor
    # What the floor adds is without memory: a line-limited series that creeps by a ppm is not an uncertain one.
    return Noise(
        intervals, math.sqrt(own + least), max(1.0, (own * tau + least) / (own + least) if own + least > 0 else 1.0)
    )


def uncertainty_of(
    samples: Sequence[Sample],
    noise: Noise,
    *,
    run_values_bps: Sequence[float] = (),
    declared_between: float | None = None,
) -> Uncertainty:
    """The uncertainty of a window's value.

    ``run_values_bps`` are the values of repeated runs, this one among them: the value judged is then their mean, and
    their spread is the part between runs. Without at least two, ``declared_between`` (a relative standard deviation)
    counts, and without that the part is not known. Nothing is assumed: the 0.87 % seen between the reboots of general
    machines would be far too much for a link that runs at the wire's limit, and far too little for Wi-Fi.
    """
    value = mean_rate_bps(samples)
    seconds = math.fsum(sample.seconds for sample in samples)
    n_eff = max(noise.n_eff, 1.0)
    within = noise.sd_bps / math.sqrt(n_eff) * small_sample_factor(n_eff)
    between: float | None = None
    if len(run_values_bps) > 1:
        runs = len(run_values_bps)
        mean = math.fsum(run_values_bps) / runs
        spread = math.sqrt(math.fsum((each - mean) ** 2 for each in run_values_bps) / (runs - 1))
        between = spread / math.sqrt(runs) * small_sample_factor(runs)
    elif declared_between is not None:
        between = declared_between * value
    edges = min(BURST_BITS, _MOST_BURST * value * seconds) * math.sqrt(2 / 12) / seconds
    return Uncertainty(within, between, math.hypot(edges, SCALE / 2 * value / math.sqrt(3)))


def small_sample_factor(size: float) -> float:
    """How much wider Student's distribution is than the normal one: sqrt((n-1)/(n-3)) (JCGM 101:2008, 6.4.9.4).

    It has no bound below n = 4; there the factor of 4 is kept, and U is to be read as a lower estimate.
    """
    size = max(size, 4.0)
    return math.sqrt((size - 1) / (size - 3))
