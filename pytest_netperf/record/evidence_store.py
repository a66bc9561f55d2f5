"""Copies of the files that a result rests on, in ``OUTPUT/evidence/<SHA-256>/<name>``: each content once, for ever."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from pytest_netperf.record.canonical import sha256
from pytest_netperf.record.schema import EvidenceFile

__all__ = ["FOLDER", "keep_file", "take_along"]

FOLDER = "evidence"


def keep_file(output: Path, what: str, path: Path) -> EvidenceFile | None:
    """Copy a file below the output folder and say what it was; None when it cannot be read.

    A copy that cannot be written is no error: the digest is on the sheet all the same.
    """
    try:
        data = Path(path).read_bytes()
    except OSError:
        return None
    digest = sha256(data)
    name = f"{FOLDER}/{digest}/{Path(path).name}"
    return EvidenceFile(
        what=what,
        name=str(path),
        sha256=digest,
        bytes=len(data),
        copy=name if _written(Path(output) / name, data) else None,
    )


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
