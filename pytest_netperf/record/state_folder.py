"""What a user's programs leave for their next run: the folder, files that are replaced as a whole, and a lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["locked", "replace_file", "state_folder"]


def state_folder(environment: Mapping[str, str]) -> Path | None:
    """Where programs keep such things (XDG Base Directory Specification); None for a user without a home."""
    state = Path(environment.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():  # a relative one is to be ignored, says the specification
        home = Path(environment.get("HOME", ""))
        if not home.is_absolute():
            return None
        state = home / ".local" / "state"
    return state / "pytest-netperf"


def replace_file(path: Path, data: bytes) -> None:
    """Write a file in place of an older one, so that a reader finds the old or the new one. Raises OSError."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """While it is held, no other process holds this file or folder; without a lock where there can be none."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # who writes beside it will hear what is wrong with the folder
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
            fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
            stack.callback(os.close, fd)
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
