"""``pytest-netperf verify``: what the files of a sheet prove, and what they do not."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_netperf.errors import RecordError

if TYPE_CHECKING:
    from pytest_netperf.record.verify import Finding

__all__ = ["add_arguments", "run"]

_WORDS = {"proven": "proven", "broken": "BROKEN", "missing": "MISSING", "open": "not proven"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "sheets", nargs="+", type=Path, metavar="SHEET", help="sheet.json, a file beside it, its folder, or an OUTPUT"
    )
    parser.add_argument(
        "--trust",
        action="append",
        default=[],
        type=Path,
        metavar="CERT",
        help="certificate (PEM or DER) that a signature has to lead to; may be given several times",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of text")


def run(asked: argparse.Namespace) -> int:
    """Look at each sheet; 0 when everything that it takes is here and agrees, 1 when not."""
    import json

    from pytest_netperf.record.verify import Verifier

    verifier = Verifier()
    results = []
    sheets = dict.fromkeys(sheet for given in asked.sheets for sheet in _sheets(given))
    for path in sorted(sheets, key=lambda path: path.parent.name):  # those of one run after each other
        findings = [*verifier.verify(path), *_signatures(path.parent, asked.trust)]
        good = not any(finding.result in ("broken", "missing") for finding in findings)
        results.append((path, good, findings))
    if asked.json:
        document = [
            {
                "sheet": str(path),
                "good": good,
                "findings": [{"result": finding.result, "text": finding.text} for finding in findings],
            }
            for path, good, findings in results
        ]
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for path, good, findings in results:
            print(f"{path}: {'everything agrees' if good else 'NOT VERIFIED'}")
            for finding in findings:
                print(f"  {_WORDS[finding.result]:<10}  {finding.text}")
    return 0 if all(good for _, good, _ in results) else 1


def _sheets(given: Path) -> list[Path]:
    """The sheet.json that a path means. Raises RecordError when it means none."""
    if given.is_dir():
        if (given / "sheet.json").is_file():
            return [given / "sheet.json"]
        found = sorted(given.glob("*/*/sheet.json")) or sorted(given.glob("*/sheet.json"))
        if not found:
            raise RecordError(
                f"{given}: there is no sheet.json in this folder, nor in OUTPUT/<serial>/<run id>/ below it"
            )
        return found
    if not given.exists():
        raise RecordError(f"{given}: there is no such file; sheets are OUTPUT/<serial>/<run id>/sheet.json")
    sheet = given if given.suffix == ".json" else given.parent / "sheet.json"
    if not sheet.is_file():
        raise RecordError(f"{given}: there is no sheet.json beside it, which is the record; give a folder with one")
    return [sheet]


def _signatures(folder: Path, trusted: Sequence[Path]) -> Iterator[Finding]:
    """The signed PDF sheets of the folder."""
    from pytest_netperf.errors import ConfigError
    from pytest_netperf.record.verify import Finding
    from pytest_netperf.report.signature import check_signatures

    signed = sorted(folder.glob("*.signed.pdf"))
    if not signed:
        yield Finding("open", "nobody signed it: who can write all of its files can make all digests anew")
    for path in signed:
        original = folder / f"{path.name.removesuffix('.signed.pdf')}.pdf"
        try:
            data = path.read_bytes()
            signatures = check_signatures(data, trusted)
        except ConfigError as error:
            if trusted:
                raise
            yield Finding("missing", f"{path.name}: {error}")
            continue
        except (RecordError, OSError) as error:
            yield Finding("broken", f"{path.name}: {error}")
            continue
        if not signatures:
            yield Finding("broken", f"{path.name} has no signature")
        for signature in signatures:
            good = "proven" if signature.trusted else "open"
            yield Finding(good if signature.good else "broken", f"{path.name}: {signature.text}")  # type: ignore[arg-type]
        if not original.is_file():
            yield Finding("open", f"{original.name} is not here, so nothing shows that {path.name} is that sheet")
        elif not data.startswith(original.read_bytes()):
            yield Finding("broken", f"{path.name} is not {original.name} with a signature behind it")
        else:
            yield Finding("proven", f"{path.name} is {original.name} with a signature behind it")
