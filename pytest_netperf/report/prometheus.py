"""Sheets as a textfile of Prometheus (exposition format 0.0.4), for the textfile collector of node_exporter. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from pytest_netperf.judge.verdict import DeviceVerdict, Verdict, has_a_say
from pytest_netperf.record.schema import Row, Sheet

__all__ = ["prometheus_text"]

_Number = Callable[[Any], float | None]

_OF_DEVICE: tuple[tuple[str, str, _Number], ...] = (
    ("rows", "Rows of the sheet.", lambda sheet: len(sheet.rows)),
    ("required_rows", "Rows that count for the device.", lambda sheet: sum(map(has_a_say, sheet.rows))),
    (
        "required_rows_passed",
        "Required rows that are PASS.",
        lambda sheet: sum(r.required and r.verdict is Verdict.PASS for r in sheet.rows),
    ),
    ("simulated", "1 when any row was measured on a simulated link.", lambda sheet: sheet.simulated),
    ("complete", "1 when the run came to its own end.", lambda sheet: sheet.complete),
    ("run_started_timestamp_seconds", "Start of the run.", lambda sheet: _seconds(sheet.started_at)),
    ("run_finished_timestamp_seconds", "End of the run.", lambda sheet: _seconds(sheet.finished_at)),
)
_OF_ROW: tuple[tuple[str, str, _Number], ...] = (
    ("row_value", "What was measured, in the unit of label unit.", lambda row: row.value),
    ("row_uncertainty", "Expanded uncertainty U (k = 2), in the same unit.", lambda row: row.uncertainty),
    ("row_limit_low", "Smallest value allowed.", lambda row: row.limit_low),
    ("row_limit_high", "Largest value allowed.", lambda row: row.limit_high),
    ("row_ceiling", "What physics allows.", lambda row: row.ceiling),
    ("row_margin_ratio", "Distance from the limit as a share of it, positive on the good side.", lambda r: r.margin),
)


def prometheus_text(sheets: Iterable[Sheet]) -> bytes:
    """The newest sheet of each serial as metrics ``netperf_...``; a label set appears once, as Prometheus wants it."""
    newest: dict[str, Sheet] = {}
    for sheet in sheets:
        known = newest.get(sheet.device.serial)
        if known is None or (sheet.started_at, sheet.run_id) > (known.started_at, known.run_id):
            newest[sheet.device.serial] = sheet
    chosen = [newest[serial] for serial in sorted(newest)]
    rows = [(sheet, row) for sheet in chosen for row in {row.id: row for row in sheet.rows}.values()]
    lines = _metric(
        "netperf_device_verdict",
        "1 for the verdict that the device has, 0 for the others.",
        [
            (_device(sheet) | {"verdict": verdict.value}, sheet.verdict is verdict)
            for sheet in chosen
            for verdict in DeviceVerdict
        ],
    )
    lines += _metric("netperf_run_info", "The newest run of the device.", [(_run(sheet), 1) for sheet in chosen])
    for name, text, number in _OF_DEVICE:
        lines += _metric(f"netperf_{name}", text, [(_device(sheet), number(sheet)) for sheet in chosen])
    lines += _metric(
        "netperf_row_verdict",
        "1 for the verdict that the row has.",
        [(_row(sheet, row) | {"verdict": row.verdict.value}, 1) for sheet, row in rows],
    )
    for name, text, number in _OF_ROW:
        lines += _metric(f"netperf_{name}", text, [(_row(sheet, row), number(row)) for sheet, row in rows])
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _metric(name: str, text: str, samples: Iterable[tuple[dict[str, str], float | None]]) -> list[str]:
    found = [(labels, float(number)) for labels, number in samples if number is not None and math.isfinite(number)]
    if not found:
        return []
    head = [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
    return head + [f"{name}{{{_labels(labels)}}} {number!r}" for labels, number in found]


def _device(sheet: Sheet) -> dict[str, str]:
    device = sheet.device
    return {"serial": device.serial, "model": device.model or "", "batch": device.batch or ""}


def _run(sheet: Sheet) -> dict[str, str]:
    station = sheet.station.name or sheet.station.host or ""
    return _device(sheet) | {"run_id": sheet.run_id, "station": station, "digest": sheet.digest or ""}


def _row(sheet: Sheet, row: Row) -> dict[str, str]:
    return _device(sheet) | {"row": row.id, "link": row.link or "", "quantity": row.quantity, "unit": row.unit}


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", " ")


def _seconds(text: str | None) -> float | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None
