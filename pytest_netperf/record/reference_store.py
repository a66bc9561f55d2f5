"""The tester references of this day, on this user's disk: a small file for each in ``~/.local/state/pytest-netperf``.

A file is replaced by a rename, so that a reader finds the old or the new one. Whatever cannot be read or written is a
sentence in `ReferenceStore.problem` and no error: the reference is then measured anew.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from pytest_netperf.record.canonical import encode, sha256
from pytest_netperf.record.schema import TesterReference
from pytest_netperf.record.state_folder import locked, replace_file

__all__ = ["ReferenceKey", "ReferenceStore"]


_WAY_OUT = "each run measures it anew until XDG_STATE_HOME, or ~/.local/state, is a folder that this user may write"


class ReferenceKey(msgspec.Struct, frozen=True, kw_only=True):
    """What must be the same for a reference to hold, besides the day."""

    host: str
    kernel: str
    cpus: int
    """CPUs that this process may use."""
    software: str
    link: str
    speed_bps: float | None
    mtu: int


class _Stored(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: ReferenceKey
    reference: TesterReference


class ReferenceStore:
    """The references in one folder; None for a user who has no place for them."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.problem: str | None = None
        """The first thing that could not be read or written, as a sentence."""
        if folder is None:
            self._say(f"it cannot be stored, because this user has no home folder; {_WAY_OUT}")

    def read(self, key: ReferenceKey, now: datetime | None = None) -> TesterReference | None:
        """The reference of today (UTC) for this key, marked as stored, or None."""
        if self._folder is None:
            return None
        path = self._path(key)
        try:
            stored = msgspec.json.decode(path.read_bytes(), type=_Stored)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._say(f"the stored one cannot be read ({path}: {error.strerror}); {_WAY_OUT}")
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._say(f"the stored one is broken, and is measured anew ({path}: {error})")
            return None
        measured_at, rate_bps = _moment(stored.reference.measured_at), stored.reference.throughput_bps
        if stored.key != key or measured_at is None or rate_bps is None or not 0 < rate_bps < math.inf:
            self._say(f"the stored one is not what its name says, and is measured anew ({path})")
            return None
        if measured_at.date() != (now or datetime.now(UTC)).astimezone(UTC).date():
            return None
        return msgspec.structs.replace(stored.reference, stored=True)

    def write(self, key: ReferenceKey, reference: TesterReference) -> None:
        """Store a reference in place of an older one."""
        if self._folder is None:
            return
        path = self._path(key)
        try:
            replace_file(path, encode(_Stored(key=key, reference=reference)))
        except OSError as error:
            self._say(f"it cannot be stored ({path}: {error.strerror}); {_WAY_OUT}")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """While it is held, no other process that uses this folder measures; without a lock where there can be none."""
        with locked(self._folder / "reference.lock") if self._folder is not None else contextlib.nullcontext():
            yield

    def _path(self, key: ReferenceKey) -> Path:
        assert self._folder is not None
        return self._folder / f"reference-{sha256(encode(key))[:16]}.json"

    def _say(self, problem: str) -> None:
        self.problem = self.problem or problem


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo is not None else None
