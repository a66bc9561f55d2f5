"""Small drawings for the sheet, as inline SVG. Pure functions: numbers in, markup out.

Colours and line styles come from the style sheet of the page by class name, so that one drawing serves light, dark and
paper. Nothing is told by colour alone: the data is a thick line, the limit a thin solid one, the ceiling a dashed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pytest_netperf.record.schema import SeriesPoint
from pytest_netperf.record.wording import value_text
from pytest_netperf.report.drawing import TOO_LARGE, Axis, drawable, number, scale_of, spread_labels, svg, text, ticks
from pytest_netperf.report.language import DEFAULT_LANGUAGE, Words, load_words

__all__ = ["bullet_graph", "throughput_plot"]

_BULLET_WIDTH, _BULLET_HEIGHT = 120.0, 14.0
_WIDTH, _HEIGHT = 352.0, 136.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 30.0, 96.0, 18.0, 20.0


def bullet_graph(
    value: float | None,
    unit: str,
    *,
    limit_low: float | None = None,
    limit_high: float | None = None,
    ceiling: float | None = None,
    uncertainty: float | None = None,
    style: str = "",
    words: Words | None = None,
) -> str:
    """A bar from 0 to the value, in a frame from 0 to the ceiling, with a tick at each limit.

    A whisker at the end of the bar reaches as far as the uncertainty, to scale. Without a ceiling the frame ends a
    little beyond the largest number. "" when there is nothing to draw.
    """
    value, low, high, ceiling, spread = (
        drawable(each) for each in (value, limit_low, limit_high, ceiling, uncertainty)
    )
    numbers = [each for each in (value, low, high, ceiling) if each is not None]
    if value is None and low is None and high is None:
        return ""
    largest = max(numbers)
    full = ceiling if ceiling and ceiling >= largest else largest * 1.15
    if value is not None and spread is not None:
        full = max(full, value + spread)
    width = _BULLET_WIDTH - 4

    def x(each: float) -> float:
        return 2 + (width * each / full if full > 0 else 0.0)

    parts = [f'<rect class="track" x="2" y="2.5" width="{number(x(ceiling or full) - 2)}" height="9"/>']
    if value is not None:
        parts.append(f'<rect class="bar {escape(style)}" x="2" y="4.5" width="{number(x(value) - 2)}" height="5"/>')
    if value is not None and spread:
        left, right = number(x(max(0.0, value - spread))), number(x(value + spread))
        path = f"M{left} 3V11M{left} 7H{right}M{right} 3V11"
        parts += [f'<path class="whisker halo" d="{path}"/>', f'<path class="whisker" d="{path}"/>']
    for limit in (low, high):
        if limit is not None:
            at = number(x(limit))
            parts.append(f'<line class="tick" x1="{at}" x2="{at}" y1="0" y2="{number(_BULLET_HEIGHT)}"/>')
    w = words or load_words(DEFAULT_LANGUAGE)
    said = [w("plot.value", number=value_text(value, unit)) if value is not None else w("plot.no_value")]
    said += [w("plot.spread", number=value_text(spread, unit))] if value is not None and spread else []
    said += [w("plot.at_least", number=value_text(low, unit))] if low is not None else []
    said += [w("plot.at_most", number=value_text(high, unit))] if high is not None else []
    said += [f"{w('plot.ceiling')} {value_text(ceiling, unit)}"] if ceiling is not None else []
    return svg("bullet", _BULLET_WIDTH, _BULLET_HEIGHT, ", ".join(said), parts)


def throughput_plot(
    series: Sequence[SeriesPoint],
    *,
    limit_low: float | None = None,
    limit_high: float | None = None,
    ceiling: float | None = None,
    style: str = "",
    title: str = "Throughput over time",
    others: Iterable[Sequence[SeriesPoint]] = (),
    words: Words | None = None,
) -> str:
    """Throughput of each interval as steps over time, from 0, with limit and ceiling drawn in and labelled.

    Omitted seconds lie on a grey ground, in a grey line. A gap between intervals stays a gap. ``others`` are further
    runs of the same measurement, as thin grey lines. "" without a point.
    """
    points = _drawable_points(series)
    if not points:
        return ""
    w = words or load_words(DEFAULT_LANGUAGE)
    thin = [[p for p in _drawable_points(other) if not p.omitted] for other in others]
    named = (("ceiling", drawable(ceiling)), ("limit", drawable(limit_low)), ("limit", drawable(limit_high)))
    lines = [(name, each) for name, each in named if each is not None]
    every = [*points, *(p for other in thin for p in other)]
    top = max([p.throughput_bps for p in every] + [each for _, each in lines]) * 1.04 or 1.0
    # Zero is in the picture, so that it has a width whatever the series holds.
    begin, end = min(0.0, *(p.start_s for p in every)), max(0.0, *(p.start_s + p.seconds for p in every))

    def x(second: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (second - begin) / (end - begin)

    def y(bps: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * bps / top

    left, right, floor = number(_LEFT), number(_WIDTH - _RIGHT), number(y(0))
    parts = []
    for first, last in _omitted_spans(points):
        parts.append(
            f'<rect class="omitted" x="{number(x(first))}" y="{number(_TOP)}" width="{number(x(last) - x(first))}" '
            f'height="{number(y(0) - _TOP)}"/>'
        )
        if x(last) - x(first) > 38:
            parts.append(text(x(first) + 3, y(0) - 4, w("plot.omitted"), "note"))
    factor, unit = scale_of(top)
    for tick in ticks(top / factor, 4):
        level = y(tick * factor)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{number(level)}" y2="{number(level)}"/>')
        parts.append(text(_LEFT - 4, level + 3, f"{tick:g}", "axis end"))
    parts.append(text(0, 8, unit, "axis"))
    for tick in ticks(end, 6):
        parts.append(text(x(tick), _HEIGHT - 7, f"{tick:g}", "axis middle"))
    parts.append(text(_WIDTH - _RIGHT + 6, _HEIGHT - 7, "s", "axis"))
    parts.append(f'<line class="base" x1="{left}" x2="{right}" y1="{floor}" y2="{floor}"/>')
    for name, each in lines:
        parts.append(f'<line class="{name}" x1="{left}" x2="{right}" y1="{number(y(each))}" y2="{number(y(each))}"/>')
    parts += [f'<path class="series unused" d="{_steps(other, x, y)}"/>' for other in thin if other]
    for omitted in (True, False):
        path = _steps([p for p in points if p.omitted is omitted], x, y)
        if path:
            parts.append(f'<path class="series {"unused" if omitted else escape(style)}" d="{path}"/>')
    for level, name, each in spread_labels([(y(level), name, level) for name, level in lines], _HEIGHT - _BOTTOM - 2):
        text_x = _WIDTH - _RIGHT + 6
        parts.append(
            f'<line class="leader" x1="{right}" y1="{number(y(each))}" x2="{number(text_x - 1)}" y2="{number(level)}"/>'
        )
        parts.append(text(text_x + 1, level + 3, f"{w(f'plot.{name}')} {value_text(each, 'bit/s')}", "label"))
    return svg("plot", _WIDTH, _HEIGHT, _describe(title, points, lines, end - begin, w), parts)


def _drawable_points(series: Iterable[SeriesPoint]) -> list[SeriesPoint]:
    found = [
        p
        for p in series
        if drawable(p.throughput_bps) is not None and abs(p.start_s) < TOO_LARGE and 0 < p.seconds < TOO_LARGE
    ]
    return sorted(found, key=lambda p: p.start_s)


def _describe(
    title: str, points: Sequence[SeriesPoint], lines: Iterable[tuple[str, float]], end: float, w: Words
) -> str:
    counted = [p.throughput_bps for p in points if not p.omitted]
    words = [f"{title}: {end:.4g} s"]
    if counted:
        lowest, highest = (value_text(each, "bit/s") for each in (min(counted), max(counted)))
        words.append(w("plot.range", lowest=lowest, highest=highest))
    words += [f"{w(f'plot.{name}')} {value_text(each, 'bit/s')}" for name, each in lines]
    if skipped := sum(p.seconds for p in points if p.omitted):
        words.append(w("plot.skipped", seconds=f"{skipped:.3g}"))
    return ", ".join(words)


def _steps(points: Sequence[SeriesPoint], x: Axis, y: Axis) -> str:
    """Path data: a level for each interval, joined to the next one when that follows without a gap."""
    path = ""
    reached: float | None = None
    for point in points:
        begin, finish, level = point.start_s, point.start_s + point.seconds, number(y(point.throughput_bps))
        joined = reached is not None and abs(begin - reached) <= 0.1 * point.seconds
        path += f"V{level}" if joined else f"M{number(x(begin))} {level}"
        path += f"H{number(x(finish))}"
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
