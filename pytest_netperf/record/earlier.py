"""Earlier runs of the same device, found from their sheets in the output folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from pytest_netperf.record.migrate import upgrade_sheet
from pytest_netperf.record.schema import DeviceVerdict, EarlierRun, Sheet
from pytest_netperf.record.sheet_file import folder_name, major_version

__all__ = ["earlier_runs", "linked"]


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


def earlier_runs(output: Path, serial: str) -> tuple[list[EarlierRun], list[str]]:
    """Every run of a serial that has a sheet in this output folder, oldest first, and what could not be read.

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
    return sorted(found.values(), key=lambda run: (run.started_at, run.run_id)), odd


def _head(data: bytes) -> dict[str, Any]:
    document = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    plain = {key: msgspec.json.decode(document[key]) for key in _Head.__struct_fields__ if key in document}
    return upgrade_sheet(plain, major_version(plain.get("schema_version")))


def linked(sheet: Sheet, output: Path) -> Sheet:
    """The sheet with the earlier runs of its serial, and the verdict of the first of all that came to its own end."""
    found, odd = earlier_runs(output, sheet.device.serial)
    runs = [run for run in found if run.run_id != sheet.run_id and run.started_at <= sheet.started_at]
    whole = [run.verdict for run in runs if run.complete] + ([sheet.verdict] if sheet.complete else [])
    return msgspec.structs.replace(
        sheet,
        earlier=tuple(runs),
        first_pass=whole[0] if whole else None,
        remarks=(*sheet.remarks, *odd),
    )
