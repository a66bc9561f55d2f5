"""What a run has on this machine while it lives, and the check that nothing of it is there afterwards.

Other work may run on this machine: only what carries the tag of a run counts, and only namespaces and sockets that its
processes were seen to hold.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

GONE_SECONDS = 2.0
ABSTRACT = "@pytest-netperf/"
VARIABLE = "NETPERF_TEST_TAG"


def wait_until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> object:
    """What ``condition`` gives as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.005)
    return found


@dataclass(frozen=True)
class Seen:
    """One live process."""

    pid: int
    parent: int
    command: str

    @property
    def is_iperf3(self) -> bool:
        return "iperf3" in self.command.split()[0]

    @property
    def is_keeper(self) -> bool:
        """The keeper or its guard."""
        return "pytest_netperf.links.keeper" in self.command


@dataclass
class Traces:
    """The traces of one run, found by a variable in the environment of its processes."""

    tag: str = field(default_factory=lambda: secrets.token_hex(8))
    namespaces: set[int] = field(default_factory=set)
    holders: set[tuple[int, int]] = field(default_factory=set)
    """(namespace, process) as seen; the kernel soon gives the number of a namespace that went to another one."""
    sockets: set[str] = field(default_factory=set)
    mounts: list[str] = field(default_factory=lambda: _mounts())

    @property
    def environment(self) -> dict[str, str]:
        return {VARIABLE: self.tag}

    def processes(self) -> list[Seen]:
        """Live processes of the run, in the order of their ids."""
        needle = f"{VARIABLE}={self.tag}".encode()
        found = []
        for pid in _pids():
            try:
                if needle not in Path(f"/proc/{pid}/environ").read_bytes():  # empty for a zombie
                    continue
                status = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if status[0] not in "ZX" and command:
                found.append(Seen(pid, int(status[1]), command))
        return found

    def take(self) -> None:
        """Remember which namespaces and which sockets of ours the run holds now."""
        ours = os.stat("/proc/self/ns/net").st_ino  # noqa: PTH116 - follows the magic link
        held = set()
        for process in self.processes():
            self.namespaces |= set(_namespaces_of(process.pid)) - {ours}
            held |= set(_links_of(process.pid))
        if self.namespaces:
            self.holders |= {(inode, pid) for pid in _pids() for inode in self.namespaces & set(_namespaces_of(pid))}
        for line in _unix_sockets():
            if f"socket:[{line[6]}]" in held:
                self.sockets.add(line[6])

    def left(self) -> list[str]:
        """Everything of the run that is still there."""
        found = [f"process {process}" for process in self.processes()]
        found += [f"socket {line[-1]}" for line in _unix_sockets() if line[6] in self.sockets]
        found += [f"mount {line}" for line in _mounts() if line not in self.mounts]
        found += [f"namespace {inode} of {pid}" for inode, pid in self.holders if inode in _namespaces_of(pid)]
        return found

    def assert_gone(self, seconds: float = GONE_SECONDS) -> None:
        """Nothing of the run is left, or will be within ``seconds``."""
        deadline = time.monotonic() + seconds
        while left := self.left():
            assert time.monotonic() < deadline, f"left after {seconds:g} s: {left}"
            time.sleep(0.02)


def keeper_of(traces: Traces) -> tuple[Seen, Seen]:
    """Guard and keeper of a run with one keeper."""
    pair = [process for process in traces.processes() if process.is_keeper]
    assert len(pair) == 2, pair
    guard = next(process for process in pair if process.parent not in {other.pid for other in pair})
    keeper = next(process for process in pair if process.parent == guard.pid)
    return guard, keeper


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - names only, and often


def _namespaces_of(pid: int) -> Iterator[int]:
    """Inodes of the network namespaces that a process lives in or holds open."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return
    for task in tasks:
        try:
            yield os.stat(f"/proc/{pid}/task/{task}/ns/net").st_ino  # noqa: PTH116
        except OSError:
            continue
    for target in _links_of(pid):
        if target.startswith("net:["):
            yield int(target[5:-1])


def _links_of(pid: int) -> Iterator[str]:
    try:
        fds = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
    except OSError:
        return
    for fd in fds:
        try:
            yield os.readlink(f"/proc/{pid}/fd/{fd}")  # noqa: PTH115
        except OSError:
            continue


def _unix_sockets() -> list[list[str]]:
    """Fields of /proc/net/unix of the abstract names that are ours; the inode is the seventh, the name the last."""
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    return [fields for line in lines if len(fields := line.split()) == 8 and fields[-1].startswith(ABSTRACT)]


def _mounts() -> list[str]:
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if "nsfs" in line or "netperf" in line]
