"""The tester references of this day, on this user's disk: a small file for each in ``~/.local/state/pytest-netperf``.

A file is replaced by a rename, so that a reader finds the old or the new one. Whatever cannot be read or written is a
sentence in `ReferenceStore.problem` and no error: the reference is then measured anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from pytest_netperf.record.canonical import encode, sha256
from pytest_netperf.record.schema import TesterReference

__all__ = ["ReferenceKey", "ReferenceStore", "state_folder"]


_WAY_OUT = "each run measures it anew until XDG_STATE_HOME, or ~/.local/state, is a folder that this user may write"


def state_folder(environment: Mapping[str, str]) -> Path | None:
    """Where programs keep such things (XDG Base Directory Specification); None for a user without a home."""
    state = Path(environment.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():  # a relative one is to be ignored, says the specification
        home = Path(environment.get("HOME", ""))
        if not home.is_absolute():
            return None
        state = home / ".local" / "state"
    return state / "pytest-netperf"


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
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            try:
                partial.write_bytes(encode(_Stored(key=key, reference=reference)))
                partial.replace(path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        except OSError as error:
            self._say(f"it cannot be stored ({path}: {error.strerror}); {_WAY_OUT}")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """While it is held, no other process that uses this folder measures; without a lock where there can be none."""
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # `write` will say what is wrong with the folder
                if self._folder is not None:
                    self._folder.mkdir(parents=True, exist_ok=True)
                    fd = os.open(self._folder / "reference.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                    stack.callback(os.close, fd)
                    fcntl.flock(fd, fcntl.LOCK_EX)
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
