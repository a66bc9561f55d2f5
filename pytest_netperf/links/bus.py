"""How a port is connected to its machine: PCI Express or USB, read from sysfs.

    devices/pci0000:00/0000:00:1c.0/0000:01:00.0/net/eth0      a root port and the card below it: one hop
    devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/net/eth0  a USB device at its controller

A hop joins two PCI functions, and both say its present speed and width; each says what it could do at most. In a path
with switches every second pair is inside a switch, which is no link.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, Final

__all__ = ["bus_of"]

_PCI_FUNCTION: Final = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", re.ASCII)
_USB_DEVICE: Final = re.compile(r"\d+-\d+(\.\d+)*", re.ASCII)
_NO_WIDTH: Final = (0, 63, 255)
_ASPM: Final = ("l0s_aspm", "l1_aspm", "l1_1_aspm", "l1_2_aspm", "l1_1_pcipm", "l1_2_pcipm")
_POLICY: Final = "module/pcie_aspm/parameters/policy"


def bus_of(interface: str, sysfs: int) -> dict[str, Any]:
    """``pcie`` (hops from the root to the port), ``aspm``, ``aspm_policy`` and ``usb_bps``.

    ``sysfs`` is a folder descriptor of /sys as the port's namespace sees it. A port without a bus (veth) has no hops;
    what the kernel does not say is None.
    """
    facts: dict[str, Any] = {"pcie": None, "aspm": None, "aspm_policy": None, "usb_bps": None}
    try:
        target = os.readlink(f"class/net/{interface}", dir_fd=sysfs)
    except OSError:
        return facts
    folder = PurePosixPath(os.path.normpath(f"class/net/{target}"))
    chain: list[PurePosixPath] = []
    for parent in reversed(folder.parents):
        if _PCI_FUNCTION.fullmatch(parent.name):
            chain.append(parent)
        elif parent.name.startswith("pci"):  # a root; there may be one below another (VMD)
            chain.clear()
    facts["pcie"] = _hops(chain, sysfs)
    for parent in folder.parents:
        if _USB_DEVICE.fullmatch(parent.name):
            mbps = _number(_read(parent / "speed", sysfs))
            facts["usb_bps"] = None if mbps is None else mbps * 1e6
            return facts  # the PCI function above is that of the controller, whose power saving is another matter
    if chain:
        states = {name: _read(chain[-1] / "link" / name, sysfs) for name in _ASPM}
        if any(value is not None for value in states.values()):
            facts["aspm"] = [name for name, value in states.items() if value == "1"]
        policy = re.search(r"\[(\w+)\]", _read(PurePosixPath(_POLICY), sysfs) or "")
        facts["aspm_policy"] = policy[1] if policy else None
    return facts


def _hops(chain: Sequence[PurePosixPath], sysfs: int) -> list[dict[str, Any]]:
    hops = []
    for upper, lower in zip(chain[::2], chain[1::2], strict=False):
        above, below = _link(upper, sysfs), _link(lower, sysfs)
        current = below if below["current_speed"] is not None else above  # a virtual function does not say
        if current["current_speed"] is None:
            continue  # not PCI Express
        hops.append(
            {
                "upper": upper.name,
                "lower": lower.name,
                "speed_gtps": current["current_speed"],
                "width": current["current_width"],
                "upper_max_speed_gtps": above["max_speed"],
                "upper_max_width": above["max_width"],
                "lower_max_speed_gtps": below["max_speed"],
                "lower_max_width": below["max_width"],
            }
        )
    return hops


def _link(function: PurePosixPath, sysfs: int) -> dict[str, Any]:
    """What one PCI function says of its link: GT/s and lanes, now and at most."""
    found: dict[str, Any] = {}
    for which in ("current", "max"):
        found[f"{which}_speed"] = _number(_read(function / f"{which}_link_speed", sysfs))
        width = _number(_read(function / f"{which}_link_width", sysfs))
        found[f"{which}_width"] = None if width is None or width in _NO_WIDTH else int(width)
    return found


def _number(text: str | None) -> float | None:
    """The number that a text such as "5.0 GT/s PCIe" begins with."""
    found = re.match(r"\d+(\.\d+)?", text or "", re.ASCII)
    return float(found[0]) if found else None


def _read(path: PurePosixPath, sysfs: int) -> str | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=sysfs)
        try:
            return os.read(file, 4096).decode("ascii", "replace").strip()
        finally:
            os.close(file)
    except OSError:
        return None
