"""Two physical ports with a real device between them: routed, when it forwards between two networks, or switched.

    port a --> netns a ===cable=== [ device ] ===cable=== netns b <-- port b

The ports are taken, lent and brought home like those of a pair (`links.physical`). Of the device nothing is known but
what the bench file says, so all that is proved comes from packets of our own: the gateways answer, the TTL falls by
one (routed) or by none (switched), a packet of full MTU passes the whole path each way with DF set. A device may
translate addresses; then what goes back goes to the address that end b saw.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.path_proof import middle_mtu, seen_as, ttl_at_arrival
from pytest_netperf.links.physical import PhysicalPair
from pytest_netperf.links.ports import HostPort
from pytest_netperf.links.probe_frames import TOKEN_BYTES, open_frames, received_tokens, send_token

__all__ = ["TTL", "DevicePorts"]

TTL: Final = 64
"""With which packets leave."""
_HEARD_SECONDS: Final = 0.3
_OPEN_SECONDS: Final = 5.0  # once a packet has passed
_POLL_SECONDS: Final = 0.02
_ON_ITS_OWN: Final = ("accept_ra", "autoconf", "accept_redirects")
"""What the kernel would do by itself with what a router says: addresses and routes that nobody asked for."""


class DevicePorts(PhysicalPair):
    """What both topologies have in common. ``spec`` has what that of a pair has, and ``translates``: whether the device
    is in a state in which it translates addresses."""

    proof_seconds = 40.0  # a port with spanning tree (IEEE 802.1D) listens and learns for 30 s before it forwards
    ttl_falls_by: int
    """How much less the TTL is at the far end."""

    def __init__(self, index: int, spec: Mapping[str, Any], abandoned: Callable[[], bool]) -> None:
        self._translates = bool(spec.get("translates"))
        super().__init__(index, spec, abandoned)

    def refuse(self, found: Mapping[str, HostPort], wanted: Mapping[str, Mapping[str, Any]]) -> None:
        """See `PhysicalPair`; and Wi-Fi, which makes pairs only."""
        reasons = [
            f"port {end} ({port.label}): it is Wi-Fi, which joins the other port of a pair, and no device"
            for end, port in found.items()
            if port.wifi
        ]
        if reasons:
            raise LinkError("; ".join(reasons))
        super().refuse(found, wanted)

    def _configure(self, end: str) -> None:
        port = self.ports[end]
        for key in _ON_ITS_OWN:
            for family in ("ipv4", "ipv6"):
                with contextlib.suppress(OSError):  # IPv4 has one of them; a kernel without IPv6 none
                    Path(f"/proc/sys/net/{family}/conf", port["interface"], key).write_text("0")
        super()._configure(end)
        self._add_routes(end)

    def _add_routes(self, end: str) -> None:
        """Nothing more than the network of the port itself."""

    def up_again(self, end: str) -> None:
        """See `Pair`; the routes went with the port too."""
        super().up_again(end)
        self._add_routes(end)

    def prove(self) -> None:
        """See `Pair`: carriers, next hops, the way there and back of each IP version, and what is between the ports."""
        started = time.monotonic()
        self.proof_seconds = type(self).proof_seconds
        seen: dict[str, str] = {}
        with contextlib.ExitStack() as stack:
            probes = self.both(lambda end: self._probes(end, stack))
            self.both(lambda end: self._wait_ready(end, probes[end]))
            hops = self.prove_next_hops()
            for family, sender in probes["a"].items():
                translated = self._prove_ways(sender, probes["b"][family])
                if translated is not None:
                    seen[f"IPv{6 if family == socket.AF_INET6 else 4}"] = translated
        if self._translates and not seen:
            raise LinkError(
                "the device is asked for in a state that translates addresses, and end b sees those of end a: it is "
                "not in that state"
            )
        self.facts["proof"] = {
            "carrier": True,
            "mtu_with_df_bytes": self.mtu,
            "ip_versions": [4 if family == socket.AF_INET else 6 for family in probes["a"]],
            "ttl_falls_by": self.ttl_falls_by,
            **hops,
        }
        if seen:
            self.facts["address_translation"] = seen
        self.prove_device()
        self.facts["proof"]["seconds"] = round(time.monotonic() - started, 6)

    def prove_next_hops(self) -> dict[str, Any]:
        """What takes the frames of each end answers. Returns what goes into the proof. Raises LinkError."""
        raise NotImplementedError

    def prove_device(self) -> None:
        """That something is between the ports, as far as the packets have not shown it."""

    def _prove_ways(self, sender: socket.socket, receiver: socket.socket) -> str | None:
        """One IP version, both ways. Returns whom end b sees as end a, where that is not its address."""
        version = 6 if sender.family == socket.AF_INET6 else 4
        back = seen_as(sender, receiver, self.proof_seconds)
        if back is None:
            raise LinkError(f"no IPv{version} packet passes from a to b{self.where_to_look()}")
        self.proof_seconds = min(self.proof_seconds, _OPEN_SECONDS)
        for source, target, ends, to in (
            (sender, receiver, "ab", None),
            (receiver, sender, "ba", back),
        ):
            self.prove_mtu(ends[0], source, ends[1], target, to)
            arrived = ttl_at_arrival(source, target, TTL, to)
            if arrived != TTL - self.ttl_falls_by:
                raise LinkError(self.wrong_ttl(arrived, *ends))
        return None if back == sender.getsockname()[:2] else f"end b sees end a as {back[0]}"

    def wrong_ttl(self, arrived: int, source: str, target: str) -> str:
        """What to say of a TTL that is not what the topology makes of it."""
        raise NotImplementedError

    def smaller_mtu(
        self, source: str, sender: socket.socket, receiver: socket.socket, to: tuple[str, int] | None = None
    ) -> str:
        """See `Pair`: finds the path MTU."""
        return middle_mtu(self, source, sender, receiver, to)

    def no_carrier(self, end: str) -> str:
        """See `Pair`."""
        return f"{super().no_carrier(end)}; is the device switched on?"

    def are_cabled(self) -> bool:
        """Whether port b hears frames of port a that pass a cable, and no switch that is one."""
        token = secrets.token_bytes(TOKEN_BYTES)
        sending, listening = (self.ends[end].call(open_frames, self.ports[end]["interface"]) for end in ("a", "b"))
        with sending, listening:
            deadline = time.monotonic() + _HEARD_SECONDS
            while time.monotonic() < deadline:
                send_token(sending, token)
                time.sleep(_POLL_SECONDS)
                if token in received_tokens(listening):
                    return True
        return False
