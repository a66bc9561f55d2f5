"""A simulated pair: two namespaces joined by veth, shaped to the goodput of the wire it stands for.

    netns a [ npXXXXa ] ====== veth ====== [ npXXXXb ] netns b
              TBF ->                          <- TBF

A TBF on each end runs at R x (S + 14) / (S + 38), where S is the size of the IP packets that will be sent: veth counts
S + 14 bytes of a frame, a real wire carries S + 38 (FCS, preamble and inter-frame gap besides). So the goodput is that
of the wire (`physics`), while segmentation offload stays on and the CPU is spared.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from typing import Any

from pytest_netperf.errors import LinkError
from pytest_netperf.links.namespace import Namespace

__all__ = ["SimulatedPair"]

_IFA_F_NODAD = 0x02
_ROOT = 0x10000000  # handle 1000:
_BURST_SECONDS = 0.003
_BURST_FLOOR = 128_000
_QUEUE_SECONDS = 0.02
_QUEUE_FLOOR = 4_000_000
_TBF_LIMIT_BPS = 34e9  # 32-bit bytes/s in the kernel's old rate table; pyroute2 has no RATE64
_STEER_FROM_BPS = 5e9
_PROOF_SECONDS = 3.0


class SimulatedPair:
    """Two namespaces joined by veth. Made, shaped, proved and closed inside the keeper."""

    def __init__(self, index: int, spec: dict[str, Any]) -> None:
        self.index = index
        self.mtu: int = spec["mtu"]
        self.speed_bps: float | None = spec.get("speed_bps")
        fault = spec.get("fault") or {}
        self._fault_rate_bps: float | None = fault.get("rate_bps")
        self._fault_loss: float | None = fault.get("loss_ratio")
        self._fault_ends = {"both": ("a", "b"), "a-to-b": ("a",), "b-to-a": ("b",)}[fault.get("direction", "both")]
        self.facts: dict[str, Any] = {}
        network = 4 * index
        base4 = int.from_bytes(socket.inet_aton("198.18.0.0"), "big") + network
        self.ends: dict[str, Namespace] = {}
        self.ports: dict[str, dict[str, Any]] = {
            end: {
                "interface": f"np{index:04x}{end}",
                "address": socket.inet_ntoa((base4 + host).to_bytes(4, "big")),
                "address6": f"2001:db8:{index >> 16:x}:{index & 0xFFFF:x}::{host}",
            }
            for end, host in (("a", 1), ("b", 2))
        }
        try:
            for end in ("a", "b"):
                self.ends[end] = Namespace(f"{index:04x}{end}")
            self._build()
            self._steer()
            self._prove()
            self._lose()  # after the proof, which would meet the loss too
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        a, b = self.ends["a"], self.ends["b"]
        a.call(
            a.ipr.link,
            "add",
            ifname=self.ports["a"]["interface"],
            kind="veth",
            mtu=self.mtu,
            peer={"ifname": self.ports["b"]["interface"], "mtu": self.mtu, "net_ns_fd": b.fd},
        )
        for end, namespace in self.ends.items():
            namespace.call(self._configure, namespace, self.ports[end])
        self.shape(self.mtu)

    def _steer(self) -> None:
        """Fast links: receive on the CPU that the receiving iperf3 is pinned to; without it TCP sees reordering."""
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2 or (self.speed_bps is not None and self.speed_bps < _STEER_FROM_BPS):
            return
        self.facts["steered_to_cpu"] = {
            end: cpu if namespace.steer(self.ports[end]["interface"], cpu) else None
            for (end, namespace), cpu in zip(self.ends.items(), cpus, strict=False)
        }

    def _lose(self) -> None:
        if not self._fault_loss:
            return
        from pytest_netperf.links.loss import apply_loss

        for end in self._fault_ends:
            peer = "b" if end == "a" else "a"
            apply_loss(
                self.ends[end], self.ports[end]["index"], self.ends[peer], self.ports[peer]["index"], self._fault_loss
            )

    @staticmethod
    def _configure(namespace: Namespace, port: dict[str, Any]) -> None:
        ipr = namespace.ipr
        (link,) = ipr.link("get", ifname=port["interface"])
        port["index"] = link["index"]
        port["mac"] = link.get_attr("IFLA_ADDRESS")
        ipr.addr("add", index=link["index"], address=port["address"], prefixlen=30)
        try:
            ipr.addr("add", index=link["index"], address=port["address6"], prefixlen=64, flags=_IFA_F_NODAD)
        except Exception as error:
            if getattr(error, "code", None) not in (errno.EOPNOTSUPP, errno.EACCES, errno.EAFNOSUPPORT, errno.EINVAL):
                raise
            port["address6"] = None  # IPv6 is switched off, or the MTU is below its minimum of 1280
        ipr.link("set", index=link["index"], state="up")

    def shape(self, packet_bytes: int) -> dict[str, float | None]:
        """Set both shapers for IP packets of ``packet_bytes``. Returns the rate in bit/s per end (None: unshaped)."""
        rates: dict[str, float | None] = {}
        for end, namespace in self.ends.items():
            rate = self.speed_bps
            if self._fault_rate_bps is not None and end in self._fault_ends:
                rate = self._fault_rate_bps
            rates[end] = rate
            if rate is None:
                continue
            wire = max(packet_bytes + 38, 84)
            shaped = rate * (packet_bytes + 14) / wire
            if shaped > _TBF_LIMIT_BPS:
                rates[end] = None  # the kernel's TBF cannot count that fast; the machine is far below it anyway
                continue
            port = self.ports[end]
            namespace.call(
                namespace.ipr.tc,
                "change" if port.get("shaped") else "add",
                "tbf",
                port["index"],
                _ROOT,
                parent=0xFFFFFFFF,
                rate=round(shaped / 8),
                burst=max(_BURST_FLOOR, round(shaped / 8 * _BURST_SECONDS)),
                limit=max(_QUEUE_FLOOR, round(shaped / 8 * _QUEUE_SECONDS)),
            )
            port["shaped"] = True
        return rates

    @property
    def burst_bits(self) -> float:
        """What a full token bucket lets through above the rate, once."""
        return max(_BURST_FLOOR * 8, (self.speed_bps or 0.0) * _BURST_SECONDS)

    def _prove(self) -> None:
        """Carrier on both ends, a packet of full MTU with DF each way, and the peer's MAC as the neighbour."""
        started = time.monotonic()
        for end, namespace in self.ends.items():
            (link,) = namespace.call(namespace.ipr.link, "get", index=self.ports[end]["index"])
            if not link.get_attr("IFLA_CARRIER"):
                raise LinkError(f"{self.ports[end]['interface']}: no carrier after both ends of the veth were set up")
            if link.get_attr("IFLA_MTU") != self.mtu:
                raise LinkError(f"{self.ports[end]['interface']}: MTU is {link.get_attr('IFLA_MTU')}, not {self.mtu}")
        families = [socket.AF_INET]
        if self.ports["a"]["address6"] and self.ports["b"]["address6"]:
            families.append(socket.AF_INET6)
        for family in families:
            for source, target in (("a", "b"), ("b", "a")):
                self._prove_mtu(family, source, target)
        for end, peer in (("a", "b"), ("b", "a")):
            namespace = self.ends[end]
            address = self.ports[peer]["address"]
            neighbours = namespace.call(
                lambda ns=namespace, dst=address: list(ns.ipr.get_neighbours(family=socket.AF_INET, dst=dst))
            )
            macs = {n.get_attr("NDA_LLADDR") for n in neighbours if n.get_attr("NDA_DST") == address}
            if macs != {self.ports[peer]["mac"]}:
                raise LinkError(f"neighbour {address} is {macs or 'unresolved'}, expected {self.ports[peer]['mac']}")
        self.facts["proof"] = {
            "carrier": True,
            "mtu_with_df_bytes": self.mtu,
            "ip_versions": [4 if family == socket.AF_INET else 6 for family in families],
            "neighbours_resolved": True,
            "seconds": round(time.monotonic() - started, 6),
        }

    def _prove_mtu(self, family: int, source: str, target: str) -> None:
        six = family == socket.AF_INET6
        key = "address6" if six else "address"
        payload = bytes(self.mtu - (48 if six else 28))
        with (
            self.ends[source].socket(family, socket.SOCK_DGRAM) as sender,
            self.ends[target].socket(family, socket.SOCK_DGRAM) as receiver,
        ):
            # IP_MTU_DISCOVER / IPV6_MTU_DISCOVER = PROBE: set DF and do not let a cached path MTU decide
            sender.setsockopt(*((socket.IPPROTO_IPV6, 23, 3) if six else (socket.IPPROTO_IP, 10, 3)))
            receiver.bind((self.ports[target][key], 0))
            receiver.setblocking(False)
            poller = select.poll()
            poller.register(receiver, select.POLLIN)
            deadline = time.monotonic() + _PROOF_SECONDS
            while time.monotonic() < deadline:  # repeated: the first packet may be lost to neighbour discovery
                sender.sendto(payload, receiver.getsockname()[:2])
                if poller.poll(100) and len(receiver.recv(65535)) == len(payload):
                    return
        raise LinkError(
            f"an IPv{6 if six else 4} packet of {self.mtu} bytes with DF set did not pass from {source} to {target}"
        )

    def counters(self) -> dict[str, dict[str, int]]:
        """The kernel's 64-bit counters of both ports."""
        answer = {}
        for end, namespace in self.ends.items():
            (link,) = namespace.call(namespace.ipr.link, "get", index=self.ports[end]["index"])
            stats = link.get_attr("IFLA_STATS64")
            names = ("bytes", "packets", "errors", "dropped")
            answer[end] = {f"{way}_{name}": stats[f"{way}_{name}"] for way in ("rx", "tx") for name in names}
            answer[end]["carrier_changes"] = link.get_attr("IFLA_CARRIER_CHANGES") or 0
            answer[end]["udp_buffer_errors"] = namespace.udp_buffer_errors()
        return answer

    def close(self) -> None:
        """Remove the link and let its namespaces go."""
        if "a" in self.ends and self.ports["a"].get("index"):
            namespace = self.ends["a"]
            namespace.call(namespace.ipr.link, "del", index=self.ports["a"]["index"])
        for namespace in self.ends.values():
            namespace.close()
        self.ends.clear()
