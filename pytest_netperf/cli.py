"""The console command: everything that is done with records and files after, or without, a pytest run."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_netperf import (
    __version__,
    baseline_cli,
    batch_cli,
    bench_cli,
    doctor_cli,
    export_cli,
    new_cli,
    selftest_cli,
    series_cli,
    sign_cli,
    store_cli,
    verify_cli,
)
from pytest_netperf.errors import NetperfError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0 good, 1 the content is not, 2 wrong use."""
    parser = argparse.ArgumentParser(
        prog="pytest-netperf", description="Acceptance sheets and iperf3 outputs, after the run."
    )
    parser.add_argument("--version", action="version", version=f"pytest-netperf {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    sheet = commands.add_parser("sheet", help="make the sheets of a run again from its journal, also of a killed run")
    sheet.add_argument("journal", type=Path, metavar="JOURNAL", help="OUTPUT/journals/<run id>.jsonl")
    sheet.add_argument("--output", type=Path, metavar="DIR", help="where to write; default: the journal's own OUTPUT")
    sheet.add_argument("--waivers", type=Path, metavar="FILE", help="waivers that were granted after the run (TOML)")

    sheet.add_argument("--format", default="html", metavar="LIST", help="of html, pdf, csv, json; default: html")
    sheet.add_argument("--language", default="en", metavar="TAG", help="language of the sheet; default: en")
    sheet.add_argument("--templates", type=Path, metavar="DIR", help="folder with templates and texts of your own")
    sheet.add_argument("--logo", type=Path, metavar="FILE", help="image at the head of the sheet")

    sign_cli.add_arguments(commands.add_parser("sign", help="sign PDF sheets, each into a new file"))

    export_cli.add_arguments(commands.add_parser("export", help="write sheets in the forms that other tools read"))

    verify_cli.add_arguments(commands.add_parser("verify", help="say what the files of a sheet prove, and what not"))

    reader = commands.add_parser("import", help="say what iperf3 outputs contain, and whether they can be trusted")
    reader.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="JSON, json-stream or text output of iperf3"
    )
    reader.add_argument("--json", action="store_true", help="print a JSON list instead of text")

    series_cli.add_arguments(
        commands.add_parser("judge", help="judge recorded series, or the rows of a journal, again without traffic")
    )

    batch_cli.add_arguments(commands.add_parser("batch", help="make one page over the sheets of a batch"))

    store_cli.add_arguments(commands.add_parser("store", help="fill a database with journals, and ask it"))

    selftest_cli.add_arguments(
        commands.add_parser("selftest", help="make every fault on simulated links, and see that none passes")
    )

    new_cli.add_arguments(commands.add_parser("new", help="make a folder with a small suite that passes as it is"))

    doctor_cli.add_arguments(
        commands.add_parser("doctor", help="look at every precondition of a run on this machine, and say what to do")
    )

    bench_cli.add_arguments(
        commands.add_parser("bench", help="hold a bench file against this machine, or write one of what it has")
    )

    baseline_cli.add_arguments(
        commands.add_parser("baseline", help="make baselines of a golden device's sheet, or list those that are known")
    )

    clean = commands.add_parser(
        "clean", help="bring home ports and put back devices that killed runs left, remove what --netperf-keep kept"
    )
    clean.add_argument("--dry-run", action="store_true", help="only say what would be removed")

    asked = parser.parse_args(arguments)
    try:
        if asked.command == "sheet":
            return _sheet(asked)
        if asked.command == "sign":
            return sign_cli.run(asked)
        if asked.command == "export":
            return export_cli.run(asked)
        if asked.command == "verify":
            return verify_cli.run(asked)
        if asked.command == "import":
            return _import(asked.files, asked.json)
        if asked.command == "judge":
            return series_cli.run(asked)
        if asked.command == "batch":
            return batch_cli.run(asked)
        if asked.command == "store":
            return store_cli.run(asked)
        if asked.command == "selftest":
            return selftest_cli.run(asked)
        if asked.command == "new":
            return new_cli.run(asked)
        if asked.command == "doctor":
            return doctor_cli.run(asked)
        if asked.command == "bench":
            return bench_cli.run(asked)
        if asked.command == "baseline":
            return baseline_cli.run(asked)
        return _clean(asked.dry_run)
    except NetperfError as error:
        print(f"pytest-netperf: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # who read the output has seen enough; nothing more may be written into it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _sheet(asked: argparse.Namespace) -> int:
    from pytest_netperf.judge.verdict import DeviceVerdict
    from pytest_netperf.record.closing import close_run
    from pytest_netperf.record.journal_reader import read_journal
    from pytest_netperf.report.form import SheetForm, check_form, read_formats
    from pytest_netperf.report.sheet import write_sheet
    from pytest_netperf.report.terminal import device_lines

    journal, formats = asked.journal, read_formats(asked.format)
    form = SheetForm(formats=formats, language=asked.language, templates=asked.templates, logo=asked.logo)
    check_form(form)
    contents = read_journal(journal)
    for note in contents.notes:
        print(f"note: {note}", file=sys.stderr)
    folder = asked.output if asked.output is not None else journal.resolve().parent.parent
    sheets = close_run(contents, folder, **_waivers(asked.waivers, folder))
    problems: list[str] = []
    for sheet in sheets:
        paths = write_sheet(sheet, folder, form=form)
        problems += paths.problems
        for line, _ in device_lines(sheet, str(paths.main)):
            print(line)
    if not sheets:
        print("the journal holds no planned row and no measured one: there is nothing to write", file=sys.stderr)
    for problem in problems:
        print(f"ERROR: {problem}", file=sys.stderr)
    return 0 if sheets and not problems and all(sheet.verdict is DeviceVerdict.ACCEPTED for sheet in sheets) else 1


def _waivers(path: Path | None, output: Path) -> dict[str, Any]:
    """Waivers that were granted after the run, as of today."""
    if path is None:
        return {}
    from datetime import UTC, datetime

    from pytest_netperf.record.evidence_store import keep_file
    from pytest_netperf.record.waivers_file import read_waivers

    waivers, kept = read_waivers(path), keep_file(output, "waivers file", path)
    return {"waivers": waivers, "day": f"{datetime.now(UTC):%Y-%m-%d}", "files": [kept] if kept is not None else []}


def _import(files: list[Path], as_json: bool) -> int:
    from pytest_netperf.traffic.import_report import import_files

    text, code = import_files(files, as_json)
    print(text)
    return code


def _clean(dry_run: bool) -> int:
    from pytest_netperf.device_states import rescue_devices
    from pytest_netperf.links.leftovers import kept_namespaces, remove_namespace
    from pytest_netperf.links.port_rescue import rescue_left_ports

    rescued = rescue_left_ports(dry_run=dry_run)  # first: a port may be in one of those namespaces
    for port in rescued:
        print(f"{'would bring home ' if dry_run else ''}{port.text}", file=sys.stderr if port.problems else sys.stdout)
    devices = rescue_devices(dry_run=dry_run)
    for text, wrong in devices:
        print(text, file=sys.stderr if wrong else sys.stdout)
    names = kept_namespaces()
    for name in names:
        print(f"{'would remove' if dry_run else 'removing'} namespace {name}")
        if not dry_run:
            remove_namespace(name)
    if not names and not rescued and not devices:
        print("nothing to remove")
    return 1 if any(port.problems for port in rescued) or any(wrong for _, wrong in devices) else 0


if __name__ == "__main__":
    sys.exit(main())
