"""The closing step: the only one that writes a final verdict. It makes sheets from a journal that has ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from pytest_netperf.errors import RecordError
from pytest_netperf.record.earlier import killed_runs, linked
from pytest_netperf.record.journal_reader import JournalContents
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import EvidenceFile, Row, Sheet, Waiver
from pytest_netperf.record.sheet_file import sealed

__all__ = ["close_run"]


def close_run(
    contents: JournalContents,
    output: Path,
    *,
    unwritten: Iterable[Row] = (),
    whole: bool = True,
    waivers: Sequence[Waiver] | None = None,
    day: str = "",
    files: Sequence[EvidenceFile] = (),
) -> list[Sheet]:
    """The sheets of a run that has ended, each with its digest, its place in the journal and its earlier runs.

    ``unwritten`` are rows that the journal could not take; with ``whole`` False no device is ACCEPTED. ``waivers`` come
    in place of those of the run and hold as of ``day`` (YYYY-MM-DD); ``files`` are further ones that the result rests
    on. Raises RecordError while the run goes on.
    """
    if contents.state == "running":
        raise RecordError(
            f"{contents.path}: this run goes on, so there is no final verdict yet; its sheets are written at its end "
            "(end the run first, if they must be made now)"
        )
    sheets = build_sheets(
        contents.run,
        contents.planned,
        (*contents.rows, *unwritten),
        running=contents.running,
        complete=contents.complete and whole,
        finished_at=contents.finished_at,
        state=contents.state,
        remarks=contents.notes,
        waivers=contents.run.waivers if waivers is None else waivers,
        day=day,
    )
    killed = killed_runs(output, contents.run.run_id, {sheet.device.serial for sheet in sheets})
    return [
        sealed(
            msgspec.structs.replace(
                linked(sheet, output, killed.get(sheet.device.serial, ())),
                journal=contents.seal,
                files=(*sheet.files, *files),
            )
        )
        for sheet in sheets
    ]
