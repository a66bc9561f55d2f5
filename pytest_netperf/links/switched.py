"""A simulated switch: a bridge in a namespace of its own, both ends in one subnet.

Before traffic it is proved that packets pass it: the bridge has learned the address of each end behind the port of that
end (IEEE 802.1Q, 8.7), the TTL does not fall, and packets of the full MTU pass the whole path with DF, both ways.
"""

from __future__ import annotations

import contextlib
import errno
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
_FIRST_VLAN: Final = 1  # in which a port is until it is put into another
_PVID, _UNTAGGED = 2, 4  # linux/if_bridge.h


class SwitchedPath(ThroughDevice):
    """Made, shaped, proved and closed inside the keeper."""

    def _plan_addresses(self, spec: Mapping[str, Any]) -> dict[str, dict[str, str | None]]:
        self._vlans: Mapping[str, int | None] = spec.get("vlans") or {}
        ends: dict[str, dict[str, str | None]] = {end: {**each} for end, each in lab_addresses(self.index).items()}
        return {**ends, **{port: {"address": None, "address6": None} for port in DEVICE_PORTS.values()}}

    def _start_device(self) -> None:
        ipr = self.device.ipr
        by_vlan = {"br_vlan_filtering": 1} if any(self._vlans.values()) else {}
        try:
            # Without snooping of multicast, which waits for a querier, IPv6 neighbours find each other at once.
            ipr.link("add", ifname=_BRIDGE, kind="bridge", br_mcast_snooping=0, **by_vlan)
        except Exception as error:
            if by_vlan and getattr(error, "code", None) == errno.EOPNOTSUPP:
                raise LinkError(
                    "the simulated switch has ports in VLANs, and this kernel has no VLANs on bridges "
                    "(CONFIG_BRIDGE_VLAN_FILTERING); take the vlan out of the bench file, or use another kernel"
                ) from None
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
        vlan = self._vlans.get(end[-1])
        if vlan is not None:
            ipr.vlan_filter("del", index=port["index"], vlan_info={"vid": _FIRST_VLAN})
            ipr.vlan_filter("add", index=port["index"], vlan_info={"vid": vlan, "flags": _PVID | _UNTAGGED})

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
            if learned.get(self.ports[end]["mac"]) != (self.ports[port]["index"], self._vlans.get(end)):
                vlan = self._vlans.get(end)
                where = "behind its port" if vlan is None else f"behind its port in VLAN {vlan}"
                raise LinkError(f"the switch has not seen end {end} {where}: the traffic takes another way")
        self.facts["proof"] |= {"switch_learned_both_ends": True, "ttl_falls_by": 0}
        if any(self._vlans.values()):
            self.facts["proof"]["vlans_of_the_switch"] = dict(self._vlans)

    def where_to_look(self) -> str:
        """See `Pair`."""
        if len(set(self._vlans.values())) > 1:
            return f": the ports of the switch are in the VLANs {' and '.join(map(str, self._vlans.values()))}"
        return super().where_to_look()

    def _learned(self) -> dict[str, tuple[int, int | None]]:
        """MAC address -> index of the port behind which the bridge saw it, and the VLAN in which it did."""
        return {
            entry.get_attr("NDA_LLADDR"): (entry["ifindex"], entry.get_attr("NDA_VLAN"))
            for entry in self.device.ipr.fdb("dump")
            if entry.get_attr("NDA_LLADDR") and entry.get_attr("NDA_MASTER")
        }
