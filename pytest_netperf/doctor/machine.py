"""The machine without its ports: system, place for results, clock, CPUs. Nothing is changed, nothing takes time."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pytest_netperf.doctor.finding import Finding, good, note, problem

__all__ = ["cpu_quota", "cpus_and_load", "system"]

_LEAST_FREE_BYTES: Final = 200e6
_RELEASED: Final = 1764547200  # 2025-12-01: no clock that is right shows less
_UNSYNCHRONISED: Final = 0x0040  # STA_UNSYNC of linux/timex.h
_TIMEX_BYTES: Final = 208
_TIMEX_STATUS_AT: Final = 40
_BUSY_SHARE: Final = 0.5
_CGROUP: Final = Path("/sys/fs/cgroup")


def system(output: Path) -> Iterator[Finding]:
    """The operating system, the disk below the output folder, and the clock."""
    if sys.platform != "linux":
        yield problem(
            "system",
            "operating system",
            f"{platform.system()}; links are made from network namespaces, which only Linux has",
            "run it on Linux, or in a Linux machine or container",
        )
        return
    yield good("system", "operating system", f"Linux {platform.release()}, {platform.machine()}, Python {_python()}")
    yield _disk(output)
    yield _state()
    yield _clock()


def _python() -> str:
    import pytest

    return f"{platform.python_version()}, pytest {pytest.__version__}"


def _disk(output: Path) -> Finding:
    folder = output.absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not os.access(folder, os.W_OK | os.X_OK) or not folder.is_dir():
        return problem(
            "system",
            "output folder",
            f"{output} cannot be written: {folder} is no folder that this user may write into",
            "run pytest elsewhere, or give --netperf-output a folder of yours",
        )
    free = shutil.disk_usage(folder).free
    seen = f"{output}, {free / 1e9:.1f} GB free"
    if free < _LEAST_FREE_BYTES:
        return problem(
            "system", "output folder", seen, "make room: a run whose journal cannot be written is not ACCEPTED"
        )
    return good("system", "output folder", seen)


def _state() -> Finding:
    from pytest_netperf.record.state_folder import state_folder

    folder = state_folder(os.environ)
    if folder is None:
        return note(
            "system",
            "state folder",
            "this user has none (no HOME)",
            "set XDG_STATE_HOME; the tester is measured each time",
        )
    above = folder
    while not above.exists() and above != above.parent:
        above = above.parent
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        return note(
            "system",
            "state folder",
            f"{folder} cannot be written, so the tester is measured in each run and nothing is remembered",
            f"make {above} a folder that this user may write into, or set XDG_STATE_HOME",
        )
    return good("system", "state folder", str(folder))


def _clock() -> Finding:
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    if time.time() < _RELEASED:
        return problem("system", "clock", f"it says {now}, which is past", "set it: sheets carry the time")
    if _is_unsynchronised():
        return note(
            "system",
            "clock",
            f"{now}; the kernel does not know it to be synchronised",
            "a time service (chrony, systemd-timesyncd) keeps the times on sheets of several benches comparable",
        )
    return good("system", "clock", f"{now}, synchronised")


def _is_unsynchronised() -> bool:
    """adjtimex(2) without a change; what it does not say counts as synchronised."""
    timex = ctypes.create_string_buffer(_TIMEX_BYTES)
    if ctypes.CDLL(None).adjtimex(timex) < 0:
        return False
    status = int.from_bytes(timex.raw[_TIMEX_STATUS_AT : _TIMEX_STATUS_AT + 4], sys.byteorder)
    return bool(status & _UNSYNCHRONISED)


def cpus_and_load() -> Iterator[Finding]:
    """How many CPUs there are, what else they do, how they are clocked, and what pytest-xdist can make of them."""
    from pytest_netperf.observe.host import read_governors

    cpus = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    seen = f"{cpus}, load {load:.1f} ({_cpu_model()})"
    if load > _BUSY_SHARE * cpus:
        yield note(
            "tester",
            "CPUs",
            seen,
            "something keeps this machine busy; fast links would be limited by it, and their rows INCONCLUSIVE",
        )
    elif cpus < 2:
        yield note("tester", "CPUs", seen, "both ends of iperf3 share one CPU; links above some 2.5G need two")
    else:
        yield good("tester", "CPUs", seen)
    governors = read_governors()
    if governors and set(governors) != {"performance"}:
        yield note(
            "tester",
            "frequency governor",
            ", ".join(governors),
            "for steady figures: sudo cpupower frequency-set -g performance",
        )
    else:
        yield good("tester", "frequency governor", governors[0] if governors else "none to be seen, as in most guests")
    quota = cpu_quota(_CGROUP)
    if quota is not None and quota < cpus:
        yield note(
            "tester",
            "CPU quota",
            f"this container may use {quota:g} of {cpus} CPUs; the kernel stops it for moments when it uses more",
            "give it whole CPUs (--cpuset-cpus instead of --cpus), or what is measured is the quota",
        )
    active = sorted(_mitigations())
    if active:
        yield note("tester", "mitigations", f"active for {', '.join(active)}; they cost throughput above some 10G")
    else:
        yield good("tester", "mitigations", "none that cost throughput")
    yield _xdist(cpus)
    yield _live_view()


def cpu_quota(cgroup: Path) -> float | None:
    """How many CPUs the control group of this process may use; None where nothing limits it."""
    try:
        quota, _, period = (cgroup / "cpu.max").read_text().partition(" ")
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def _mitigations() -> Iterator[str]:
    for file in Path("/sys/devices/system/cpu/vulnerabilities").glob("*"):
        try:
            if file.read_text().startswith("Mitigation"):
                yield file.name
        except OSError:
            continue


def _live_view() -> Finding:
    if find_spec("rich") is None:
        return good("tester", "live view", "lines every 10 s; a table at a terminal needs rich (extra `live`)")
    return good("tester", "live view", "a table at a terminal, lines every 10 s in a log")


def _xdist(cpus: int) -> Finding:
    if find_spec("xdist") is None:
        return good("tester", "pytest-xdist", "not installed; tests run one after the other")
    return good(
        "tester",
        "pytest-xdist",
        f"-n {2 * cpus} is plenty here: measurements take turns (netperf_slots), and the rest goes on meanwhile",
    )
