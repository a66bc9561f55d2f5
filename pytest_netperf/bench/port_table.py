"""The tables ``a`` and ``b`` of a link: which port an end is, its addresses, and how both ends go together."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pytest_netperf.bench.far_end import unlike_a_far_end
from pytest_netperf.bench.model import MTU_RANGE, Port, Topology
from pytest_netperf.bench.ssh_table import read_ssh
from pytest_netperf.bench.toml_table import TomlTable, shown
from pytest_netperf.quantities import parse_speed

__all__ = ["read_port", "speeds_of_ports", "unlike_their_topology"]

_HEX: Final = "[0-9a-fA-F]"
_PORT: Final = re.compile(
    rf"pci-{_HEX}{{4,8}}:{_HEX}{{2}}:{_HEX}{{2}}\.[0-7](/\d{{1,3}})?"
    rf"|mac-{_HEX}{{2}}(:{_HEX}{{2}}){{5}}"
    r"|altname-[^\s/]{1,127}"
)
_KERNEL_NAME: Final = re.compile(r"(?!(pci|mac|altname)-)(?!\.{1,2}$)[^\s/:]{1,15}", re.IGNORECASE)
_VLANS: Final = (1, 4094)
_EXAMPLES: Final = {"address": "198.18.1.2/24", "address6": "2001:db8:1::2/64"}

_Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def read_port(table: TomlTable | None, *, simulated: bool) -> Port | None:
    """The port that a table describes; a simulated one needs no name."""
    if table is None:
        return None
    port = table.text("port", required=not simulated) or ""
    if port and not _PORT.fullmatch(port) and not _KERNEL_NAME.fullmatch(port):
        table.wrong(
            "port",
            f"{shown(port)} does not name a port; write what survives a reboot, as pci-0000:04:00.0, "
            "pci-0000:04:00.0/1 (second port of the card), mac-00:00:5e:00:53:01 or altname-NAME, or the kernel's name",
        )
    address, gateway = _addresses(table, "")
    address6, gateway6 = _addresses(table, "6")
    if address is not None and address6 is not None and ":" in address:
        table.wrong("address", f"{shown(address)} is an IPv6 address, and address6 has one too; keep one of them")
    speed = table.quantity("speed", parse_speed, "2.5G")
    device_mtu = table.integer("device_mtu", *MTU_RANGE, "bytes")
    vlan = table.integer("vlan", *_VLANS, "a VLAN")
    namespace = table.text("namespace")
    addressed = table.flag("allow_addressed", default=False)
    virtual = table.flag("allow_virtual", default=False)
    ssh, iperf3 = read_ssh(table), table.text("iperf3")
    if iperf3 is not None and not table.given("ssh"):
        table.wrong("iperf3", 'is the one of another host; add ssh = "root@198.18.0.2", or remove it')
    table.close()
    return Port(
        port=port,
        address=address,
        gateway=gateway,
        address6=address6,
        gateway6=gateway6,
        speed_bps=speed,
        device_mtu=device_mtu,
        vlan=vlan,
        namespace=namespace,
        allow_addressed=bool(addressed),
        allow_virtual=bool(virtual),
        ssh=ssh,
        iperf3=iperf3 or "iperf3",
    )


def _addresses(table: TomlTable, six: str) -> tuple[str | None, str | None]:
    """Address and gateway of one kind of keys."""
    address, gateway = table.text(f"address{six}"), table.text(f"gateway{six}")
    interface = _interface(table, f"address{six}", address) if address else None
    if gateway:
        _check_gateway(table, f"gateway{six}", gateway, interface, address)
    return address, gateway


def _interface(table: TomlTable, key: str, address: str) -> _Interface | None:
    way_out = f"write an address with its prefix length, such as {_EXAMPLES[key]}"
    try:
        interface = ipaddress.ip_interface(address)
    except ValueError as error:
        table.wrong(key, f"{shown(address)} is not an IP address with a prefix length ({error}); {way_out}")
        return None
    if "/" not in address:
        table.wrong(key, f"{shown(address)} has no prefix length; {way_out}")
        return None
    network = interface.network
    if interface.is_multicast or interface.is_unspecified or interface.is_loopback:
        table.wrong(key, f"{shown(address)} cannot be the address of a port; {way_out}")
    elif key == "address6" and network.version == 4:
        table.wrong(key, f"{shown(address)} is an IPv4 address; write it as address, and an IPv6 one here")
    elif network.version == 4 and network.prefixlen < 31:
        for special, what in ((network.network_address, "network"), (network.broadcast_address, "broadcast")):
            if interface.ip == special:
                table.wrong(key, f"{shown(address)} is the {what} address of {network}; {way_out}")
    return interface


def _check_gateway(table: TomlTable, key: str, gateway: str, interface: _Interface | None, address: str | None) -> None:
    beside = _EXAMPLES[key.replace("gateway", "address")]
    example = beside.partition("/")[0][:-1] + "1"
    try:
        ip = ipaddress.ip_address(gateway)
    except ValueError:
        table.wrong(key, f"{shown(gateway)} is not an IP address; write one such as {example}, without prefix")
        return
    if address is None:
        table.wrong(key, f"needs an address of the port beside it, such as {beside}")
    elif interface is not None and interface.ip == ip:
        table.wrong(key, f"{shown(gateway)} is the address of the port itself")
    elif interface is not None and ip not in interface.network and not (ip.is_link_local and ip.version == 6):
        table.wrong(key, f"{shown(gateway)} cannot be reached from {shown(address)}: it is outside its network")


def speeds_of_ports(
    table: TomlTable, topology: Topology, speed: float | None, ends: dict[str, Port | None], *, shaped: bool
) -> tuple[float | None, dict[str, Port | None]]:
    """The speed of the link, which is that of its slower port, and the ports with the speed of each.

    A port that has none of its own has that of the link. Ports of one cable have no speeds of their own.
    """
    own = {end: port.speed_bps for end, port in ends.items() if port is not None and port.speed_bps is not None}
    if not own:
        return speed, ends
    for end in own:
        if topology == "pair":
            table.wrong(
                f"{end}.speed", "a pair is one cable, with one speed; write it beside the name of the link, as speed"
            )
        elif not shaped:
            table.wrong(f"{end}.speed", "a link with shaped = false has no speed that would limit it; remove one")
    speeds = {end: own.get(end, speed) for end in ends}
    known = [each for each in speeds.values() if each is not None]
    if topology == "pair" or len(known) < len(ends):
        return speed, ends
    filled: dict[str, Port | None] = {
        end: replace(port or Port(port=""), speed_bps=speeds[end]) for end, port in ends.items()
    }
    return min(known), filled


def unlike_their_topology(topology: Topology, a: Port, b: Port) -> Iterator[tuple[str, str]]:
    """What is wrong with the addresses of two real ports together: key and problem."""
    if topology == "routed":
        yield from _unlike_a_route(a, b)
    elif topology in ("pair", "switched"):
        yield from _unlike_one_network(topology, a, b)
    yield from unlike_a_far_end(topology, a, b)


def _unlike_one_network(topology: Topology, a: Port, b: Port) -> Iterator[tuple[str, str]]:
    """What ends of one network cannot have: a router between them, or addresses that are not neighbours."""
    what = "a pair is one cable" if topology == "pair" else "a switched link is one network"
    for end, port in (("a", a), ("b", b)):
        for key, gateway in (("gateway", port.gateway), ("gateway6", port.gateway6)):
            if gateway is not None:
                yield f"{end}.{key}", f'{what} without a router; remove it, or write topology = "routed"'
    for key, first, second in (("address", a.address, b.address), ("address6", a.address6, b.address6)):
        if first is None or second is None:
            if first != second:
                end, given = ("b", first) if second is None else ("a", second)
                way_out = "write one of the same network, or none at both ends"
                yield f"{end}.{key}", f"is missing, and the other end has {given}; {way_out}"
            continue
        one, other = ipaddress.ip_interface(first), ipaddress.ip_interface(second)
        if one.ip == other.ip:
            yield f"b.{key}", f"{shown(second)} is the address of end a too"
        elif one.network != other.network:
            share = "the two ends of one cable" if topology == "pair" else "both ends of a switched link"
            way_out = f"{share} share a network; write an address of {one.network}"
            yield f"b.{key}", f"{shown(second)} is not in the network of end a ({first}); {way_out}"
        yield from _link_local(key, first, second)


def _link_local(key: str, *addresses: str) -> Iterator[tuple[str, str]]:
    for end, each in zip("ab", addresses, strict=True):
        if ipaddress.ip_interface(each).is_link_local:
            problem = "is a link-local address, which means nothing without its port; write another one"
            yield f"{end}.{key}", f"{each} {problem}"


def _unlike_a_route(a: Port, b: Port) -> Iterator[tuple[str, str]]:
    """Both ends need an address in a network of its own, and the device's address there as their gateway."""
    for end, port in (("a", a), ("b", b)):
        if port.address is None:
            yield f"{end}.address", "is missing; write one in the network of the device there, such as 198.18.1.2/24"
        elif ":" in port.address:
            yield f"{end}.address", f"{shown(port.address)} is an IPv6 address; write it as address6, and IPv4 here"
        if port.address is not None and port.gateway is None:
            yield f"{end}.gateway", "is missing; write the address that the device has there, such as 198.18.1.1"
        if port.address6 is not None and port.gateway6 is None:
            yield f"{end}.gateway6", "is missing; write the address that the device has there, such as 2001:db8:1::1"
    if (a.address6 is None) != (b.address6 is None):
        end, given = ("b", a.address6) if b.address6 is None else ("a", b.address6)
        yield f"{end}.address6", f"is missing, and the other end has {given}; write one, or none at both ends"
    for key, first, second in (("address", a.address, b.address), ("address6", a.address6, b.address6)):
        if first is None or second is None:
            continue
        one, other = ipaddress.ip_interface(first), ipaddress.ip_interface(second)
        if one.version == other.version and one.network.overlaps(other.network):
            problem = f"is in the network of end a ({one.network}), and a router is between two networks"
            yield f"b.{key}", f'{shown(second)} {problem}; write one of another, or topology = "switched"'
        yield from _link_local(key, first, second)
