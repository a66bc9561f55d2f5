"""Copies of the files that a result rests on, in ``OUTPUT/evidence/<SHA-256>/<name>``: each content once, for ever."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec

from pytest_netperf.record.canonical import sha256
from pytest_netperf.record.schema import EvidenceFile, Row

__all__ = ["FOLDER", "attached_files", "keep_data", "keep_file", "take_along"]

FOLDER = "evidence"


def keep_file(output: Path, what: str, path: Path) -> EvidenceFile | None:
    """Copy a file below the output folder and say what it was; None when it cannot be read.

    A copy that cannot be written is no error: the digest is on the sheet all the same.
    """
    try:
        data = Path(path).read_bytes()
    except OSError:
        return None
    return msgspec.structs.replace(keep_data(output, what, Path(path).name, data), name=str(path))


def keep_data(output: Path, what: str, name: str, data: bytes) -> EvidenceFile:
    """The same of what is in memory; ``name`` is that of a file, without folders."""
    digest = sha256(data)
    place = f"{FOLDER}/{digest}/{name}"
    return EvidenceFile(
        what=what,
        name=name,
        sha256=digest,
        bytes=len(data),
        copy=place if _written(Path(output) / place, data) else None,
    )


def attached_files(rows: Iterable[Row]) -> dict[str, EvidenceFile]:
    """Name beside the sheet -> file, of what tests attached, each content under each of its names once."""
    found: dict[str, EvidenceFile] = {}
    for row in rows:
        for evidence in (row.evidence, *(attempt.evidence for attempt in row.attempts)):
            for file in evidence.files:
                found[f"attached-{file.sha256[:8]}-{file.name}"] = file
    return found


def take_along(files: Iterable[EvidenceFile], output: Path, other: Path) -> None:
    """Copy the kept copies of these files to another output folder, as far as they can be read and written."""
    for file in files:
        with contextlib.suppress(OSError):
            if file.copy is not None:
                _written(Path(other) / file.copy, (Path(output) / file.copy).read_bytes())


def _written(target: Path, data: bytes) -> bool:
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        if target.exists():
            return target.read_bytes() == data
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError:
        return False
    return True
