"""The journal: everything a run learnt, one line per event, on the disk before the next event begins.

A sheet is made from a journal alone, so a run that was killed at any moment still leaves its sheets. Each line is one
JSON object:

    {"journal": "1.0", "n": 3, "kind": "row", "check": "<SHA-256, 16 digits>", "body": {...}}

| kind     | body                                         | written                          |
| -------- | -------------------------------------------- | -------------------------------- |
| run      | RunInfo                                      | first                            |
| plan     | list of Planned                              | after collection                 |
| running  | test (node id), at                           | as a test starts                 |
| row      | row (Row), outcome of its phase              | as a row is judged               |
| finished | at, exit_status                              | last                             |

``n`` counts every event, also one that could not be written, and ``check`` covers n, kind and body: a lost or altered
line shows, and a journal that shows either never makes an ACCEPTED sheet.
"""

from __future__ import annotations

import contextlib
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import msgspec

from pytest_netperf.errors import RecordError
from pytest_netperf.record.canonical import clean_row, encode, sha256
from pytest_netperf.record.schema import Planned, Row, RunInfo

__all__ = ["JOURNAL_VERSION", "Journal", "JournalContents", "read_journal"]

JOURNAL_VERSION = "1.0"
_MAJOR = int(JOURNAL_VERSION.split(".")[0])
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


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


class _Line(msgspec.Struct, frozen=True):
    journal: str
    n: int
    kind: str
    check: str
    body: msgspec.Raw


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

    def row(self, row: Row, outcome: str = "") -> None:
        """Write a judged row, with the outcome of the pytest phase it came with (passed, failed, skipped)."""
        self._append("row", _RowEvent(clean_row(row), outcome))

    def finished(self, exit_status: int) -> None:
        """Write that the run came to its own end; the last line."""
        self._append("finished", _Finished(_now(), int(exit_status)))

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
        line = encode(_Line(JOURNAL_VERSION, n, kind, _check(n, kind, raw), msgspec.Raw(raw))) + b"\n"
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


def read_journal(path: Path) -> JournalContents:
    """Read a journal, whole or not: what cannot be read is left out, said in ``notes``, and makes it incomplete.

    Raises RecordError when the file cannot be read, is empty, is not a journal, or is of a newer major version.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise RecordError(f"{path}: there is no such journal; they are in the journals folder of the output") from None
    except OSError as error:
        raise _cannot("read", path, error) from None
    if not data.strip(b"\0 \r\n\t"):
        raise RecordError(f"{path}: this journal is empty: its run ended before the first event was written")
    notes: list[str] = []
    lines, damaged = _intact_lines(path, data, notes)
    missing = max(line.n for line in lines) + 1 - len({line.n for line in lines})
    if missing:
        notes.append(f"{missing} of the events before the last readable one are lost.")
    return _replay(path, data, lines, damaged or missing > 0, notes)


def _intact_lines(path: Path, data: bytes, notes: list[str]) -> tuple[list[_Line], bool]:
    """The lines that are as they were written, once each, and whether any was not."""
    intact: dict[tuple[int, str], _Line] = {}
    damaged = False
    texts = data.split(b"\n")
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        try:
            line = msgspec.json.decode(text, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            damaged = True
            if number == len(texts):  # no newline after it
                notes.append(f"The last line ({number}) is half written: the run was killed while writing it.")
            else:
                notes.append(f"Line {number} cannot be read and is left out.")
            continue
        _require_readable(path, line.journal)
        if line.check != _check(line.n, line.kind, bytes(line.body)):
            damaged = True
            notes.append(f"Line {number} was altered after it was written and is left out.")
        elif (line.n, line.check) in intact:
            notes.append(f"Line {number} repeats event {line.n} and is counted once.")
        else:
            intact[line.n, line.check] = line
    if not intact:
        raise RecordError(
            f"{path}: not a journal of pytest-netperf: none of its {len(texts)} line(s) is a whole event; expected "
            'lines such as {"journal": "1.0", "n": 0, "kind": "run", ...}'
        )
    return list(intact.values()), damaged


def _replay(path: Path, data: bytes, lines: list[_Line], damaged: bool, notes: list[str]) -> JournalContents:
    """The state at the end of the journal."""
    runs: list[RunInfo] = []
    planned: list[Planned] | None = None
    rows: list[_RowEvent] = []
    arrived: dict[str, set[str]] = {}  # test that started -> ids that arrived since
    finish: _Finished | None = None
    started: str | None = None
    for line in lines:
        try:
            match line.kind:
                case "run":
                    runs.append(msgspec.json.decode(line.body, type=RunInfo))
                case "plan":
                    planned = (planned or []) + msgspec.json.decode(line.body, type=list[Planned])
                case "running":
                    running = msgspec.json.decode(line.body, type=_Running)
                    arrived[running.test] = set()
                    started = started or running.at
                case "row":
                    event = msgspec.json.decode(line.body, type=_RowEvent)
                    rows.append(event)
                    if event.row.test in arrived:
                        arrived[event.row.test].add(event.row.id)
                case "finished":
                    finish = msgspec.json.decode(line.body, type=_Finished)
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
    return JournalContents(
        path=path,
        sha256=sha256(data),
        run=runs[0] if runs else RunInfo(run_id=path.stem, started_at=started or ""),
        planned=tuple(planned or ()),
        rows=tuple(event.row for event in rows),
        outcomes=tuple(event.outcome for event in rows),
        running=tuple(test for test, ids in arrived.items() if due.get(test, set()) - ids),
        finished_at=finish.at if finish else None,
        exit_status=finish.exit_status if finish else None,
        complete=finish is not None and finish.exit_status in (0, 1) and planned is not None and not damaged,
        notes=tuple(notes),
    )


def _require_readable(path: Path, version: str) -> None:
    major = version.split(".")[0]
    if not major.isdigit() or int(major) > _MAJOR:
        raise RecordError(
            f"{path}: written in journal version {version!r}, but this pytest-netperf reads version {_MAJOR} only; "
            "read it with the pytest-netperf that wrote it, or upgrade this one"
        )


def _check(n: int, kind: str, body: bytes) -> str:
    return sha256(b"%d %s " % (n, kind.encode()) + body)[:16]


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
