"""Why a port must not be taken: what this machine would lose with it, and what could not be given back."""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_netperf.links.netlink import ROUTE, attributes, exchange
from pytest_netperf.links.port_records import routes_of_several_ports
from pytest_netperf.links.port_state import read_port_state
from pytest_netperf.links.ports import HostPort
from pytest_netperf.links.wifi import wifi_refusals

__all__ = ["MachineUse", "read_machine_use", "refusals"]

_NETWORK_FILE_SYSTEMS: Final = {"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "glusterfs", "fuse.glusterfs"}
_SERVER: Final = re.compile(r"(?:^|,)addr=([0-9A-Fa-f.:]+)")
_ESTABLISHED: Final = "01"
_GETQDISC: Final = 38
_TCMSG: Final = struct.Struct("=BxxxiIII")  # family, index, handle, parent, info
_KIND: Final = 1
_RUN: Final = Path("/run")
_MANAGERS: Final = ("NetworkManager", "systemd-network")  # the kernel keeps 15 characters of systemd-networkd


@dataclass(frozen=True, slots=True)
class MachineUse:
    """What this machine does over its network, whichever port it takes. To be read once for many ports."""

    lost_with: Mapping[int, tuple[str, ...]]
    """Interface -> why this machine would be cut off without it."""
    managers: frozenset[str]
    """Which of those that set up ports run in the calling thread's namespace."""


def read_machine_use(ipr: Any) -> MachineUse:
    """By the processes and mounts of the machine; ``ipr`` is an IPRoute of the calling thread's namespace."""
    sockets, managers = _processes()
    lost: dict[int, list[str]] = {}
    for peer in sorted(_ssh_peers(sockets)):
        if (index := _leads_through(peer, ipr)) is not None:
            what = f"an ssh session from {peer} comes in through it; choose another port, or log in at the console"
            lost.setdefault(index, []).append(what)
    for target, server in _mounts():
        if (index := _leads_through(server, ipr)) is not None:
            what = f"the file system {target} is mounted through it from {server}; choose another port"
            lost.setdefault(index, []).append(what)
    return MachineUse({index: tuple(whats) for index, whats in lost.items()}, managers)


def refusals(port: HostPort, ipr: Any, use: MachineUse, *, allow_addressed: bool, allow_virtual: bool) -> list[str]:
    """Every reason, each with the way out; empty for a port that may be taken.

    ``ipr`` is an IPRoute of the calling thread's namespace, which is the port's; ``use`` was read in the same one.
    """
    stands_in = port.kind == "veth" or port.wifi
    if port.virtual and not (allow_virtual and stands_in):
        return [_no_hardware(port, ipr, stands_in)]
    found = []
    if port.uppers:
        names = ", ".join(port.uppers)
        found.append(
            f"{names} stands on it (a bridge, bond, team or VLAN); take the port out of it first "
            f"(ip link set {port.name} nomaster) or remove {names}"
        )
    state = read_port_state(ipr, port.index)
    found += _carried(port, state, ipr)
    found += use.lost_with.get(port.index, ())
    addresses = [each["is"] for each in state["addresses"] if not each["is"].startswith("fe80:")]
    if addresses and not allow_addressed:
        found.append(
            f"it has addresses ({', '.join(addresses)}), so something uses it; remove them, or write "
            "allow_addressed = true beside the port: then they and its routes go, and come back after the run"
        )
    manager = _manager(port, use.managers)
    if manager:
        found.append(manager)
    shared = routes_of_several_ports(port.index)
    if shared:
        found.append(f"routes that depend on it and others could not be given back: {', '.join(shared)}; remove them")
    queues = _own_queues(port.index)
    if queues:
        found.append(
            f"it has queueing disciplines of its own ({', '.join(queues)}), which a move would lose; remove them "
            f"(tc qdisc del dev {port.name} root)"
        )
    (link,) = ipr.link("get", index=port.index)
    if port.wifi:
        found += wifi_refusals(port.index, bool(state["flags"]["up"] and link.get_attr("IFLA_CARRIER")))
    xdp = link.get_attr("IFLA_XDP")
    if xdp and xdp.get_attr("IFLA_XDP_ATTACHED"):
        found.append(f"an XDP program is attached, which a move would lose (ip link set {port.name} xdp off)")
    return found


def _no_hardware(port: HostPort, ipr: Any, stands_in: bool) -> str:
    """What a port without a device behind it is, and which one to name instead."""
    (link,) = ipr.link("get", index=port.index)
    what = f"it is a {port.kind or ('simulated radio' if port.wifi else 'virtual device')}"
    if stands_in:
        return (
            f"{what} without hardware behind it; it stands in for a port and its cable when its end has "
            "allow_virtual = true, and its rows are SIMULATED then"
        )
    if port.kind == "vlan" and link.get_attr("IFLA_LINK_NETNSID") is None:
        parent = ipr.link("get", index=link.get_attr("IFLA_LINK"))[0].get_attr("IFLA_IFNAME")
        return (
            f"{what} on {parent}: a VLAN cannot be moved without what else uses its port; remove it (ip link del "
            f"{port.name}) and name {parent} itself"
        )
    if port.kind in ("bond", "team", "bridge"):
        below = [each for each in ipr.get_links() if each.get_attr("IFLA_MASTER") == port.index]
        members = ", ".join(sorted(each.get_attr("IFLA_IFNAME") for each in below))
        return (
            f"{what}{f' of {members}' if members else ''} without hardware of its own; remove it (ip link del "
            f"{port.name}) and name one of its ports"
        )
    return f"{what} without hardware behind it"


def _carried(port: HostPort, state: dict[str, Any], ipr: Any) -> Iterator[str]:
    """Whether this machine reaches others through it."""
    defaults = [route["is"] for route in state["routes"] if route["is"].startswith("default")]
    if not defaults and _announced_default(port.index, ipr):
        defaults = ["default, announced by a router"]
    if defaults:
        yield f"it carries the default route of this machine ({', '.join(defaults)}); choose another port"


def _announced_default(index: int, ipr: Any) -> bool:
    return any(
        route.get_attr("RTA_OIF") == index
        for family in (socket.AF_INET, socket.AF_INET6)
        for route in ipr.get_default_routes(family=family)
    )


def _leads_through(address: str, ipr: Any) -> int | None:
    """The interface through which this machine reaches an address; None when it does not."""
    try:
        (route,) = ipr.route("get", dst=address.split("%")[0])
    except Exception:  # noqa: BLE001 - no route, or no address
        return None
    index: int | None = route.get_attr("RTA_OIF")
    return index


def _processes() -> tuple[set[str], frozenset[str]]:
    """The sockets of every sshd, and which managers of ports live in the calling thread's namespace."""
    here = Path("/proc/thread-self/ns/net").stat().st_ino
    sockets, managers = set(), set()
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = comm.read_text().strip()
            if name.startswith("sshd"):
                sockets |= {os.fspath(fd.readlink()) for fd in (comm.parent / "fd").iterdir()}
            if name in _MANAGERS and (comm.parent / "ns" / "net").stat().st_ino == here:
                managers.add(name)
        except OSError:
            continue
    return sockets, frozenset(managers)


def _ssh_peers(sockets: set[str]) -> set[str]:
    """Addresses from which somebody is logged in by ssh: of this session, and of the connections of every sshd."""
    peers = {os.environ[name].split()[0] for name in ("SSH_CONNECTION", "SSH_CLIENT") if os.environ.get(name)}
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/thread-self/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == _ESTABLISHED and f"socket:[{fields[9]}]" in sockets:
                peers.add(_address(fields[2].split(":")[0]))
    return peers


def _address(text: str) -> str:
    """An address as /proc/net/tcp writes it: words in the byte order of the machine."""
    words = [struct.pack("=I", int(text[at : at + 8], 16)) for at in range(0, len(text), 8)]
    packed = b"".join(words)
    if len(packed) == 16 and packed.startswith(bytes(10) + b"\xff\xff"):
        packed = packed[12:]
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def _mounts() -> Iterator[tuple[str, str]]:
    """File systems of other machines: where they are mounted, and from which address."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, source, options = after.split(" ", 2)
        if kind in _NETWORK_FILE_SYSTEMS:
            server = _SERVER.search(options)
            address = server[1] if server else source.rpartition(":")[0].strip("[]")
            if address:
                yield before.split()[4], address


def _manager(port: HostPort, managers: frozenset[str]) -> str | None:
    """NetworkManager or systemd-networkd, if one of them takes care of this port: it would fight for it."""
    if "NetworkManager" in managers:
        text = _read(_RUN / "NetworkManager" / "devices" / str(port.index))
        if re.search(r"^managed=(true|1)$", text, re.MULTILINE):
            return (
                "NetworkManager manages it and would set it up again; let go of it first: "
                f"nmcli device set {port.name} managed no"
            )
    if "systemd-network" in managers:
        text = _read(_RUN / "systemd" / "netif" / "links" / str(port.index))
        state = re.search(r"^ADMIN_STATE=(\w+)$", text, re.MULTILINE)
        if state and state[1] not in ("unmanaged", "linger", "initialized", "pending"):
            return (
                f"systemd-networkd manages it ({state[1]}); let go of it first: a file in /etc/systemd/network with "
                f"[Match] Name={port.name} and [Link] Unmanaged=yes, then networkctl reload"
            )
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _own_queues(index: int) -> list[str]:
    """Queueing disciplines that somebody made: the kernel's own have no handle."""
    found = []
    for message in exchange(ROUTE, _GETQDISC, _TCMSG.pack(0, index, 0, 0, 0), dump=True):
        _, at, handle, _, _ = _TCMSG.unpack_from(message)
        if at == index and handle:
            kind = dict(attributes(message[_TCMSG.size :])).get(_KIND, b"").rstrip(b"\0").decode("ascii", "replace")
            found.append(f"{kind} {handle >> 16:x}:")
    return found
