"""What a port was before this program touched it, on disk before each change, until it is so again.

Two files for each port in the state folder: ``ID.lock``, which one process at a time holds, and ``ID.journal``, which
is there as long as the port may not be as it was. Its first line is the state before, each further one says what is
about to be done. Whoever finds a journal that nobody holds brings that port home (`links.port_rescue`).

A lock is the kernel's and ends with its process, however it ends. It lies beside the journal, on disk and not in a
network namespace, so that it holds for whoever could read the journal.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pytest_netperf.errors import LinkError

__all__ = ["PortClaim", "PortHeldError", "PortJournal", "boot_id", "holder_of", "journals", "ports_folder"]

_STATE: Final = "/var/lib/pytest-netperf"
_VERSION: Final = 1
_UNSAFE: Final = re.compile(r"[^0-9A-Za-z:.\-]")


class PortHeldError(LinkError):
    """Another process holds this port; ``holder`` is what it wrote of itself."""

    def __init__(self, port_id: str, holder: Mapping[str, Any]) -> None:
        self.holder = dict(holder)
        who = (
            f"process {holder['pid']} ({holder.get('command', 'unknown')})"
            if holder.get("pid")
            else "a process that has just begun"
        )
        since = f" since {holder['since']}" if holder.get("since") else ""
        super().__init__(
            f"port {port_id} is held by {who}{since}: another run uses it; wait for its end, or stop that process"
        )


def ports_folder() -> Path:
    """Where claims and journals are: below NETPERF_STATE, or of the whole machine. Raises LinkError."""
    folder = Path(os.environ.get("NETPERF_STATE") or _STATE)
    if not folder.is_absolute():
        raise LinkError(f"NETPERF_STATE={folder}: not an absolute path; the next run must find what is written there")
    return folder / "ports"


def boot_id() -> str:
    """What is another one after each start of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class PortClaim:
    """The right to one port, until it is closed or this process ends. Raises PortHeldError, or LinkError."""

    def __init__(self, port_id: str, holder: Mapping[str, Any]) -> None:
        self.port_id = port_id
        folder = ports_folder()
        path = folder / f"{_file_name(port_id)}.lock"
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LinkError(
                f"cannot claim port {port_id} at {path}: {error.strerror}; physical ports need root, and a folder that "
                "survives (NETPERF_STATE says another one)"
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            there = os.pread(self._fd, 1 << 16, 0)
            os.close(self._fd)
            raise PortHeldError(port_id, _decoded(there)) from None
        since = datetime.now(UTC).isoformat(timespec="seconds")
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps({**holder, "since": since}).encode(), 0)

    def close(self) -> None:
        """Give the port up. Safe to call twice."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


def holder_of(port_id: str) -> PortHeldError | None:
    """Who holds a port now, as the error that a claim would raise; None when nobody does. Changes nothing."""
    try:
        fd = os.open(ports_folder() / f"{_file_name(port_id)}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # nobody has ever claimed it
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return PortHeldError(port_id, _decoded(os.pread(fd, 1 << 16, 0)))
    finally:
        os.close(fd)
    return None


class PortJournal:
    """The journal of one port, which this process has claimed."""

    def __init__(self, port_id: str, before: Mapping[str, Any]) -> None:
        self.port_id = port_id
        self.before = dict(before)
        """Names, boot, home and state of the port, as `begin` was given them."""

    @property
    def path(self) -> Path:
        """Where it is, or would be."""
        return ports_folder() / f"{_file_name(self.port_id)}.journal"

    @classmethod
    def begin(cls, port_id: str, before: Mapping[str, Any]) -> PortJournal:
        """Write down what is true before the first change. Raises LinkError, also when there is a journal already."""
        journal = cls(port_id, {"version": _VERSION, "port_id": port_id, **before})
        partial = journal.path.with_suffix(".partial")
        if journal.path.exists():
            raise LinkError(f"port {port_id} has a journal already: {journal.path}; run pytest-netperf clean")
        try:
            with partial.open("wb") as file:
                file.write(json.dumps(journal.before).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            partial.rename(journal.path)
            journal._sync_folder()
        except OSError as error:
            raise LinkError(f"cannot write the journal {journal.path}: {error.strerror}; the port stays") from None
        return journal

    def note(self, what: str) -> None:
        """Say what is about to be done, on disk before it is. Raises LinkError."""
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "next": what}) + "\n"
        try:
            with self.path.open("ab") as file:
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise LinkError(f"cannot write the journal {self.path}: {error.strerror}") from None

    def end(self) -> None:
        """The port is as it was: nothing is to be remembered."""
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # read again, it says that there is nothing to do
            self._sync_folder()

    def _sync_folder(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def journals() -> Iterator[PortJournal]:
    """Every journal on this machine, held or not. Raises LinkError for one that cannot be read."""
    for path in sorted(ports_folder().glob("*.journal")):
        try:
            before = _decoded(path.read_bytes().split(b"\n", 1)[0])
        except FileNotFoundError:  # its run has ended meanwhile
            continue
        except OSError as error:
            raise LinkError(f"cannot read the journal {path}: {error.strerror}; it needs root (sudo)") from None
        if before.get("version") != _VERSION or not isinstance(before.get("port_id"), str):
            raise LinkError(
                f"{path} is no journal of a port that this version can read; look at it, see to the port, remove it"
            )
        yield PortJournal(before["port_id"], before)


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _file_name(port_id: str) -> str:
    return _UNSAFE.sub("+", port_id)
