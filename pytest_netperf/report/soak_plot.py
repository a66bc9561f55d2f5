"""The course of a long run in one drawing: throughput, temperature, CPU load, errors and carrier over one time. Pure.

Panels one below the other share the axis of time. A limit is a thin solid line, the ceiling a dashed one; omitted
seconds lie on grey; each error and each change of the carrier is a mark of its own shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from markupsafe import Markup

from pytest_netperf.record.schema import Row
from pytest_netperf.record.wording import conditions_text, port_text, printable, quantity_text, value_text
from pytest_netperf.report.drawing import drawable, number, scale_for, svg, text, ticks
from pytest_netperf.report.language import DEFAULT_LANGUAGE, Words, load_words

__all__ = ["soak_plot", "soak_sections"]

_WIDTH: Final = 760.0
_LEFT, _RIGHT, _TOP, _GAP = 46.0, 108.0, 16.0, 18.0
_HEIGHTS: Final = {"throughput": 110.0, "temperature": 70.0, "cpu": 56.0, "events": 26.0}
_Course = list[tuple[float, float]]


def soak_sections(rows: Iterable[Row], w: Words) -> list[dict[str, Any]]:
    """What the template ``soak.html.j2`` lays out: each long run once, with the limits of all rows of its test."""
    rows = list(rows)
    found = []
    of_test: dict[str, list[Row]] = {}
    for row in rows:
        of_test.setdefault(row.test, []).append(row)
    seen: set[Any] = set()
    for row in sorted(rows, key=lambda each: (each.quantity != "throughput", each.statistic is not None)):
        evidence = row.evidence
        key = (row.test, row.conditions.get("direction"), evidence.series)
        if "course_at_s" not in evidence.facts or not evidence.series or key in seen:
            continue
        seen.add(key)
        limits = {each.quantity: each.limit_high for each in of_test[row.test] if each.statistic is None}
        title = f"{port_text(row)}, {quantity_text(row)}"
        drawn = soak_plot(row, heat_limit=limits.get("temperature"), title=printable(title), words=w)
        if drawn:
            found.append({"title": title, "conditions": conditions_text(row), "drawing": Markup(drawn)})
    return found


def soak_plot(row: Row, *, heat_limit: float | None = None, title: str = "", words: Words | None = None) -> str:
    """The drawing; "" when the row has no course that can be drawn."""
    w = words or load_words(DEFAULT_LANGUAGE)
    facts, series = row.evidence.facts, [p for p in row.evidence.series if drawable(p.throughput_bps) is not None]
    if not series:
        return ""
    omit_s = max(0.0, -min(p.start_s for p in series))
    begin, end = -omit_s, max(p.start_s + p.seconds for p in series)
    if not 0 < end - begin < 1e7:
        return ""
    of_rate = row.unit == "bit/s"
    heat = _course(facts, "temperature_at_s", "temperature_samples", omit_s) or _course(
        facts, "course_at_s", "course_temperature_c", omit_s
    )
    cpu = _course(facts, "course_at_s", "course_cpu", omit_s)
    errors = _jumps(_course(facts, "course_at_s", "course_errors", omit_s))
    carrier = _jumps(_course(facts, "course_at_s", "course_carrier_changes", omit_s))
    panels: list[str] = []
    level = _TOP

    def x(second: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (min(max(second, begin), end) - begin) / (end - begin)

    def panel(name: str, unit: str, lines: dict[str, float | None], course: _Course, least: float = 0.0) -> None:
        nonlocal level
        height = _HEIGHTS[name]
        known = [(kind, value) for kind, value in lines.items() if drawable(value) is not None and value is not None]
        top = max([least, *(y for _, y in course), *(value for _, value in known)]) * 1.06 or 1.0
        foot = level + height

        def y(value: float) -> float:
            return foot - height * value / top

        factor, shown = scale_for(top, unit)
        for tick in ticks(top / factor, 3):
            at = number(y(tick * factor))
            panels.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>')
            panels.append(text(_LEFT - 4, y(tick * factor) + 3, f"{tick:g}", "axis end"))
        panels.append(text(0, level - 5, f"{w(f'soak.{name}')} ({shown})" if shown else w(f"soak.{name}"), "axis"))
        panels.append(
            f'<line class="base" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{number(foot)}" y2="{number(foot)}"/>'
        )
        for kind, value in known:
            at = number(y(value))
            panels.append(f'<line class="{kind}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>')
        places = sorted((y(value), kind, value) for kind, value in known)
        for place, (height_at, kind, value) in enumerate(places):
            below = max(height_at, places[place - 1][0] + 11) if place else height_at
            panels.append(
                text(_WIDTH - _RIGHT + 5, below + 3, f"{w(f'plot.{kind}')} {value_text(value, unit)}", "label")
            )
        panels.append(f'<path class="series" d="{_path(course, x, y)}"/>')
        level = foot + _GAP

    if begin < 0:
        panels.append(
            f'<rect class="omitted" x="{number(x(begin))}" y="{number(_TOP)}" width="{number(x(0) - x(begin))}" '
            f'height="{number(_HEIGHTS["throughput"])}"/>'
        )
    limit = row.limit_low if of_rate else None
    rates = [(p.start_s + p.seconds / 2, p.throughput_bps) for p in series]
    panel("throughput", "bit/s", {"ceiling": row.ceiling if of_rate else None, "limit": limit}, rates)
    if heat:
        panel("temperature", "degC", {"limit": heat_limit}, heat)
    if cpu:
        panel("cpu", "ratio", {}, cpu, 1.0)
    foot = level + _HEIGHTS["events"] - _GAP / 2
    counts = [
        f"{w('soak.errors')} {sum(by for _, by in errors):g}",
        f"{w('soak.carrier')} {sum(by for _, by in carrier):g}",
    ]
    panels.append(text(0, level - 5, ", ".join(counts), "axis"))
    panels.append(f'<line class="base" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{number(foot)}" y2="{number(foot)}"/>')
    panels += [f'<path class="error" d="M{number(x(at))} {number(foot)}v-10"/>' for at, _ in errors]
    panels += [
        f'<path class="carrier" d="M{number(x(at))} {number(foot - 5)}m0 -5l5 5l-5 5l-5 -5z"/>' for at, _ in carrier
    ]
    for tick in ticks(end, 8):
        panels.append(text(x(tick), foot + 13, f"{tick:g}", "axis middle"))
    panels.append(text(_WIDTH - _RIGHT + 6, foot + 13, "s", "axis"))
    said = [title, f"{end:.4g} s", _said(w("soak.throughput"), rates, "bit/s")]
    said += [_said(w("soak.temperature"), heat, "degC")] if heat else []
    said += [_said(w("soak.cpu"), cpu, "ratio")] if cpu else []
    return svg("plot soak", _WIDTH, foot + 18, ", ".join([*said, *counts]), panels)


def _course(facts: dict[str, Any], times: str, values: str, omit_s: float) -> _Course:
    """(seconds that count, value) of two lists of facts; what is no number is left out."""
    at, what = facts.get(times), facts.get(values)
    if not isinstance(at, list | tuple) or not isinstance(what, list | tuple):
        return []
    return [
        (float(second) - omit_s, float(value))
        for second, value in zip(at, what, strict=False)
        if isinstance(second, int | float) and isinstance(value, int | float) and drawable(value) is not None
        if math.isfinite(second)
    ]


def _jumps(course: _Course) -> _Course:
    """When a count grew, and by how much."""
    grown = [(at, after - before) for (_, before), (at, after) in pairwise([(0.0, 0.0), *course])]
    return [(at, by) for at, by in grown if by > 0]


def _path(course: _Course, x: Any, y: Any) -> str:
    return "M" + "L".join(f"{number(x(at))} {number(y(value))}" for at, value in course) if course else ""


def _said(name: str, course: Sequence[tuple[float, float]], unit: str) -> str:
    values = [value for _, value in course]
    return f"{name} {value_text(min(values), unit)} - {value_text(max(values), unit)}"
