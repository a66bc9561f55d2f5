"""Student's t distribution, upper tail. Pure, plain Python: the standard library has only the normal one."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["student_tail"]

_MANY: Final = 1e7  # degrees of freedom from which on it is the normal distribution
_STEPS: Final = 500
_EPSILON: Final = 1e-15
_TINY: Final = 1e-300


def student_tail(t: float, freedom: float) -> float:
    """P(T > t) with so many degrees of freedom, which need not be a whole number; infinity is the normal distribution.

    I(freedom / (freedom + t^2); freedom / 2, 1 / 2) / 2 for t >= 0 (Abramowitz & Stegun 26.7.1), I the regularised
    incomplete beta function. ValueError without degrees of freedom.
    """
    if not freedom > 0:
        raise ValueError(f"{freedom} degrees of freedom; expected more than 0")
    if freedom >= _MANY:
        return 0.5 * math.erfc(t / math.sqrt(2))
    square = t * t
    if math.isinf(square):
        half = 0.0
    else:
        half = 0.5 * _beta_ratio(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square))
    return half if t >= 0 else 1.0 - half


def _beta_ratio(a: float, b: float, x: float, rest: float) -> float:
    """I(x; a, b); ``rest`` is 1 - x, which is handed over because its digits would be lost."""
    if x <= 0:
        return 0.0
    if rest <= 0:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, rest) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function (Abramowitz & Stegun 26.5.8), by Lentz's method."""
    c, d = 1.0, 1.0 / _away(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for step in range(1, _STEPS):
        for factor in (
            step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step)),
            -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1)),
        ):
            d = 1.0 / _away(1.0 + factor * d)
            c = _away(1.0 + factor / c)
            value *= c * d
        if abs(c * d - 1.0) < _EPSILON:
            break
    return value


def _away(number: float) -> float:
    """The number, kept away from zero."""
    return number if abs(number) > _TINY else _TINY
