"""The port of this machine at the near end of a link whose far end is another host.

    port a --> netns a ===cable, device, network=== port b of the far host

It is taken, lent and brought home like those of a pair (`links.physical`). That its packets reach the far port, and the
answers come from it, is proved by echoes: the far host need not run anything of ours.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.echo import ECHO_HEADERS, Echoed, ask_echo
from pytest_netperf.links.path_proof import path_mtu
from pytest_netperf.links.physical import PhysicalPair

__all__ = ["NearPort"]

_SHORT_BYTES: Final = 84  # of a ping
_FULL_SECONDS: Final = 1.0
_TRY_SECONDS: Final = 0.25
_USUAL_TTLS: Final = (64, 128, 255)
"""With which hosts send."""
_LEAST_MTU: Final = {socket.AF_INET: 68, socket.AF_INET6: 1280}


class NearPort(PhysicalPair):
    """Made and closed inside the keeper. ``spec`` has what that of a pair has, with end a only, and ``far``: mac,
    address and address6 (None where it has none) of the far port, and ``name``, what people call it."""

    def __init__(self, index: int, spec: Mapping[str, Any], abandoned: Callable[[], bool]) -> None:
        self._far: dict[str, Any] = spec["far"]
        self._gateways = [gateway for key in ("gateway", "gateway6") if (gateway := spec["ports"]["a"].get(key))]
        super().__init__(index, spec, abandoned)

    def addresses_of(self, end: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """See `PhysicalPair`; all of them are the bench file's, because the far host has its own beside them."""
        given = super().addresses_of(end, wanted)
        return given if wanted.get("address6") else {**given, "address6": None}

    def _configure(self, end: str) -> None:
        super()._configure(end)
        self._add_routes(end)

    def _add_routes(self, end: str) -> None:
        """The far address is behind the gateway, where there is one."""
        for gateway in self._gateways:
            family = socket.AF_INET6 if ":" in gateway else socket.AF_INET
            self.ends[end].ipr.route(
                "replace", dst="default", gateway=gateway, oif=self.ports[end]["index"], family=family
            )

    def up_again(self, end: str) -> None:
        """See `Pair`; the routes went with the port too."""
        super().up_again(end)
        self._add_routes(end)

    def prove(self) -> None:
        """Carrier, and an echo of full MTU of each IP version, from the far port itself. Raises LinkError."""
        started = time.monotonic()
        self.wait_for_carriers()
        ttls: dict[str, int] = {}
        for family, key in ((socket.AF_INET, "address"), (socket.AF_INET6, "address6")):
            if self.ports["a"][key] is not None and self._far[key] is not None:
                ttls[f"IPv{4 if family == socket.AF_INET else 6}"] = self._prove(family, key).ttl
        self.facts["proof"] = {
            "carrier": True,
            "echo_with_df_bytes": self.mtu,
            "echo_in_one_frame": True,
            "ip_versions": [int(version[-1]) for version in ttls],
            "ttl_of_echo": ttls,
            **({"gateways": self._gateways} if self._gateways else {"echo_from_mac": self._far["mac"]}),
            "seconds": round(time.monotonic() - started, 6),
        }

    def _echo(self, key: str, packet_bytes: int, seconds: float) -> Echoed | None:
        port = self.ports["a"]
        return self.ends["a"].call(ask_echo, port["interface"], port[key], self._far[key], packet_bytes, seconds)

    def _prove(self, family: socket.AddressFamily, key: str) -> Echoed:
        far, version = self._far, 4 if family == socket.AF_INET else 6
        where = f"{far['name']} at {far[key]}"
        short = self._patiently(key)
        if short is None:
            raise LinkError(f"no answer to an IPv{version} echo (ping) from {where}: {self._silent()}")
        if not self._gateways and short.mac != far["mac"]:
            raise LinkError(
                f"the echo of {where} comes from MAC address {short.mac}, and its port has {far['mac']}: the answer "
                "left another port of the far host, or a router is in between; then write it as the gateway of end a"
            )
        if self._gateways and short.ttl in _USUAL_TTLS:
            raise LinkError(
                f"the echo of {where} came with a TTL of {short.ttl}, as it was sent: it did not pass the gateway "
                f"{' or '.join(self._gateways)}, nor any other router"
            )
        full = self._echo(key, self.mtu, _FULL_SECONDS)
        if full is not None and full.whole:
            return full
        said = f"an IPv{version} echo of {self.mtu} bytes with DF set"
        if full is not None:
            raise LinkError(
                f"{said} came back from {where} in pieces: what is on the way back has a smaller MTU; set the MTU on "
                "every device of the path, or measure at a smaller one"
            )
        least = max(_LEAST_MTU[family], ECHO_HEADERS[family] + 8)
        found = path_mtu(lambda size: self._passes(key, size), least, self.mtu)
        raise LinkError(
            f"{said} did not come back from {where}, and one of {found} bytes did: the MTU is {self.mtu} at both ends "
            f"and {found} in the middle; set the MTU on every device of the path, or measure at MTU {found}"
        )

    def _passes(self, key: str, packet_bytes: int) -> bool:
        answer = self._echo(key, packet_bytes, _TRY_SECONDS)
        return answer is not None and answer.whole

    def _patiently(self, key: str) -> Echoed | None:
        """A short echo, as long as somebody waits for the link."""
        deadline = time.monotonic() + self.proof_seconds
        while time.monotonic() < deadline and not self.is_abandoned():
            answer = self._echo(key, _SHORT_BYTES, min(1.0, self.proof_seconds))
            if answer is not None:
                return answer
        return None

    def _silent(self) -> str:
        if self._gateways:
            return (
                f"does the gateway {' or '.join(self._gateways)} forward, does the far host have a route back, and "
                "does a firewall drop pings?"
            )
        return "is the cable in this port, does the far host have a route back, and does its firewall drop pings?"

    def port_facts(self) -> dict[str, dict[str, Any]]:
        """See `Pair`; of the near port."""
        return {"a": self.ends["a"].call(self._facts_of_port, "a")}
