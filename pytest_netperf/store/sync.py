"""Journals of a folder into a store: what is missing is filled in, what is there stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_netperf.errors import ConfigError, RecordError
from pytest_netperf.record.journal_line import JournalLine
from pytest_netperf.record.journal_reader import journal_lines, read_journal
from pytest_netperf.store.write import OtherRunError, add_events, forget_run, run_of, stored_lines

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pytest_netperf.record.schema import RunInfo
    from pytest_netperf.store.database import Database

__all__ = ["Synced", "sync_folder"]


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one journal."""

    journal: Path
    run_id: str | None = None
    lines: int = 0
    added: int = 0
    problem: str | None = None
    """Why it is not in the store, or not wholly."""


def sync_folder(database: Database, folder: Path) -> list[Synced]:
    """Every journal below ``folder``. Raises ConfigError when there is none, RecordError when the database fails."""
    journals = sorted(path for path in folder.rglob("*.jsonl") if path.parent.name == "journals")
    if folder.is_file() and folder.suffix == ".jsonl":
        journals = [folder]
    if not journals:
        what = "there is no such folder" if not folder.exists() else "there is no journal (journals/*.jsonl) in it"
        raise ConfigError(f"{folder}: {what}; give the folder that --netperf-output named")
    return [_sync(database, path) for path in journals]


def _sync(database: Database, path: Path) -> Synced:
    try:
        events, notes = journal_lines(path), read_journal(path).notes
    except (RecordError, OSError) as error:
        return Synced(journal=path, problem=str(error))
    if not events or events[0].kind != "run":
        return Synced(journal=path, problem=f"{path}: its first line is lost, so nobody knows of which run it is")
    run = run_of(events[0])
    found = Synced(journal=path, run_id=run.run_id, lines=len(events))
    try:
        with database.begin() as connection:
            return _fill_in(connection, run, events, found, f"{path}: {' '.join(notes)}" if notes else None)
    except OtherRunError as error:
        return msgspec.structs.replace(found, problem=f"{path}: {error}")


def _fill_in(
    connection: Connection, run: RunInfo, events: Sequence[JournalLine], found: Synced, note: str | None
) -> Synced:
    mine = {event.n: event.sha256 for event in events}
    there = stored_lines(connection, run.run_id)
    if any(mine.get(n) != digest for n, digest in there.items()):
        # Another journal of the same run (it went on elsewhere when its disk was full) replaces it as a whole.
        add_events(connection, run, events[:1])  # refuses another run of the same id
        if len(mine) < len(there):
            problem = f"{found.journal}: the store has more of run {run.run_id}, from another journal; that stays"
            return msgspec.structs.replace(found, problem=problem)
        forget_run(connection, run.run_id)
        there = {}
    missing = [event for event in events if event.n not in there]
    add_events(connection, run, missing)
    return msgspec.structs.replace(found, added=len(missing), problem=note)
