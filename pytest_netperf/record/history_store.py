"""What a station remembers of its repeated measurements: a small file for each kind of them, in the state folder.

Whatever cannot be read or written is a sentence in `HistoryStore.problem` and no error.
"""

from __future__ import annotations

import contextlib
import math
from datetime import datetime
from pathlib import Path

import msgspec

from pytest_netperf.judge.method import BetweenRuns
from pytest_netperf.judge.run_to_run import FEWEST_RUNS, NEWEST, Spread
from pytest_netperf.record.canonical import encode, sha256
from pytest_netperf.record.state_folder import locked, replace_file
from pytest_netperf.traffic.result import Workload

__all__ = ["MOST_KINDS", "HistoryKey", "HistoryStore"]

MOST_KINDS = 500
"""Files in the folder; the one that was not written for the longest time makes room."""
_WAY_OUT = (
    "the spread from run to run is not remembered until XDG_STATE_HOME, or ~/.local/state, is a folder that this user "
    "may write; --netperf-history off does without"
)


class HistoryKey(msgspec.Struct, frozen=True, kw_only=True):
    """What measurements must have in common for the spread of one to speak of the other."""

    host: str
    kernel: str
    cpus: int
    """CPUs that this process may use."""
    software: str
    """What makes the traffic, with its version."""
    slots: int
    """Measurements that may run at the same time."""
    device: str
    """Model of the device; the serial number of one that has none."""
    link: str
    topology: str
    speed_bps: float | None
    """None: nothing but the tester limits it."""
    media: str | None
    simulated: bool
    fault: str | None
    mtu: int
    workload: Workload
    """All that the traffic was asked for, its length too."""
    between_runs: BetweenRuns
    device_state: str | None = None
    port_settings: dict[str, str] = {}
    """Those that the test asked for, in words."""

    @property
    def name(self) -> str:
        """Short, for the file and the row."""
        return sha256(encode(self))[:16]


class _Stored(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: HistoryKey
    spreads: tuple[Spread, ...]


class HistoryStore:
    """The history in one folder; None for a user who has no place for it."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.problem: str | None = None
        """The first thing that could not be read or written, as a sentence."""

    def read(self, key: HistoryKey) -> tuple[Spread, ...]:
        """What is remembered, the oldest first; nothing when nothing is."""
        return () if self._folder is None else self._read(self._folder / _file(key), key)

    def add(self, key: HistoryKey, spread: Spread) -> None:
        """Remember one more measurement; of the others the newest."""
        if self._folder is None:
            self._say(f"this user has no home folder; {_WAY_OUT}")
            return
        path = self._folder / _file(key)
        with locked(self._folder / "history.lock"):
            spreads = (*self._read(path, key), spread)[-NEWEST:]
            try:
                if not path.exists():
                    self._make_room()
                replace_file(path, encode(_Stored(key=key, spreads=spreads)))
            except OSError as error:
                self._say(f"it cannot be written ({path}: {error.strerror}); {_WAY_OUT}")

    def _read(self, path: Path, key: HistoryKey) -> tuple[Spread, ...]:
        try:
            stored = msgspec.json.decode(path.read_bytes(), type=_Stored)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            self._say(f"it cannot be read ({path}: {error.strerror}); {_WAY_OUT}")
            return ()
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._say(f"a file is broken, and begins anew with the next repeated measurement ({path}: {error})")
            return ()
        if stored.key != key or not all(map(_is_possible, stored.spreads)):
            self._say(f"a file is not what its name says, and begins anew with the next repeated measurement ({path})")
            return ()
        return stored.spreads

    def _make_room(self) -> None:
        assert self._folder is not None
        files = sorted(self._folder.glob("history-*.json"), key=_written_at)
        for old in files[: max(0, len(files) - MOST_KINDS + 1)]:
            old.unlink(missing_ok=True)

    def _say(self, problem: str) -> None:
        self.problem = self.problem or problem


def _file(key: HistoryKey) -> str:
    return f"history-{key.name}.json"


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return -math.inf


def _is_possible(spread: Spread) -> bool:
    with contextlib.suppress(ValueError):
        datetime.fromisoformat(spread.measured_at)
        return 0 <= spread.relative_sd < math.inf and spread.runs >= FEWEST_RUNS
    return False
