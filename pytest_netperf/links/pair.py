"""Two ports in two network namespaces, joined by something: what is done and proved the same way, whatever that is."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import select
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pytest_netperf.errors import LinkError
from pytest_netperf.links.namespace import Namespace
from pytest_netperf.links.port_facts import read_port_facts

__all__ = ["Pair", "lab_addresses"]

T = TypeVar("T")

_IFA_F_NODAD = 0x02
_ANSWER_MS = 50
_SIOCGIFFLAGS, _IFF_RUNNING = 0x8913, 0x40
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE = 10, 23, 3  # linux/in.h, linux/in6.h
_WORDS_BYTES = 56


def lab_addresses(index: int) -> dict[str, dict[str, str]]:
    """The addresses of ends a and b of lab subnet ``index``: of 198.18.0.0/15 (RFC 2544) and 2001:db8::/32."""
    base4 = int.from_bytes(socket.inet_aton("198.18.0.0"), "big") + 4 * index
    return {
        end: {
            "address": socket.inet_ntoa((base4 + host).to_bytes(4, "big")),
            "address6": f"2001:db8:{index >> 16:x}:{index & 0xFFFF:x}::{host}",
        }
        for end, host in (("a", 1), ("b", 2))
    }


class Pair:
    """Made inside the keeper. Whoever makes one fills ``ends`` and ``ports``: interface, mac, address, address6, index
    and name (what people call it) of each."""

    carrier_seconds = 3.0
    """How long a port may take to find its carrier."""
    poll_seconds = 0.0002
    proof_seconds = 3.0
    """How long a packet may take to pass for the first time."""

    def __init__(self, index: int, mtu: int, abandoned: Callable[[], bool] = lambda: False) -> None:
        self.index = index
        self.mtu = mtu
        self.is_abandoned = abandoned
        """Whether nobody waits for this link any more; asked while it is waited for."""
        self.ends: dict[str, Namespace] = {}
        self.ports: dict[str, dict[str, Any]] = {}
        self.facts: dict[str, Any] = {}

    def both(self, work: Callable[[str], T]) -> dict[str, T]:
        """Do the same at both ends, side by side."""
        running = {end: namespace.submit(work, end) for end, namespace in self.ends.items()}
        return {end: answer.result() for end, answer in running.items()}

    def add_addresses(self, end: str) -> None:
        """Both addresses of one end."""
        ipr, port = self.ends[end].ipr, self.ports[end]
        ipr.addr("add", index=port["index"], address=port["address"], prefixlen=port.get("prefix", 30))
        self.add_address6(end)

    def add_address6(self, end: str) -> None:
        """The IPv6 address; None afterwards where it cannot be."""
        ipr, port = self.ends[end].ipr, self.ports[end]
        if port["address6"] is None:
            return
        length = port.get("prefix6", 64)
        try:
            ipr.addr("add", index=port["index"], address=port["address6"], prefixlen=length, flags=_IFA_F_NODAD)
        except Exception as error:
            if getattr(error, "code", None) not in (errno.EOPNOTSUPP, errno.EACCES, errno.EAFNOSUPPORT, errno.EINVAL):
                raise
            port["address6"] = None  # IPv6 is switched off, or the MTU is below its minimum of 1280

    def up_again(self, end: str) -> None:
        """Set a port up that was down."""
        self.ends[end].ipr.link("set", index=self.ports[end]["index"], state="up")
        if self.ports[end]["address6"] is not None:  # the kernel drops it when the port goes down
            self.add_address6(end)

    def has_carrier(self, end: str) -> None:
        """A port has its carrier; called in its namespace's thread."""

    def wait_for_carriers(self) -> None:
        """Wait until both ports can send. Raises LinkError."""
        with contextlib.ExitStack() as stack:
            probes = self.both(lambda end: self._probes(end, stack))
            self.both(lambda end: self._wait_ready(end, probes[end]))

    def prove(self) -> None:
        """Carrier at both ends, a packet of full MTU with DF each way, and the peer as neighbour. Raises LinkError."""
        started = time.monotonic()
        with contextlib.ExitStack() as stack:
            probes = self.both(lambda end: self._probes(end, stack))
            self.both(lambda end: self._wait_ready(end, probes[end]))
            for family in probes["a"]:
                for source, target in (("a", "b"), ("b", "a")):
                    self.prove_mtu(source, probes[source][family], target, probes[target][family])
            families = list(probes["a"])
        neighbours = self.both(lambda end: self.ends[end].neighbours_here())
        for end in ("a", "b"):
            hop = self.ports[self.next_hop(end)]
            found = neighbours[end].get(hop["address"])
            if found != hop["mac"]:
                raise LinkError(
                    f"end {end}: neighbour {hop['address']} is {found or 'unresolved'}, expected {hop['mac']}"
                )
        self.facts["proof"] = {
            "carrier": True,
            "mtu_with_df_bytes": self.mtu,
            "ip_versions": [4 if family == socket.AF_INET else 6 for family in families],
            "neighbours_resolved": True,
            "seconds": round(time.monotonic() - started, 6),
        }

    def next_hop(self, end: str) -> str:
        """The port that takes the frames of an end: that of the other end."""
        return "b" if end == "a" else "a"

    def hop_address(self, end: str, family: int) -> str:
        """The IP address of whoever takes the frames of an end."""
        address: str = self.ports[self.next_hop(end)]["address" if family == socket.AF_INET else "address6"]
        return address

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
        deadline = time.monotonic() + self.carrier_seconds
        while True:
            (flags,) = struct.unpack_from("16xH", fcntl.ioctl(probes[socket.AF_INET], _SIOCGIFFLAGS, request))
            listens = socket.AF_INET6 not in probes or group in Path("/proc/thread-self/net/igmp6").read_text()
            if flags & _IFF_RUNNING and listens:
                break
            if self.is_abandoned():
                raise LinkError(f"{interface}: nobody waits for its carrier any more")
            if time.monotonic() > deadline:
                raise LinkError(
                    self.no_carrier(end)
                    if not flags & _IFF_RUNNING
                    else f"{interface}: IPv6 neighbour discovery does not work after both ends were set up"
                )
            time.sleep(self.poll_seconds)
        self.has_carrier(end)

    def no_carrier(self, end: str) -> str:
        """What to say of a port that did not find its carrier in time."""
        return f"{self.ports[end]['interface']}: no carrier after both ends of the veth were set up"

    def prove_mtu(
        self,
        source: str,
        sender: socket.socket,
        target: str,
        receiver: socket.socket,
        to: tuple[str, int] | None = None,
    ) -> None:
        """A packet of the full MTU passes from one probe to the other with DF set. Raises LinkError."""
        six = sender.family == socket.AF_INET6
        headers = 48 if six else 28
        if self.passes(source, sender, receiver, self.mtu - headers, to=to):
            return
        which = f"an IPv{6 if six else 4} packet of {self.mtu} bytes with DF set did not pass from {source} to {target}"
        if self.mtu - headers > _WORDS_BYTES and self.passes(source, sender, receiver, _WORDS_BYTES, to=to):
            raise LinkError(f"{which}, and a short one does: {self.smaller_mtu(source, sender, receiver, to)}")
        raise LinkError(f"{which}, nor does a short one{self.where_to_look()}")

    def smaller_mtu(
        self,
        source: str,  # noqa: ARG002 - this and the following are for those who look closer
        sender: socket.socket,  # noqa: ARG002
        receiver: socket.socket,  # noqa: ARG002
        to: tuple[str, int] | None = None,  # noqa: ARG002
    ) -> str:
        """What to say when only short packets pass."""
        small = [text for text in self.both(self._small_mtu).values() if text]
        return " and ".join(small) or "something in between has a smaller MTU"

    def _small_mtu(self, end: str) -> str:
        """What the port of this end has less than the link; empty when it has not."""
        port = self.ports[end]
        (link,) = self.ends[end].ipr.link("get", index=port["index"])
        mtu = link.get_attr("IFLA_MTU")
        return f"port {end} ({port.get('name', port['interface'])}) has an MTU of {mtu} now" if mtu < self.mtu else ""

    def where_to_look(self) -> str:
        """What to say when nothing passes although both ports have a carrier."""
        return ""

    def passes(
        self,
        source: str,
        sender: socket.socket,
        receiver: socket.socket,
        payload_bytes: int,
        seconds: float | None = None,
        to: tuple[str, int] | None = None,
    ) -> bool:
        """Whether a datagram of this length gets from one probe to the other, within the time for a proof.

        ``to`` is the address and port to send to, where a device translates those of the receiver.
        """
        address, port = to or receiver.getsockname()[:2]
        payload = bytes(payload_bytes)
        poller = select.poll()
        poller.register(receiver, select.POLLIN)
        deadline = time.monotonic() + (self.proof_seconds if seconds is None else seconds)
        while time.monotonic() < deadline and not self.is_abandoned():
            try:
                sender.sendto(payload, (address, port))
            except BlockingIOError:  # the neighbour is being looked for
                pass
            except OSError as error:
                if error.errno != errno.EMSGSIZE:
                    raise
                return False  # its own port takes no packet as long as that
            if poller.poll(_ANSWER_MS) and len(receiver.recv(65535)) == len(payload):
                return True
            namespace = self.ends[source]
            with contextlib.suppress(Exception):  # ask for the neighbour again now; the kernel would after a second
                hop = self.hop_address(source, receiver.family)
                namespace.call(namespace.ipr.neigh, "del", dst=hop, ifindex=self.ports[source]["index"])
        return False

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
        both = {end: self.ends[end].submit(self._facts_of_port, end) for end in ("a", "b")}
        return {end: answer.result() for end, answer in both.items()}

    def _facts_of_port(self, end: str) -> dict[str, Any]:
        port = self.ports[end]
        return read_port_facts(port["interface"], port["index"], self.own_queue(end))

    def own_queue(self, _end: str) -> int | None:
        """Handle of the queue that this link shapes a port with."""
        return None
