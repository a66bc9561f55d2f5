"""What a physical port is made of, for the sheet: link modes, rings, channels, module, interrupts, NUMA node.

Read once when the port was lent and its link works, never around the traffic: a module answers over a slow bus. What a
driver does not know is left out. Everything is asked in the thread of the port's namespace.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Mapping
from typing import Any, Final

from pytest_netperf.links.host_files import irq_files, read_file
from pytest_netperf.links.kernel import sysfs_of_this_thread
from pytest_netperf.links.port_settings import PortSettings

__all__ = ["module_facts", "read_inventory"]

# linux/ethtool.h
_LINK_MODE_NAMES: Final = 9  # ETH_SS_LINK_MODES
_GFECPARAM, _GMODULEINFO, _GMODULEEEPROM = 0x50, 0x42, 0x43
_CONNECTORS: Final = {0: "twisted pair", 1: "AUI", 2: "MII", 3: "fibre", 4: "BNC", 5: "direct attach copper"}
_FEC: Final = {4: "off", 8: "Reed-Solomon", 16: "BASE-R", 32: "low-latency Reed-Solomon"}
_WAKE_ON: Final = "pumbagsf"  # one letter for each bit, as ethtool writes them
_MOST_EEPROM: Final = 640
_SFP, _SFP_WITH_DIAGNOSTICS, _QSFP = (1, 2), 2, (3, 4)  # ETH_MODULE_SFF_8079, _8472; _8636, _8436
_DIAGNOSTICS: Final = 0x40


def read_inventory(interface: str) -> dict[str, Any]:
    """Everything about one port of the calling thread's namespace that its driver says."""
    with PortSettings(interface) as port:
        groups = port.read()
        found = {
            **_link(port),
            "rings": _with_most(groups["rings"], port.most_ring_entries()),
            "channels": groups["channels"],
            "coalescing": _without_zeros(groups["coalescing"]),
            "wake_on_lan": _letters(groups["wake_on_lan"]),
            "fec": _fec(port),
            "module": _module(port),
        }
    found["interrupts"] = {file.split("/")[3]: read_file(file) for file in irq_files(interface)}
    found["numa_node"] = _numa_node(interface)
    return {name: value for name, value in found.items() if value not in (None, {}, [], "")}


def _link(port: PortSettings) -> dict[str, Any]:
    masks = port.link_mode_masks()
    if masks is None or not masks[0]:  # no line that could be negotiated
        return {}
    names = port.strings(_LINK_MODE_NAMES)
    ways = ("supported", "advertised", "partner")
    found: dict[str, Any] = {
        f"modes_{way}": [name for bit, name in enumerate(names) if name and mask >> bit & 1]
        for way, mask in zip(ways, masks, strict=True)
    }
    with contextlib.suppress(OSError):
        found["connector"] = _CONNECTORS.get(port.connector())
    return found


def _with_most(now: Mapping[str, int] | None, most: Mapping[str, int] | None) -> dict[str, str]:
    return {} if now is None or most is None else {way: f"{now[way]} of {most[way]}" for way in ("rx", "tx")}


def _without_zeros(group: Mapping[str, int] | None) -> dict[str, int]:
    return {name: value for name, value in (group or {}).items() if value}


def _letters(group: Mapping[str, int] | None) -> str | None:
    if group is None:
        return None
    return "".join(letter for bit, letter in enumerate(_WAKE_ON) if group["options"] >> bit & 1) or "off"


def _fec(port: PortSettings) -> str | None:
    answer = port.ask(struct.pack("=IIII", _GFECPARAM, 0, 0, 0))
    return None if answer is None else _FEC.get(struct.unpack_from("=I", answer, 4)[0])


def _module(port: PortSettings) -> dict[str, Any]:
    answer = port.ask(struct.pack("=III32x", _GMODULEINFO, 0, 0))
    if answer is None:
        return {}
    kind, length = struct.unpack_from("=II", answer, 4)
    length = min(length, _MOST_EEPROM)
    data = port.ask(struct.pack("=IIII", _GMODULEEEPROM, 0, 0, length), 16 + length) if length else None
    return {} if data is None else module_facts(kind, data[16 : 16 + struct.unpack_from("=I", data, 12)[0]])


def module_facts(kind: int, data: bytes) -> dict[str, Any]:
    """Vendor, part and serial number of a module, and its temperature in degrees Celsius, from its EEPROM.

    ``kind`` is ETH_MODULE_SFF_...; the places are those of SFF-8472 (SFP) and SFF-8636 (QSFP).
    """
    if kind in _SFP and len(data) >= 96:
        found: dict[str, Any] = {"vendor": _words(data, 20, 16), "part": _words(data, 40, 16)}
        found["serial"] = _words(data, 68, 16)
        if kind == _SFP_WITH_DIAGNOSTICS and data[92] & _DIAGNOSTICS and len(data) >= 354:
            found["temperature_c"] = struct.unpack_from(">h", data, 352)[0] / 256
    elif kind in _QSFP and len(data) >= 212:
        found = {"vendor": _words(data, 148, 16), "part": _words(data, 168, 16), "serial": _words(data, 196, 16)}
        found["temperature_c"] = struct.unpack_from(">h", data, 22)[0] / 256 or None
    else:
        return {}
    return {name: value for name, value in found.items() if value not in (None, "")}


def _words(data: bytes, at: int, length: int) -> str:
    text = data[at : at + length].decode("ascii", "replace")
    return "".join(letter for letter in text if letter.isprintable()).strip()


def _numa_node(interface: str) -> int | None:
    try:
        sysfs = sysfs_of_this_thread()
    except OSError:
        return None
    try:
        file = os.open(f"class/net/{interface}/device/numa_node", os.O_RDONLY | os.O_CLOEXEC, dir_fd=sysfs)
    except OSError:
        return None
    finally:
        os.close(sysfs)
    try:
        node = int(os.read(file, 32))
    finally:
        os.close(file)
    return node if node >= 0 else None
