"""Columns of pytest-html: value, limit and verdict of each test, and a link to its sheet.

pytest-html calls these hooks for every row of its table, also for tests and phases that are not ours.
"""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from urllib.parse import quote

import msgspec

from pytest_netperf.judge.verdict import WORST_LAST
from pytest_netperf.quantities import format_value
from pytest_netperf.record.schema import Row
from pytest_netperf.record.wording import quantity_text
from pytest_netperf.report.sheet import sheet_folder

__all__ = ["header", "row"]

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
        f"<td>{escape(value)}</td>",
        f"<td>{escape(worst.limit or '')}</td>",
        f'<td title="{escape(worst.reason)}">{escape(worst.verdict.value)}</td>',
        f'<td><a href="{escape(address)}">{escape(worst.device.serial)}</a></td>',
    ]
