"""One line of a journal: how it is written, whether it is as it was written, and what is odd about several. Pure."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from pytest_netperf.errors import RecordError
from pytest_netperf.record.canonical import encode, sha256

__all__ = [
    "JOURNAL_VERSION",
    "JournalLine",
    "Line",
    "cannot",
    "intact_lines",
    "major_of",
    "make_line",
    "odd_chain",
    "odd_clock",
    "parse_line",
]

JOURNAL_VERSION = "2.0"
_MAJOR = int(JOURNAL_VERSION.split(".")[0])
_CLOCK_TOLERANCE_S = 1.0
"""A clock that is kept by NTP is slewed, not set back, for less than this."""


class JournalLine(msgspec.Struct, frozen=True):
    """One line, for those who keep a copy of it elsewhere."""

    n: int
    kind: str
    sha256: str
    """Of the whole line, without its line break; the next line has it as ``prev``."""
    version: int
    """Major version of the journal."""
    body: bytes
    """JSON."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line, as it is in the file."""

    journal: str
    n: int
    kind: str
    at: str | None = None
    prev: str | None = None
    check: str
    body: msgspec.Raw


def cannot(action: str, path: Path, error: OSError, consequence: str = "") -> RecordError:
    """The error of a journal that the operating system does not let us read or write."""
    return RecordError(f"{path}: cannot {action} this journal: {error.strerror or error}{consequence}")


def odd_chain(lines: list[tuple[Line, str]]) -> list[str]:
    """Lines that do not follow the one before them: whole by themselves, but not where they were written."""
    digests: dict[int, set[str]] = {}
    for line, digest in lines:
        digests.setdefault(line.n, set()).add(digest)
    return [
        f"Event {line.n} does not follow event {line.n - 1} as it stands here: one of them was exchanged."
        for line, _ in lines
        if line.prev is not None and line.n - 1 in digests and line.prev not in digests[line.n - 1]
    ]


def odd_clock(lines: list[Line]) -> list[str]:
    """Times that go back from one event to the next."""
    last: tuple[int, datetime] | None = None
    odd = []
    for line in sorted(lines, key=lambda line: line.n):
        try:
            at = datetime.fromisoformat(line.at or "")
        except ValueError:
            continue
        if last is not None and (back_s := (last[1] - at).total_seconds()) > _CLOCK_TOLERANCE_S:
            odd.append(
                f"The clock of the tester was set back by {back_s:.0f} s between events {last[0]} and {line.n}: the "
                "times on this record are not to be trusted. Let the clock settle (NTP), then run again."
            )
        last = line.n, at
    return odd


def intact_lines(path: Path, data: bytes, notes: list[str]) -> tuple[list[tuple[Line, str]], bool]:
    """The lines that are as they were written, once each, with their SHA-256; and whether any was not."""
    intact: dict[tuple[int, str], tuple[Line, str]] = {}
    damaged = False
    texts = data.split(b"\n")
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        try:
            line = msgspec.json.decode(text, type=Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            damaged = True
            if number == len(texts):  # no newline after it
                notes.append(f"The last line ({number}) is half written: the run was killed while writing it.")
            else:
                notes.append(f"Line {number} cannot be read and is left out.")
            continue
        _require_readable(path, line.journal)
        if not _is_as_written(line, text):
            damaged = True
            notes.append(f"Line {number} was altered after it was written and is left out.")
        elif (line.n, line.check) in intact:
            notes.append(f"Line {number} repeats event {line.n} and is counted once.")
        else:
            intact[line.n, line.check] = line, sha256(text)
    if not intact:
        raise RecordError(
            f"{path}: not a journal of pytest-netperf: none of its {len(texts)} line(s) is a whole event; expected "
            'lines such as {"journal": "2.0", "n": 0, "kind": "run", ...}'
        )
    return list(intact.values()), damaged


def major_of(version: str) -> int:
    """The major version of a line whose version is known here."""
    return int(version.split(".")[0])


def _require_readable(path: Path, version: str) -> None:
    major = version.split(".")[0]
    if not (major.isascii() and major.isdigit()) or not 1 <= int(major) <= _MAJOR:
        raise RecordError(
            f"{path}: written in journal version {version!r}, but this pytest-netperf reads versions 1 to {_MAJOR}; "
            "read it with the pytest-netperf that wrote it, or upgrade this one"
        )


def make_line(n: int, kind: str, at: str, prev: str, body: bytes) -> bytes:
    """One line of the journal, with its end."""
    check = _check(JOURNAL_VERSION, n, kind, at, prev, body)
    raw = msgspec.Raw(body)
    return encode(Line(journal=JOURNAL_VERSION, n=n, kind=kind, at=at, prev=prev, check=check, body=raw)) + b"\n"


def parse_line(text: bytes) -> tuple[Line | None, str]:
    """A line that is as it was written; or None, and what is wrong with it."""
    try:
        line = msgspec.json.decode(text, type=Line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, "it cannot be read"
    version = line.journal.split(".")[0]
    if not (version.isascii() and version.isdigit()) or not 1 <= int(version) <= _MAJOR:
        return None, f"its version {line.journal!r} is not known here"
    return (line, "") if _is_as_written(line, text) else (None, "it was changed after it was written")


def _is_as_written(line: Line, text: bytes) -> bool:
    """Whether a line is what a journal wrote, to the byte."""
    body = bytes(line.body)
    if major_of(line.journal) == 1:
        return line.check == sha256(b"%d %s " % (line.n, line.kind.encode()) + body)[:16]
    if line.at is None or line.prev is None or (line.journal == JOURNAL_VERSION and encode(line) != text):
        return False  # a newer minor version may have keys that are unknown here
    return line.check == _check(line.journal, line.n, line.kind, line.at, line.prev, body)


def _check(version: str, n: int, kind: str, at: str, prev: str, body: bytes) -> str:
    return sha256(f"{version} {n} {kind} {at} {prev} ".encode("utf-8", "replace") + body)[:16]
