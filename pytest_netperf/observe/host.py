"""The load and the state of this machine around the traffic, read from /proc and /sys outside the measured window."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pytest_netperf.observe.observation import BusyProcess, Host

__all__ = [
    "CpuShares",
    "CpuTimes",
    "HostReading",
    "between",
    "cpu_shares",
    "cpu_times",
    "read_governors",
    "read_host",
    "udp_buffer_bytes",
]

CpuTimes = tuple[tuple[int, ...], ...]
_UDP_BUFFER_BYTES = 4 << 20
_IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = 3, 4, 5, 6, 7

_MOST_PROCESSES: Final = 4096  # a scan of so many takes some 40 ms
_NAMED_PROCESSES: Final = 5
_WORTH_NAMING: Final = 0.05  # of one CPU
_KERNEL_THREAD: Final = 0x00200000  # PF_KTHREAD in the flags of /proc/PID/stat
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


class CpuShares(NamedTuple):
    """Fractions 0..1 between two readings."""

    busy: tuple[float, ...]
    """Of each CPU: everything but idle and iowait."""
    softirq: tuple[float, ...]
    """Of each CPU: irq and softirq."""
    steal: float
    """The largest of any CPU."""


class HostReading(NamedTuple):
    """The state of this machine at one moment."""

    monotonic_s: float
    realtime_s: float
    boottime_s: float
    softnet: tuple[int, int] | None
    """Packets dropped and budgets used up, of all CPUs."""
    throttle_events: int | None
    processes: dict[int, tuple[int, str, int]]
    """Process id -> start (it makes the id unique), name, CPU ticks; without kernel threads and this process."""


def cpu_times() -> CpuTimes:
    """The kernel's tick counters of each CPU: user, nice, system, idle, iowait, irq, softirq, steal."""
    lines = Path("/proc/stat").read_text().splitlines()
    return tuple(
        tuple(map(int, line.split()[1:9])) for line in lines if line.startswith("cpu") and not line.startswith("cpu ")
    )


def cpu_shares(before: CpuTimes, after: CpuTimes) -> CpuShares:
    """What each CPU did between two readings."""
    busy, softirq, steal = [], [], 0.0
    for first, last in zip(before, after, strict=False):
        ticks = [max(0, b - a) for a, b in zip(first, last, strict=True)]
        total = sum(ticks) or 1
        idle = ticks[_IDLE] + ticks[_IOWAIT] if sum(ticks) else 1
        busy.append(round(1.0 - idle / total, 4))
        softirq.append(round((ticks[_IRQ] + ticks[_SOFTIRQ]) / total, 4))
        steal = max(steal, ticks[_STEAL] / total)
    return CpuShares(tuple(busy), tuple(softirq), round(steal, 4))


def read_host() -> HostReading:
    """Read the state of this machine now: about 1 ms for 100 processes."""
    return HostReading(
        monotonic_s=time.clock_gettime(time.CLOCK_MONOTONIC),
        realtime_s=time.clock_gettime(time.CLOCK_REALTIME),
        boottime_s=time.clock_gettime(time.CLOCK_BOOTTIME),
        softnet=_softnet(),
        throttle_events=_throttle_events(),
        processes=dict(_processes()),
    )


def between(before: HostReading, after: HostReading) -> Host:
    """What happened between two readings."""
    seconds = after.monotonic_s - before.monotonic_s
    softnet = (
        [max(0, b - a) for a, b in zip(before.softnet, after.softnet, strict=True)]
        if before.softnet and after.softnet
        else [None, None]
    )
    throttled = None
    if before.throttle_events is not None and after.throttle_events is not None:
        throttled = max(0, after.throttle_events - before.throttle_events)
    return Host(
        seconds=round(seconds, 6),
        clock_step_s=round(after.realtime_s - before.realtime_s - seconds, 6) + 0.0,
        suspended_s=round(after.boottime_s - before.boottime_s - seconds, 6) + 0.0,
        softnet_dropped=softnet[0],
        softnet_squeezed=softnet[1],
        throttle_events=throttled,
        temperature_c=hottest_c(),
        governors=read_governors(),
        others=_others(before, after, seconds),
    )


def _others(before: HostReading, after: HostReading, seconds: float) -> tuple[BusyProcess, ...]:
    """The busiest processes, those of one name together: many small ones take as much as a large one.

    One that started meanwhile counts with all its time. One that ended meanwhile is not seen.
    """
    groups: dict[str, list[float]] = {}
    for pid, (started, name, ticks) in after.processes.items():
        first = before.processes.get(pid)
        spent = (ticks - (first[2] if first and first[0] == started else 0)) / _TICKS_PER_SECOND
        if spent > 0:
            groups.setdefault(name, []).append(spent)
    used = [
        BusyProcess(name=name if len(each) == 1 else f"{name} x {len(each)}", cpu_s=round(sum(each), 2))
        for name, each in groups.items()
        if seconds > 0 and sum(each) >= _WORTH_NAMING * seconds
    ]
    used.sort(key=lambda process: process.cpu_s, reverse=True)
    return tuple(used[:_NAMED_PROCESSES])


def _processes() -> Iterator[tuple[int, tuple[int, str, int]]]:
    own = os.getpid()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names only, and fast
    for pid in pids[-_MOST_PROCESSES:]:
        if pid == own:
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):  # it ended, or is not ours to look at
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - many of them, fast
                # pid (name) state ppid ... flags is field 9, utime 14, stime 15, starttime 22; a name may hold ")".
                head, _, tail = file.read().rpartition(b")")
            fields = tail.split()
            if not int(fields[6]) & _KERNEL_THREAD:
                name = head.partition(b"(")[2].decode("utf-8", "replace")
                yield pid, (int(fields[19]), name, int(fields[11]) + int(fields[12]))


def _softnet() -> tuple[int, int] | None:
    """/proc/net/softnet_stat: a line per CPU in hexadecimal; the second number are drops, the third used-up budgets."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        rows = [line.split() for line in Path("/proc/net/softnet_stat").read_text().splitlines()]
        return sum(int(row[1], 16) for row in rows), sum(int(row[2], 16) for row in rows)
    return None


def _throttle_events() -> int | None:
    counts = _numbers("/sys/devices/system/cpu", "cpu[0-9]*/thermal_throttle/*_throttle_count")
    return int(sum(counts)) if counts else None


def hottest_c() -> float | None:
    """The hottest sensor of this machine now, in degrees Celsius; None where it has none."""
    temperatures = _numbers("/sys/class/hwmon", "hwmon*/temp*_input") or _numbers(
        "/sys/class/thermal", "thermal_zone*/temp"
    )
    return round(max(temperatures) / 1000, 1) if temperatures else None


def read_governors() -> tuple[str, ...]:
    """The frequency governors of the CPUs of this machine; none where it has no frequency scaling."""
    found = set()
    for file in Path("/sys/devices/system/cpu").glob("cpufreq/policy*/scaling_governor"):
        with contextlib.suppress(OSError):
            found.add(file.read_text().strip())
    return tuple(sorted(found))


def _numbers(folder: str, pattern: str) -> list[float]:
    found = []
    for file in Path(folder).glob(pattern):
        with contextlib.suppress(OSError, ValueError):
            found.append(float(file.read_text()))
    return found


def udp_buffer_bytes() -> int | None:
    """The socket buffer to ask for in UDP runs: 4 MiB, or what the kernel allows; None where it does not say."""
    try:
        allowed = [int(Path(f"/proc/sys/net/core/{way}mem_max").read_text()) for way in ("r", "w")]
    except (OSError, ValueError):
        return None
    return min(_UDP_BUFFER_BYTES, *allowed)
