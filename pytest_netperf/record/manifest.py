"""The digests of the files of a sheet: for the journal, and for whoever verifies them later."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pytest_netperf.record.canonical import sha256
from pytest_netperf.record.journal_event import WrittenFile

__all__ = ["SUMS", "written_files"]

SUMS: Final = "SHA256SUMS"
"""Name of the file beside a sheet with the SHA-256 of its files, as ``sha256sum --check`` reads it."""


def written_files(paths: Iterable[Path], output: Path) -> tuple[WrittenFile, ...]:
    """These files, and all that stand in the folder of a sheet.json among them, each with its SHA-256.

    One that cannot be read is left out: it is then not covered by the journal.
    """
    found: dict[Path, None] = {}
    for path in paths:
        folder = path.parent
        beside = sorted(folder.iterdir()) if (folder / "sheet.json").is_file() else [path]
        found.update(dict.fromkeys(file for file in beside if file.is_file()))
    files = []
    for path in found:
        try:
            data = path.read_bytes()
        except OSError:
            continue
        files.append(WrittenFile(name=_name(path, output), sha256=sha256(data), bytes=len(data)))
    return tuple(files)


def _name(path: Path, output: Path) -> str:
    try:
        return path.resolve().relative_to(output.resolve()).as_posix()
    except ValueError:
        return str(path)
