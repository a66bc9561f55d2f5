"""A simulated router: its namespace forwards between two subnets, and is the gateway of the end in each.

Before traffic it is proved that packets pass it: each end's gateway is the device's port, the TTL falls by one, and
packets of the full MTU pass the whole path with DF, both ways.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.pair import lab_addresses
from pytest_netperf.links.path_proof import LEAST_MTU, ttl_at_arrival
from pytest_netperf.links.through_device import DEVICE_PORTS, ThroughDevice

__all__ = ["RoutedPath"]

_SWITCHES: Final = (
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    # A router asks for neighbours from its link-local address, which is not usable for 2 s while it looks for another
    # port that has the same.
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
)
_TTL: Final = 64


class RoutedPath(ThroughDevice):
    """Made, shaped, proved and closed inside the keeper. ``spec`` has ``far_index`` too, the lab subnet of end b."""

    def _plan_addresses(self, spec: Mapping[str, Any]) -> dict[str, dict[str, str | None]]:
        near, far = lab_addresses(self.index), lab_addresses(spec["far_index"])
        addresses: dict[str, dict[str, str | None]] = {
            "a": {**near["a"]},
            "b": {**far["b"]},
            "device_a": {**near["b"]},
            "device_b": {**far["a"]},
        }
        if min(self._device_mtus.values()) < LEAST_MTU[socket.AF_INET6]:
            for address in addresses.values():
                address["address6"] = None
        return addresses

    def next_hop(self, end: str) -> str:
        """See `Pair`: the device's port."""
        return DEVICE_PORTS[end]

    def _start_device(self) -> None:
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
