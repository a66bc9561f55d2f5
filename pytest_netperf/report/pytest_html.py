"""Columns of pytest-html: value, limit and verdict of each test, and a link to its sheet.

pytest-html calls these hooks for every row of its table, also for tests and phases that are not ours.
"""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from pytest_netperf.judge.verdict import WORST_LAST
from pytest_netperf.quantities import format_value
from pytest_netperf.record.schema import Row
from pytest_netperf.record.wording import quantity_text
from pytest_netperf.report.legend import verdict_class
from pytest_netperf.report.plots import bullet_graph, throughput_plot
from pytest_netperf.report.sheet import sheet_folder
from pytest_netperf.report.standalone import image_address

__all__ = ["header", "row"]

_MOST_POINTS = 200  # a plot of more would make the report large
_BEFORE = 2  # behind pytest-html's own columns "Result" and "Test"


def header(cells: list[str]) -> None:
    """Add our column titles."""
    cells[_BEFORE:_BEFORE] = ["<th>Measured</th>", "<th>Limit</th>", "<th>Verdict</th>", "<th>Sheet</th>"]


def row(cells: list[str], text: str | None, output_dir: Path, run_id: str, html_dir: Path, file: str) -> None:
    """Add our cells; ``text`` is the JSON of the report's rows, None for a report that is not ours.

    ``file`` is the name of the file of a sheet that people look at.
    """
    rows = msgspec.json.decode(text, type=list[Row]) if text else []
    if not rows:
        cells[_BEFORE:_BEFORE] = ["<td></td>"] * 4
        return
    worst = max(rows, key=lambda each: (each.required, WORST_LAST.index(each.verdict)))
    value = "" if worst.value is None else f"{quantity_text(worst)} {format_value(worst.value, worst.unit)}"
    sheet = sheet_folder(output_dir, worst.device.serial, run_id) / file
    address = quote(os.path.relpath(sheet, html_dir))
    cells[_BEFORE:_BEFORE] = [
        f"<td>{escape(value)}{_plot(worst)}</td>",
        f"<td>{escape(worst.limit or '')}</td>",
        f'<td title="{escape(worst.reason)}">{escape(worst.verdict.value)}</td>',
        f'<td><a href="{escape(address)}">{escape(worst.device.serial)}</a></td>',
    ]


def _plot(row: Row) -> str:
    """A small drawing of the worst row: throughput over time, or the value against its limit; "" without a number."""
    style = verdict_class(row.verdict)
    bounds: dict[str, Any] = {
        "limit_low": row.limit_low,
        "limit_high": row.limit_high,
        "ceiling": row.ceiling,
        "style": style,
    }
    series = row.evidence.series
    drawing = throughput_plot(series, **bounds) if row.unit == "bit/s" and 1 < len(series) <= _MOST_POINTS else ""
    width = 220 if drawing else 120
    if not drawing and row.value is not None:
        drawing = bullet_graph(row.value, row.unit, uncertainty=row.uncertainty, **bounds)
    label = escape(quantity_text(row))
    return f'<br><img src="{image_address(drawing)}" width="{width}" alt="{label}">' if drawing else ""
