"""A simulated device in the middle: a third namespace that forwards between two subnets.

    netns a                     netns device                     netns b
    [ npXXXXa ] == veth == [ npXXXXp  |  npXXXXq ] == veth == [ npXXXXb ]
        TBF ->              <- TBF         TBF ->              <- TBF

All four ports are shaped like those of a pair (`links.simulated`). The device has an address of each subnet, which is
the gateway of the end there. Before traffic it is proved that packets pass it: each end's gateway is the device's port,
the TTL falls by one, and packets of the full MTU pass the whole path with DF, both ways.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.namespace import Namespace
from pytest_netperf.links.pair import lab_addresses
from pytest_netperf.links.path_proof import path_mtu, ttl_at_arrival
from pytest_netperf.links.simulated import INDEX_OF_A, SimulatedPair, port_names

__all__ = ["DEVICE_PORTS", "RoutedPath"]

DEVICE_PORTS: Final = {"a": "device_a", "b": "device_b"}
"""End -> the port of the device that it is connected to."""
_SWITCHES: Final = (
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    # A router asks for neighbours from its link-local address, which is not usable for 2 s while it looks for another
    # port that has the same.
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
)
_TTL: Final = 64
_TRY_SECONDS: Final = 0.12  # of a packet that may be too large, once the neighbours are known
_LEAST_MTU: Final = {socket.AF_INET: 68, socket.AF_INET6: 1280}


class RoutedPath(SimulatedPair):
    """Made, shaped, proved and closed inside the keeper. ``spec`` has what that of a pair has, and:

    ``far_index``, the lab subnet of end b; ``device_mtu``, the MTU of the device's ports where it is not that of the
    ends; ``state``, what the device does beside forwarding (`links.device_states`).
    """

    _device_rate_bps: float | None = None

    def _plan_ports(self, spec: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        self._device_mtu: int = spec.get("device_mtu") or self.mtu
        near, far = lab_addresses(self.index), lab_addresses(spec["far_index"])
        ports: dict[str, dict[str, Any]] = {
            "a": {**port_names(self.index, "a", 1), **near["a"]},
            "b": {**port_names(self.index, "b", 2), **far["b"]},
            "device_a": {**port_names(self.index, "p", 3), **near["b"]},
            "device_b": {**port_names(self.index, "q", 4), **far["a"]},
        }
        if self._device_mtu < _LEAST_MTU[socket.AF_INET6]:
            for port in ports.values():
                port["address6"] = None
        return ports

    @property
    def device(self) -> Namespace:
        """The namespace of the device."""
        return self.ends["device_a"]

    def next_hop(self, end: str) -> str:
        """See `Pair`: the device's port."""
        return DEVICE_PORTS[end]

    def _build(self) -> None:
        device = Namespace("device")
        self.ends |= dict.fromkeys(DEVICE_PORTS.values(), device)
        for namespace in self.ends.values():
            namespace.wait_started()
        device.call(self._forward)
        for number, end in enumerate(("a", "b")):
            namespace, port, opposite = self.ends[end], self.ports[end], self.ports[DEVICE_PORTS[end]]
            namespace.call(
                namespace.ipr.link,
                "add",
                ifname=port["interface"],
                index=INDEX_OF_A + number,
                address=port["mac"],
                kind="veth",
                mtu=self.mtu,
                peer={
                    "ifname": opposite["interface"],
                    "address": opposite["mac"],
                    "mtu": self._device_mtu,
                    "net_ns_fd": device.fd,
                },
            )
        self.both(self._configure)

    def _forward(self) -> None:
        """Be a router. Called in the device's thread."""
        for switch, value in _SWITCHES:
            try:
                Path("/proc/sys/net", switch).write_text(value)
            except FileNotFoundError:  # a kernel without IPv6
                continue
            except OSError as error:
                raise LinkError(
                    f"the simulated device cannot forward: /proc/sys/net/{switch} cannot be written "
                    f"({os.strerror(error.errno or 0)}); in a container, start it with a writable /proc/sys"
                ) from None

    def _configure(self, end: str) -> None:
        super()._configure(end)
        if end in DEVICE_PORTS:
            self._add_routes(end)

    def _add_routes(self, end: str) -> None:
        """The gateway of an end, which is behind no other port."""
        ipr, port, gateway = self.ends[end].ipr, self.ports[end], self.ports[DEVICE_PORTS[end]]
        port["gateway"] = gateway["address"]
        ipr.route("replace", dst="default", gateway=gateway["address"], oif=port["index"])
        if port["address6"] is not None and gateway["address6"] is not None:
            ipr.route("replace", dst="default", gateway=gateway["address6"], oif=port["index"], family=socket.AF_INET6)

    def up_again(self, end: str) -> None:
        """See `Pair`; the routes went with the port too."""
        super().up_again(end)
        if end in DEVICE_PORTS:
            self._add_routes(end)

    def _rate_bps(self, end: str) -> float | None:
        """A rate that is too low is that of the device: of its port at the other side."""
        opposite = {"device_b": "a", "device_a": "b"}.get(end)
        if opposite is None:
            return self.speed_bps
        rates = (self._fault_rate_bps(opposite), self._device_rate_bps, self.speed_bps)
        return min((rate for rate in rates if rate is not None), default=None)

    def _after_proof(self, spec: Mapping[str, Any]) -> None:
        if spec.get("state"):
            from pytest_netperf.links.device_states import enter_state

            self.facts["device_state"] = enter_state(self, spec["state"])

    def limit_device(self, rate_bps: float) -> None:
        """Let the device's ports send no faster, whatever the speed of the link."""
        self._device_rate_bps = rate_bps
        self.reshape()

    def prove(self) -> None:
        """See `Pair`; and each way the TTL falls by one."""
        super().prove()
        with contextlib.ExitStack() as stack:
            probes = {end: self.ends[end].call(self._probes, end, stack) for end in ("a", "b")}
            for family, sender in probes["a"].items():
                for source, target in ((sender, probes["b"][family]), (probes["b"][family], sender)):
                    arrived = ttl_at_arrival(source, target, _TTL)
                    if arrived != _TTL - 1:
                        raise LinkError(
                            f"a packet that left with a TTL of {_TTL} arrived with {arrived}, and a device that "
                            f"forwards leaves {_TTL - 1}: the traffic does not pass the device, or not only it"
                        )
        self.facts["proof"] |= {"gateways_resolved": True, "ttl_falls_by": 1}

    def smaller_mtu(self, source: str, sender: socket.socket, receiver: socket.socket) -> str:
        """See `Pair`: finds the path MTU."""
        headers = 48 if sender.family == socket.AF_INET6 else 28
        found = path_mtu(
            lambda mtu: self.passes(source, sender, receiver, mtu - headers, _TRY_SECONDS),
            _LEAST_MTU[socket.AddressFamily(sender.family)],
            self.mtu,
        )
        return (
            f"the MTU is {self.mtu} at both ends and {found} in the middle; set the MTU on every device of the path, "
            f"or measure at MTU {found}"
        )

    def where_to_look(self) -> str:
        """See `Pair`."""
        return ": the device does not forward, or not to this end"
