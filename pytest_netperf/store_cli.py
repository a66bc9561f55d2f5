"""``pytest-netperf store``: fill a store from journals, and ask it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_netperf.errors import ConfigError

if TYPE_CHECKING:
    from pytest_netperf.record.schema import Sheet
    from pytest_netperf.store.database import Database
    from pytest_netperf.store.read import TrendPoint

__all__ = ["add_arguments", "opened", "run"]

_STORE = Path("netperf-results", "results.db")
"""Where a run writes that was told nothing else."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    commands = parser.add_subparsers(dest="store_command", required=True, metavar="COMMAND")
    sync = commands.add_parser("sync", help="fill in what a store lacks, from journals")
    sync.add_argument("folder", type=Path, metavar="DIR", help="folder with journals, such as netperf-results")
    history = commands.add_parser("history", help="every run of one device")
    history.add_argument("serial", metavar="SERIAL")
    last = commands.add_parser("last", help="the last runs of a model")
    last.add_argument("model", metavar="MODEL")
    last.add_argument("-n", type=_positive, default=10, metavar="N", help="how many; default: 10")
    trend = commands.add_parser("trend", help="the values of one row over time")
    trend.add_argument("row", metavar="ROW", help="id of the row, or a part of it")
    trend.add_argument("--serial", metavar="SERIAL", help="of this device only")
    trend.add_argument("--model", metavar="MODEL", help="of this model only")
    trend.add_argument("-n", type=_positive, default=50, metavar="N", help="the newest so many; default: 50")
    export = commands.add_parser("export", help="write all rows to a CSV or Parquet file")
    export.add_argument("file", type=Path, metavar="FILE", help="a new file that ends with .csv or .parquet")
    export.add_argument("--batch", metavar="NAME", help="of this batch only")
    export.add_argument("--serial", metavar="SERIAL", help="of this device only")
    for command in (sync, history, last, trend, export):
        default = f"DIR/{_STORE.name}" if command is sync else _STORE
        command.add_argument("--store", metavar="URL", help=f"as --netperf-store; default: sqlite:///{default}")
    for command in (history, last, trend):
        command.add_argument("--json", action="store_true", help="print a JSON list instead of text")


def run(asked: argparse.Namespace) -> int:
    """Run one command. Returns 0 when it is done, 1 when something of it could not be."""
    with opened(asked.store or _beside(asked), create=asked.store_command == "sync") as database:
        if asked.store_command == "sync":
            return _sync(database, asked.folder)
        if asked.store_command == "export":
            return _export(database, asked)
        return _show(database, asked)


@contextmanager
def opened(url: str, *, create: bool) -> Iterator[Database]:
    """The store at a URL."""
    from pytest_netperf.store.database import Database, parse_url

    database = Database.open(parse_url(url), create=create)
    try:
        yield database
    finally:
        database.close()


def _beside(asked: argparse.Namespace) -> str:
    """The store that a run makes beside its output."""
    if asked.store_command != "sync":
        return f"sqlite:///{_STORE}"
    folder: Path = asked.folder
    if not folder.exists():
        raise ConfigError(f"{folder}: there is no such folder; give the folder that --netperf-output named")
    return f"sqlite:///{(folder if folder.is_dir() else folder.parent.parent) / _STORE.name}"


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text[:9]) > 0:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, not {text!r}")
    return int(text[:9])


def _sync(database: Database, folder: Path) -> int:
    from pytest_netperf.store.sync import sync_folder

    synced = sync_folder(database, folder)
    for one in synced:
        if one.problem is not None:
            print(f"WRONG  {one.problem}")
        elif one.added:
            print(f"{one.run_id}: {one.added} of {one.lines} lines added")
    added, wrong = sum(one.added for one in synced), sum(one.problem is not None for one in synced)
    journals = f"{len(synced)} journal{'s' * (len(synced) != 1)}"
    print(f"{database.shown}: {journals}, {added} lines added, {f'{wrong} not whole' if wrong else 'all is there'}")
    return 1 if wrong else 0


def _export(database: Database, asked: argparse.Namespace) -> int:
    from pytest_netperf.store.export import export_rows
    from pytest_netperf.store.read import rows

    count = export_rows(rows(database, batch=asked.batch, serial=asked.serial), asked.file)
    print(f"{asked.file}: {count} rows")
    if not count:
        print(f"{database.shown} has no such row", file=sys.stderr)
    return 0 if count else 1


def _show(database: Database, asked: argparse.Namespace) -> int:
    from pytest_netperf.record.canonical import encode
    from pytest_netperf.store.read import history, last_of_model, trend

    if asked.store_command == "trend":
        points = trend(database, asked.row, serial=asked.serial, model=asked.model, most=asked.n)
        print(encode(points).decode() if asked.json else "\n".join(_trend_lines(points)))
        return 0
    if asked.store_command == "history":
        sheets = history(database, asked.serial)
    else:
        sheets = last_of_model(database, asked.model, asked.n)
    if asked.json:
        print(encode([_line(sheet) for sheet in sheets]).decode())
    else:
        print("\n".join(_sheet_lines(sheets)))
    return 0


def _line(sheet: Sheet) -> dict[str, object]:
    return {
        "serial": sheet.device.serial,
        "model": sheet.device.model,
        "batch": sheet.device.batch,
        "run_id": sheet.run_id,
        "started_at": sheet.started_at,
        "station": sheet.station.name,
        "operator": sheet.operator,
        "verdict": sheet.verdict.value,
        "complete": sheet.complete,
        "simulated": sheet.simulated,
        "counts": sheet.counts,
        "sentence": sheet.sentence,
    }


def _sheet_lines(sheets: Sequence[Sheet]) -> Iterator[str]:
    from pytest_netperf.record.wording import moment_text, printable

    for sheet in sheets:
        marks = [word for word, true in (("SIMULATED", sheet.simulated), ("INCOMPLETE", not sheet.complete)) if true]
        words = (
            printable(sheet.device.serial),
            sheet.verdict.value,
            *marks,
            moment_text(sheet.started_at),
            f"batch {sheet.device.batch or '-'}",
            sheet.station.name or "-",
            sheet.run_id,
        )
        yield "   ".join(words)
        yield f"  {printable(sheet.sentence)}"


def _trend_lines(points: Sequence[TrendPoint]) -> Iterator[str]:
    from pytest_netperf.record.wording import moment_text, printable, value_text

    if len({point.unit for point in points}) > 1:
        units = ", ".join(sorted({point.unit for point in points}))
        raise ConfigError(f"this part of an id fits rows of several units ({units}): name more of it")
    for point in points:
        value = value_text(point.value, point.unit)
        mark = "   SIMULATED" if point.simulated else ""
        yield (
            f"{moment_text(point.started_at)}   {value:>14}   {point.verdict:<12}   {point.limit or '-'}   "
            f"{printable(point.label)}{mark}"
        )
