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
from pytest_netperf.record.journal_event import Finished, RowEvent, Running, WrittenSheet
from pytest_netperf.record.journal_line import JOURNAL_VERSION, JournalLine, cannot, major_of, make_line
from pytest_netperf.record.schema import Planned, Row, RunInfo
from pytest_netperf.record.stretch import Stretch

__all__ = ["Journal"]

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


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
            raise cannot("create", path, error) from None
        except OSError as error:
            raise cannot("create", path, error) from None
        journal = cls(path, descriptor)
        with contextlib.suppress(OSError):  # a file system without locks: a running run then looks like a killed one
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not inherited by fork, gone with this process
        try:
            _sync_folder(folder)
        except OSError as error:
            journal.close()
            raise cannot("create", path, error) from None
        return journal

    def run(self, info: RunInfo) -> None:
        """Write what is common to the run; the first line."""
        self._append("run", info)

    def plan(self, planned: list[Planned]) -> None:
        """Write the rows that are expected, in order; may be called again with more."""
        self._append("plan", planned)

    def running(self, test: str) -> None:
        """Write that a test (node id) has started."""
        self._append("running", Running(test, _now()))

    def stretch(self, stretch: Stretch) -> None:
        """Write what a long measurement showed in its latest seconds."""
        self._append("stretch", stretch)

    def row(self, row: Row, outcome: str = "") -> None:
        """Write a judged row, with the outcome of the pytest phase it came with (passed, failed, skipped)."""
        self._append("row", RowEvent(clean_row(row), outcome))

    def finished(self, exit_status: int) -> None:
        """Write that the run came to its own end; sheets are made from the lines up to this one."""
        self._append("finished", Finished(_now(), int(exit_status)))

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
            raise cannot("write", self.path, error, consequence) from None
        self._size += len(line)
        self._prev = sha256(line[:-1])
        if self.on_line is not None:
            self.on_line(JournalLine(n, kind, self._prev, major_of(JOURNAL_VERSION), raw))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


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
