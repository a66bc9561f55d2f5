"""The uncertainty of what is counted, and of what a test states itself: facts of a row -> U (k = 2). Pure.

    frame_loss_ratio                       Clopper's and Pearson's interval (1934) for a share of N frames, 2.5 % a side
    counts of ports, retransmits           0: each one was counted
    recorded by the test                   what the test states: netperf_record(..., uncertainty=...)

That interval takes one loss for independent of the next. Losses that come in bursts scatter more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

__all__ = [
    "EXACT_COUNTS",
    "STATED",
    "ZERO_LOSS",
    "counted_uncertainty",
    "frames_of",
    "loss_uncertainty",
    "zero_loss_bound",
]

EXACT_COUNTS: Final = {
    "retransmits": "the sender's kernel counts each segment that it sends again",
    "errors": "the counters of both ports count each frame",
    "carrier_changes": "the kernel counts each change of the carrier",
    "drops": "the counters of both ports count each frame",
    "crc_errors": "the drivers of both ports count each frame",
    "missed": "the drivers of both ports count each frame",
    "pause_forward": "the driver of a port counts each frame",
    "pause_reverse": "the driver of a port counts each frame",
    "eee_ports": "both ports were asked",
}
"""Counts without an uncertainty, and why. They speak of this run: another may have another number."""
STATED: Final = "uncertainty_stated"
"""The fact in which a test's own statement of U is kept, in the unit of the value."""
ZERO_LOSS: Final = "zero_loss_bound_ratio"
"""The fact that says what a run without a loss leaves possible (`zero_loss_bound`)."""
_ON_EACH_SIDE: Final = 0.025
_UNLIKELY: Final = 0.05
_TINY: Final = 1e-300
_MOST_TERMS: Final = 100_000


def counted_uncertainty(quantity: str, value: float | None, facts: Mapping[str, Any]) -> tuple[float | None, str]:
    """U in the unit of the value and where it comes from; None and why it is not known."""
    stated = facts.get(STATED)
    if isinstance(stated, int | float) and not isinstance(stated, bool):
        return float(stated), "stated by the test"
    if value is None:
        return None, "there is no value"
    if quantity in EXACT_COUNTS and "source" not in facts:  # what a test recorded itself was counted somehow
        return 0.0, f"exact: {EXACT_COUNTS[quantity]}"
    if quantity == "frame_loss_ratio":
        frames = frames_of(value, facts)
        if frames is None:
            return None, "the number of frames is not known"
        return loss_uncertainty(
            value, frames
        ), f"Clopper and Pearson for {frames} frames, as if each was lost by itself"
    if "source" in facts:
        return None, "the test states none: netperf_record(..., uncertainty=...)"
    return None, f"none is determined for {quantity}"


def frames_of(ratio: float, facts: Mapping[str, Any]) -> int | None:
    """How many frames a loss ratio is a share of; of a bidirectional run, in the direction that has this ratio."""
    for prefix in ("", "forward_", "reverse_"):
        frames = facts.get(f"{prefix}packets")
        if facts.get(f"{prefix}frame_loss_ratio") == ratio and isinstance(frames, int) and frames > 0:
            return frames
    return None


def loss_uncertainty(ratio: float, frames: int) -> float:
    """The longer half of the interval of Clopper and Pearson, the one towards one half.

    With a loss ratio beyond its end, so few losses (or so few that arrived) are seen in at most 2.5 % of such runs.
    """
    rarer = min(ratio, 1 - ratio)
    seen = min(math.ceil(rarer * frames - 1e-6), frames)
    if seen == frames:
        return 1 - rarer
    low, high = rarer, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if _incomplete_beta(frames - seen, seen + 1, 1 - middle) > _ON_EACH_SIDE:
            low = middle
        else:
            high = middle
    return high - rarer


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), regularised, by its continued fraction (Abramowitz & Stegun 26.5.8; Lentz' method).

    The probability of at most k successes in n trials of p is I_(1-p)(n - k, k + 1).
    """
    if not 0 < x < 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly, the other tail does not
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x) - math.log(a)
    )
    c = 1.0
    d = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _MOST_TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            fraction *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return front * fraction


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def zero_loss_bound(frames: int) -> float:
    """The largest loss ratio with which no loss among ``frames`` is not yet unlikely: 1 - 0.05^(1/N), about 3 / N.

    With a larger one, less than 5 % of such runs would show no loss.
    """
    return -math.expm1(math.log(_UNLIKELY) / frames)
