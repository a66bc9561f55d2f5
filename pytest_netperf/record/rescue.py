"""Another place for a record that cannot be written where it belongs: the disk is full, or may not be written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_netperf.errors import RecordError
from pytest_netperf.record.journal import Journal, JournalContents
from pytest_netperf.record.schema import Planned, RunInfo
from pytest_netperf.record.state_folder import state_folder

__all__ = ["rescue_folders", "rescued_journal"]


def rescue_folders() -> Iterator[Path]:
    """Output folders to try, the best first: one that outlives a reboot, then the folder for temporary files."""
    state = state_folder(os.environ)
    if state is not None:
        yield state / "rescued"
    yield Path(tempfile.gettempdir()) / f"pytest-netperf-rescued-{os.getuid()}"


def rescued_journal(
    info: RunInfo, planned: Sequence[Planned] | None, contents: JournalContents | None
) -> tuple[Journal, Path] | None:
    """A new journal of the same run with everything that the first one holds, and its output folder.

    ``contents`` is what could be read of the first one, None when nothing. None when no place can be written.
    """
    for folder in rescue_folders():
        with contextlib.suppress(RecordError):
            journal = Journal.create(folder, info.run_id)
            try:
                _copy(journal, info, planned, contents)
            except RecordError:
                journal.close()
                raise
            return journal, folder
    return None


def _copy(journal: Journal, info: RunInfo, planned: Sequence[Planned] | None, contents: JournalContents | None) -> None:
    journal.run(info)
    plan = list(planned) if planned is not None else list(contents.planned) if contents is not None else None
    if plan is not None:
        journal.plan(plan)
    if contents is not None:
        for test in contents.started:
            journal.running(test)
        for row, outcome in zip(contents.rows, contents.outcomes, strict=True):
            journal.row(row, outcome)
