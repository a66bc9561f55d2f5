"""Records to bytes and digests, so that no row is lost for the sake of one odd value in it. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from pytest_netperf.record.schema import Row

__all__ = ["clean_row", "encode", "sha256"]


def _as_text(value: object) -> str:
    return str(value)


_encoder = msgspec.json.Encoder(enc_hook=_as_text)


def encode(record: object) -> bytes:
    """The record as one line of JSON in UTF-8.

    NaN and infinity become null, because JSON has no such numbers. A value JSON has no type for becomes its text, and
    a lone surrogate (undecodable tool output) becomes U+FFFD: evidence may be odd, but it must not cost us the row.
    """
    try:
        return _encoder.encode(record)
    except (UnicodeEncodeError, TypeError):
        return _encoder.encode(_plain(record))


def sha256(data: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def clean_row(row: Row) -> Row:
    """The row without numbers that are none: NaN and infinity become None, and leave the series."""
    numbers = ((field, getattr(row, field)) for field in row.__struct_fields__)
    changes: dict[str, Any] = {
        field: None for field, number in numbers if isinstance(number, float) and not math.isfinite(number)
    }
    series = row.evidence.series
    finite = tuple(p for p in series if all(map(math.isfinite, (p.start_s, p.seconds, p.throughput_bps))))
    if len(finite) != len(series):
        changes["evidence"] = msgspec.structs.replace(row.evidence, series=finite)
    return msgspec.structs.replace(row, **changes) if changes else row


def _plain(value: Any) -> Any:
    """The same value in types that every JSON reader takes."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8") if not value.isascii() else value
    if isinstance(value, msgspec.Struct):
        # A struct keeps its own rules (which defaults are left out); only its leaves are cleaned.
        return type(value)(**{name: _plain(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, Mapping):
        return {_plain(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value
