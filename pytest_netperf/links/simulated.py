"""A simulated pair: two namespaces joined by veth, shaped to the goodput of the wire it stands for.

    netns a [ npXXXXa ] ====== veth ====== [ npXXXXb ] netns b
              TBF ->                          <- TBF

A TBF on each end runs at R x (S + 14) / (S + 38), where S is the size of the IP packets that will be sent: veth counts
S + 14 bytes of a frame, a real wire carries S + 38 (FCS, preamble and inter-frame gap besides). So the goodput is that
of the wire (`physics`), while segmentation offload stays on and the CPU is spared.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pytest_netperf.errors import LinkError
from pytest_netperf.links.faults import LinkFault
from pytest_netperf.links.namespace import Namespace
from pytest_netperf.links.port_facts import read_port_facts

__all__ = ["SimulatedPair", "has_spare_namespaces", "prepare_namespaces"]

T = TypeVar("T")

_IFA_F_NODAD = 0x02
_ROOT = 0x10000000  # handle 1000:
# Interface index of end a, another than b will get: with equal ones the kernel does not hurry to report the carrier,
# and link-up may take a second.
_INDEX_OF_A = 1000
_BURST_SECONDS = 0.003
_BURST_FLOOR = 128_000
_QUEUE_SECONDS = 0.02
_QUEUE_FLOOR = 4_000_000
_TBF_LIMIT_BPS = 34e9  # 32-bit bytes/s in the kernel's old rate table; pyroute2 has no RATE64
_STEER_FROM_BPS = 5e9
_PROOF_SECONDS = 3.0
_ANSWER_MS = 50
_READY_POLL_SECONDS = 0.0002
_SIOCGIFFLAGS, _IFF_RUNNING = 0x8913, 0x40
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE = 10, 23, 3  # linux/in.h, linux/in6.h


_spare: dict[str, Namespace] = {}


def prepare_namespaces() -> None:
    """Start the two namespaces of the next link, in the background: they are a third of the time of its making."""
    if not _spare:
        _spare.update({end: Namespace(end) for end in ("a", "b")})


def has_spare_namespaces() -> bool:
    """Whether the namespaces of the next link are there."""
    return bool(_spare)


def _take_namespaces() -> dict[str, Namespace]:
    prepare_namespaces()
    taken = dict(_spare)
    _spare.clear()
    return taken


class SimulatedPair:
    """Two namespaces joined by veth. Made, shaped, proved and closed inside the keeper."""

    def __init__(self, index: int, spec: dict[str, Any]) -> None:
        self.index = index
        self.mtu: int = spec["mtu"]
        self.speed_bps: float | None = spec.get("speed_bps")
        self._fault = LinkFault(self, spec["fault"]) if spec.get("fault") else None
        self._packet_bytes = self.mtu
        self.facts: dict[str, Any] = {}
        network = 4 * index
        base4 = int.from_bytes(socket.inet_aton("198.18.0.0"), "big") + network
        self.ends: dict[str, Namespace] = {}
        self.ports: dict[str, dict[str, Any]] = {
            end: {
                "interface": f"np{index:04x}{end}",
                "mac": f"02:00:5e:{index >> 8:02x}:{index & 0xFF:02x}:{host:02x}",  # locally administered
                "address": socket.inet_ntoa((base4 + host).to_bytes(4, "big")),
                "address6": f"2001:db8:{index >> 16:x}:{index & 0xFFFF:x}::{host}",
            }
            for end, host in (("a", 1), ("b", 2))
        }
        try:
            self.ends = _take_namespaces()
            self._build()
            self._steer()
            self._prove()
            if self._fault is not None:
                self._fault.prepare()  # after the proof, which would meet the fault too
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        a, b = self.ends["a"], self.ends["b"]
        for namespace in (a, b):
            namespace.wait_started()
        a.call(
            a.ipr.link,
            "add",
            ifname=self.ports["a"]["interface"],
            index=_INDEX_OF_A,
            address=self.ports["a"]["mac"],
            kind="veth",
            mtu=self.mtu,
            peer={
                "ifname": self.ports["b"]["interface"],
                "address": self.ports["b"]["mac"],
                "mtu": self.mtu,
                "net_ns_fd": b.fd,
            },
        )
        self._both(self._configure)

    def _both(self, work: Callable[[str], T]) -> dict[str, T]:
        """Do the same at both ends, side by side."""
        running = {end: namespace.submit(work, end) for end, namespace in self.ends.items()}
        return {end: answer.result() for end, answer in running.items()}

    def _steer(self) -> None:
        """Fast links: receive on the CPU that the receiving iperf3 is pinned to; without it TCP sees reordering."""
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2 or (self.speed_bps is not None and self.speed_bps < _STEER_FROM_BPS):
            return
        self.facts["steered_to_cpu"] = {
            end: cpu if namespace.steer(self.ports[end]["interface"], cpu) else None
            for (end, namespace), cpu in zip(self.ends.items(), cpus, strict=False)
        }

    def _configure(self, end: str) -> None:
        ipr, port = self.ends[end].ipr, self.ports[end]
        port["index"] = socket.if_nametoindex(port["interface"])
        ipr.addr("add", index=port["index"], address=port["address"], prefixlen=30)
        self._add_address6(end)
        ipr.link("set", index=port["index"], state="up")

    def _add_address6(self, end: str) -> None:
        ipr, port = self.ends[end].ipr, self.ports[end]
        try:
            ipr.addr("add", index=port["index"], address=port["address6"], prefixlen=64, flags=_IFA_F_NODAD)
        except Exception as error:
            if getattr(error, "code", None) not in (errno.EOPNOTSUPP, errno.EACCES, errno.EAFNOSUPPORT, errno.EINVAL):
                raise
            port["address6"] = None  # IPv6 is switched off, or the MTU is below its minimum of 1280

    def bounce(self) -> None:
        """Both ports down and up again. A faulted link is only waited for: its proof would meet the fault."""
        self._both(lambda end: self.ends[end].ipr.link("set", index=self.ports[end]["index"], state="down"))
        self._both(self._up_again)
        with contextlib.ExitStack() as stack:
            probes = self._both(lambda end: self._probes(end, stack))
            self._both(lambda end: self._wait_ready(end, probes[end]))
        if self._fault is None:
            self._prove()

    def _up_again(self, end: str) -> None:
        self.ends[end].ipr.link("set", index=self.ports[end]["index"], state="up")
        if self.ports[end]["address6"] is not None:  # the kernel drops it when the port goes down
            self._add_address6(end)

    def shape(self, packet_bytes: int) -> dict[str, float | None]:
        """Set both shapers for IP packets of ``packet_bytes``. Returns the rate in bit/s per end (None: unshaped)."""
        self._packet_bytes = packet_bytes
        return self._both(lambda end: self._shape_end(end, packet_bytes))

    def _shape_end(self, end: str, packet_bytes: int) -> float | None:
        rate = (self._fault.rate_bps(end) if self._fault is not None else None) or self.speed_bps
        if rate is None:
            return None
        shaped = rate * (packet_bytes + 14) / max(packet_bytes + 38, 84)
        if shaped > _TBF_LIMIT_BPS:
            return None  # the kernel's TBF cannot count that fast; the machine is far below it anyway
        port = self.ports[end]
        self.ends[end].ipr.tc(
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
        return rate

    def reshape(self) -> None:
        """Set both shapers again, for the packets of the last time."""
        self.shape(self._packet_bytes)

    def set_carrier(self, *, up: bool) -> None:
        """Pull the cable at end b, or plug it in again: port a loses its carrier, port b is down."""
        b = self.ends["b"]
        if up:
            b.call(self._up_again, "b")
        else:
            b.call(b.ipr.link, "set", index=self.ports["b"]["index"], state="down")

    def traffic_begins(self) -> None:
        """A measurement begins: a fault that comes and goes starts its clock."""
        if self._fault is not None:
            self._fault.traffic_begins()

    def traffic_ends(self) -> None:
        """It is over: the link is as it was before. Raises LinkError when its fault could not be made."""
        if self._fault is not None:
            self._fault.traffic_ends()

    @property
    def burst_bits(self) -> float:
        """What a full token bucket lets through above the rate, once."""
        return max(_BURST_FLOOR * 8, (self.speed_bps or 0.0) * _BURST_SECONDS)

    def _prove(self) -> None:
        """Carrier at both ends, a packet of full MTU with DF each way, and the peer as neighbour."""
        started = time.monotonic()
        with contextlib.ExitStack() as stack:
            probes = self._both(lambda end: self._probes(end, stack))
            self._both(lambda end: self._wait_ready(end, probes[end]))
            for family in probes["a"]:
                for source, target in (("a", "b"), ("b", "a")):
                    self._prove_mtu(source, probes[source][family], target, probes[target][family])
            families = list(probes["a"])
        neighbours = self._both(lambda end: self.ends[end].neighbours_here())
        for end, peer in (("a", "b"), ("b", "a")):
            found = neighbours[end].get(self.ports[peer]["address"])
            if found != self.ports[peer]["mac"]:
                raise LinkError(
                    f"neighbour {self.ports[peer]['address']} is {found or 'unresolved'}, "
                    f"expected {self.ports[peer]['mac']}"
                )
        self.facts["proof"] = {
            "carrier": True,
            "mtu_with_df_bytes": self.mtu,
            "ip_versions": [4 if family == socket.AF_INET else 6 for family in families],
            "neighbours_resolved": True,
            "seconds": round(time.monotonic() - started, 6),
        }

    def _probes(self, end: str, stack: contextlib.ExitStack) -> dict[int, socket.socket]:
        """A UDP socket for each address of this end, with DF set and no cached path MTU in the way."""
        probes: dict[int, socket.socket] = {}
        for family, address, option in (
            (socket.AF_INET, self.ports[end]["address"], (socket.IPPROTO_IP, _IP_MTU_DISCOVER)),
            (socket.AF_INET6, self.ports[end]["address6"], (socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER)),
        ):
            if address is not None:
                probe = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK))
                probe.setsockopt(*option, _PMTUDISC_PROBE)
                probe.bind((address, 0))
                probes[family] = probe
        return probes

    def _wait_ready(self, end: str, probes: dict[int, socket.socket]) -> None:
        """Wait for the carrier, and until the kernel listens to neighbour solicitations for the IPv6 address.

        It does both in the background. What is sent before is dropped, and asked again only after a second.
        """
        interface = self.ports[end]["interface"]
        request = struct.pack("16sH14x", interface.encode(), 0)
        group = f"ff02{'0' * 19}1ff{socket.inet_pton(socket.AF_INET6, self.ports[end]['address6'] or '::')[-3:].hex()}"
        deadline = time.monotonic() + _PROOF_SECONDS
        while True:
            (flags,) = struct.unpack_from("16xH", fcntl.ioctl(probes[socket.AF_INET], _SIOCGIFFLAGS, request))
            listens = socket.AF_INET6 not in probes or group in Path("/proc/thread-self/net/igmp6").read_text()
            if flags & _IFF_RUNNING and listens:
                break
            if time.monotonic() > deadline:
                missing = "no carrier" if not flags & _IFF_RUNNING else "IPv6 neighbour discovery does not work"
                raise LinkError(f"{interface}: {missing} after both ends of the veth were set up")
            time.sleep(_READY_POLL_SECONDS)
        # Now, and not earlier: the request waits for the lock under which the kernel puts the port's queue to work.
        if self._shape_end(end, self.mtu) is None:
            self.ends[end].ipr.link("get", index=self.ports[end]["index"])

    def _prove_mtu(self, source: str, sender: socket.socket, target: str, receiver: socket.socket) -> None:
        six = sender.family == socket.AF_INET6
        address, port = receiver.getsockname()[:2]
        payload = bytes(self.mtu - (48 if six else 28))
        poller = select.poll()
        poller.register(receiver, select.POLLIN)
        deadline = time.monotonic() + _PROOF_SECONDS
        while time.monotonic() < deadline:
            sender.sendto(payload, (address, port))
            if poller.poll(_ANSWER_MS) and len(receiver.recv(65535)) == len(payload):
                return
            namespace = self.ends[source]
            with contextlib.suppress(Exception):  # ask for the neighbour again now; the kernel would after a second
                namespace.call(namespace.ipr.neigh, "del", dst=address, ifindex=self.ports[source]["index"])
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

    def port_facts(self) -> dict[str, dict[str, Any]]:
        """Everything else about both ports (`links.port_facts`)."""
        return self._both(self._facts_of_port)

    def _facts_of_port(self, end: str) -> dict[str, Any]:
        port = self.ports[end]
        return read_port_facts(port["interface"], port["index"], _ROOT if port.get("shaped") else None)

    def close(self) -> None:
        """Let both namespaces go; the kernel removes the link with them, in its own time and without making us wait."""
        if self._fault is not None:
            self._fault.close()
        for namespace in self.ends.values():
            namespace.close()
        self.ends.clear()
