"""Writes a run into the store while it goes on, in a thread of its own. Nothing that goes wrong there reaches the run.

Lines wait in a queue that is bounded by their number and size; what has no room is left out, and filled in later from
the journal. The same holds for a database that cannot be reached, is slow, or goes away.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from pytest_netperf.errors import NetperfError
from pytest_netperf.record.journal_line import JournalLine
from pytest_netperf.record.schema import RunInfo

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import URL

    from pytest_netperf.store.database import Database
    from pytest_netperf.store.sqlite_file import SqliteFile

__all__ = ["StoreWriter"]

MOST_EVENTS = 20_000
MOST_BYTES = 64_000_000
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
_AT_ONCE = 200
_AT_REST = frozenset({"row", "finished", "closed"})
"""Lines that are written when no test runs."""


class StoreWriter:
    """One run on its way into the store: a database, or the file beside the output. ``put`` never waits.

    For the file, which every run has, there is a thread only while a test's rows are written, behind the test: a
    process with a thread cannot be forked without a warning, and tests may do that.
    """

    def __init__(self, target: URL | Path, run_id: str) -> None:
        self._target = target
        self.shown = f"sqlite:///{target}" if isinstance(target, os.PathLike) else target.render_as_string()
        self._lines: deque[JournalLine] = deque()
        self._bytes = 0
        self._taken = 0
        """Lines that were offered."""
        self._stored = 0
        self._problem: str | None = None
        self._run: RunInfo | None = None
        self._run_id = run_id
        self._changed = threading.Condition()
        self._ending = False
        self._brief = isinstance(target, os.PathLike)
        self._thread: threading.Thread | None = None
        self._alive = False
        """The thread is there and will look at the queue again."""
        self._dead = False
        if not self._brief:
            with self._changed:
                self._wake()

    def put(self, event: JournalLine) -> None:
        """Take one line of the journal, which is on the disk already."""
        with self._changed:
            self._taken += 1
            if len(self._lines) >= MOST_EVENTS or self._bytes + len(event.body) > MOST_BYTES:
                self._problem = self._problem or "more lines waited than there is room for"
                return
            self._lines.append(event)
            self._bytes += len(event.body)
            if not self._brief or event.kind in _AT_REST:
                self._wake()

    def _wake(self) -> None:
        """Let the thread look at the queue; the lock is held."""
        if not self._alive and not self._dead:
            self._alive = True
            self._thread = threading.Thread(target=self._work, name="netperf-store", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def close(self, patience_s: float = 5.0) -> str | None:
        """Wait a moment for what is on its way. A sentence when not everything is stored, with the way out."""
        with self._changed:
            self._ending = True
            if self._lines or self._alive:
                self._wake()
        if self._thread is not None:
            self._thread.join(patience_s)
        with self._changed:
            missing = self._taken - self._stored
            if not missing:
                return None
            why = (self._problem or f"it takes longer than {patience_s:g} s").removeprefix(f"{self.shown}: ")
            return f"{missing} of {self._taken} lines of run {self._run_id} are not in the store {self.shown}: {why}"

    def _work(self) -> None:
        database: Database | SqliteFile | None = None
        wait_s = FIRST_WAIT_S
        while True:
            with self._changed:
                while not self._lines and not self._ending and not self._brief:
                    self._changed.wait()
                if not self._lines:
                    self._alive = False
                    break
                batch = [self._lines[i] for i in range(min(_AT_ONCE, len(self._lines)))]
            try:
                if database is None:
                    database = self._open()
                self._store(database, batch)
                wait_s = FIRST_WAIT_S
            except NetperfError as error:
                self._problem = str(error)
                if self._ending:
                    self._alive = False
                    break
                self._pause(wait_s)
                wait_s = min(LONGEST_WAIT_S, wait_s * 2)
            except Exception as error:  # noqa: BLE001 - a thread that dies would say nothing to anybody
                self._problem = f"{type(error).__name__}: {error}"
                self._alive, self._dead = False, True
                break
        if database is not None:
            database.close()

    def _open(self) -> Database | SqliteFile:
        if isinstance(self._target, os.PathLike):
            from pytest_netperf.store.sqlite_file import SqliteFile

            return SqliteFile.open(self._target)
        from pytest_netperf.store.database import Database

        return Database.open(self._target, create=True)

    def _store(self, database: Database | SqliteFile, batch: list[JournalLine]) -> None:
        from pytest_netperf.store.write import add_events, run_of

        if self._run is None:
            self._run = run_of(batch[0])  # the first line of a journal
        with database.begin() as connection:
            add_events(connection, self._run, batch)
        with self._changed:
            for event in batch:
                self._lines.popleft()
                self._bytes -= len(event.body)
            self._stored += len(batch)

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        with self._changed:
            while not self._ending and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
