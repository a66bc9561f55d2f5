"""One measurement against one limit: the verdict, in words with numbers. Pure; `judge` never raises.

The questions are asked in this order, and the first answer that is not "go on" is the verdict:

    did the bench fail?                              ERROR
    can the number be true?                          INVALID when not
    is there a number?                               INCONCLUSIVE when not
    does a limit apply?                              INCONCLUSIVE when not
    may the tester have made it worse than it is?    INCONCLUSIVE when that could change the answer
    is the limit met?                                PASS or FAIL

The comparison is exact, in the unit of the quantity: 2.2999999 Gbit/s is below 2.3 Gbit/s.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import Better, format_pair, format_value, may_be_negative

__all__ = ["BOUND_TOLERANCE", "Judgement", "Measured", "compare", "distance_of", "judge", "margin_of"]

BOUND_TOLERANCE: Final = 200e-6
"""How far above the bound a value may lie: the clock of each end may be 100 ppm off (IEEE 802.3)."""

_NOT_OF_THE_TESTER: Final = frozenset(
    {
        "link_speed", "mtu", "pcie_bandwidth", "temperature", "power", "dut_cpu", "errors", "carrier_changes",
        "crc_errors", "eee_ports",
    }
)  # fmt: skip
"""Quantities that a busy tester does not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One quantity of one measurement, and what is known about its truth."""

    quantity: str
    unit: str
    better: Better
    value: float | None
    """In ``unit``; None when it was never measured."""
    trusted: bool
    """Whether the document that the value comes from can be trusted; True for a value the test itself recorded."""
    trust_reason: str = ""
    ceiling: float | None = None
    """What physics allows under these conditions; it is shown, the judgement rests on ``bound``."""
    bound: float | None = None
    """What no true value can exceed; None when there is no such bound."""
    bound_tolerance: float = 0.0
    """As a fraction of the bound, allowed on top of `BOUND_TOLERANCE`: the value's resolution, a shaper's burst."""
    received_bytes: int | None = None
    """Payload behind the value; zero makes it INVALID, None is not known."""
    invalid: tuple[str, ...] = ()
    """Why the value cannot be true, whatever it is (`judge.doubts`)."""
    error: str | None = None
    """What failed at the bench; not the device's fault."""
    tester_limited: str | None = None
    """Why the tester may have made the value worse than the device is."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, why, what to do next (None for a PASS), and (value - limit) / limit, positive on the good side."""

    verdict: Verdict
    reason: str
    next_step: str | None
    margin: float | None = None


_REPEAT_ON_BENCH: Final = "Put the bench right, then run this test again; the device is not to blame."
_DISTRUST: Final = "Do not use this number. Find out why it cannot be true, then run this test again."
_TESTER: Final = "Run this test again when nothing else runs on this machine, or on a faster tester."
_FAILED: Final = "Run this test again with another cable and, if there is one, another port; if it fails again, the device does not meet the limit."  # noqa: E501


def judge(measured: Measured, limit: ResolvedLimit | None, *, no_limit: str | None = None) -> Judgement:
    """Judge one measurement. ``no_limit`` says why ``limit`` is None, when there is more to say than that."""
    value = measured.value
    if measured.error is not None:
        return Judgement(Verdict.ERROR, measured.error, _REPEAT_ON_BENCH)
    untrue = _untrue(measured)
    if untrue is not None:
        return Judgement(Verdict.INVALID, untrue, _DISTRUST)
    if value is None:
        return Judgement(
            Verdict.INCONCLUSIVE,
            f"{measured.quantity} was never measured.",
            f"Measure {measured.quantity} in this test, by a traffic call or netperf_record(), or remove its limit.",
        )
    if limit is None:
        return Judgement(
            Verdict.INCONCLUSIVE,
            no_limit or f"{format_value(value, measured.unit)} was measured, but no limit applies to it.",
            f"Require something: a netperf_limit mark or a limits file with {measured.quantity} for these conditions.",
        )
    if limit.quantity != measured.quantity:
        return Judgement(
            Verdict.ERROR,
            f"A limit for {limit.quantity} was applied to {measured.quantity}; this is a fault of pytest-netperf.",
            "Report this fault.",
        )
    return compare(measured, value, limit)


def _untrue(measured: Measured) -> str | None:
    """Why the value cannot be true, or None."""
    if measured.invalid:
        return " ".join(measured.invalid)
    if not measured.trusted:
        return f"The measurement cannot be trusted: {measured.trust_reason or 'no reason was given.'}"
    if measured.received_bytes == 0:
        return "No payload byte reached the receiver."
    value = measured.value
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        return f"The value {value!r} is not a finite number."
    if value < 0 and not may_be_negative(measured.unit):
        return f"{format_value(value, measured.unit)} is below zero, which {measured.quantity} cannot be."
    if value == 0 and measured.better == "higher" and measured.unit in ("bit/s", "frame/s"):
        return f"Nothing was received: {measured.quantity} is 0."
    bound = measured.bound
    if bound is not None and not value <= bound * (1 + BOUND_TOLERANCE + measured.bound_tolerance):
        shown, top = format_pair(value, bound, measured.unit)
        return f"{shown} is above {top}, the most that physics allows here{_percent(value, bound, 'over')}."
    return None


def compare(measured: Measured, value: float, limit: ResolvedLimit) -> Judgement:
    """The last two questions alone, for a value of the measurement that is known to be possible."""
    low, high = limit.low, limit.high
    too_low = low is not None and not value >= low
    too_high = high is not None and not value <= high
    margin = margin_of(value, limit)
    if too_low and low is not None:
        shown, bound = format_pair(value, low, measured.unit)
        reason = f"{shown} is below the required {bound}{_relative(limit)}{_percent(value, low, 'short')}"
    elif too_high and high is not None:
        shown, bound = format_pair(value, high, measured.unit)
        reason = f"{shown} is above the allowed {bound}{_relative(limit)}{_percent(value, high, 'over')}"
    else:
        reason = _met(value, limit, measured.unit)
    limited = None if measured.quantity in _NOT_OF_THE_TESTER else measured.tester_limited
    if limited and _open(measured, limit, too_low=too_low, too_high=too_high):
        return Judgement(Verdict.INCONCLUSIVE, f"{reason}, but the tester may be the cause: {limited}", _TESTER, margin)
    if too_low or too_high:
        return Judgement(Verdict.FAIL, f"{reason}.", _FAILED, margin)
    return Judgement(Verdict.PASS, f"{reason}.", None, margin)


def _open(measured: Measured, limit: ResolvedLimit, *, too_low: bool, too_high: bool) -> bool:
    """Whether a limited tester leaves the answer open.

    Without the tester's limit the value could only have been better. So of a higher-is-better quantity a lower bound
    that is met stays met and an upper bound that is broken stays broken; the other two answers are not proven.
    """
    if measured.better == "higher":
        out_of_reach = limit.high is None or (measured.bound is not None and measured.bound <= limit.high)
        return not too_high and (too_low or not out_of_reach)
    if measured.better == "lower":
        return not too_low and (too_high or (limit.low is not None and limit.low > 0))
    return True


def _met(value: float, limit: ResolvedLimit, unit: str) -> str:
    low, high = limit.low, limit.high
    if low is not None and high is not None:
        shown = format_pair(value, low if value - low < high - value else high, unit)[0]
        return f"{shown} is between {format_value(low, unit)} and {format_value(high, unit)}{_relative(limit)}"
    if low is not None:
        shown, bound = format_pair(value, low, unit)
        return f"{shown} meets the required {bound}{_relative(limit)}{_percent(value, low, 'above')}"
    assert high is not None  # ResolvedLimit has at least one bound
    shown, bound = format_pair(value, high, unit)
    return f"{shown} is within the allowed {bound}{_relative(limit)}"


def _relative(limit: ResolvedLimit) -> str:
    return f", {limit.relative}" if limit.relative else ""


def _percent(value: float, limit: float, word: str) -> str:
    """`` (17.5 % short)``; nothing at the limit itself, or for a limit that has no percentages."""
    return f" ({format_value(abs(value / limit - 1), 'ratio', 3)} {word})" if limit > 0 and value != limit else ""


def distance_of(value: float, limit: ResolvedLimit) -> float:
    """From the nearest bound to the value, in its unit, positive on the good side."""
    return min(sign * (value - bound) for sign, bound in ((1, limit.low), (-1, limit.high)) if bound is not None)


def margin_of(value: float, limit: ResolvedLimit) -> float | None:
    """(value - limit) / limit to the bound that counts, positive on the good side."""
    too_low = limit.low is not None and not value >= limit.low
    too_high = limit.high is not None and not value <= limit.high
    return _margin(value, None if too_high else limit.low, None if too_low else limit.high)


def _margin(value: float, low: float | None, high: float | None) -> float | None:
    """Relative distance to the nearer bound, positive on the good side; None where no bound above zero is concerned."""
    margins = [sign * (value / bound - 1) for sign, bound in ((1, low), (-1, high)) if bound is not None and bound > 0]
    return min(margins, default=None)
