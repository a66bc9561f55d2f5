"""A line of a journal as the store takes it: without what is heavy."""

from __future__ import annotations

from typing import Any

import msgspec

from pytest_netperf.record.canonical import encode
from pytest_netperf.record.journal_line import JournalLine

__all__ = ["slim"]

_HEAVY = ("documents", "series")
"""Of the evidence: raw outputs and series stay in the journal and on the sheet."""


def slim(event: JournalLine) -> JournalLine:
    """The same without what is heavy in the evidence of a row."""
    if event.kind != "row":
        return event
    body: dict[str, Any] = msgspec.json.decode(event.body)
    row = body.get("row")
    if isinstance(row, dict) and isinstance(row.get("evidence"), dict):
        row["evidence"] = _light(row["evidence"])
    return msgspec.structs.replace(event, body=encode(body))


def _light(evidence: dict[str, Any]) -> dict[str, Any]:
    light = {name: value for name, value in evidence.items() if name not in _HEAVY}
    if isinstance(light.get("runs"), list):
        light["runs"] = [
            {**run, "evidence": _light(run["evidence"])}
            for run in light["runs"]
            if isinstance(run, dict) and isinstance(run.get("evidence"), dict)
        ]
    return light
