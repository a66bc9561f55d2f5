"""A simulated switch: a bridge in a namespace of its own, both ends in one subnet.

Before traffic it is proved that packets pass it: the bridge has learned the address of each end behind the port of that
end (IEEE 802.1Q, 8.7), the TTL does not fall, and packets of the full MTU pass the whole path with DF, both ways.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from typing import Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.pair import lab_addresses
from pytest_netperf.links.path_proof import ttl_at_arrival
from pytest_netperf.links.through_device import DEVICE_PORTS, ThroughDevice

__all__ = ["SwitchedPath"]

_BRIDGE: Final = "bridge"
_TTL: Final = 64


class SwitchedPath(ThroughDevice):
    """Made, shaped, proved and closed inside the keeper."""

    def _plan_addresses(self, spec: Mapping[str, Any]) -> dict[str, dict[str, str | None]]:  # noqa: ARG002 - of other topologies
        ends: dict[str, dict[str, str | None]] = {end: {**each} for end, each in lab_addresses(self.index).items()}
        return {**ends, **{port: {"address": None, "address6": None} for port in DEVICE_PORTS.values()}}

    def _start_device(self) -> None:
        ipr = self.device.ipr
        try:
            # Without snooping of multicast, which waits for a querier, IPv6 neighbours find each other at once.
            ipr.link("add", ifname=_BRIDGE, kind="bridge", br_mcast_snooping=0)
        except Exception as error:
            raise LinkError(
                f"the simulated switch needs a bridge, and this kernel makes none: {error}; run `sudo modprobe bridge`"
            ) from error
        ipr.link("set", index=socket.if_nametoindex(_BRIDGE), state="up")

    def _configure(self, end: str) -> None:
        if end in DEVICE_PORTS:
            super()._configure(end)
            return
        ipr, port = self.device.ipr, self.ports[end]
        port["index"] = socket.if_nametoindex(port["interface"])
        ipr.link("set", index=port["index"], master=socket.if_nametoindex(_BRIDGE), state="up")

    def _probes(self, end: str, stack: contextlib.ExitStack) -> dict[int, socket.socket]:
        if end in DEVICE_PORTS:
            return super()._probes(end, stack)
        return {socket.AF_INET: stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))}

    def prove(self) -> None:
        """See `Pair`; and that it was this bridge that passed the packets on."""
        super().prove()
        with contextlib.ExitStack() as stack:
            probes = {end: self.ends[end].call(self._probes, end, stack) for end in DEVICE_PORTS}
            for family, sender in probes["a"].items():
                arrived = ttl_at_arrival(sender, probes["b"][family], _TTL)
                if arrived != _TTL:
                    raise LinkError(
                        f"a packet that left with a TTL of {_TTL} arrived with {arrived}: something on the path "
                        "routes, and a switch does not"
                    )
        learned = self.device.call(self._learned)
        for end, port in DEVICE_PORTS.items():
            if learned.get(self.ports[end]["mac"]) != self.ports[port]["index"]:
                raise LinkError(f"the switch has not seen end {end} behind its port: the traffic takes another way")
        self.facts["proof"] |= {"switch_learned_both_ends": True, "ttl_falls_by": 0}

    def _learned(self) -> dict[str, int]:
        """MAC address -> index of the port behind which the bridge saw it."""
        return {
            entry.get_attr("NDA_LLADDR"): entry["ifindex"]
            for entry in self.device.ipr.fdb("dump")
            if entry.get_attr("NDA_LLADDR") and entry.get_attr("NDA_MASTER")
        }
