"""Another place for a record that cannot be written where it belongs: the disk is full, or may not be written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_netperf.errors import RecordError
from pytest_netperf.record.journal import Journal
from pytest_netperf.record.journal_line import JournalLine
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
    info: RunInfo, planned: Sequence[Planned] | None, lines: Sequence[JournalLine]
) -> tuple[Journal, Path] | None:
    """A new journal of the same run with all the ``lines`` of the first one, and its output folder.

    None when no place can be written.
    """
    for folder in rescue_folders():
        with contextlib.suppress(RecordError):
            journal = Journal.create(folder, info.run_id)
            try:
                _copy(journal, info, planned, lines)
            except RecordError:
                journal.close()
                raise
            return journal, folder
    return None


def _copy(journal: Journal, info: RunInfo, planned: Sequence[Planned] | None, lines: Sequence[JournalLine]) -> None:
    kinds = {line.kind for line in lines}
    if "run" not in kinds:
        journal.run(info)
    if "plan" not in kinds and planned is not None:
        journal.plan(list(planned))
    for line in lines:
        journal.copy(line)
