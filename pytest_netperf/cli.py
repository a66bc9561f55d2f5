"""The console command: everything that is done with records and files after, or without, a pytest run."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NoReturn

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


@dataclass(frozen=True)
class _Command:
    """A word of the command line."""

    name: str
    help: str
    good: str
    """When it ends with 0."""
    bad: str
    """When it ends with 1; "" when it never does."""
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    """Each mistake is one line that says where the words are explained."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0 good, 1 the content is not, 2 wrong use."""
    parser = _Parser(
        prog="pytest-netperf",
        description="What is done with benches, records and sheets before, after or without a pytest run.",
        epilog="`pytest-netperf COMMAND --help` explains a command and its exit codes.",
    )
    parser.add_argument("--version", action="version", version=f"pytest-netperf {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        bad = f"1 {command.bad}; " if command.bad else ""
        words = commands.add_parser(
            command.name,
            help=command.help,
            description=f"{command.help[0].upper()}{command.help[1:]}.",
            epilog=f"Exit code: 0 {command.good}; {bad}2 wrong use, or something cannot be read.",
        )
        command.add_arguments(words)
        words.set_defaults(run=command.run)
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given:
        parser.print_help()
        return 2
    if not given[0].startswith("-") and given[0] not in commands.choices:
        near = get_close_matches(given[0], commands.choices, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(commands.choices)}"
        parser.error(f"there is no command {given[0]!r}: {meant}")
    asked = parser.parse_args(given)
    try:
        return int(asked.run(asked))
    except NetperfError as error:
        print(f"pytest-netperf: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # who read the output has seen enough; nothing more may be written into it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _sheet_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("journal", type=Path, metavar="JOURNAL", help="OUTPUT/journals/<run id>.jsonl")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where to write; default: the journal's own OUTPUT")
    parser.add_argument("--waivers", type=Path, metavar="FILE", help="waivers that were granted after the run (TOML)")
    parser.add_argument("--format", default="html", metavar="LIST", help="of html, pdf, csv, json; default: html")
    parser.add_argument("--language", default="en", metavar="TAG", help="language of the sheet; default: en")
    parser.add_argument("--templates", type=Path, metavar="DIR", help="folder with templates and texts of your own")
    parser.add_argument("--logo", type=Path, metavar="FILE", help="image at the head of the sheet")


def _sheet(asked: argparse.Namespace) -> int:
    from pytest_netperf.judge.verdict import DeviceVerdict
    from pytest_netperf.record.closing import close_run
    from pytest_netperf.record.evidence_store import attached_files, take_along
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
        take_along((*sheet.files, *attached_files(sheet.rows).values()), journal.resolve().parent.parent, folder)
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


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="JSON, json-stream or text output of iperf3"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of text")


def _import(asked: argparse.Namespace) -> int:
    from pytest_netperf.traffic.import_report import import_files

    text, code = import_files(asked.files, asked.json)
    print(text)
    return code


def _clean_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def _clean(asked: argparse.Namespace) -> int:
    dry_run = asked.dry_run
    from pytest_netperf.device_states import rescue_devices
    from pytest_netperf.links.cpu_group import left_groups
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
    groups = left_groups()
    for group in groups:
        print(f"{'would remove' if dry_run else 'removing'} control group {group}")
        if not dry_run:
            with contextlib.suppress(OSError):  # another run did it meanwhile
                group.rmdir()
    if not names and not rescued and not devices and not groups:
        print("nothing to remove")
    return 1 if any(port.problems for port in rescued) or any(wrong for _, wrong in devices) else 0


_COMMANDS: Final = (
    _Command(
        "sheet",
        "make the sheets of a run again from its journal, also of a killed run",
        "every device is ACCEPTED",
        "not every device is, or there was nothing to write",
        _sheet_arguments,
        _sheet,
    ),
    _Command(
        "sign",
        "sign PDF sheets, each into a new file",
        "every sheet is signed",
        "",
        sign_cli.add_arguments,
        sign_cli.run,
    ),
    _Command(
        "export",
        "write sheets in the forms that other tools read",
        "every sheet is written, whatever it says",
        "",
        export_cli.add_arguments,
        export_cli.run,
    ),
    _Command(
        "verify",
        "say what the files of a sheet prove, and what not",
        "everything that the sheets name is here and agrees",
        "something is broken or missing",
        verify_cli.add_arguments,
        verify_cli.run,
    ),
    _Command(
        "import",
        "say what iperf3 outputs contain, and whether they can be trusted",
        "every file can be trusted",
        "one cannot",
        _import_arguments,
        _import,
    ),
    _Command(
        "judge",
        "judge recorded series, or the rows of a journal, again without traffic",
        "every series, or every required row of a complete journal, is PASS",
        "one is not, or a row is missing",
        series_cli.add_arguments,
        series_cli.run,
    ),
    _Command(
        "batch",
        "make one page over the sheets of a batch",
        "the page holds everything that was there",
        "something could not be read",
        batch_cli.add_arguments,
        batch_cli.run,
    ),
    _Command(
        "store",
        "fill a database with journals, and ask it",
        "done",
        "something of it could not be done",
        store_cli.add_arguments,
        store_cli.run,
    ),
    _Command(
        "selftest",
        "make every fault on simulated links, and see that none passes",
        "every case came out as it must",
        "one did not",
        selftest_cli.add_arguments,
        selftest_cli.run,
    ),
    _Command(
        "new",
        "make a folder with a small suite that passes as it is",
        "the folder is made",
        "",
        new_cli.add_arguments,
        new_cli.run,
    ),
    _Command(
        "doctor",
        "look at every precondition of a run on this machine, and say what to do",
        "there is no problem",
        "there is one",
        doctor_cli.add_arguments,
        doctor_cli.run,
    ),
    _Command(
        "bench",
        "hold a bench file against this machine, or write one of what it has",
        "nothing is wrong",
        "something is",
        bench_cli.add_arguments,
        bench_cli.run,
    ),
    _Command(
        "baseline",
        "make baselines of a golden device's sheet, or list those that are known",
        "done",
        "there is nothing to record or to list",
        baseline_cli.add_arguments,
        baseline_cli.run,
    ),
    _Command(
        "clean",
        "bring home ports and put back devices that killed runs left, remove what --netperf-keep kept",
        "done, or nothing was left",
        "a port or a device is not as it was",
        _clean_arguments,
        _clean,
    ),
)


if __name__ == "__main__":
    sys.exit(main())
