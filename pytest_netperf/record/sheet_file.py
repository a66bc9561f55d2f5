"""sheet.json: its bytes, its digest, and reading it back in every version that was ever written."""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pytest_netperf.errors import RecordError
from pytest_netperf.record.canonical import clean_row, encode, sha256
from pytest_netperf.record.migrate import upgrade_sheet
from pytest_netperf.record.schema import SCHEMA_VERSION, Sheet

__all__ = ["digest_of", "folder_name", "major_version", "parse_sheet", "read_sheet", "sealed", "sheet_bytes"]

_MAJOR = int(SCHEMA_VERSION.split(".")[0])
_DIGEST = "digest"
_known: weakref.WeakValueDictionary[str, Sheet] = weakref.WeakValueDictionary()
"""Digest -> the sheet that was sealed with it: canonical JSON takes longer than everything else of a sheet.json."""
_OWN_FOLDERS = ("evidence", "journals")
_NAME_BYTES = 200  # file systems take 255; room for suffixes


def folder_name(text: str) -> str:
    """A serial or run id as the name of one folder.

    A text that had to be changed, or is the name of a folder of ours, gets a digest: two serials never share one.
    """
    name = re.sub(r"[^\w.+@=,-]", "_", text).lstrip(".")
    while len(name.encode("utf-8", "replace")) > _NAME_BYTES:
        name = name[:-1]
    return (
        name
        if name and name == text and name not in _OWN_FOLDERS
        else f"{name}-{sha256(text.encode('utf-8', 'replace'))[:8]}".lstrip("-")
    )


def sealed(sheet: Sheet) -> Sheet:
    """The sheet without numbers that are none, and with its digest; a sealed one comes back as it is."""
    if sheet.digest is not None and _known.get(sheet.digest) is sheet:
        return sheet
    clean = msgspec.structs.replace(sheet, rows=tuple(map(clean_row, sheet.rows)), digest=None)
    done = msgspec.structs.replace(clean, digest=digest_of(msgspec.json.decode(encode(clean))))
    assert done.digest is not None
    _known[done.digest] = done
    return done


def sheet_bytes(sheet: Sheet) -> bytes:
    """A sealed sheet as the bytes of its file."""
    return msgspec.json.format(encode(sheet), indent=2) + b"\n"


def digest_of(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON (RFC 8785) of a decoded sheet, its own digest left out.

    The numbers of canonical JSON are IEEE 754 doubles: an integer beyond 2^53 counts as the double next to it.
    """
    import rfc8785

    plain = {key: value for key, value in document.items() if key != _DIGEST}
    try:
        return sha256(rfc8785.dumps(plain))
    except rfc8785.IntegerDomainError:
        return sha256(rfc8785.dumps(_doubles(plain)))


def read_sheet(path: Path) -> Sheet:
    """Read a sheet.json of any version. Raises RecordError when it cannot be read, or is none."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise RecordError(f"{path}: there is no such sheet; they are OUTPUT/<serial>/<run id>/sheet.json") from None
    except OSError as error:
        raise RecordError(f"{path}: cannot read this sheet: {error.strerror or error}") from None
    return parse_sheet(data, path)


def parse_sheet(data: bytes, where: Path | str = "sheet.json") -> Sheet:
    """The sheet in these bytes. Raises RecordError when they are none, or of a newer major version."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"{where}: not a sheet.json of pytest-netperf: {error}") from None
    try:
        major = major_version(document.get("schema_version") if isinstance(document, dict) else None)
        return msgspec.convert(upgrade_sheet(document, major), Sheet)
    except msgspec.ValidationError as error:
        raise RecordError(f"{where}: does not fit the schema of a sheet: {error}") from None
    except ValueError as error:
        raise RecordError(f"{where}: {error}") from None


def major_version(version: object) -> int:
    """The major version of a sheet, from its ``schema_version``. Raises ValueError for one that cannot be read."""
    major = version.split(".")[0] if isinstance(version, str) else ""
    if not (major.isascii() and major.isdigit()) or int(major) < 1:
        raise ValueError('not a sheet.json of pytest-netperf: expected an object with a "schema_version" such as "2.0"')
    if int(major) > _MAJOR:
        raise ValueError(
            f"written in schema version {version}, but this pytest-netperf reads version {_MAJOR} and older; read it "
            "with the pytest-netperf that wrote it, or upgrade this one"
        )
    return int(major)


def _doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_doubles(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        return float(value)
    return value
