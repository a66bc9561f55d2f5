"""The plot of a sweep, as inline SVG: one quantity over one condition, on a logarithmic axis. Pure.

Measured values are filled marks on a thick line, with a whisker as far as U; expected ones (published, or of a golden
device) are open rings; the ceiling is dashed, the limit thin and solid. A mark of a row that is not PASS has another
shape, so that nothing is told by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from pytest_netperf.record.wording import value_text
from pytest_netperf.report.drawing import (
    Axis,
    drawable,
    log_ticks,
    number,
    scale_for,
    scale_of,
    spread_labels,
    svg,
    text,
    ticks,
)
from pytest_netperf.report.language import DEFAULT_LANGUAGE, Words, load_words
from pytest_netperf.report.legend import verdict_class
from pytest_netperf.report.sweep import Point, Sweep

__all__ = ["axis_value", "sweep_plot"]

_WIDTH, _HEIGHT = 440.0, 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 62.0, 18.0, 30.0


def sweep_plot(sweep: Sweep, *, title: str, words: Words | None = None) -> str:
    """The plot; "" when no point of it can be drawn."""
    w = words or load_words(DEFAULT_LANGUAGE)
    points = [point for point in sweep.points if drawable(point.value) is not None]
    if not points:
        return ""
    lines = {
        "ceiling": [(p.x, p.ceiling) for p in sweep.points if drawable(p.ceiling) is not None],
        "limit": [(p.x, p.limit_low) for p in sweep.points if drawable(p.limit_low) is not None],
        "limit_high": [(p.x, p.limit_high) for p in sweep.points if drawable(p.limit_high) is not None],
    }
    rings = [(p.x, p.expected) for p in sweep.points if drawable(p.expected) is not None]
    every = [p.value for p in points] + [y for line in (*lines.values(), rings) for _, y in line]
    top = max([y for y in every if y is not None] + [p.value + (p.uncertainty or 0) for p in points if p.value]) * 1.06
    top = top or 1.0
    low, high = min(p.x for p in sweep.points), max(p.x for p in sweep.points)
    left, right, floor = _LEFT + 10, _WIDTH - _RIGHT - 10, _HEIGHT - _BOTTOM

    def x(value: float) -> float:
        return left + (right - left) * math.log(value / low) / math.log(high / low)

    def y(value: float) -> float:
        return floor - (floor - _TOP) * value / top

    parts = _axes(sweep, w, x, y, top, (low, high))
    for name, line in lines.items():
        parts.append(_line(name.partition("_")[0], line, x, y))
    parts.append(_line("swept", [(p.x, p.value) for p in points], x, y))
    for point in points:
        parts += _mark(point, x, y)
    for at, expected in rings:
        parts.append(f'<circle class="expected" cx="{number(x(at))}" cy="{number(y(expected or 0))}" r="4.4"/>')
    parts += _labels(w, lines, rings, points, x, y)
    return svg("plot sweep", _WIDTH, _HEIGHT, _describe(title, sweep, points, rings, w), parts)


def axis_value(swept: str, value: float) -> str:
    """A value of the swept condition for people."""
    return value_text(value, "bit/s") if swept == "offered" else f"{value:g}"


def _axes(sweep: Sweep, w: Words, x: Axis, y: Axis, top: float, ends: tuple[float, float]) -> list[str]:
    left, right = number(_LEFT), number(_WIDTH - _RIGHT)
    floor = y(0)
    parts = []
    factor, unit = scale_for(top, sweep.unit)
    for tick in ticks(top / factor, 4):
        level = number(y(tick * factor))
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{level}" y2="{level}"/>')
        parts.append(text(_LEFT - 4, y(tick * factor) + 3, f"{tick:g}", "axis end"))
    parts.append(text(0, 8, unit, "axis"))
    factor, unit = scale_of(ends[1]) if sweep.swept == "offered" else (1.0, "" if sweep.swept == "streams" else "B")
    reached = -math.inf
    marks = log_ticks(*ends)
    for tick in marks if len(marks) > 1 else sorted({*ends}):
        words = f"{tick / factor:g}"
        parts.append(
            f'<line class="grid" x1="{number(x(tick))}" x2="{number(x(tick))}" y1="{_TOP}" y2="{number(floor)}"/>'
        )
        if x(tick) - 3 * len(words) > reached + 4:
            parts.append(text(x(tick), floor + 13, words, "axis middle"))
            reached = x(tick) + 3 * len(words)
    for point in sweep.points:
        at = number(x(point.x))
        parts.append(f'<line class="base" x1="{at}" x2="{at}" y1="{number(floor)}" y2="{number(floor + 3)}"/>')
    name = w.of("sweep", sweep.swept, sweep.swept)
    parts.append(
        text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 4, f"{name}{f' ({unit})' if unit else ''}", "axis middle")
    )
    parts.append(f'<line class="base" x1="{left}" x2="{right}" y1="{number(floor)}" y2="{number(floor)}"/>')
    return parts


def _line(style: str, points: Sequence[tuple[float, float | None]], x: Axis, y: Axis) -> str:
    if not points:
        return ""
    if len({at for at, _ in points}) == 1:
        ((at, level),) = points[:1]
        here, height = x(at), number(y(level or 0))
        return f'<line class="{style}" x1="{number(here - 8)}" x2="{number(here + 8)}" y1="{height}" y2="{height}"/>'
    path = "L".join(f"{number(x(at))} {number(y(level or 0))}" for at, level in points)
    return f'<path class="{escape(style)} course" d="M{path}"/>'


def _mark(point: Point, x: Axis, y: Axis) -> list[str]:
    """A dot for PASS, a cross for FAIL, a diamond for everything else; the whisker behind it."""
    value = point.value or 0.0
    at, level, look = x(point.x), y(value), verdict_class(point.row.verdict)
    parts = []
    if point.uncertainty and point.uncertainty < value * 10:
        high, low = number(y(value + point.uncertainty)), number(y(max(0.0, value - point.uncertainty)))
        parts.append(
            f'<path class="whisker" d="M{number(at)} {low}V{high}M{number(at - 2)} {high}h4M{number(at - 2)} {low}h4"/>'
        )
    here = f"{number(at)} {number(level)}"
    if look == "pass":
        parts.append(f'<circle class="dot {look}" cx="{number(at)}" cy="{number(level)}" r="2.6"/>')
    elif look == "fail":
        parts.append(f'<path class="cross {look}" d="M{here}m-3.4 -3.4l6.8 6.8m0 -6.8l-6.8 6.8"/>')
    else:
        parts.append(f'<path class="dot {look}" d="M{here}m0 -4l4 4l-4 4l-4 -4z"/>')
    return parts


def _labels(
    w: Words,
    lines: dict[str, list[tuple[float, float | None]]],
    rings: Sequence[tuple[float, float | None]],
    points: Sequence[Point],
    x: Axis,
    y: Axis,
) -> list[str]:
    """The name of each line, at its right end."""
    last = [("measured", points[-1].x, points[-1].value)]
    last += [(name.partition("_")[0], *line[-1]) for name, line in lines.items() if line]
    last += [("expected", *rings[-1])] if rings else []
    ends = {(name, y(level or 0)): x(at) for name, at, level in last}
    placed = [(y(level or 0), name, y(level or 0)) for name, _, level in last]
    parts = []
    for level, name, height in spread_labels(placed, _HEIGHT - _BOTTOM - 2):
        begin, end = ends[name, height] + 6, _WIDTH - _RIGHT + 3
        parts.append(
            f'<line class="leader" x1="{number(begin)}" y1="{number(height)}" x2="{number(end)}" y2="{number(level)}"/>'
        )
        parts.append(text(end + 2, level + 3, w(f"plot.{name}"), "label"))
    return parts


def _describe(
    title: str, sweep: Sweep, points: Sequence[Point], rings: Sequence[tuple[float, float | None]], w: Words
) -> str:
    said = [f"{axis_value(sweep.swept, p.x)} {value_text(p.value, sweep.unit)} {p.row.verdict.value}" for p in points]
    said += [
        f"{w('plot.expected')} {axis_value(sweep.swept, at)} {value_text(value, sweep.unit)}" for at, value in rings
    ]
    return f"{title}: {', '.join(said)}"
