"""Records of older versions, turned into those of today before they are read. Pure.

Version 1 had no typed station, kept the procedure among the conditions, and the attempts of a row among its facts.
What an old record does not say stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["upgrade_run", "upgrade_sheet"]

_Table = dict[str, Any]

_PROCEDURE = ("command", "bench_file", "bench_sha256", "limits_file", "limits_sha256", "decision_rule")
"""Conditions of version 1 that are keys of the procedure in version 2."""


def upgrade_sheet(sheet: Mapping[str, Any], major: int) -> _Table:
    """A decoded sheet.json of version ``major``, as one of today's version; unchanged when it is that."""
    found = dict(sheet)
    for version in range(major, max(_SHEET) + 1):
        found = _SHEET[version](found)
    return found


def upgrade_run(run: Mapping[str, Any], major: int) -> _Table:
    """The body of a journal's first line, of journal version ``major``, as one of today's version."""
    found = dict(run)
    for version in range(major, max(_RUN) + 1):
        found = _RUN[version](found)
    return found


def _run_1(run: _Table) -> _Table:
    conditions = dict(_table(run, "conditions"))
    procedure = {key: conditions.pop(key) for key in _PROCEDURE if key in conditions}
    return {**run, "conditions": conditions, "procedure": {**_table(run, "procedure"), **procedure}}


def _sheet_1(sheet: _Table) -> _Table:
    rows = sheet.get("rows", [])
    upgraded = [_row_1(row) if isinstance(row, dict) else row for row in rows] if isinstance(rows, list) else rows
    state = "complete" if sheet.get("complete") else "killed" if sheet.get("finished_at") is None else "stopped"
    return {**_run_1(sheet), "schema_version": "2.0", "state": state, "rows": upgraded}


def _row_1(row: _Table) -> _Table:
    evidence = _table(row, "evidence")
    facts = dict(_table(evidence, "facts"))
    attempts = facts.pop("attempts", [])
    return {**row, "evidence": {**evidence, "facts": facts}, "attempts": attempts}


def _table(owner: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A table, empty where there is none; what is no table at all is left to the schema to refuse."""
    value = owner.get(key, {})
    return value if isinstance(value, dict) else {}


_SHEET: dict[int, Callable[[_Table], _Table]] = {1: _sheet_1}
_RUN: dict[int, Callable[[_Table], _Table]] = {1: _run_1}
