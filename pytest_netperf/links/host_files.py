"""Settings that are files of the kernel: which CPUs take the interrupts of a port, and how CPUs choose their frequency.

Read and written with the paths of this machine; what was in them before a test is in the journal of its ports.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_netperf.bench.port_wishes import cpu_set
from pytest_netperf.links.kernel import sysfs_of_this_thread

__all__ = [
    "files_before",
    "files_different",
    "governor_files",
    "irq_files",
    "put_files_back",
    "read_cpus",
    "write_file",
]

_IRQS: Final = "/proc/irq"
_CPUS: Final = "/sys/devices/system/cpu"


def irq_files(interface: str) -> list[str]:
    """The affinity of each interrupt of a port of the calling thread's namespace; empty where it has none.

    Of a card with several ports on one PCI function these are the interrupts of all of them.
    """
    return [path for path in _irq_paths(interface) if Path(path).exists()]


def _irq_paths(interface: str) -> list[str]:
    """Also of interrupts that the port does not use before it is up."""
    try:
        sysfs = sysfs_of_this_thread()
    except OSError:
        return []
    try:
        numbers = _numbers(f"class/net/{interface}/device", sysfs)
    finally:
        os.close(sysfs)
    return [f"{_IRQS}/{number}/smp_affinity_list" for number in numbers]


def _numbers(device: str, sysfs: int) -> list[int]:
    """Those of its own, or else the line of the bus, which others may share."""
    try:
        folder = os.open(f"{device}/msi_irqs", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=sysfs)
    except OSError:
        own = []
    else:
        try:
            own = sorted(int(name) for name in os.listdir(folder))  # noqa: PTH208 - a descriptor has no Path
        finally:
            os.close(folder)
    if own:
        return own
    try:
        file = os.open(f"{device}/irq", os.O_RDONLY | os.O_CLOEXEC, dir_fd=sysfs)
    except OSError:
        return []
    try:
        return [number for number in (int(os.read(file, 32)),) if number]
    finally:
        os.close(file)


def governor_files() -> list[str]:
    """One of each CPU whose frequency the kernel chooses."""
    return sorted(map(str, Path(_CPUS).glob("cpu[0-9]*/cpufreq/scaling_governor")))


def files_before(asked: Mapping[str, Any], interface: str) -> dict[str, str]:
    """Path -> what is in it, of every file that these settings will change.

    An interrupt that nobody has asked for yet gets the default of the machine.
    """
    found = {path: Path(path).read_text().strip() for path in governor_files()} if "governor" in asked else {}
    if "irq_cpus" in asked:
        mask = int(Path(f"{_IRQS}/default_smp_affinity").read_text().strip().replace(",", ""), 16)
        default = ",".join(str(cpu) for cpu in range(mask.bit_length()) if mask >> cpu & 1)
        found |= {path: read_file(path) or default for path in _irq_paths(interface)}
    return found


def files_different(before: Mapping[str, str]) -> list[str]:
    """What is in them and was not before, a text for each; a file that is gone went with its interrupt."""
    return [
        f"{path}: was {text}, is {now}"
        for path, text in before.items()
        if (now := read_file(path)) is not None and not _same(path, now, text)
    ]


def put_files_back(before: Mapping[str, str]) -> list[str]:
    """Write what differs. Returns why something was refused."""
    said = []
    for path, text in before.items():
        if (now := read_file(path)) is not None and not _same(path, now, text):
            try:
                write_file(path, text)
            except OSError as error:
                said.append(f"({path}: {error.strerror})")
    return said


def _same(path: str, one: str, other: str) -> bool:
    return cpu_set(one) == cpu_set(other) if path.startswith(_IRQS) else one == other


def write_file(path: str, text: str) -> None:
    """Raises OSError with the kernel's refusal."""
    Path(path).write_text(text)


def read_cpus(path_or_list: str) -> frozenset[int]:
    """The CPUs of a file, or of the text itself."""
    return cpu_set(Path(path_or_list).read_text() if path_or_list.startswith("/") else path_or_list)


def read_file(path: str) -> str | None:
    """What is in it; None where it is not there any more."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
