"""``pytest-netperf export``: sheets in the forms that other tools read."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_netperf.errors import ConfigError, RecordError

if TYPE_CHECKING:
    from pytest_netperf.record.schema import Sheet

__all__ = ["FORMATS", "add_arguments", "run"]

FORMATS = ("csv", "markdown", "openhtf", "prometheus")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "sheets", nargs="+", type=Path, metavar="SHEET", help="sheet.json, or a folder in which all are taken"
    )
    parser.add_argument("--format", required=True, choices=FORMATS, help="what to make of them")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="file to write, replaced in one step; default: stdout"
    )


def run(asked: argparse.Namespace) -> int:
    """Write the sheets in another form. Returns the exit code: that they could be written, not what they say."""
    data = b"".join(_made(asked.format, list(_sheets(asked.sheets))))
    if asked.output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    else:
        _replace(asked.output, data)
    return 0


def _made(form: str, sheets: list[Sheet]) -> Iterable[bytes]:
    from pytest_netperf.report.csv_table import sheets_csv
    from pytest_netperf.report.markdown import sheets_markdown
    from pytest_netperf.report.openhtf import openhtf_line
    from pytest_netperf.report.prometheus import prometheus_text

    whole: dict[str, Callable[[list[Sheet]], bytes]] = {
        "csv": sheets_csv,
        "markdown": sheets_markdown,
        "prometheus": prometheus_text,
    }
    return map(openhtf_line, sheets) if form == "openhtf" else [whole[form](sheets)]


def _sheets(paths: Iterable[Path]) -> Iterator[Sheet]:
    from pytest_netperf.record.sheet_file import read_sheet

    for path in paths:
        found = sorted(path.rglob("sheet.json")) if path.is_dir() else [path]
        if not found:
            raise ConfigError(
                f"{path}: there is no sheet.json in this folder; they are OUTPUT/<serial>/<run id>/sheet.json"
            )
        yield from map(read_sheet, found)


def _replace(path: Path, data: bytes) -> None:
    """Write the file in one step: whoever reads it meanwhile sees the old one or the new one, never half of it."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise RecordError(f"{path}: cannot write: {error.strerror or error}") from None
