"""Journal lines into the tables. Everything here may be done twice: what is there already stays.

In SQL that SQLite and PostgreSQL both take, so that a connection of Python's own sqlite3 will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_netperf.errors import RecordError
from pytest_netperf.record.canonical import encode, sha256
from pytest_netperf.record.journal_event import WrittenSheet
from pytest_netperf.record.journal_line import JournalLine
from pytest_netperf.record.migrate import upgrade_run
from pytest_netperf.record.schema import Planned, Row, RunInfo
from pytest_netperf.store.event import slim

if TYPE_CHECKING:
    import sqlite3

    from sqlalchemy import Connection

__all__ = ["OtherRunError", "add_events", "forget_run", "run_of", "stored_lines"]

_OF_ROW = (
    "test", "link", "quantity", "statistic", "unit", "value", "uncertainty", "limit_low", "limit_high", "ceiling",
    "margin", "reason", "required", "simulated", "attempt", "started_at", "duration_s",
)  # fmt: skip


class OtherRunError(RecordError):
    """The store has another run of this id."""


class _RowBody(msgspec.Struct, frozen=True):
    row: Row


class _Finished(msgspec.Struct, frozen=True):
    at: str
    exit_status: int


def run_of(event: JournalLine) -> RunInfo:
    """What the first line of a journal says of its run."""
    return msgspec.convert(upgrade_run(msgspec.json.decode(event.body), event.version), RunInfo)


def stored_lines(connection: Connection | sqlite3.Connection, run_id: str) -> dict[int, str]:
    """Number -> SHA-256 of the lines of a run that are there."""
    return dict(_execute(connection, "SELECT n, sha256 FROM netperf_event WHERE run_id = :run_id", {"run_id": run_id}))


def forget_run(connection: Connection | sqlite3.Connection, run_id: str) -> None:
    """Take a run out, with everything of it."""
    for table in ("netperf_row", "netperf_event", "netperf_device", "netperf_run"):
        _execute(connection, f"DELETE FROM {table} WHERE run_id = :run_id", {"run_id": run_id})


def add_events(connection: Connection | sqlite3.Connection, run: RunInfo, events: Sequence[JournalLine]) -> None:
    """Add lines of a run. Raises OtherRunError when the store has another run of the same id."""
    if not events:
        return
    fingerprint = sha256(encode(run))
    _insert(
        connection,
        "netperf_run",
        [
            {
                "run_id": run.run_id,
                "fingerprint": fingerprint,
                "started_at": run.started_at,
                "station": run.station.name,
                "host": run.station.host,
                "operator": run.operator,
            }
        ],
    )
    this_run = {"run_id": run.run_id}
    ((known,),) = _execute(connection, "SELECT fingerprint FROM netperf_run WHERE run_id = :run_id", this_run)
    if known != fingerprint:
        raise OtherRunError(
            f"run {run.run_id}: the store has another run of this id (two stations began one in the same second); it "
            "cannot be stored, and stays in its journal"
        )
    light = [slim(event) for event in events]
    _insert(connection, "netperf_event", [_line(run.run_id, event) for event in light])
    devices: dict[str, dict[str, Any]] = {}
    rows: list[dict[str, Any]] = []
    verdicts: list[WrittenSheet] = []
    for event in light:
        match event.kind:
            case "plan":
                for plan in msgspec.json.decode(event.body, type=list[Planned]):
                    if plan.selected:
                        devices.setdefault(plan.device.serial, _device(run, plan))
            case "row":
                row = msgspec.json.decode(event.body, type=_RowBody).row
                devices.setdefault(row.device.serial, _device(run, row))
                rows.append(_row(run, event.n, row))
            case "finished":
                end = msgspec.json.decode(event.body, type=_Finished)
                _execute(
                    connection,
                    "UPDATE netperf_run SET finished_at = :at, exit_status = :status WHERE run_id = :run_id",
                    {"at": end.at, "status": end.exit_status, **this_run},
                )
            case "sheet":
                verdicts.append(msgspec.json.decode(event.body, type=WrittenSheet))
    _insert(connection, "netperf_device", list(devices.values()))
    _insert(connection, "netperf_row", rows)
    for sheet in verdicts:
        _execute(
            connection,
            "UPDATE netperf_device SET verdict = :verdict, sheet_digest = :digest "
            "WHERE run_id = :run_id AND serial = :serial",
            {"verdict": sheet.verdict.value, "digest": sheet.digest, "serial": sheet.serial, **this_run},
        )


def _insert(connection: Connection | sqlite3.Connection, table: str, lines: Iterable[dict[str, Any]]) -> None:
    found = list(lines)
    if found:
        names, values = ", ".join(found[0]), ", ".join(f":{name}" for name in found[0])
        _execute(connection, f"INSERT INTO {table} ({names}) VALUES ({values}) ON CONFLICT DO NOTHING", found)


def _execute(
    connection: Connection | sqlite3.Connection, statement: str, values: dict[str, Any] | list[dict[str, Any]]
) -> list[Any]:
    """Run a statement, once for each of a list of values. Returns the lines that came of it."""
    import sqlite3

    if isinstance(connection, sqlite3.Connection):
        if isinstance(values, list):
            connection.executemany(statement, values)
            return []
        return connection.execute(statement, values).fetchall()
    from sqlalchemy import text

    result = connection.execute(text(statement), values)
    return list(result) if result.returns_rows else []


def _line(run_id: str, event: JournalLine) -> dict[str, Any]:
    return {
        "run_id": run_id, "n": event.n, "kind": event.kind, "sha256": event.sha256, "version": event.version,
        "body": event.body.decode("utf-8", "replace"),
    }  # fmt: skip


def _device(run: RunInfo, of: Planned | Row) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "serial": _text(of.device.serial),
        "model": _text(of.device.model),
        "batch": _text(run.batch or of.device.batch),
        "started_at": run.started_at,
    }


def _row(run: RunInfo, n: int, row: Row) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "n": n,
        "row_id": _text(row.id),
        "serial": _text(row.device.serial),
        "model": _text(row.device.model),
        "batch": _text(run.batch or row.device.batch),
        "limit_text": _text(row.limit),
        "verdict": row.verdict.value,
        "conditions": _text(encode(row.conditions).decode()),
        **{name: _text(getattr(row, name)) for name in _OF_ROW},
    }


def _text(value: Any) -> Any:
    """A value as a column takes it: text without NUL."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
