"""The record of one run while it is written: the journal from the first second, its end, and its seal.

Whatever goes wrong with it stops no measurement and loses none: it is a sentence in ``problems`` or ``broken``, and the
run then fails at its end.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pytest_netperf.errors import RecordError
from pytest_netperf.record.closing import close_run
from pytest_netperf.record.evidence_store import take_along
from pytest_netperf.record.journal import Journal
from pytest_netperf.record.journal_event import WrittenSheet
from pytest_netperf.record.journal_line import JournalLine
from pytest_netperf.record.journal_reader import journal_lines, newest_journal, read_journal
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.manifest import written_files
from pytest_netperf.record.rescue import rescued_journal
from pytest_netperf.record.schema import JournalLink, Planned, Row, RunInfo, Sheet
from pytest_netperf.record.stretch import Stretch

__all__ = ["RunRecord"]

_CLOCK_TOLERANCE_S = 2.0
"""By so much the clocks of two testers that write into one folder may differ."""


class RunRecord:
    """Begun once, then written to, ended and sealed, in this order."""

    def __init__(self, output: Path, run_id: str, on_line: Callable[[JournalLine], None] | None = None) -> None:
        self._on_line = on_line
        self.output = output
        """Where the record goes; another folder once that one could not be written."""
        self.broken: str | None = None
        """Why the journal could not be written as it should."""
        self.problems: list[str] = []
        """What else is odd about the record."""
        self._wanted = output
        self._run_id = run_id
        self._journal: Journal | None = None
        self._info: RunInfo | None = None
        self._planned: Sequence[Planned] | None = None
        self._unwritten: list[Row] = []
        self._turn = threading.RLock()

    @property
    def path(self) -> Path | None:
        """The journal; None when it could not be created anywhere."""
        return self._journal.path if self._journal is not None else None

    def begin(self, info: Callable[[JournalLink | None], RunInfo], planned: Sequence[Planned] | None) -> None:
        """Open the journal with what is common to the run and with its plan.

        ``info`` is called with the place where the newest other journal of the output folder ends.
        """
        newest = newest_journal(self._wanted, self._run_id)
        self._info = info(newest[0] if newest is not None else None)
        self._planned = planned
        if newest is not None and newest[1] is not None:
            self._look_at_clock(newest[0].run_id, newest[1])
        with self._turn:
            try:
                self._journal = Journal.create(self._wanted, self._run_id)
                self._journal.on_line = self._on_line
                self._journal.run(self._info)
                if planned is not None:
                    self._journal.plan(list(planned))
            except RecordError as error:
                self._move(error)

    def running(self, test: str) -> None:
        """A test has started."""
        self._write(lambda journal: journal.running(test))

    def stretch(self, stretch: Stretch) -> None:
        """A long measurement goes on. May be called from another thread, until `end`."""
        self._write(lambda journal: journal.stretch(stretch))

    def row(self, row: Row, outcome: str) -> None:
        """A row was judged."""
        if not self._write(lambda journal: journal.row(row, outcome)):
            self._unwritten.append(row)

    def end(self, exit_status: int) -> list[Sheet]:
        """The run came to its own end: the sheets that follow from its record."""
        whole = self._write(lambda journal: journal.finished(exit_status)) and not self._unwritten
        try:
            if self._journal is None:
                raise RecordError(self.broken or "the journal was never opened")
            contents = read_journal(self._journal.path)
            self.problems += contents.notes
            return close_run(contents, self.output, unwritten=self._unwritten, whole=whole)
        except RecordError as error:
            self.broken = self.broken or str(error)
            assert self._info is not None
            return build_sheets(self._info, self._planned or (), self._unwritten, complete=False)

    def seal(self, written: Iterable[tuple[Sheet, Sequence[Path]]]) -> None:
        """Write into the journal which sheets there are, with the digests of their files, and close it for ever."""
        if self._journal is None:
            return
        try:
            for sheet, paths in written:
                if sheet.digest is not None and paths:
                    self._journal.sheet(
                        WrittenSheet(
                            serial=sheet.device.serial,
                            verdict=sheet.verdict,
                            digest=sheet.digest,
                            files=written_files(paths, self.output),
                        )
                    )
            self._journal.closed()
        except RecordError as error:
            self.broken = self.broken or str(error)
        finally:
            self._journal.close()

    def _look_at_clock(self, run_id: str, at: datetime) -> None:
        ahead_s = (at - datetime.now(UTC)).total_seconds()
        if ahead_s > _CLOCK_TOLERANCE_S:
            self.problems.append(
                f"the clock of this machine was set back: run {run_id} of this output folder wrote its record "
                f"{ahead_s:.0f} s from now ({at.isoformat(timespec='seconds')}); set the clock (NTP), then run again"
            )

    def _write(self, event: Callable[[Journal], None]) -> bool:
        """Write an event, elsewhere when it cannot be written here; False when it is nowhere."""
        with self._turn:
            if self._journal is None:
                return False
            try:
                event(self._journal)
            except RecordError as error:
                if not self._move(error):
                    return False
                try:
                    event(self._journal)
                except RecordError:
                    return False
            return True

    def _move(self, error: RecordError) -> bool:
        """Go on in a journal elsewhere, with everything that was written so far."""
        if self.broken is not None or self._info is None:
            return False
        self.broken = str(error)
        lines: list[JournalLine] = []
        if self._journal is not None:
            self._journal.close()
            with contextlib.suppress(RecordError):  # nothing of it is readable: then nothing was written
                lines = journal_lines(self._journal.path)
        moved = rescued_journal(self._info, self._planned, lines)
        if moved is None:
            return False
        self._journal, self.output = moved
        self._journal.on_line = self._on_line
        take_along(self._info.files, self._wanted, self.output)
        self.broken += f"; the run went on with all of its record in {self.output}"
        return True
