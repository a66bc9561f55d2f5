"""The network ports of this machine: what they are called, where they sit, and which one a text means.

    pci-0000:04:00.0     the PCI function; of a card with several ports on one function, the first
    pci-0000:04:00.0/1   its second port (dev_port 1)
    mac-00:00:5e:00:53:01
    altname-enp4s0       an alternative name, or the kernel's own
    enp4s0               the same; where it is the kernel's own, there is a stable one to write instead

Read in the calling thread's network namespace, by rtnetlink and sysfs, and never written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.ethtool import Ethtool
from pytest_netperf.links.kernel import sysfs_of_this_thread

__all__ = ["HostPort", "find_port", "list_ports"]

_PCI: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_USB: Final = re.compile(r"usb\d+", re.ASCII)
_LOOPBACK: Final = 772  # ARPHRD_LOOPBACK
_NO_MAC: Final = "00:00:00:00:00:00"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """One network interface of this machine, as everything that it can be called by."""

    name: str
    index: int
    altnames: tuple[str, ...] = ()
    mac: str | None = None
    permanent_mac: str | None = None
    """The one that is burnt in; None where the kernel does not know one (a veth)."""
    pci: str | None = None
    """Address of its PCI function; None for one on USB, whose controller's address says nothing about it."""
    dev_port: int = 0
    """Its number on a card with several ports."""
    driver: str | None = None
    kind: str | None = None
    """What the kernel made it as ("veth", "bridge", "vlan"); None for a port of a driver."""
    virtual: bool = False
    """Whether there is no device behind it."""
    wifi: bool = False
    usb: bool = False
    uppers: tuple[str, ...] = ()
    """The devices on top of it: bridges, bonds, VLANs."""

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> HostPort:
        """Again from what was written to disk."""
        return cls(**{**record, "altnames": tuple(record["altnames"]), "uppers": tuple(record["uppers"])})

    @property
    def port_id(self) -> str:
        """What stays the same over reboots, renames and namespaces, as far as there is such a thing."""
        if self.pci is not None:
            return f"pci-{self.pci}" + (f"/{self.dev_port}" if self.dev_port else "")
        mac = self.permanent_mac or self.mac
        return f"mac-{mac}" if mac else f"altname-{self.name}"

    @property
    def label(self) -> str:
        """All of its names, on one line."""
        names = [self.name]
        if self.pci is not None:
            names.append(f"pci-{self.pci}" + (f"/{self.dev_port}" if self.dev_port else ""))
        mac = self.permanent_mac or self.mac
        names += [f"mac-{mac}"] if mac else []
        names += [f"altname-{name}" for name in self.altnames]
        what = self.driver or self.kind
        return ", ".join(names) + (f" ({what})" if what else "")

    def advice(self, text: str) -> str | None:
        """What to write instead of this text, where it is only what the kernel calls the port today; else None."""
        if text != self.name or text in self.altnames or self.port_id.startswith("altname-"):
            return None
        return (
            f"{text} is only what the kernel calls this port today ({self.label}); after a restart it may be another "
            f'one, so write port = "{self.port_id}"'
        )

    def is_called(self, text: str) -> bool:
        """Whether this text, in any of the forms above or a bare name, means this port."""
        form, _, rest = text.partition("-")
        if form == "pci" and self.pci is not None:
            address, _, number = rest.lower().partition("/")
            return address == self.pci and (number or "0") == str(self.dev_port)
        if form == "mac" and rest.lower() in (self.permanent_mac, self.mac):
            return True
        bare = rest if form == "altname" else text
        return bare == self.name or bare in self.altnames


def find_port(text: str, ports: Iterable[HostPort]) -> HostPort:
    """The port that this text means. Raises LinkError, with the list of all, when there is none or more than one."""
    listed = list(ports)
    found = [port for port in listed if port.is_called(text)]
    if not found and text.startswith("pci-") and "/" not in text:  # the only port of a card that counts from 1
        found = [port for port in listed if f"pci-{port.pci}" == text.lower()]
    if text.startswith("mac-") and len(found) > 1:  # a VLAN or a bridge has the address of the port below it
        found = [port for port in found if not port.virtual] or found
    if len(found) == 1:
        return found[0]
    what = "there is no such port" if not found else f"{len(found)} ports are called that"
    shown = [port.label for port in (found or listed)]
    raise LinkError(
        f"port {text!r}: {what} in the network namespace in which pytest runs; "
        + (f"{'there are' if not found else 'they are'}: {'; '.join(shown)}" if shown else "there is none at all")
    )


def list_ports(ipr: Any, sysfs: int | None = None) -> list[HostPort]:
    """Every interface of the calling thread's namespace but loopback; ``ipr`` is an IPRoute of the same one.

    ``sysfs`` is a folder descriptor of /sys as that namespace sees it; without one it is made, which needs root.
    """
    if sysfs is not None:
        return [_port(link, sysfs) for link in ipr.get_links() if link["ifi_type"] != _LOOPBACK]
    try:
        made = sysfs_of_this_thread()
    except OSError as error:
        raise LinkError(
            f"cannot read /sys of this network namespace ({error.strerror}); physical ports need root"
        ) from None
    try:
        return list_ports(ipr, made)
    finally:
        os.close(made)


def _port(link: Any, sysfs: int) -> HostPort:
    name: str = link.get_attr("IFLA_IFNAME")
    properties = link.get_attr("IFLA_PROP_LIST")
    information = link.get_attr("IFLA_LINKINFO")
    permanent = link.get_attr("IFLA_PERM_ADDRESS")
    mac = link.get_attr("IFLA_ADDRESS")
    try:
        place = os.readlink(f"class/net/{name}", dir_fd=sysfs).split("/")
    except OSError:  # it went a moment ago
        place = []
    usb = any(_USB.fullmatch(part) for part in place)
    functions = [part for part in place if _PCI.fullmatch(part)]
    with Ethtool(name) as driver:
        driver_name = driver.driver()["driver"]
    return HostPort(
        name=name,
        index=link["index"],
        altnames=tuple(sorted(properties.get_attrs("IFLA_ALT_IFNAME"))) if properties else (),
        mac=mac if mac and mac != _NO_MAC else None,
        permanent_mac=None if not permanent or permanent == _NO_MAC else permanent.lower(),
        pci=functions[-1] if functions and not usb else None,
        dev_port=_number(name, sysfs),
        driver=driver_name,
        kind=information.get_attr("IFLA_INFO_KIND") if information else None,
        virtual="virtual" in place,
        wifi=_exists(f"class/net/{name}/phy80211", sysfs) or _exists(f"class/net/{name}/wireless", sysfs),
        usb=usb,
        uppers=_uppers(name, sysfs),
    )


def _number(name: str, sysfs: int) -> int:
    try:
        file = os.open(f"class/net/{name}/dev_port", os.O_RDONLY | os.O_CLOEXEC, dir_fd=sysfs)
        try:
            return int(os.read(file, 32))
        finally:
            os.close(file)
    except (OSError, ValueError):
        return 0


def _exists(path: str, sysfs: int) -> bool:
    try:
        os.stat(path, dir_fd=sysfs)
    except OSError:
        return False
    return True


def _uppers(name: str, sysfs: int) -> tuple[str, ...]:
    try:
        folder = os.open(f"class/net/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=sysfs)
    except OSError:
        return ()
    try:
        return tuple(sorted(entry[6:] for entry in os.listdir(folder) if entry.startswith("upper_")))  # noqa: PTH208
    finally:
        os.close(folder)
