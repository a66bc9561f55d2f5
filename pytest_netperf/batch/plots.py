"""Drawings of the batch page, as inline SVG. Pure functions: numbers in, markup out.

As on the sheet, colours and lines come from the style sheet by class name, and nothing is told by colour alone: bars
are solid, the limit is a thin solid line, the ceiling a dashed one, and both are written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pytest_netperf.batch.lot import moment
from pytest_netperf.batch.summary import Golden, ParetoRow, RowStatistics
from pytest_netperf.record.wording import value_text

__all__ = ["histogram_plot", "pareto_plot", "trend_plot"]

_WIDTH, _HEIGHT = 300.0, 96.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 26.0, 8.0, 24.0, 16.0


def histogram_plot(row: RowStatistics) -> str:
    """How many devices had which value, with the limits and the ceiling; "" without a value."""
    if row.histogram is None:
        return ""
    edges, counts = row.histogram.edges, row.histogram.counts
    most = max(counts)
    begin, end = edges[0], edges[-1]
    pad = (end - begin) * 0.03

    def x(number: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (number - begin + pad) / (end - begin + 2 * pad)

    floor = _HEIGHT - _BOTTOM
    parts = [_line("base", _LEFT, floor, _WIDTH - _RIGHT, floor)]
    for left, right, count in zip(edges, edges[1:], counts, strict=False):
        if count:
            height = (floor - _TOP) * count / most
            parts.append(
                f'<rect class="hbar" x="{_n(x(left) + 0.4)}" y="{_n(floor - height)}" '
                f'width="{_n(max(0.8, x(right) - x(left) - 0.8))}" height="{_n(height)}"/>'
            )
    parts += [_text(_LEFT - 4, _TOP + 4, str(most), "axis end"), _text(_LEFT - 4, floor, "0", "axis end")]
    parts.append(_text(x(begin), _HEIGHT - 4, value_text(begin, row.unit), "axis"))
    parts.append(_text(x(end), _HEIGHT - 4, value_text(end, row.unit), "axis end"))
    outside = []
    for name, number in (("limit", row.limit_low), ("limit", row.limit_high), ("ceiling", row.ceiling)):
        if number is None:
            continue
        if not begin - pad <= number <= end + pad:
            outside.append(f"{name} {value_text(number, row.unit)} outside")
            continue
        at = x(number)
        level = 8 if name == "ceiling" else 18
        parts.append(_line(name, at, level + 2, at, floor))
        side = "axis end" if at > _WIDTH / 2 else "axis"
        shift = -3 if at > _WIDTH / 2 else 3
        parts.append(_text(at + shift, level + 1, f"{name} {value_text(number, row.unit)}", f"{side} strong"))
    for index, words in enumerate(outside):
        parts.append(_text(_LEFT, 9 + 10 * index, words, "axis"))
    smallest, largest, median = (value_text(v, row.unit) for v in (row.smallest, row.largest, row.median))
    description = f"{row.label}: {row.n} values from {smallest} to {largest}, median {median}"
    return _svg(_WIDTH, _HEIGHT, description, parts)


def pareto_plot(rows: Sequence[ParetoRow]) -> str:
    """A bar for each failing row, hatched where it no longer fails, and the cumulative share in words."""
    if not rows:
        return ""
    width, step = 760.0, 19.0
    most = max(row.devices for row in rows)
    parts = [
        '<defs><pattern id="gone" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="5" height="5" class="hatch-ground"/><line x1="0" y1="0" x2="0" y2="5" class="hatch"/>'
        "</pattern></defs>"
    ]
    for index, row in enumerate(rows):
        top = 2 + index * step
        whole, still = 200 * row.devices / most, 200 * row.still / most
        parts.append(_text(430, top + 11, _shortened(row.label, 74), "label end"))
        parts.append(
            f'<rect class="frame" x="436" y="{_n(top + 2)}" width="{_n(whole)}" height="11" fill="url(#gone)"/>'
        )
        if row.still:
            parts.append(f'<rect class="hbar" x="436" y="{_n(top + 2)}" width="{_n(still)}" height="11"/>')
        parts.append(
            _text(436 + whole + 5, top + 11, f"{row.devices}, {row.still} still; {100 * row.cumulative:.0f} %", "label")
        )
    names = ", ".join(f"{row.label}: {row.devices}" for row in rows)
    return _svg(width, 4 + step * len(rows), f"Devices of which each row failed: {names}", parts)


def trend_plot(golden: Golden) -> str:
    """The values of a golden device in the order of their time, with its limits; "" for a single run."""
    if len(golden.values) < 2:
        return ""
    times = [moment(text) for text in golden.times]
    bounds = [bound for bound in (golden.limit_low, golden.limit_high) if bound is not None]
    spread = max(golden.values) - min(golden.values) or abs(golden.values[0]) * 1e-3 or 1.0
    near = [b for b in bounds if min(golden.values) - 6 * spread <= b <= max(golden.values) + 6 * spread]
    low, high = min([*golden.values, *near]), max([*golden.values, *near])
    pad = (high - low or spread) * 0.08

    def x(time: float) -> float:
        return 62 + (_WIDTH - 70) * (time - times[0]) / (times[-1] - times[0] or 1.0)

    def y(value: float) -> float:
        return 8 + (_HEIGHT - 28) * (high + pad - value) / (high - low + 2 * pad)

    parts = [_line("base", 58, _HEIGHT - 18, _WIDTH - 4, _HEIGHT - 18)]
    for value in (high, low):
        parts.append(_text(56, y(value) + 3, value_text(value, golden.unit), "axis end"))
    for bound in near:
        parts.append(_line("limit", 58, y(bound), _WIDTH - 4, y(bound)))
        parts.append(_text(_WIDTH - 5, y(bound) - 2, "limit", "axis end strong"))
    path = "".join(
        f"{'M' if i == 0 else 'L'}{_n(x(t))} {_n(y(v))}"
        for i, (t, v) in enumerate(zip(times, golden.values, strict=True))
    )
    parts.append(f'<path class="series" d="{path}"/>')
    parts += [
        f'<circle class="dot" cx="{_n(x(t))}" cy="{_n(y(v))}" r="2"/>'
        for t, v in zip(times, golden.values, strict=True)
    ]
    parts.append(_text(58, _HEIGHT - 5, golden.times[0][:10], "axis"))
    parts.append(_text(_WIDTH - 4, _HEIGHT - 5, golden.times[-1][:10], "axis end"))
    return _svg(_WIDTH, _HEIGHT, f"{golden.serial}, {golden.label}: {golden.text}", parts)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _line(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{style}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"/>'


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text class="{style}" x="{_n(x)}" y="{_n(y)}">{escape(text)}</text>'


def _svg(width: float, height: float, description: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {_n(width)} {_n(height)}" role="img" aria-label="{escape(description)}">'
        f"{''.join(parts)}</svg>"
    )
