"""Two physical ports of one network, with a switch between them.

Before traffic it is proved that packets pass something that is no cable, and that does not route.
"""

from __future__ import annotations

import time
from typing import Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.device_ports import TTL, DevicePorts

__all__ = ["SwitchedPorts"]

_CARRIER_FALLS_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.02


class SwitchedPorts(DevicePorts):
    """One network, and something between the ports that a cable is not."""

    ttl_falls_by = 0

    def prove_next_hops(self) -> dict[str, Any]:
        """See `DevicePorts`: the ports themselves are neighbours, once a packet has passed."""
        return {}

    def prove_device(self) -> None:
        """That a switch is between the ports: it keeps frames for the nearest bridge to itself, and the carrier of one
        port when the other goes down. A cable does neither; a cheap switch does only the second."""
        neighbours = self.both(lambda end: self.ends[end].neighbours_here())
        for end, other in ("ab", "ba"):
            address, mac = self.ports[other]["address"], self.ports[other]["mac"]
            found = neighbours[end].get(address)
            if found != mac:
                raise LinkError(
                    f"end {end}: neighbour {address} is {found or 'unresolved'}, expected {mac}: what is between the "
                    "ports answers itself, and does not switch"
                )
        self.facts["proof"]["neighbours_resolved"] = True
        heard = self.are_cabled()
        if heard and self._carrier_falls():
            raise LinkError(
                f"port {self.ports['a']['name']} and port {self.ports['b']['name']} are cabled to each other, without "
                "a switch between them: b hears frames that a switch keeps to itself, and loses its carrier when a "
                'goes down; put the device between them, or write topology = "pair"'
            )
        self.facts["proof"]["between_the_ports"] = (
            "something that passes on frames for the nearest bridge, and keeps the carrier of b when a goes down"
            if heard
            else "something that keeps frames for the nearest bridge to itself, as a switch does"
        )

    def _carrier_falls(self) -> bool:
        """Whether port b loses its carrier when port a goes down. Both work again afterwards."""
        a, b = self.ends["a"], self.ends["b"]
        a.call(a.ipr.link, "set", index=self.ports["a"]["index"], state="down")
        try:
            deadline = time.monotonic() + _CARRIER_FALLS_SECONDS
            while time.monotonic() < deadline:
                (link,) = b.call(b.ipr.link, "get", index=self.ports["b"]["index"])
                if not link.get_attr("IFLA_CARRIER"):
                    return True
                time.sleep(_POLL_SECONDS)
            return False
        finally:
            a.call(self.up_again, "a")
            self.wait_for_carriers()

    def wrong_ttl(self, arrived: int, source: str, target: str) -> str:
        """See `DevicePorts`."""
        return (
            f"a packet that left {source} with a TTL of {TTL} arrived at {target} with {arrived}: something on the "
            "path routes, and a switch does not"
        )

    def where_to_look(self) -> str:
        """See `Pair`."""
        return ": both ports have a carrier, but the device passes nothing between them; are they in one VLAN of it?"
