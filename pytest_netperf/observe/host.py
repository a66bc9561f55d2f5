"""The load of this machine while traffic runs, from /proc/stat."""

from __future__ import annotations

from pathlib import Path

__all__ = ["CpuTimes", "busy_and_steal", "cpu_times", "udp_buffer_bytes"]

CpuTimes = tuple[tuple[int, ...], ...]
_UDP_BUFFER_BYTES = 4 << 20
_IDLE, _IOWAIT, _STEAL = 3, 4, 7


def cpu_times() -> CpuTimes:
    """The kernel's tick counters of each CPU: user, nice, system, idle, iowait, irq, softirq, steal."""
    lines = Path("/proc/stat").read_text().splitlines()
    return tuple(
        tuple(map(int, line.split()[1:9])) for line in lines if line.startswith("cpu") and not line.startswith("cpu ")
    )


def busy_and_steal(before: CpuTimes, after: CpuTimes) -> tuple[tuple[float, ...], float]:
    """Busy fraction 0..1 of each CPU between two readings (everything but idle and iowait), and the largest steal."""
    busy, steal = [], 0.0
    for first, last in zip(before, after, strict=False):
        ticks = [max(0, b - a) for a, b in zip(first, last, strict=True)]
        total = sum(ticks)
        if not total:
            busy.append(0.0)
            continue
        busy.append(1.0 - (ticks[_IDLE] + ticks[_IOWAIT]) / total)
        steal = max(steal, ticks[_STEAL] / total)
    return tuple(round(value, 4) for value in busy), round(steal, 4)


def udp_buffer_bytes() -> int | None:
    """The socket buffer to ask for in UDP runs: 4 MiB, or what the kernel allows; None where it does not say."""
    try:
        allowed = [int(Path(f"/proc/sys/net/core/{way}mem_max").read_text()) for way in ("r", "w")]
    except (OSError, ValueError):
        return None
    return min(_UDP_BUFFER_BYTES, *allowed)
