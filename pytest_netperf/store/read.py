"""Questions to a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_netperf.errors import ConfigError
from pytest_netperf.quantities import near_misses
from pytest_netperf.record.journal_line import JournalLine
from pytest_netperf.record.schema import Sheet
from pytest_netperf.store.replay import sheets_of
from pytest_netperf.store.tables import DEVICE, EVENT, ROW

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from pytest_netperf.store.database import Database

__all__ = ["ROW_COLUMNS", "TrendPoint", "batches", "history", "last_of_model", "rows", "sheets", "trend"]

ROW_COLUMNS = tuple(column.name for column in ROW.columns)


class TrendPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a row."""

    started_at: str
    run_id: str
    serial: str
    label: str
    """Id of the row."""
    value: float
    unit: str
    limit: str | None
    verdict: str
    simulated: bool


def batches(database: Database) -> list[str]:
    """The names of all batches."""
    from sqlalchemy import select

    with database.begin() as connection:
        return sorted(filter(None, connection.execute(select(DEVICE.c.batch).distinct()).scalars()))


def sheets(database: Database, *, batch: str | None = None, also: Sequence[str] = ()) -> Iterator[Sheet]:
    """The sheets of all devices, run by run; with ``batch`` those of it, and those of the serials ``also``."""
    from sqlalchemy import or_, select

    chosen = select(DEVICE.c.run_id, DEVICE.c.serial).order_by(DEVICE.c.started_at, DEVICE.c.run_id)
    if batch is not None:
        chosen = chosen.where(or_(DEVICE.c.batch == batch, DEVICE.c.serial.in_(also)))
    yield from _sheets(database, chosen)


def history(database: Database, serial: str) -> list[Sheet]:
    """Every run of a device, the oldest first. ConfigError, with the near ones, when the store does not know it."""
    from sqlalchemy import select

    chosen = select(DEVICE.c.run_id, DEVICE.c.serial).where(DEVICE.c.serial == serial)
    found = list(_sheets(database, chosen.order_by(DEVICE.c.started_at, DEVICE.c.run_id)))
    if not found:
        raise ConfigError(_unknown(database, "device", serial, DEVICE.c.serial))
    return found


def last_of_model(database: Database, model: str, most: int) -> list[Sheet]:
    """The last runs of devices of a model, the newest first. ConfigError when the store has none."""
    from sqlalchemy import select

    chosen = select(DEVICE.c.run_id, DEVICE.c.serial).where(DEVICE.c.model == model)
    found = list(_sheets(database, chosen.order_by(DEVICE.c.started_at.desc(), DEVICE.c.run_id.desc()).limit(most)))
    if not found:
        raise ConfigError(_unknown(database, "model", model, DEVICE.c.model))
    return found


def trend(database: Database, row: str, *, serial: str | None, model: str | None, most: int) -> list[TrendPoint]:
    """The values of the rows whose id contains ``row``, the oldest first; of the newest ``most``.

    ConfigError, with the ids that there are, when there is none.
    """
    from sqlalchemy import func, select

    pattern = row.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    chosen = select(ROW, DEVICE.c.started_at.label("run_started_at")).join(
        DEVICE, (DEVICE.c.run_id == ROW.c.run_id) & (DEVICE.c.serial == ROW.c.serial)
    )
    chosen = chosen.where(func.lower(ROW.c.row_id).like(f"%{pattern.lower()}%", escape="\\"), ROW.c.value.is_not(None))
    if serial is not None:
        chosen = chosen.where(ROW.c.serial == serial)
    if model is not None:
        chosen = chosen.where(ROW.c.model == model)
    newest = chosen.order_by(DEVICE.c.started_at.desc(), ROW.c.run_id.desc(), ROW.c.n.desc()).limit(most)
    with database.begin() as connection:
        found = connection.execute(newest).mappings().all()
    if not found:
        raise ConfigError(_unknown(database, "row with a value", row, ROW.c.row_id))
    return [
        TrendPoint(
            started_at=line["started_at"] or line["run_started_at"],
            run_id=line["run_id"],
            serial=line["serial"],
            label=line["row_id"],
            value=line["value"],
            unit=line["unit"],
            limit=line["limit_text"],
            verdict=line["verdict"],
            simulated=line["simulated"],
        )
        for line in reversed(found)
    ]


def rows(database: Database, *, batch: str | None, serial: str | None) -> Iterator[dict[str, Any]]:
    """Every stored row, an attempt each, with the columns of netperf_row."""
    from sqlalchemy import select

    chosen = select(ROW).order_by(ROW.c.run_id, ROW.c.n)
    if batch is not None:
        chosen = chosen.where(ROW.c.batch == batch)
    if serial is not None:
        chosen = chosen.where(ROW.c.serial == serial)
    with database.begin() as connection:
        for line in connection.execution_options(yield_per=500).execute(chosen).mappings():
            yield dict(line)


def _sheets(database: Database, chosen: Select[Any]) -> Iterator[Sheet]:
    """The chosen sheets, in their order; the lines of one run at a time are in memory."""
    from sqlalchemy import select

    with database.begin() as connection:
        wanted = [(line.run_id, line.serial) for line in connection.execute(chosen)]
    made: dict[str, Sheet] = {}
    of_run: str | None = None
    for run_id, serial in wanted:
        if run_id != of_run:
            lines = select(EVENT).where(EVENT.c.run_id == run_id).order_by(EVENT.c.n)
            with database.begin() as connection:
                found = connection.execute(lines).mappings().all()
            events = [
                JournalLine(line["n"], line["kind"], line["sha256"], line["version"], line["body"].encode())
                for line in found
            ]
            made, of_run = {sheet.device.serial: sheet for sheet in sheets_of(events)}, run_id
        if serial in made:
            yield made[serial]


def _unknown(database: Database, what: str, name: str, column: ColumnElement[Any]) -> str:
    from sqlalchemy import select

    with database.begin() as connection:
        known = sorted(filter(None, connection.execute(select(column).distinct().limit(2000)).scalars()))
    listed = f"; it has {', '.join(known[:10])}{' ...' if len(known) > 10 else ''}" if known else ""
    return f"{database.shown} has no {what} {name!r}{near_misses(name, known)}{listed}"
