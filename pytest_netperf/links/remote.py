"""Bring up a link whose far end is another host: log in, look, have both ports ready, prove the path.

    this machine                                            far host, over ssh
    port a --> netns a  ===cable, device, network===  port b: where it is, or in a network namespace that is there

The far port is not moved and keeps its addresses. Its MTU is set where the test asks for another one, and is put back
when the link goes down, or when the far host hears no more of us.
"""

from __future__ import annotations

import contextlib
import ipaddress
import time
from collections.abc import Mapping
from typing import Any, Final

from pytest_netperf.bench.model import Port
from pytest_netperf.errors import LinkError, StationError
from pytest_netperf.links.far_end import FarEndpoint, RemoteLink
from pytest_netperf.links.lent_ports import claim_in_turn, lend_ports
from pytest_netperf.links.owner import Owner
from pytest_netperf.links.process import Process
from pytest_netperf.remote.far_host import FarHost, FarPort
from pytest_netperf.remote.ssh import SshConnection, connect

__all__ = ["bring_up_remote", "look_at_far_end"]

_HOLD_SECONDS: Final = 10.0


def bring_up_remote(
    owner: Owner,
    key: str,
    *,
    name: str,
    speed_bps: float | None,
    mtu: int,
    near: Port,
    far: Port,
    asked: Mapping[str, Any],
) -> RemoteLink:
    """Log in, claim and lend the near port, and prove the path. Raises LinkError, SshError or KeeperError.

    ``near`` and ``far`` are ends a and b of the bench file; ``asked`` are settings of the near port.
    """
    assert far.ssh is not None
    connection = connect(far.ssh)
    try:
        return _on(connection, owner, key, name, speed_bps, mtu, near, far, asked)
    except BaseException:
        connection.close()
        raise


def _on(
    connection: SshConnection,
    owner: Owner,
    key: str,
    name: str,
    speed_bps: float | None,
    mtu: int,
    near: Port,
    far: Port,
    asked: Mapping[str, Any],
) -> RemoteLink:
    host = FarHost(connection, far.namespace)
    port, address, address6 = _look(host, near, far)
    end = FarEndpoint(host, port, str(address.ip), None if address6 is None else str(address6.ip), mtu)
    with contextlib.ExitStack() as undo:
        claim = claim_in_turn(f"far-{port.mac}")  # before the near port, so that nobody waits for who waits for him
        undo.callback(claim.close)
        had = host.read_port(port.interface).mtu  # whoever held it may have changed it
        held = _with_mtu(end, host, port.interface, had, mtu)
        if held is not None:
            undo.callback(held.end, grace=3.0)
        spec = {
            "mtu": mtu,
            "topology": "remote",
            "ports": {"a": near},
            "asked": dict(asked),
            "far": {"name": host.name, "mac": port.mac, "address": end.address, "address6": end.address6},
        }
        try:
            answer = lend_ports(owner, key, spec)
        except LinkError as error:
            raise _with_far_carrier(error, host, port) from None
        link = RemoteLink(owner, key, answer, end, host, port, name=name, speed_bps=speed_bps, mtu=mtu)
        if held is not None:
            link.facts["far_mtu_was"] = had
        link.undo = undo.pop_all()
    return link


def look_at_far_end(near: Port, far: Port) -> str:
    """Log in, and say in words what there is. Raises LinkError or SshError with what a link would miss."""
    assert far.ssh is not None
    with connect(far.ssh) as connection:
        port, *_ = _look(FarHost(connection, far.namespace), near, far)
    return f"{port.interface}, {port.driver or 'no driver'}, of {port.host} ({port.kernel}, {port.iperf3_version})"


_Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def _look(host: FarHost, near: Port, far: Port) -> tuple[FarPort, _Interface, _Interface | None]:
    """The far port with its addresses that are to be used."""
    port = host.look(far.port, far.iperf3)
    address, address6 = _far_address(host, port, far, 4), None
    if near.address6 is not None:
        address6 = _far_address(host, port, far, 6)
    _check_reach(near.address, near.gateway, address, "address")
    _check_reach(near.address6, near.gateway6, address6, "address6")
    return port, address, address6


def _far_address(host: FarHost, port: FarPort, far: Port, version: int) -> _Interface:
    """The address that the bench file gives and the far port has, or the only one it has."""
    has = [each for each in map(ipaddress.ip_interface, port.addresses) if each.version == version]
    given, key = (far.address, "address") if version == 4 else (far.address6, "address6")
    shown = ", ".join(map(str, has)) or f"no IPv{version} address"
    if given is None:
        if len(has) == 1:
            return has[0]
        way_out = f"write the one to use as {key} of end b" if has else "give it one there (ip address add)"
        raise LinkError(f"{host.name}: its port {port.interface} has {shown}; {way_out}")
    wanted = ipaddress.ip_interface(given)
    if wanted.ip not in [each.ip for each in has]:
        raise LinkError(
            f"{host.name}: its port {port.interface} has {shown}, and not {wanted.ip}, which the bench file gives "
            f"to end b; give it to the port there (ip address add {given} dev {port.interface}), or correct the bench "
            "file"
        )
    return wanted


def _check_reach(near: str | None, gateway: str | None, far: _Interface | None, key: str) -> None:
    """The far address is in the network of the near port, or behind a gateway. Raises LinkError."""
    if near is None or far is None:
        return
    network = ipaddress.ip_interface(near).network
    if gateway is None and far.ip not in network:
        raise LinkError(
            f"the far port has {far.ip}, which is not in the network of end a ({network}): correct the {key} of end a, "
            f"or write the gateway that leads there as {key.replace('address', 'gateway')}"
        )


def _with_mtu(end: FarEndpoint, host: FarHost, interface: str, had: int, mtu: int) -> Process | None:
    """The program that gives the far port another MTU while it runs; None where it has it. Raises LinkError."""
    if had == mtu:
        return None
    process = end.supervise(host.hold_mtu(interface, mtu), called="what sets the MTU")
    deadline = time.monotonic() + _HOLD_SECONDS
    while "held" not in process.stdout:
        if process.wait(0.02) or time.monotonic() > deadline:
            process.end(grace=0.0)
            said = process.stderr.strip().splitlines()[-1:] or ["it did not answer"]
            raise LinkError(
                f"{host.name}: its port {interface} has an MTU of {had}, the test asks for {mtu}, and it could not be "
                f"set ({said[0]}): set it there (ip link set {interface} mtu {mtu}), log in as root, or measure at MTU "
                f"{had}"
            )
    return process


def _with_far_carrier(error: LinkError, host: FarHost, port: FarPort) -> LinkError:
    """Says also that the far port has no carrier, where that is so."""
    try:
        if host.has_carrier(port.interface):
            return error
    except StationError as other:
        return LinkError(f"{error}; and {other}")
    return LinkError(f"{error}; and at the far end port {port.interface} has no carrier either")
