"""The sheets of a folder, one after the other: sheet.json files, and journals of runs that left no sheet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pytest_netperf.batch.facts import RowName, RunFacts, facts_of
from pytest_netperf.errors import ConfigError, RecordError
from pytest_netperf.record.canonical import encode
from pytest_netperf.record.evidence_store import FOLDER as EVIDENCE
from pytest_netperf.record.schema import Planned, RunInfo, Sheet

__all__ = ["BATCH_FILE", "read_folder"]

BATCH_FILE = "batch.json"
"""What `report` writes; never read as a sheet."""
_OURS = ("SHA256SUMS", ".html", ".jsonl", ".pdf", ".csv", ".svg", ".png", ".db", ".sqlite", ".lock")


class _Head(msgspec.Struct, frozen=True):
    kind: str
    body: msgspec.Raw


def read_folder(folder: Path, names: dict[str, RowName], problems: list[str], remarks: list[str]) -> Iterator[RunFacts]:
    """Every device of every run below ``folder``; what cannot be read becomes a sentence in ``problems``.

    Raises ConfigError when the folder itself cannot be read.
    """
    try:
        next(folder.iterdir(), None)
    except OSError as error:
        raise ConfigError(
            f"{folder}: {error.strerror}; give a folder with sheets, as --netperf-output made it"
        ) from None
    read: dict[str, set[str]] = {}
    journals: list[Path] = []
    foreign: list[str] = []
    unreadable: list[str] = []
    for where, folders, files in os.walk(folder, onerror=lambda error: unreadable.append(str(error))):
        folders.sort()
        for name in [name for name in folders if name.startswith(".")]:
            folders.remove(name)
            if name.endswith(".partial"):
                shown = os.path.relpath(Path(where, name), folder)
                problems.append(f"{shown} is a sheet that was half written; its rows are in the journal.")
        for name in sorted(files):
            path = Path(where, name)
            if (path.parent.parent.name == EVIDENCE and name != "sheet.json") or name.startswith("attached-"):
                continue
            if path.suffix == ".jsonl" and path.parent.name == "journals":
                journals.append(path)
            elif path.suffix != ".json" or name == BATCH_FILE:
                foreign += [] if name.endswith(_OURS) or name == BATCH_FILE else [name]
            else:
                facts = _read_sheet(path, folder, names, problems, foreign)
                if facts is not None:
                    read.setdefault(facts.run_id, set()).add(facts.serial)
                    yield facts
    problems += [f"A folder cannot be read: {text}." for text in unreadable]
    yield from _from_journals(journals, read, names, problems)
    if foreign:
        shown = ", ".join(foreign[:3]) + (" ..." if len(foreign) > 3 else "")
        remarks.append(f"{len(foreign)} other file{'s are' if len(foreign) > 1 else ' is'} no sheet: {shown}.")


def _read_sheet(
    path: Path, folder: Path, names: dict[str, RowName], problems: list[str], foreign: list[str]
) -> RunFacts | None:
    shown = os.fspath(path.relative_to(folder))
    try:
        data = path.read_bytes()
    except OSError as error:
        problems.append(f"{shown} cannot be read: {error.strerror}.")
        return None
    try:
        facts, wrong = facts_of(data, shown, names)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        if path.name == "sheet.json":
            problems.append(f"{shown} is no sheet that can be read, and its device may be missing here: {error}.")
        else:
            foreign.append(shown)
        return None
    problems += wrong
    return facts


def _from_journals(
    journals: list[Path], read: dict[str, set[str]], names: dict[str, RowName], problems: list[str]
) -> Iterator[RunFacts]:
    """A run that was killed left a journal and no sheet; one whose disk was full may have left some of its sheets."""
    from pytest_netperf.record.journal_reader import read_journal
    from pytest_netperf.record.ledger import build_sheets

    for path in journals:
        try:
            run_id, planned = _head(path)
        except OSError as error:
            problems.append(f"journals/{path.name} cannot be read: {error.strerror}.")
            continue
        known = read.get(run_id or path.stem, set())
        if planned and planned <= known:
            continue
        try:
            contents = read_journal(path)
            sheets: list[Sheet] = build_sheets(
                contents.run,
                contents.planned,
                contents.rows,
                running=contents.running,
                complete=contents.complete,
                finished_at=contents.finished_at,
                state=contents.state,
                remarks=contents.notes,
                waivers=contents.run.waivers,
            )
        except RecordError as error:
            problems.append(f"{error}.")
            continue
        missing = [sheet for sheet in sheets if sheet.device.serial not in known]
        if missing:
            serials = ", ".join(sheet.device.serial for sheet in missing[:5]) + (" ..." if len(missing) > 5 else "")
            problems.append(
                f"Run {contents.run.run_id} has a journal and no sheet of {serials}: it was killed, or goes on still. "
                f"Counted from its journal; 'pytest-netperf sheet {path.name}' makes the sheets."
            )
        for sheet in missing:
            facts, wrong = facts_of(encode(sheet), f"journals/{path.name}", names)
            problems += wrong
            yield facts


def _head(path: Path) -> tuple[str | None, set[str]]:
    """Run id and selected serials, from the lines before the first test; (None, nothing) when they are damaged."""
    run_id, serials = None, set()
    with path.open("rb") as file:
        for line in file:
            try:
                head = msgspec.json.decode(line, type=_Head)
                if head.kind == "run":
                    run_id = msgspec.json.decode(head.body, type=RunInfo).run_id
                elif head.kind == "plan":
                    planned = msgspec.json.decode(head.body, type=list[Planned])
                    serials |= {plan.device.serial for plan in planned if plan.selected}
                else:
                    break
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                return None, set()
    return run_id, serials
