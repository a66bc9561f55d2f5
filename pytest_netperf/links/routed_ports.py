"""Two physical ports with a router between them: each in a network of its own, with the device as its gateway.

Before traffic it is proved that packets pass one device that routes: the gateways answer, and the TTL falls by one.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time
from collections.abc import Mapping
from typing import Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.device_ports import TTL, DevicePorts
from pytest_netperf.links.physical import given_address

__all__ = ["RoutedPorts"]

_POLL_SECONDS: Final = 0.02
_ANSWERED_SECONDS: Final = 10.0  # once both gateways have answered, every port on the way forwards
_SCOPE_LINK: Final = "fe80:"
_ANSWERED: Final = 0x02 | 0x04 | 0x08 | 0x10 | 0x80  # linux/neighbour.h: reachable, stale, delay, probe, permanent
_DISCARD: Final = 9


class RoutedPorts(DevicePorts):
    """Two networks, with the device as the gateway in each. ``ports`` have address and gateway, and address6 and
    gateway6 where IPv6 is to be proved too."""

    ttl_falls_by = 1

    def addresses_of(self, end: str, wanted: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - of other topologies
        """See `PhysicalPair`; all of them are the bench file's, because the device has its own beside them."""
        given = {"address6": None, **given_address(wanted["address"]), **given_address(wanted.get("address6"))}
        for key in ("gateway", "gateway6"):
            given[key] = str(ipaddress.ip_address(wanted[key])) if wanted.get(key) is not None else None
        return given

    def hop_address(self, end: str, family: int) -> str:
        """See `Pair`: the gateway."""
        address: str = self.ports[end]["gateway" if family == socket.AF_INET else "gateway6"]
        return address

    def _gateways(self, end: str) -> dict[int, str]:
        port = self.ports[end]
        with_ipv6: dict[int, str] = {} if port["address6"] is None else {socket.AF_INET6: port["gateway6"]}
        return {socket.AF_INET: port["gateway"], **with_ipv6}

    def _add_routes(self, end: str) -> None:
        ipr, index = self.ends[end].ipr, self.ports[end]["index"]
        for family, gateway in self._gateways(end).items():
            ipr.route("replace", dst="default", gateway=gateway, oif=index, family=family)

    def prove_next_hops(self) -> dict[str, Any]:
        """See `DevicePorts`: every gateway answers."""
        found = self.both(self._resolve)
        for end, other in ("ab", "ba"):
            for gateway, mac in found[end].items():
                if mac is None:
                    raise LinkError(self._no_gateway(end, gateway))
                if mac == self.ports[other]["mac"]:
                    raise LinkError(
                        f"end {end}: its gateway {gateway} is port {other} itself ({mac}): the two ports are connected "
                        "to each other, without a device that forwards between them"
                    )
        self.proof_seconds = min(self.proof_seconds, _ANSWERED_SECONDS)
        return {"gateways_resolved": found}

    def _resolve(self, end: str) -> dict[str, str | None]:
        """Gateway -> its MAC address, None where it does not answer. Called in the namespace's thread."""
        ipr, index, gateways = self.ends[end].ipr, self.ports[end]["index"], self._gateways(end)
        found: dict[str, str | None] = dict.fromkeys(gateways.values())
        deadline = time.monotonic() + self.proof_seconds
        while time.monotonic() < deadline and not self.is_abandoned():
            for family, gateway in gateways.items():
                if found[gateway] is None:
                    with socket.socket(family, socket.SOCK_DGRAM) as asking, contextlib.suppress(OSError):
                        asking.setblocking(False)
                        scope = (0, index) if gateway.startswith(_SCOPE_LINK) else ()
                        asking.sendto(b"", (gateway, _DISCARD, *scope))
            time.sleep(_POLL_SECONDS)
            for family, gateway in gateways.items():
                for each in ipr.get_neighbours(family=family, ifindex=index):
                    if each.get_attr("NDA_DST") == gateway:
                        if each["state"] & _ANSWERED:
                            found[gateway] = each.get_attr("NDA_LLADDR")
                        else:  # ask again now; the kernel would after a second
                            with contextlib.suppress(Exception):
                                ipr.neigh("del", dst=gateway, ifindex=index)
            if None not in found.values():
                break
        return found

    def _no_gateway(self, end: str, gateway: str) -> str:
        port = self.ports[end]
        said = f"end {end}: its gateway {gateway} does not answer at port {port['name']} ({port['address']})"
        if self.are_cabled():
            return f"{said}: the two ports are cabled to each other, without a device between them"
        return (
            f"{said}: does the device have this address at this port, are its cables in the right ports, and is it up?"
        )

    def wrong_ttl(self, arrived: int, source: str, target: str) -> str:
        """See `DevicePorts`."""
        fell = TTL - arrived
        what = (
            "it did not pass a device that routes: something switches, or the ports are connected to each other"
            if fell == 0
            else f"{fell} routers are on the way"
            if fell > 0
            else "something on the way sets it anew"
        )
        return (
            f"a packet that left {source} with a TTL of {TTL} arrived at {target} with {arrived}, and one device that "
            f"forwards leaves {TTL - 1}: {what}"
        )

    def where_to_look(self) -> str:
        """See `Pair`."""
        return (
            ": the gateways answer, so the device does not forward between these two networks, it has no way to the "
            "other one, or its filter refuses UDP packets"
        )
