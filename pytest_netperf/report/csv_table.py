"""The rows of sheets as CSV (RFC 4180), for spreadsheets: one line for each row, numbers in SI units. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from pytest_netperf.record.canonical import clean_row
from pytest_netperf.record.schema import Row, Sheet

__all__ = ["COLUMNS", "sheets_csv"]

_OF_SHEET = ("run_id", "serial", "model", "batch", "device_verdict")
_OF_CONDITIONS = ("speed", "mtu", "direction", "protocol")
_OF_ROW = (
    "quantity", "statistic", "value", "unit", "uncertainty", "limit", "limit_low", "limit_high", "limit_source",
    "ceiling", "margin", "rule", "verdict", "reason", "next_step", "required", "simulated", "attempt", "started_at",
    "duration_s",
)  # fmt: skip
COLUMNS = (*_OF_SHEET, "id", "test", "link", *_OF_CONDITIONS, "conditions", *_OF_ROW)
"""The header line; ``conditions`` are those without a column of their own, as JSON."""


def sheets_csv(sheets: Iterable[Sheet]) -> bytes:
    """All rows of the sheets in UTF-8 with one header line.

    A text that a spreadsheet would take for a formula (it begins with =, +, - or @) gets an apostrophe in front.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for sheet in sheets:
        for row in map(clean_row, sheet.rows):
            writer.writerow([_cell(value) for value in _values(sheet, row)])
    return text.getvalue().encode("utf-8", "replace")


def _values(sheet: Sheet, row: Row) -> list[Any]:
    conditions = dict(row.conditions)
    own = [conditions.pop(name, None) for name in _OF_CONDITIONS]
    device = sheet.device
    return [
        *(sheet.run_id, device.serial, device.model, device.batch, sheet.verdict.value),
        *(row.id, row.test, row.link, *own),
        json.dumps(conditions, ensure_ascii=False, default=str) if conditions else None,
        *(getattr(row, name) for name in _OF_ROW),
    ]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = str(getattr(value, "value", value))
    return "'" + text if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
