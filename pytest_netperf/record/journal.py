"""The journal: everything a run learnt, one line per event, on the disk before the next event begins.

A sheet is made from a journal alone, so a run that was killed at any moment still leaves its sheets. Each line is one
JSON object:

    {"journal": "2.0", "n": 3, "kind": "row", "at": "<UTC>", "prev": "<SHA-256>", "check": "<SHA-256>", "body": {...}}

| kind     | body                                         | written                          |
| -------- | -------------------------------------------- | -------------------------------- |
| run      | RunInfo                                      | first                            |
| plan     | list of Planned                              | after collection                 |
| running  | test (node id), at                           | as a test starts                 |
| stretch  | Stretch: its latest seconds                  | every 2 s of a long measurement  |
| row      | row (Row), outcome of its phase              | as a row is judged               |
| finished | at, exit_status                              | as the run ends                  |
| sheet    | WrittenSheet: verdict, digest, files         | as a sheet of the run is written |
| closed   | nothing                                      | last                             |

``n`` counts every event, also one that could not be written. ``check`` covers everything else of its line, and ``prev``
is the SHA-256 of the whole line before: a lost or altered line shows, and a journal that shows either never makes an
ACCEPTED sheet. Sheets are made from the lines up to ``finished``; ``closed`` seals the journal.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import msgspec

from pytest_netperf.errors import RecordError
from pytest_netperf.record.canonical import clean_row, encode, sha256
from pytest_netperf.record.journal_line import (
    JOURNAL_VERSION,
    JournalLine,
    Line,
    intact_lines,
    major_of,
    make_line,
    odd_chain,
    odd_clock,
)
from pytest_netperf.record.migrate import upgrade_run
from pytest_netperf.record.schema import DeviceVerdict, JournalLink, JournalSeal, Planned, Row, RunInfo, State
from pytest_netperf.record.stretch import Stretch, rows_of_stretches

__all__ = [
    "Journal",
    "JournalContents",
    "JournalLine",
    "WrittenFile",
    "WrittenSheet",
    "journal_lines",
    "newest_journal",
    "read_journal",
]

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


class WrittenFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a sheet."""

    name: str
    """Its path, below the output folder where it is there."""
    sha256: str
    bytes: int


class WrittenSheet(msgspec.Struct, frozen=True, kw_only=True):
    """A sheet that a run wrote at its end."""

    serial: str
    verdict: DeviceVerdict
    digest: str
    files: tuple[WrittenFile, ...] = ()


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


class _Running(msgspec.Struct, frozen=True):
    test: str
    at: str | None = None


class _RowEvent(msgspec.Struct, frozen=True):
    row: Row
    outcome: str = ""


class _Finished(msgspec.Struct, frozen=True):
    at: str
    exit_status: int


class Journal:
    """The journal of one run, open for appending. Each method returns only when its line is on the disk.

    A method that cannot write raises RecordError, leaves the file readable, and may be followed by others.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._fd: int | None = descriptor
        self._size = 0
        self._next = 0
        self._prev = ""
        self.on_line: Callable[[JournalLine], None] | None = None
        """Called with each line once it is on the disk; it must neither raise nor wait."""

    @classmethod
    def create(cls, output_dir: Path, run_id: str) -> Journal:
        """Create ``output_dir/journals/<run_id>.jsonl``; RecordError when it exists or cannot be created."""
        if not _RUN_ID.fullmatch(run_id):
            raise RecordError(
                f"run id {run_id!r} cannot name a journal: expected 1 to 128 letters, digits, '.', '_', '+' or '-', "
                "starting with a letter or digit"
            )
        folder = Path(output_dir) / "journals"
        path = folder / f"{run_id}.jsonl"
        try:
            _make_folder(folder)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except FileExistsError as error:
            if path.exists():
                raise RecordError(f"{path}: this journal exists and is never overwritten; use another run id") from None
            raise _cannot("create", path, error) from None
        except OSError as error:
            raise _cannot("create", path, error) from None
        journal = cls(path, descriptor)
        with contextlib.suppress(OSError):  # a file system without locks: a running run then looks like a killed one
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not inherited by fork, gone with this process
        try:
            _sync_folder(folder)
        except OSError as error:
            journal.close()
            raise _cannot("create", path, error) from None
        return journal

    def run(self, info: RunInfo) -> None:
        """Write what is common to the run; the first line."""
        self._append("run", info)

    def plan(self, planned: list[Planned]) -> None:
        """Write the rows that are expected, in order; may be called again with more."""
        self._append("plan", planned)

    def running(self, test: str) -> None:
        """Write that a test (node id) has started."""
        self._append("running", _Running(test, _now()))

    def stretch(self, stretch: Stretch) -> None:
        """Write what a long measurement showed in its latest seconds."""
        self._append("stretch", stretch)

    def row(self, row: Row, outcome: str = "") -> None:
        """Write a judged row, with the outcome of the pytest phase it came with (passed, failed, skipped)."""
        self._append("row", _RowEvent(clean_row(row), outcome))

    def finished(self, exit_status: int) -> None:
        """Write that the run came to its own end; sheets are made from the lines up to this one."""
        self._append("finished", _Finished(_now(), int(exit_status)))

    def sheet(self, sheet: WrittenSheet) -> None:
        """Write which sheet was written, with the digest of each of its files."""
        self._append("sheet", sheet)

    def closed(self) -> None:
        """Seal the journal; the last line."""
        self._append("closed", {})

    def copy(self, line: JournalLine) -> None:
        """Write the event of a line of another journal of the same run."""
        self._append(line.kind, msgspec.Raw(line.body))

    def close(self) -> None:
        """Close the file; harmless when closed already."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, kind: str, body: object) -> None:
        if self._fd is None:
            raise RecordError(f"{self.path}: this journal is closed; the {kind} event is not in it")
        n, self._next = self._next, self._next + 1  # counted even if the write fails: a lost event leaves a gap
        raw = encode(body)
        line = make_line(n, kind, _now(), self._prev, raw)
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            os.fsync(self._fd)
        except OSError as error:
            # Half a line would swallow the next one, should there be room again: take it back.
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            consequence = f"; this {kind} event is lost, those before it are kept"
            raise _cannot("write", self.path, error, consequence) from None
        self._size += len(line)
        self._prev = sha256(line[:-1])
        if self.on_line is not None:
            self.on_line(JournalLine(n, kind, self._prev, major_of(JOURNAL_VERSION), raw))


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
        raise _cannot("read", path, error) from None
    if not data.strip(b"\0 \r\n\t"):
        raise RecordError(f"{path}: this journal is empty: its run ended before the first event was written")
    return data


def _replay(path: Path, data: bytes, lines: list[tuple[Line, str]], damaged: bool, notes: list[str]) -> JournalContents:
    """The state at the end of the journal."""
    runs: list[RunInfo] = []
    planned: list[Planned] | None = None
    rows: list[_RowEvent] = []
    stretches: list[Stretch] = []
    arrived: dict[str, set[str]] = {}  # test that started -> ids that arrived since
    finish: _Finished | None = None
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
                    running = msgspec.json.decode(line.body, type=_Running)
                    arrived[running.test] = set()
                    started = started or running.at
                case "stretch":
                    stretches.append(msgspec.json.decode(line.body, type=Stretch))
                case "row":
                    event = msgspec.json.decode(line.body, type=_RowEvent)
                    rows.append(event)
                    if event.row.test in arrived:
                        arrived[event.row.test].add(event.row.id)
                case "finished":
                    finish = msgspec.json.decode(line.body, type=_Finished)
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


def _state(path: Path, finish: _Finished | None) -> State:
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _cannot(action: str, path: Path, error: OSError, consequence: str = "") -> RecordError:
    return RecordError(f"{path}: cannot {action} this journal: {error.strerror or error}{consequence}")


def _make_folder(folder: Path) -> None:
    """Create the folder and its parents; each new one is on the disk when this returns."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
