"""A journal, read: what it says, what is odd about it, and how far it can be trusted. `record.journal` has its form."""

from __future__ import annotations

import contextlib
import fcntl
from datetime import datetime
from pathlib import Path

import msgspec

from pytest_netperf.errors import RecordError
from pytest_netperf.record.canonical import sha256
from pytest_netperf.record.journal_event import Finished, RowEvent, Running, WrittenSheet
from pytest_netperf.record.journal_line import (
    JOURNAL_VERSION,
    JournalLine,
    Line,
    cannot,
    intact_lines,
    major_of,
    odd_chain,
    odd_clock,
)
from pytest_netperf.record.migrate import upgrade_run
from pytest_netperf.record.schema import JournalLink, JournalSeal, Planned, Row, RunInfo, State
from pytest_netperf.record.stretch import Stretch, rows_of_stretches

__all__ = ["JournalContents", "journal_lines", "newest_journal", "read_journal"]


class JournalContents(msgspec.Struct, frozen=True, kw_only=True):
    """What a journal says, and how far it can be trusted."""

    path: Path
    sha256: str
    run: RunInfo
    planned: tuple[Planned, ...] = ()
    rows: tuple[Row, ...] = ()
    outcomes: tuple[str, ...] = ()
    """Outcome of the pytest phase that each row arrived with, in the order of ``rows``."""
    running: tuple[str, ...] = ()
    """Tests that had started and still owed rows when the journal ended."""
    finished_at: str | None = None
    exit_status: int | None = None
    complete: bool = False
    """True when the run came to its own end (exit status 0 or 1) and every line of its journal is there, whole."""
    notes: tuple[str, ...] = ()
    """What is odd about the file, one sentence each."""
    state: State = "complete"
    seal: JournalSeal | None = None
    """The last line that a sheet is made from; None for a journal of version 1, which has no chain."""
    sheets: tuple[WrittenSheet, ...] = ()
    """The sheets that the run wrote."""
    closed: bool = False
    """True when its closing line is there, and nothing behind it."""


def newest_journal(folder: Path, but: str) -> tuple[JournalLink, datetime | None] | None:
    """Where the newest journal of an output folder ends, and when that was written; the journal of run ``but`` is left
    out. None when there is no other, or none with a whole line.
    """
    for path in sorted((Path(folder) / "journals").glob("*.jsonl"), reverse=True):
        if path.stem == but:
            continue
        try:
            text = path.read_bytes().rpartition(b"\n")[0].rpartition(b"\n")[2]
            line = msgspec.json.decode(text, type=Line)
            at = datetime.fromisoformat(line.at) if line.at is not None else None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, ValueError):
            continue
        return JournalLink(run_id=path.stem, line=line.n, sha256=sha256(text)), at
    return None


def read_journal(path: Path) -> JournalContents:
    """Read a journal, whole or not: what cannot be read is left out, said in ``notes``, and makes it incomplete.

    Raises RecordError when the file cannot be read, is empty, is not a journal, or is of a newer major version.
    """
    path = Path(path)
    data = _read(path)
    notes: list[str] = []
    lines, damaged = intact_lines(path, data, notes)
    missing = max(line.n for line, _ in lines) + 1 - len({line.n for line, _ in lines})
    if missing:
        notes.append(f"{missing} of the events before the last readable one are lost.")
    odd = odd_chain(lines) + odd_clock([line for line, _ in lines])
    notes += odd
    return _replay(path, data, lines, damaged or missing > 0 or bool(odd), notes)


def journal_lines(path: Path) -> list[JournalLine]:
    """The lines of a journal that are as they were written, by their number, once each.

    `read_journal` says what is odd about the others; RecordError is raised as there.
    """
    lines, _ = intact_lines(path, _read(path), [])
    found = {
        line.n: JournalLine(line.n, line.kind, digest, major_of(line.journal), bytes(line.body))
        for line, digest in lines
    }
    return [found[n] for n in sorted(found)]


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise RecordError(f"{path}: there is no such journal; they are in the journals folder of the output") from None
    except OSError as error:
        raise cannot("read", path, error) from None
    if not data.strip(b"\0 \r\n\t"):
        raise RecordError(f"{path}: this journal is empty: its run ended before the first event was written")
    return data


def _replay(path: Path, data: bytes, lines: list[tuple[Line, str]], damaged: bool, notes: list[str]) -> JournalContents:
    """The state at the end of the journal."""
    runs: list[RunInfo] = []
    planned: list[Planned] | None = None
    rows: list[RowEvent] = []
    stretches: list[Stretch] = []
    arrived: dict[str, set[str]] = {}  # test that started -> ids that arrived since
    finish: Finished | None = None
    started: str | None = None
    seal: tuple[Line, str] | None = None
    sheets: list[WrittenSheet] = []
    closed: int | None = None
    for line, digest in lines:
        if line.kind not in ("sheet", "closed") and (seal is None or line.n > seal[0].n):
            seal = line, digest
        try:
            match line.kind:
                case "run":
                    body = upgrade_run(msgspec.json.decode(line.body, type=dict), major_of(line.journal))
                    runs.append(msgspec.convert(body, RunInfo))
                case "plan":
                    planned = (planned or []) + msgspec.json.decode(line.body, type=list[Planned])
                case "running":
                    running = msgspec.json.decode(line.body, type=Running)
                    arrived[running.test] = set()
                    started = started or running.at
                case "stretch":
                    stretches.append(msgspec.json.decode(line.body, type=Stretch))
                case "row":
                    event = msgspec.json.decode(line.body, type=RowEvent)
                    rows.append(event)
                    if event.row.test in arrived:
                        arrived[event.row.test].add(event.row.id)
                case "finished":
                    finish = msgspec.json.decode(line.body, type=Finished)
                case "sheet":
                    sheets.append(msgspec.json.decode(line.body, type=WrittenSheet))
                case "closed":
                    closed = line.n
                case kind:
                    damaged = damaged or line.journal == JOURNAL_VERSION
                    notes.append(f"Event {line.n} is of a kind that this version does not know ({kind!r}): left out.")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            damaged = True
            notes.append(f"Event {line.n} ({line.kind}) does not fit its schema and is left out: {error}.")
    if len({run.run_id for run in runs}) > 1:
        names = ", ".join(sorted({run.run_id for run in runs}))
        raise RecordError(f"{path}: holds more than one run ({names}); a journal is of one run: separate them first")
    if not runs:
        damaged = True
        notes.append("What is common to the run (station, software, conditions) is lost.")
    if planned is None:
        notes.append("The list of expected rows is not in the journal, so nobody can say that all rows arrived.")
    due: dict[str, set[str]] = {}
    for plan in planned or ():
        due.setdefault(plan.test, set()).add(plan.id)
    unfinished = [test for test, ids in arrived.items() if due.get(test, set()) - ids]
    here = {event.row.id for event in rows if event.row.test in unfinished}
    kept = rows_of_stretches(stretches, planned or (), unfinished, here)
    run = runs[0] if runs else RunInfo(run_id=path.stem, started_at=started or "")
    return JournalContents(
        path=path,
        sha256=sha256(data),
        run=run,
        planned=tuple(planned or ()),
        rows=(*(event.row for event in rows), *kept),
        outcomes=(*(event.outcome for event in rows), *("" for _ in kept)),
        running=tuple(unfinished),
        finished_at=finish.at if finish else None,
        exit_status=finish.exit_status if finish else None,
        complete=finish is not None and finish.exit_status in (0, 1) and planned is not None and not damaged,
        notes=tuple(notes),
        state=_state(path, finish),
        seal=_seal(path, run.run_id, *seal) if seal is not None and seal[0].prev is not None else None,
        sheets=tuple(sheets),
        closed=closed is not None and closed == max(line.n for line, _ in lines),
    )


def _state(path: Path, finish: Finished | None) -> State:
    if finish is not None:
        return "complete" if finish.exit_status in (0, 1) else "stopped"
    with contextlib.suppress(OSError), path.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return "running"
    return "killed"


def _seal(path: Path, run_id: str, line: Line, digest: str) -> JournalSeal:
    return JournalSeal(run_id=run_id, line=line.n, sha256=digest, path=f"{path.parent.name}/{path.name}")
