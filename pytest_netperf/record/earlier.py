"""Earlier runs of the same device, found from their sheets in the output folder, or the journals of those that were
killed and left none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from pytest_netperf.errors import RecordError
from pytest_netperf.record.canonical import sha256
from pytest_netperf.record.journal_line import Line
from pytest_netperf.record.journal_reader import read_journal
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.migrate import upgrade_sheet
from pytest_netperf.record.schema import DeviceVerdict, EarlierRun, Sheet
from pytest_netperf.record.sheet_file import folder_name, major_version

__all__ = ["earlier_runs", "killed_runs", "linked"]

_TAIL = 4096
"""A closing line is shorter."""


class _Device(msgspec.Struct):
    serial: str


class _Head(msgspec.Struct):
    """Of a sheet.json what tells the run; the rest is not even decoded."""

    schema_version: str
    run_id: str
    started_at: str
    verdict: DeviceVerdict
    complete: bool
    device: _Device
    digest: str | None = None


def earlier_runs(output: Path, serial: str, killed: Iterable[EarlierRun] = ()) -> tuple[list[EarlierRun], list[str]]:
    """Every run of a serial that is in this output folder, oldest first, and what could not be read. Those of
    ``killed`` count as far as they have no sheet.

    Sheets that were made again from the same journal are one run: the first one written stands for it.
    """
    found: dict[str, EarlierRun] = {}
    odd: list[str] = []
    folder = Path(output) / folder_name(serial)
    for path in sorted(folder.glob("*/sheet.json"), key=lambda path: (len(path.parent.name), path.parent.name)):
        name = path.relative_to(output).as_posix()
        try:
            head = msgspec.convert(_head(path.read_bytes()), _Head)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
            odd.append(f"The sheet {name} of the same serial cannot be read, so its run is not linked: {error}")
            continue
        if head.device.serial == serial:
            found.setdefault(
                head.run_id,
                EarlierRun(
                    run_id=head.run_id,
                    started_at=head.started_at,
                    verdict=head.verdict,
                    complete=head.complete,
                    sheet=name,
                    digest=head.digest,
                ),
            )
    for run in killed:
        found.setdefault(run.run_id, run)
    return sorted(found.values(), key=lambda run: (run.started_at, run.run_id)), odd


def killed_runs(output: Path, but: str, serials: Iterable[str]) -> dict[str, list[EarlierRun]]:
    """Serial -> runs that were killed, by the journals that nobody closed; that of run ``but`` is left out.

    Only journals that name one of the ``serials`` are read, because each may be large. One that goes on is no earlier
    run. Whoever reads a journal that cannot be read hears what is wrong with it.
    """
    found: dict[str, list[EarlierRun]] = {}
    named = [msgspec.json.encode(serial) for serial in serials]
    for path in sorted((output / "journals").glob("*.jsonl")):
        if path.stem == but or _is_closed(path):
            continue
        try:
            data = path.read_bytes()
            if not any(serial in data for serial in named):
                continue
            contents, digest = read_journal(path), sha256(data)
        except (RecordError, OSError):
            continue
        if contents.state == "running":
            continue
        sheets = build_sheets(
            contents.run,
            contents.planned,
            contents.rows,
            running=contents.running,
            complete=False,
            state=contents.state,
        )
        for sheet in sheets:
            run = EarlierRun(
                run_id=contents.run.run_id,
                started_at=contents.run.started_at,
                verdict=sheet.verdict,
                complete=False,
                sheet=path.relative_to(output).as_posix(),
                digest=digest,
            )
            found.setdefault(sheet.device.serial, []).append(run)
    return found


def _is_closed(path: Path) -> bool:
    """By its last line alone: there may be hundreds, and nearly all are."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            lines = file.read().splitlines()
        return msgspec.json.decode(lines[-1], type=Line).kind == "closed"
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, IndexError):
        return False


def _head(data: bytes) -> dict[str, Any]:
    document = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    plain = {key: msgspec.json.decode(document[key]) for key in _Head.__struct_fields__ if key in document}
    return upgrade_sheet(plain, major_version(plain.get("schema_version")))


def linked(sheet: Sheet, output: Path, killed: Iterable[EarlierRun] = ()) -> Sheet:
    """The sheet with the earlier runs of its serial, and the verdict of the first of all that came to its own end."""
    found, odd = earlier_runs(output, sheet.device.serial, killed)
    runs = [run for run in found if run.run_id != sheet.run_id and run.started_at <= sheet.started_at]
    whole = [run.verdict for run in runs if run.complete] + ([sheet.verdict] if sheet.complete else [])
    return msgspec.structs.replace(
        sheet,
        earlier=tuple(runs),
        first_pass=whole[0] if whole else None,
        remarks=(*sheet.remarks, *odd),
    )
