"""The sweeps of a sheet, prepared for the template: a plot for each quantity, and the table beside it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from markupsafe import Markup

from pytest_netperf.record.schema import Row
from pytest_netperf.record.wording import (
    conditions_text,
    port_text,
    printable,
    quantity_text,
)
from pytest_netperf.report.drawing import drawable, scale_for
from pytest_netperf.report.language import Words
from pytest_netperf.report.legend import verdict_class
from pytest_netperf.report.sweep import Point, Sweep, sweeps_of
from pytest_netperf.report.sweep_plot import axis_value, sweep_plot

__all__ = ["sweep_sections"]


def sweep_sections(rows: Iterable[Row], w: Words) -> list[dict[str, Any]]:
    """What the template ``sweeps.html.j2`` lays out, one for each sweep."""
    return [_section(sweep, w) for sweep in sweeps_of(rows)]


def _section(sweep: Sweep, w: Words) -> dict[str, Any]:
    first = sweep.points[0].row
    others = {name: value for name, value in first.conditions.items() if name != sweep.swept}
    port = port_text(first)
    title = f"{port}, {quantity_text(first)}" if port else quantity_text(first)
    beside = [each for each in sweep.beside if any(point.value is not None for point in each.points)]
    factor, unit = _scale(sweep)
    scales = [_scale(each) for each in beside]
    return {
        "title": title,
        "conditions": conditions_text(msgspec.structs.replace(first, conditions=others)),
        "test": first.test.split("::", 1)[-1].split("[", 1)[0],
        "plots": [
            {
                "name": _name(each, w),
                "drawing": Markup(sweep_plot(each, title=printable(f"{title}, {_name(each, w)}"), words=w)),
            }
            for each in (sweep, *beside)
        ],
        "swept": w.of("sweep", sweep.swept, sweep.swept),
        "unit": unit,
        "beside": [(_name(each, w), scale[1]) for each, scale in zip(beside, scales, strict=True)],
        "has": {
            "limit": any(p.limit_low is not None or p.limit_high is not None for p in sweep.points),
            "expected": any(p.expected is not None for p in sweep.points),
            "ceiling": any(p.ceiling is not None for p in sweep.points),
        },
        "sources": _sources(sweep),
        "points": [
            {
                "at": axis_value(sweep.swept, point.x),
                "value": _number(point.value, factor),
                "uncertainty": _number(point.uncertainty, factor, 2) if point.uncertainty else "",
                "limit": _limit(point, factor),
                "expected": _number(point.expected, factor),
                "ceiling": _number(point.ceiling, factor),
                "beside": [
                    _number(each.points[place].value, scale[0]) for each, scale in zip(beside, scales, strict=True)
                ],
                "verdict": point.row.verdict.value,
                "look": verdict_class(point.row.verdict),
            }
            for place, point in enumerate(sweep.points)
        ],
    }


def _sources(sweep: Sweep) -> list[str]:
    """Where the expected values come from; what the sources of several have in common is said once."""
    groups: dict[tuple[str, str], list[str]] = {}
    for point in sweep.points:
        if point.row.expected_source:
            name, colon, rest = point.row.expected_source.partition(": ")
            if not colon:
                name, rest = "", name
            own, _, common = rest.partition("; ")
            groups.setdefault((name, common), []).append(own)
    return [
        f"{f'{name}: ' if name else ''}{own[0].rstrip('.')}{f' (and {len(own) - 1} like it)' if len(own) > 1 else ''}"
        f"{f'; {common}' if common else '.'}"
        for (name, common), own in groups.items()
    ]


def _name(sweep: Sweep, w: Words) -> str:
    return w.of("quantity", sweep.quantity, sweep.quantity.replace("_", " "))


def _scale(sweep: Sweep) -> tuple[float, str]:
    """One unit for a whole column."""
    values = (value for point in sweep.points for value in (point.value, point.ceiling, point.expected))
    return scale_for(max((value for value in values if drawable(value) is not None and value), default=0.0), sweep.unit)


def _number(value: float | None, factor: float, digits: int = 4) -> str:
    return "-" if value is None else f"{value / factor:.{digits}g}"


def _limit(point: Point, factor: float) -> str:
    bounds = ((">=", point.limit_low), ("<=", point.limit_high))
    return " ".join(f"{sign} {_number(bound, factor)}" for sign, bound in bounds if bound is not None) or "-"
