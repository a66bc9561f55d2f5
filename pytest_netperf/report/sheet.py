"""The acceptance sheet of a device as files: sheet.json, and what else was asked for.

All are written into a hidden folder, synced, and appear together under their final name by one rename. A folder that
exists is never touched: a sheet made again from the same journal goes to ``<run id>-2``, ``<run id>-3`` ...
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from pytest_netperf.errors import RecordError
from pytest_netperf.record.canonical import sha256
from pytest_netperf.record.evidence_store import attached_files
from pytest_netperf.record.manifest import SUMS
from pytest_netperf.record.schema import Sheet
from pytest_netperf.record.sheet_file import folder_name, sealed, sheet_bytes
from pytest_netperf.report.csv_table import sheets_csv
from pytest_netperf.report.form import SheetForm

__all__ = ["SheetPaths", "sheet_folder", "sheet_json", "write_sheet"]


class SheetPaths(msgspec.Struct, frozen=True):
    """Where a sheet was written."""

    folder: Path
    files: dict[str, Path]
    """Format -> file, in the order of `pytest_netperf.report.form.FORMATS`."""
    problems: tuple[str, ...] = ()
    """What could not be made; the record itself, sheet.json, is there."""

    @property
    def main(self) -> Path:
        """The file to look at first."""
        return next(iter(self.files.values()))

    @property
    def json(self) -> Path:
        """The record."""
        return self.files["json"]

    @property
    def html(self) -> Path | None:
        """The HTML sheet, where it was asked for and could be made."""
        return self.files.get("html")


def sheet_json(sheet: Sheet) -> bytes:
    """The sheet as JSON after docs/reference/sheet.schema.json, in UTF-8, numbers in SI units, NaN as null, with its
    digest."""
    return sheet_bytes(sealed(sheet))


def sheet_folder(output_dir: Path, serial: str, run_id: str) -> Path:
    """Where the sheet of a device belongs; `write_sheet` says where it went, should that folder be taken."""
    return Path(output_dir) / folder_name(serial) / folder_name(run_id)


def write_sheet(sheet: Sheet, output_dir: Path, *, form: SheetForm | None = None) -> SheetPaths:
    """Write the files of a sheet to ``output_dir/<serial>/<run id>/`` and say where.

    sheet.json is written whatever happens to the others, whose failures are told in ``problems``. Raises RecordError
    when nothing can be written.
    """
    wanted = sheet_folder(output_dir, sheet.device.serial, sheet.run_id)
    parent, name = wanted.parent, wanted.name
    files, problems = _render(sheet, form or SheetForm())
    attached, unread = _attached(sheet, Path(output_dir))
    problems += unread
    partial = parent / f".{name}.{secrets.token_hex(4)}.partial"
    try:
        partial.mkdir(parents=True)
        try:
            for kind, data in files.items():
                _write_synced(partial / f"sheet.{kind}", data)
            for beside, data in attached.items():
                _write_synced(partial / beside, data)
            sums = "".join(
                f"{sha256(data)}  {beside}\n"
                for beside, data in ({f"sheet.{kind}": data for kind, data in files.items()} | attached).items()
            )
            _write_synced(partial / SUMS, sums.encode())
            _sync_folder(partial)
            folder = _claim(partial, parent, name)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        for above in (parent, Path(output_dir)):
            _sync_folder(above)
    except OSError as error:
        raise RecordError(
            f"{wanted}: cannot write the sheet of device {sheet.device.serial}: {error.strerror or error}; "
            "its rows are in the journal: make room or change --netperf-output, then run "
            "'pytest-netperf sheet JOURNAL'"
        ) from None
    return SheetPaths(folder, {kind: folder / f"sheet.{kind}" for kind in files}, tuple(problems))


def _render(sheet: Sheet, form: SheetForm) -> tuple[dict[str, bytes], list[str]]:
    """Format -> content, and what could not be made: one form that fails must not cost the record."""
    data = sheet_json(sheet)
    makers: dict[str, Callable[[], bytes]] = {
        "html": lambda: _html(sheet, data, form),
        "pdf": lambda: _pdf(sheet, form),
        "csv": lambda: sheets_csv([sheet]),
        "json": lambda: data,
    }
    files: dict[str, bytes] = {}
    problems: list[str] = []
    for kind in form.formats:
        try:
            files[kind] = makers[kind]()
        except Exception as error:  # noqa: BLE001 - a template of the user's may raise anything
            problems.append(f"sheet.{kind} of device {sheet.device.serial}: {type(error).__name__}: {error}")
    return files, problems


def _attached(sheet: Sheet, output: Path) -> tuple[dict[str, bytes], list[str]]:
    """What tests attached, by its name beside the sheet, and what of it is not there any more."""
    found: dict[str, bytes] = {}
    problems: list[str] = []
    for name, file in attached_files(sheet.rows).items():
        try:
            if file.copy is None:
                raise OSError("no copy of it could be kept")
            found[name] = (output / file.copy).read_bytes()
        except OSError as error:
            why = error.strerror or error
            problems.append(f"the file {file.name} that a test attached is not beside the sheet: {why}")
    return found, problems


def _html(sheet: Sheet, data: bytes, form: SheetForm) -> bytes:
    from pytest_netperf.report.html_page import sheet_html

    return sheet_html(sheet, json_sha256=sha256(data), form=form)


def _pdf(sheet: Sheet, form: SheetForm) -> bytes:
    from pytest_netperf.report.pdf import sheet_pdf

    return sheet_pdf(sheet, form=form)


def _claim(partial: Path, parent: Path, name: str) -> Path:
    """Rename the finished folder to the first free name; rename() refuses a name whose folder has files in it."""
    number = 1
    while True:
        folder = parent / (name if number == 1 else f"{name}-{number}")
        if not folder.exists():
            try:
                partial.rename(folder)
            except OSError:
                if not folder.exists():
                    raise
            else:
                return folder
        number += 1


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
