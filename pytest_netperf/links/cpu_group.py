"""A limit on CPU time: a control group (cgroup v2 where it has the controller, v1 otherwise) with a quota.

It holds processes when they return to user space. What the kernel does for a packet in softirq belongs to no group,
and a kernel thread never returns to user space, so forwarding cannot be limited like that; what a device runs beside it
can.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final, NamedTuple

from pytest_netperf.errors import LinkError

__all__ = ["CpuGroup", "Throttled", "left_groups", "remove_all"]

_PERIOD_US: Final = 100_000
_LEAST_QUOTA_US: Final = 1000  # of the kernel
_PATIENCE_S: Final = 0.3
_MOUNTS: Final = Path("/proc/self/mounts")

_open: set[CpuGroup] = set()


class Throttled(NamedTuple):
    """How often the quota was used up."""

    periods: int
    """In which something of the group ran."""
    throttled: int
    """In which it was held."""


class CpuGroup:
    """A group of this process's own; `close` removes it. Raises LinkError where the kernel gives none."""

    def __init__(self, name: str, share: float) -> None:
        """``share``: of one CPU, such as 0.25."""
        parent, is_v2 = _hierarchy()
        for folder in _those_of_the_dead(parent):
            with contextlib.suppress(OSError):
                folder.rmdir()
        self._folder = parent / f"netperf-{Path('/proc/self').readlink().name}-{name}"
        self._parent, self._is_v2 = parent, is_v2
        self._quota_us = max(_LEAST_QUOTA_US, round(share * _PERIOD_US))
        try:
            self._folder.mkdir()
        except OSError as error:
            raise LinkError(_refused(self._folder, error)) from None
        _open.add(self)
        try:
            if not is_v2:
                self._write("cpu.cfs_period_us", str(_PERIOD_US))
            self.hold()
        except BaseException:
            self.close()
            raise

    def hold(self) -> None:
        """Put the quota into force, and read back that it is."""
        file, text = (
            ("cpu.max", f"{self._quota_us} {_PERIOD_US}") if self._is_v2 else ("cpu.cfs_quota_us", str(self._quota_us))
        )
        self._write(file, text)
        found = (self._folder / file).read_text().strip()
        if found != text:
            raise LinkError(f"the CPU limit is not in force: {self._folder / file} says {found}, expected {text}")

    def lift(self) -> None:
        """No limit, until `hold`."""
        self._write(*(("cpu.max", "max") if self._is_v2 else ("cpu.cfs_quota_us", "-1")))

    def add(self, pid: int) -> None:
        """Take a process in, with all its threads."""
        self._write("cgroup.procs", str(pid))

    def throttled(self) -> Throttled:
        """So far."""
        stat = dict(line.split() for line in (self._folder / "cpu.stat").read_text().splitlines())
        return Throttled(int(stat.get("nr_periods", 0)), int(stat.get("nr_throttled", 0)))

    def close(self) -> None:
        """Remove it; whatever is still in it goes to the parent."""
        _open.discard(self)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self._folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                if time.monotonic() > deadline:
                    return
                with contextlib.suppress(OSError):
                    for pid in (self._folder / "cgroup.procs").read_text().split():
                        (self._parent / "cgroup.procs").write_text(pid)
                time.sleep(0.005)
            else:
                return

    def _write(self, name: str, text: str) -> None:
        try:
            (self._folder / name).write_text(text)
        except OSError as error:
            raise LinkError(_refused(self._folder / name, error)) from None


def remove_all() -> None:
    """Remove every group of this process."""
    for group in list(_open):
        group.close()


def _refused(path: Path, error: OSError) -> str:
    return (
        f"cpu_limit needs a control group, and the kernel refuses {path}: {os.strerror(error.errno or 0)}; run as root "
        "(in a container, with a writable /sys/fs/cgroup), or leave cpu_limit out of the state"
    )


def _hierarchy() -> tuple[Path, bool]:
    """Where groups with a quota can be made, and whether that is cgroup v2."""
    mounts = [line.split() for line in _MOUNTS.read_text().splitlines()]
    for _, folder, kind, *_ in mounts:
        with contextlib.suppress(OSError):
            if kind == "cgroup2" and "cpu" in (Path(folder) / "cgroup.subtree_control").read_text().split():
                return Path(folder), True
    for _, folder, kind, options, *_ in mounts:
        if kind == "cgroup" and "cpu" in options.split(","):
            return Path(folder), False
    raise LinkError(
        "cpu_limit needs a control group, and this machine has no cgroup hierarchy with the cpu controller: neither "
        "cgroup v2 with `cpu` in cgroup.subtree_control of its root, nor the v1 hierarchy `cpu`; leave cpu_limit out "
        "of the state"
    )


def left_groups() -> list[Path]:
    """The empty folders of keepers that were killed themselves; any later keeper with a limit removes them too."""
    try:
        parent, _ = _hierarchy()
    except LinkError:
        return []
    return _those_of_the_dead(parent)


def _those_of_the_dead(parent: Path) -> list[Path]:
    folders = sorted(parent.glob("netperf-[0-9]*-*"))
    return [folder for folder in folders if not Path("/proc", folder.name.split("-")[1]).exists()]
