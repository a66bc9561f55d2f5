"""A simulated device between two namespaces: a third one, with a port towards each.

    netns a                     netns device                     netns b
    [ npXXXXa ] == veth == [ npXXXXp  |  npXXXXq ] == veth == [ npXXXXb ]
        TBF ->              <- TBF         TBF ->              <- TBF

All four ports are shaped like those of a pair (`links.simulated`). What the device does between its ports is that of
its topology: `links.routed`, `links.switched`.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Final

from pytest_netperf.links.namespace import Namespace
from pytest_netperf.links.path_proof import middle_mtu
from pytest_netperf.links.simulated import INDEX_OF_A, SimulatedPair, port_names

__all__ = ["DEVICE_PORTS", "ThroughDevice"]

DEVICE_PORTS: Final = {"a": "device_a", "b": "device_b"}
"""End -> the port of the device that it is connected to."""


class ThroughDevice(SimulatedPair):
    """Made, shaped, proved and closed inside the keeper. ``spec`` has what that of a pair has, and:

    ``device_mtus``, end -> the MTU of the device's port there where it is not that of the ends; ``port_speeds_bps``,
    end -> the speed of both ports there where they have one of their own; ``vlans``, end -> the VLAN of the switch's
    port there; ``state``, what the device does beside forwarding (`links.device_states`).
    """

    _device_rate_bps: float | None = None

    def _plan_ports(self, spec: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        mtus = spec.get("device_mtus") or {}
        self._device_mtus: dict[str, int] = {end: mtus.get(end) or self.mtu for end in DEVICE_PORTS}
        self._port_speeds_bps: Mapping[str, float | None] = spec.get("port_speeds_bps") or {}
        names = {"a": ("a", 1), "b": ("b", 2), "device_a": ("p", 3), "device_b": ("q", 4)}
        addresses = self._plan_addresses(spec)
        return {end: {**port_names(self.index, *names[end]), **addresses[end]} for end in names}

    def _plan_addresses(self, spec: Mapping[str, Any]) -> dict[str, dict[str, str | None]]:
        """Port -> its address and address6, None where it has none."""
        raise NotImplementedError

    @property
    def device(self) -> Namespace:
        """The namespace of the device."""
        return self.ends["device_a"]

    def _start_device(self) -> None:
        """Make a router or a switch of an empty namespace. Called in the device's thread."""
        raise NotImplementedError

    def _build(self) -> None:
        device = Namespace("device")
        self.ends |= dict.fromkeys(DEVICE_PORTS.values(), device)
        for namespace in self.ends.values():
            namespace.wait_started()
        device.call(self._start_device)
        for number, end in enumerate(DEVICE_PORTS):
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
                    "mtu": self._device_mtus[end],
                    "net_ns_fd": device.fd,
                },
            )
        self.both(self._configure)

    def _rate_bps(self, end: str) -> float | None:
        """A rate that is too low is that of the device: of its port at the other side."""
        speed = self._port_speeds_bps.get(end[-1]) or self.speed_bps
        opposite = {"device_b": "a", "device_a": "b"}.get(end)
        if opposite is None:
            return speed
        rates = (self._fault_rate_bps(opposite), self._device_rate_bps, speed)
        return min((rate for rate in rates if rate is not None), default=None)

    def limit_device(self, rate_bps: float) -> None:
        """Let the device's ports send no faster, whatever the speed of the link."""
        self._device_rate_bps = rate_bps
        self.reshape()

    def _after_proof(self, spec: Mapping[str, Any]) -> None:
        if spec.get("state"):
            from pytest_netperf.links.device_states import enter_state

            self.facts["device_state"] = enter_state(self, spec["state"])

    def smaller_mtu(
        self, source: str, sender: socket.socket, receiver: socket.socket, to: tuple[str, int] | None = None
    ) -> str:
        """See `Pair`: finds the path MTU."""
        return middle_mtu(self, source, sender, receiver, to)

    def where_to_look(self) -> str:
        """See `Pair`."""
        return ": the device does not forward, or not to this end"
