"""What a device was told and has to be told again to be as before, on disk before it is told; and whose turn it is.

Two files for each device in a folder that survives the run: ``SERIAL.lock``, which one process at a time holds, and
``SERIAL.json``, which is there as long as the device may be in another state. Whoever finds one that nobody holds puts
that device back (`remote.device_driver.rescue`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pytest_netperf.bench.ssh_target import SshTarget
from pytest_netperf.bench.state_commands import StateCommands
from pytest_netperf.errors import LinkError

__all__ = ["DeviceClaim", "DeviceJournal"]

_VERSION: Final = 1
_UNSAFE: Final = re.compile(r"[^0-9A-Za-z.\-]")


class DeviceClaim:
    """The right to change one device, until it is closed or this process ends. Raises LinkError when another has it."""

    def __init__(self, folder: Path, serial: str) -> None:
        self.serial = serial
        path = folder / f"{_UNSAFE.sub('+', serial)}.lock"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LinkError(
                f"the states of device {serial} cannot be remembered at {path}: {error.strerror}; NETPERF_STATE names "
                "another folder"
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _decoded(os.pread(self._fd, 1 << 16, 0))
            os.close(self._fd)
            raise LinkError(
                f"the state of device {serial} is in the hands of process {holder.get('pid', 'unknown')} since "
                f"{holder.get('since', 'a moment ago')}: another run measures it; wait for its end, or stop it"
            ) from None
        holder = {"pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps(holder).encode(), 0)

    def close(self) -> None:
        """Give it up. Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class DeviceJournal:
    """What there is to undo on one device. ``parts`` are in the order in which they are entered."""

    def __init__(self, folder: Path, serial: str) -> None:
        self.serial = serial
        self.path = folder / f"{_UNSAFE.sub('+', serial)}.json"
        self.state = ""
        self.target: SshTarget | None = None
        self.parts: dict[str, StateCommands] = {}

    def begin(self, target: SshTarget, state: str, parts: Mapping[str, StateCommands]) -> None:
        """Write down what will have to be undone, before anything is done. Raises LinkError."""
        self.target, self.state, self.parts = target, state, dict(parts)
        text = json.dumps(
            {
                "version": _VERSION,
                "serial": self.serial,
                "state": state,
                "target": asdict(target),
                "parts": {part: asdict(commands) for part, commands in parts.items()},
            }
        )
        partial = self.path.with_suffix(".partial")
        try:
            with partial.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise LinkError(
                f"the state of device {self.serial} cannot be written to {self.path}: {error.strerror}; the device "
                "stays as it is"
            ) from None

    def read(self) -> bool:
        """Take over what an earlier run has left to be undone. Returns whether there is something. Raises LinkError."""
        try:
            found = _decoded(self.path.read_bytes())
        except FileNotFoundError:
            return False
        except OSError as error:
            raise LinkError(f"cannot read {self.path}: {error.strerror}") from None
        try:
            assert found["version"] == _VERSION
            self.target, self.state = SshTarget(**found["target"]), str(found["state"])
            self.parts = {
                part: StateCommands(**{**each, "enter": tuple(each["enter"]), "undo": tuple(each["undo"])})
                for part, each in found["parts"].items()
            }
        except (AssertionError, KeyError, TypeError, AttributeError):
            raise LinkError(
                f"{self.path} is no account of a device's state that this version can read; look at it, see to the "
                "device, remove it"
            ) from None
        return True

    def end(self) -> None:
        """The device is as it was: nothing is to be remembered."""
        self.path.unlink(missing_ok=True)
        self.state, self.parts = "", {}

    @staticmethod
    def left_in(folder: Path) -> Iterator[str]:
        """Serial numbers of all devices that may be in another state, whoever holds them."""
        for path in sorted(folder.glob("*.json")):
            with contextlib.suppress(OSError):
                yield str(_decoded(path.read_bytes()).get("serial", path.stem))


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
