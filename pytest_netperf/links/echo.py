"""An ICMP echo, seen as the frame that comes back: from which MAC, with which TTL, and whether in one piece.

The question goes with DF, so its way has room for it; an answer that is as long and comes in one frame says the same of
the way back. Nothing but a host that answers a ping is needed at the other end.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time
from typing import Final, NamedTuple

__all__ = ["ECHO_HEADERS", "Echoed", "ask_echo"]

ECHO_HEADERS: Final = {socket.AF_INET: 28, socket.AF_INET6: 48}
"""IP and ICMP header, in bytes."""

_PROTOCOL: Final = {socket.AF_INET: 0x0800, socket.AF_INET6: 0x86DD}
_MTU_DISCOVER: Final = {
    socket.AF_INET: (socket.IPPROTO_IP, 10, 3),  # linux/in.h: IP_MTU_DISCOVER, IP_PMTUDISC_PROBE
    socket.AF_INET6: (socket.IPPROTO_IPV6, 23, 3),
}
_ASK: Final = {socket.AF_INET: 8, socket.AF_INET6: 128}
_ANSWER: Final = {socket.AF_INET: 0, socket.AF_INET6: 129}
_ICMP: Final = {socket.AF_INET: socket.IPPROTO_ICMP, socket.AF_INET6: socket.IPPROTO_ICMPV6}
_FRAGMENT_HEADER: Final = 44
_AGAIN_SECONDS: Final = 0.2


class Echoed(NamedTuple):
    """The answer, as it arrived."""

    mac: str
    """Of whoever sent the frame: the host itself, or the last router."""
    ttl: int
    whole: bool
    """Whether it came in one frame; False: something on its way back has a smaller MTU."""


def ask_echo(interface: str, source: str, target: str, packet_bytes: int, seconds: float) -> Echoed | None:
    """Ask for an echo of an IP packet of this length, again and again until one comes; None when none does.

    Called in the namespace of the interface, by someone who may open raw sockets.
    """
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    mark = os.urandom(2)
    body = struct.pack("!BBH2sH", _ASK[family], 0, 0, mark, 1) + bytes(max(0, packet_bytes - ECHO_HEADERS[family]))
    if family == socket.AF_INET:
        body = body[:2] + _checksum(body) + body[4:]  # the kernel does it for IPv6
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_PROTOCOL[family])) as frames,
        socket.socket(family, socket.SOCK_RAW, _ICMP[family]) as sender,
    ):
        frames.bind((interface, _PROTOCOL[family]))
        frames.setblocking(False)
        sender.setsockopt(*_MTU_DISCOVER[family])
        sender.bind((source, 0))
        poller = select.poll()
        poller.register(frames, select.POLLIN)
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            try:
                sender.sendto(body, (target, 0))
            except OSError as error:
                if error.errno == errno.EMSGSIZE:
                    return None
                if error.errno not in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAGAIN):
                    raise
            again = min(end, now + _AGAIN_SECONDS)
            while (left := again - time.monotonic()) > 0 and poller.poll(left * 1000):
                found = _read(family, frames.recv(65535), socket.inet_pton(family, target), mark, packet_bytes)
                if found is not None:
                    return found
    return None


def _read(family: socket.AddressFamily, frame: bytes, target: bytes, mark: bytes, packet_bytes: int) -> Echoed | None:
    """The answer in a frame; None when it is something else."""
    mac, packet = frame[6:12].hex(":"), frame[14:]
    if family == socket.AF_INET:
        if len(packet) < 28 or packet[12:16] != target or packet[9] != socket.IPPROTO_ICMP:
            return None
        part = int.from_bytes(packet[6:8], "big") & 0x3FFF  # more fragments, offset
        ttl, icmp, length = packet[8], packet[(packet[0] & 15) * 4 :], int.from_bytes(packet[2:4], "big")
    else:
        if len(packet) < 48 or packet[8:24] != target:
            return None
        part, ttl, length = int(packet[6] == _FRAGMENT_HEADER), packet[7], int.from_bytes(packet[4:6], "big") + 40
        icmp = packet[48:] if part else packet[40:]
        if not part and packet[6] != socket.IPPROTO_ICMPV6:
            return None
    if part:
        return Echoed(mac, ttl, whole=False)
    if icmp[0] != _ANSWER[family] or icmp[4:6] != mark or length != max(packet_bytes, ECHO_HEADERS[socket.AF_INET]):
        return None
    return Echoed(mac, ttl, whole=True)


def _checksum(data: bytes) -> bytes:
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")
