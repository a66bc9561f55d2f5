"""Small drawings for the sheet, as inline SVG. Pure functions: numbers in, markup out.

Colours and line styles come from the style sheet of the page by class name, so that one drawing serves light, dark and
paper. Nothing is told by colour alone: the data is a thick line, the limit a thin solid one, the ceiling a dashed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import pairwise

from pytest_netperf.record.schema import SeriesPoint
from pytest_netperf.record.wording import value_text

__all__ = ["bullet_graph", "throughput_plot"]

_BULLET_WIDTH, _BULLET_HEIGHT = 120.0, 14.0
_WIDTH, _HEIGHT = 352.0, 136.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 30.0, 96.0, 18.0, 20.0
_LABEL_GAP = 11.0
_TOO_LARGE = 1e18  # no rate and no duration; NaN compares as neither
_Axis = Callable[[float], float]


def bullet_graph(
    value: float | None,
    unit: str,
    *,
    limit_low: float | None = None,
    limit_high: float | None = None,
    ceiling: float | None = None,
    uncertainty: float | None = None,
    style: str = "",
) -> str:
    """A bar from 0 to the value, in a frame from 0 to the ceiling, with a tick at each limit.

    A whisker at the end of the bar reaches as far as the uncertainty, to scale. Without a ceiling the frame ends a
    little beyond the largest number. "" when there is nothing to draw.
    """
    value, low, high, ceiling, spread = (
        _drawable(number) for number in (value, limit_low, limit_high, ceiling, uncertainty)
    )
    numbers = [number for number in (value, low, high, ceiling) if number is not None]
    if value is None and low is None and high is None:
        return ""
    largest = max(numbers)
    full = ceiling if ceiling and ceiling >= largest else largest * 1.15
    if value is not None and spread is not None:
        full = max(full, value + spread)
    width = _BULLET_WIDTH - 4

    def x(number: float) -> float:
        return 2 + (width * number / full if full > 0 else 0.0)

    parts = [f'<rect class="track" x="2" y="2.5" width="{_n(x(ceiling or full) - 2)}" height="9"/>']
    if value is not None:
        parts.append(f'<rect class="bar {escape(style)}" x="2" y="4.5" width="{_n(x(value) - 2)}" height="5"/>')
    if value is not None and spread:
        left, right = _n(x(max(0.0, value - spread))), _n(x(value + spread))
        path = f"M{left} 3V11M{left} 7H{right}M{right} 3V11"
        parts += [f'<path class="whisker halo" d="{path}"/>', f'<path class="whisker" d="{path}"/>']
    for limit in (low, high):
        if limit is not None:
            parts.append(
                f'<line class="tick" x1="{_n(x(limit))}" x2="{_n(x(limit))}" y1="0" y2="{_n(_BULLET_HEIGHT)}"/>'
            )
    words = [f"value {value_text(value, unit)}" if value is not None else "no value"]
    words += [f"plus or minus {value_text(spread, unit)}"] if value is not None and spread else []
    words += [f"at least {value_text(low, unit)}"] if low is not None else []
    words += [f"at most {value_text(high, unit)}"] if high is not None else []
    words += [f"ceiling {value_text(ceiling, unit)}"] if ceiling is not None else []
    return _svg("bullet", _BULLET_WIDTH, _BULLET_HEIGHT, ", ".join(words), parts)


def throughput_plot(
    series: Sequence[SeriesPoint],
    *,
    limit_low: float | None = None,
    limit_high: float | None = None,
    ceiling: float | None = None,
    style: str = "",
    title: str = "Throughput over time",
    others: Iterable[Sequence[SeriesPoint]] = (),
) -> str:
    """Throughput of each interval as steps over time, from 0, with limit and ceiling drawn in and labelled.

    Omitted seconds lie on a grey ground, in a grey line. A gap between intervals stays a gap. ``others`` are further
    runs of the same measurement, as thin grey lines. "" without a point.
    """
    points = _drawable_points(series)
    if not points:
        return ""
    thin = [[p for p in _drawable_points(other) if not p.omitted] for other in others]
    named = (("ceiling", _drawable(ceiling)), ("limit", _drawable(limit_low)), ("limit", _drawable(limit_high)))
    lines = [(name, number) for name, number in named if number is not None]
    every = [*points, *(p for other in thin for p in other)]
    top = max([p.throughput_bps for p in every] + [number for _, number in lines]) * 1.04 or 1.0
    # Zero is in the picture, so that it has a width whatever the series holds.
    begin, end = min(0.0, *(p.start_s for p in every)), max(0.0, *(p.start_s + p.seconds for p in every))

    def x(second: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (second - begin) / (end - begin)

    def y(bps: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * bps / top

    left, right, floor = _n(_LEFT), _n(_WIDTH - _RIGHT), _n(y(0))
    parts = []
    for first, last in _omitted_spans(points):
        parts.append(
            f'<rect class="omitted" x="{_n(x(first))}" y="{_n(_TOP)}" width="{_n(x(last) - x(first))}" '
            f'height="{_n(y(0) - _TOP)}"/>'
        )
        if x(last) - x(first) > 38:
            parts.append(_text(x(first) + 3, y(0) - 4, "omitted", "note"))
    factor, unit = _scale(top)
    for tick in _ticks(top / factor, 4):
        level = y(tick * factor)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{_n(level)}" y2="{_n(level)}"/>')
        parts.append(_text(_LEFT - 4, level + 3, f"{tick:g}", "axis end"))
    parts.append(_text(0, 8, unit, "axis"))
    for tick in _ticks(end, 6):
        parts.append(_text(x(tick), _HEIGHT - 7, f"{tick:g}", "axis middle"))
    parts.append(_text(_WIDTH - _RIGHT + 6, _HEIGHT - 7, "s", "axis"))
    parts.append(f'<line class="base" x1="{left}" x2="{right}" y1="{floor}" y2="{floor}"/>')
    for name, number in lines:
        parts.append(f'<line class="{name}" x1="{left}" x2="{right}" y1="{_n(y(number))}" y2="{_n(y(number))}"/>')
    parts += [f'<path class="series unused" d="{_steps(other, x, y)}"/>' for other in thin if other]
    for omitted in (True, False):
        path = _steps([p for p in points if p.omitted is omitted], x, y)
        if path:
            parts.append(f'<path class="series {"unused" if omitted else escape(style)}" d="{path}"/>')
    for level, name, number in _spread([(y(number), name, number) for name, number in lines]):
        text_x = _WIDTH - _RIGHT + 6
        parts.append(f'<line class="leader" x1="{right}" y1="{_n(y(number))}" x2="{_n(text_x - 1)}" y2="{_n(level)}"/>')
        parts.append(_text(text_x + 1, level + 3, f"{name} {value_text(number, 'bit/s')}", "label"))
    return _svg("plot", _WIDTH, _HEIGHT, _describe(title, points, lines, end - begin), parts)


def _drawable_points(series: Iterable[SeriesPoint]) -> list[SeriesPoint]:
    drawable = [
        p
        for p in series
        if _drawable(p.throughput_bps) is not None and abs(p.start_s) < _TOO_LARGE and 0 < p.seconds < _TOO_LARGE
    ]
    return sorted(drawable, key=lambda p: p.start_s)


def _describe(title: str, points: Sequence[SeriesPoint], lines: Iterable[tuple[str, float]], end: float) -> str:
    counted = [p.throughput_bps for p in points if not p.omitted]
    words = [f"{title}: {end:.4g} s"]
    if counted:
        words.append(f"lowest {value_text(min(counted), 'bit/s')}, highest {value_text(max(counted), 'bit/s')}")
    words += [f"{name} {value_text(number, 'bit/s')}" for name, number in lines]
    if skipped := sum(p.seconds for p in points if p.omitted):
        words.append(f"{skipped:.3g} s omitted")
    return ", ".join(words)


def _steps(points: Sequence[SeriesPoint], x: _Axis, y: _Axis) -> str:
    """Path data: a level for each interval, joined to the next one when that follows without a gap."""
    path = ""
    reached: float | None = None
    for point in points:
        begin, finish, level = point.start_s, point.start_s + point.seconds, _n(y(point.throughput_bps))
        joined = reached is not None and abs(begin - reached) <= 0.1 * point.seconds
        path += f"V{level}" if joined else f"M{_n(x(begin))} {level}"
        path += f"H{_n(x(finish))}"
        reached = finish
    return path


def _omitted_spans(points: Sequence[SeriesPoint]) -> list[tuple[float, float]]:
    spans: list[tuple[float, float]] = []
    for point in points:
        if point.omitted:
            if spans and point.start_s <= spans[-1][1] + 0.1 * point.seconds:
                spans[-1] = (spans[-1][0], max(spans[-1][1], point.start_s + point.seconds))
            else:
                spans.append((point.start_s, point.start_s + point.seconds))
    return spans


def _spread(labels: list[tuple[float, str, float]]) -> list[tuple[float, str, float]]:
    """The labels from top to bottom, moved apart so that none covers another, and kept inside the drawing."""
    placed = sorted(labels, key=lambda label: label[0])
    levels = [level for level, _, _ in placed]
    for upper, lower in pairwise(range(len(levels))):
        levels[lower] = max(levels[lower], levels[upper] + _LABEL_GAP)
    lowest = _HEIGHT - _BOTTOM - 2
    for index in reversed(range(len(levels))):
        levels[index] = min(levels[index], lowest)
        lowest = levels[index] - _LABEL_GAP
    return [(level, name, number) for level, (_, name, number) in zip(levels, placed, strict=True)]


def _ticks(largest: float, most: int) -> list[float]:
    """Round numbers from 0 up to the largest, at most so many steps."""
    if largest <= 0:
        return [0.0]
    magnitude = 10.0 ** math.floor(math.log10(largest / most))
    step = next(magnitude * m for m in (1, 2, 2.5, 5, 10, 20) if magnitude * m * most >= largest)
    return [round(i * step, 10) for i in range(int(largest / step + 1e-9) + 1)]


def _scale(largest_bps: float) -> tuple[float, str]:
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if largest_bps >= factor:
            return factor, unit
    return 1.0, "bit/s"


def _drawable(number: float | None) -> float | None:
    return number if number is not None and 0 <= number < _TOO_LARGE else None


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text class="{style}" x="{_n(x)}" y="{_n(y)}">{escape(text)}</text>'


def _svg(style: str, width: float, height: float, description: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="{style}" viewBox="0 0 {_n(width)} {_n(height)}" role="img" '
        f'aria-label="{escape(description)}">{"".join(parts)}</svg>'
    )
