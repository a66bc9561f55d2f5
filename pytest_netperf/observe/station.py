"""The machine and its ports for the sheet: what a stranger needs to build the same bench again."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pytest_netperf.bench.model import Bench, LinkSpec
from pytest_netperf.record.schema import Cable, Nic, StationInfo

__all__ = ["read_station"]

_DMI = Path("/sys/class/dmi/id")
_NO_WORDS = {"", "None", "Default string", "To Be Filled By O.E.M.", "To be filled by O.E.M.", "Not Specified"}
"""What makers leave in fields that they did not fill."""


def read_station(bench: Bench, serials: Iterable[str]) -> StationInfo:
    """This machine, and the ports and cables that the bench file names for these devices and for the station.

    What cannot be read is None. With physical links it reads the ports of the network namespace of this process.
    """
    links = list(_links(bench, frozenset(serials)))
    return StationInfo(
        name=bench.station.name,
        location=bench.station.location,
        host=platform.node() or None,
        system=_system(),
        kernel=platform.release() or None,
        machine=platform.machine() or None,
        product=_words(_dmi("sys_vendor"), _dmi("product_name"), _dmi("board_name")),
        bios=_words(_dmi("bios_vendor"), _dmi("bios_version"), _dmi("bios_date")),
        cpu=_cpu_model(),
        cpus=len(os.sched_getaffinity(0)),
        congestion_control=_read(Path("/proc/sys/net/ipv4/tcp_congestion_control")),
        nics=tuple(_nics(links)),
        cables=tuple(
            Cable(used_by=name, media=link.media, cable=link.cable) for name, link in links if link.media or link.cable
        ),
    )


def _links(bench: Bench, serials: frozenset[str]) -> Iterator[tuple[str, LinkSpec]]:
    for link in bench.station.reference:
        yield f"station/{link.name}", link
    for device in bench.devices:
        if device.serial in serials:
            yield from ((f"{device.serial}/{link.name}", link) for link in device.links)


def _nics(links: Iterable[tuple[str, LinkSpec]]) -> Iterator[Nic]:
    wanted = [(f"{name}/{end}", port.port) for name, link in links for end, port in link.physical_ports.items()]
    if not wanted:
        return
    from pytest_netperf.errors import LinkError
    from pytest_netperf.links.machine import Machine
    from pytest_netperf.links.ports import find_port

    try:
        with Machine() as machine:
            ports = machine.ports
    except (LinkError, OSError):
        ports = []
    for used_by, text in wanted:
        try:
            port = find_port(text, ports)
        except LinkError:  # the row of its link will say what is wrong
            yield Nic(port=text, used_by=used_by)
            continue
        yield Nic(
            port=text,
            used_by=used_by,
            interface=port.name,
            mac=port.permanent_mac or port.mac,
            driver=port.driver,
            pci=port.pci,
            **_pci_facts(port.pci),
        )


def _pci_facts(address: str | None) -> dict[str, Any]:
    if address is None:
        return {}
    folder = Path("/sys/bus/pci/devices") / address
    vendor, device = (_read(folder / name) for name in ("vendor", "device"))
    return {
        "pci_id": f"{vendor.removeprefix('0x')}:{device.removeprefix('0x')}" if vendor and device else None,
        "revision": _read(folder / "revision"),
    }


def _dmi(name: str) -> str | None:
    return _read(_DMI / name)


def _words(*parts: str | None) -> str | None:
    found = [part for part in parts if part is not None and part not in _NO_WORDS]
    return " ".join(dict.fromkeys(found)) or None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def _system() -> str | None:
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    return None


def _cpu_model() -> str | None:
    for line in (_read(Path("/proc/cpuinfo")) or "").splitlines():
        if line.lower().startswith(("model name", "hardware")):
            return line.split(":", 1)[1].strip()
    return None
