"""Journal lines into the tables. Everything here may be done twice: what is there already stays."""

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
from pytest_netperf.store.tables import DEVICE, EVENT, ROW, RUN

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

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


def stored_lines(connection: Connection, run_id: str) -> dict[int, str]:
    """Number -> SHA-256 of the lines of a run that are there."""
    from sqlalchemy import select

    found = connection.execute(select(EVENT.c.n, EVENT.c.sha256).where(EVENT.c.run_id == run_id))
    return {line.n: line.sha256 for line in found}


def forget_run(connection: Connection, run_id: str) -> None:
    """Take a run out, with everything of it."""
    from sqlalchemy import delete

    for table in (ROW, EVENT, DEVICE, RUN):
        connection.execute(delete(table).where(table.c.run_id == run_id))


def add_events(connection: Connection, run: RunInfo, events: Sequence[JournalLine]) -> None:
    """Add lines of a run. Raises OtherRunError when the store has another run of the same id."""
    from sqlalchemy import select, update

    if not events:
        return
    fingerprint = sha256(encode(run))
    _insert(
        connection,
        RUN,
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
    known = connection.execute(select(RUN.c.fingerprint).where(RUN.c.run_id == run.run_id)).scalar_one()
    if known != fingerprint:
        raise OtherRunError(
            f"run {run.run_id}: the store has another run of this id (two stations began one in the same second); it "
            "cannot be stored, and stays in its journal"
        )
    light = [slim(event) for event in events]
    _insert(connection, EVENT, [_line(run.run_id, event) for event in light])
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
                change = {"finished_at": end.at, "exit_status": end.exit_status}
                connection.execute(update(RUN).where(RUN.c.run_id == run.run_id).values(change))
            case "sheet":
                verdicts.append(msgspec.json.decode(event.body, type=WrittenSheet))
    _insert(connection, DEVICE, list(devices.values()))
    _insert(connection, ROW, rows)
    for sheet in verdicts:
        connection.execute(
            update(DEVICE)
            .where(DEVICE.c.run_id == run.run_id, DEVICE.c.serial == sheet.serial)
            .values(verdict=sheet.verdict.value, sheet_digest=sheet.digest)
        )


def _insert(connection: Connection, table: Table, lines: Iterable[dict[str, Any]]) -> None:
    from sqlalchemy.dialects import postgresql, sqlite

    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    found = list(lines)
    if found:
        connection.execute(dialect.insert(table).on_conflict_do_nothing(), found)


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
