"""What the ends of a remote link must have: a port of this machine with an address, and a host to log in to."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from pytest_netperf.bench.model import Port, Topology
from pytest_netperf.bench.toml_table import shown

__all__ = ["unlike_a_far_end"]


def unlike_a_far_end(topology: Topology | None, a: Port, b: Port) -> Iterator[tuple[str, str]]:
    """What is wrong with the ends of a real link as far as another host is concerned: key and problem."""
    if a.ssh is not None:
        yield "a.ssh", "end a is a port of this machine; the other host is end b"
    if topology != "remote":
        if b.ssh is not None:
            yield "b.ssh", 'only a remote link has its end b on another host; add topology = "remote", or remove it'
        return
    if b.ssh is None:
        yield "b.ssh", 'is missing; write how to log in to the host that has this port, such as "root@198.18.0.2"'
    if a.address is None:
        yield "a.address", "is missing; write one in the network of the far port, such as 198.18.1.1/24"
    for end, port in (("a", a), ("b", b)):
        if port.address is not None and ":" in port.address:
            yield f"{end}.address", f"{shown(port.address)} is an IPv6 address; write it as address6, and IPv4 here"
    if b.address6 is not None and a.address6 is None:
        yield "a.address6", f"is missing, and end b has {b.address6}; write one, or none at both ends"
    for name, given in (("gateway", b.gateway), ("gateway6", b.gateway6)):
        if given is not None:
            yield f"b.{name}", "the routes of another host are its own; set them there, and remove it"
    for name, allowed in (("allow_addressed", b.allow_addressed), ("allow_virtual", b.allow_virtual)):
        if allowed:
            yield (
                f"b.{name}",
                "is about ports of this machine, which are taken; a far port stays where it is; remove it",
            )
    for key, near, far in (("address", a.address, b.address), ("address6", a.address6, b.address6)):
        if near is not None and far is not None and ipaddress.ip_interface(near).ip == ipaddress.ip_interface(far).ip:
            yield f"b.{key}", f"{shown(far)} is the address of end a too"
