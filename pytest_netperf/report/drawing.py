"""What the drawings of a sheet are made of: numbers, texts, ticks and labels of inline SVG. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from typing import Final

__all__ = [
    "TOO_LARGE",
    "Axis",
    "Label",
    "drawable",
    "log_ticks",
    "number",
    "scale_for",
    "scale_of",
    "spread_labels",
    "svg",
    "text",
    "ticks",
]

TOO_LARGE: Final = 1e18
"""No rate and no duration; NaN compares as neither."""
_LABEL_GAP: Final = 11.0

Axis = Callable[[float], float]
"""From a value to a place in the drawing."""
Label = tuple[float, str, float]
"""Height in the drawing, name, value."""


def drawable(value: float | None) -> float | None:
    """The value, or None when it cannot be drawn."""
    return value if value is not None and 0 <= value < TOO_LARGE else None


def number(value: float) -> str:
    """A coordinate, as short as it can be written."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text(x: float, y: float, words: str, style: str) -> str:
    """A text that begins at, ends at or is centred on a place, by its style."""
    return f'<text class="{style}" x="{number(x)}" y="{number(y)}">{escape(words)}</text>'


def svg(style: str, width: float, height: float, description: str, parts: Sequence[str]) -> str:
    """The whole drawing, with what it shows in words for those who do not see it."""
    return (
        f'<svg class="{style}" viewBox="0 0 {number(width)} {number(height)}" role="img" '
        f'aria-label="{escape(description)}">{"".join(parts)}</svg>'
    )


def ticks(largest: float, most: int) -> list[float]:
    """Round numbers from 0 up to the largest, at most so many steps."""
    if largest <= 0:
        return [0.0]
    magnitude = 10.0 ** math.floor(math.log10(largest / most))
    step = next(magnitude * m for m in (1, 2, 2.5, 5, 10, 20) if magnitude * m * most >= largest)
    return [round(i * step, 10) for i in range(int(largest / step + 1e-9) + 1)]


def log_ticks(smallest: float, largest: float) -> list[float]:
    """1, 2 and 5 times the powers of ten between two numbers above zero."""
    first, last = math.floor(math.log10(smallest)), math.ceil(math.log10(largest))
    every = (m * 10.0**power for power in range(first, last + 1) for m in (1, 2, 5))
    return [tick for tick in every if smallest * (1 - 1e-9) <= tick <= largest * (1 + 1e-9)]


def scale_of(largest_bps: float) -> tuple[float, str]:
    """The unit in which a rate is written at an axis, and its size in bit/s."""
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if largest_bps >= factor:
            return factor, unit
    return 1.0, "bit/s"


def scale_for(largest: float, unit: str) -> tuple[float, str]:
    """The unit in which a quantity is written at an axis or over a column, and its size in ``unit``."""
    if unit == "bit/s":
        return scale_of(largest)
    if unit == "ratio":
        return 0.01, "%"
    if unit == "s":
        return (1e-3, "ms") if largest < 1 else (1.0, "s")
    shown = {"1": "", "degC": "\u00b0C"}.get(unit, unit)
    return (1e3, f"k{shown}") if largest >= 1e4 and unit == "frame/s" else (1.0, shown)


def spread_labels(labels: Sequence[Label], lowest: float) -> list[Label]:
    """The labels from top to bottom, moved apart so that none covers another, and none below ``lowest``."""
    placed = sorted(labels, key=lambda label: label[0])
    levels = [level for level, _, _ in placed]
    for upper, lower in pairwise(range(len(levels))):
        levels[lower] = max(levels[lower], levels[upper] + _LABEL_GAP)
    for index in reversed(range(len(levels))):
        levels[index] = min(levels[index], lowest)
        lowest = levels[index] - _LABEL_GAP
    return [(level, name, value) for level, (_, name, value) in zip(levels, placed, strict=True)]
