"""What the kernel says of TCP connections while they run: struct tcp_info (linux/tcp.h), asked for by sock_diag.

A request walks the kernel's table of connections once, which has as many places as the machine's memory asks for:
1.3 ms on a machine with 24 GB, 2.6 ms at most. So this is for once a second, not for a loop.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any, Final

__all__ = ["tcp_connections"]

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST_DUMP: Final = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_INET_DIAG_INFO: Final = 2
_ESTABLISHED: Final = 1
_HEADER: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_PORTS: Final = struct.Struct("!4xHH")  # after family, state, timer and retransmits of struct inet_diag_msg
_MESSAGE_BYTES: Final = 72  # of struct inet_diag_msg; attributes follow

# Offsets in struct tcp_info, which only ever grows at its end. 32 bits, then 64 bits wide.
_FIELDS: Final = {
    "mss_bytes": (16, "=I"),
    "rtt_us": (68, "=I"),
    "retransmits": (100, "=I"),
    "acked_bytes": (120, "=Q"),
    "min_rtt_us": (148, "=I"),
    "delivered_bytes_per_s": (160, "=Q"),
    "busy_us": (168, "=Q"),
    "rwnd_limited_us": (176, "=Q"),
    "sndbuf_limited_us": (184, "=Q"),
}
_SHORTEST_INFO: Final = 192  # up to tcpi_sndbuf_limited: Linux 4.10


def tcp_connections(port: int) -> list[dict[str, Any]]:
    """Established TCP connections of this thread's network namespace whose local or remote port is ``port``.

    The keys are the fields of `observe.observation.TcpConnection`. IPv4 connections are looked for first, the others
    (and the IPv4 ones of a socket that serves both) only when there are none. Raises OSError where the kernel does not
    answer, and one before 4.10 gives no connections: it does not count these times.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as asking:
        for family in (socket.AF_INET, socket.AF_INET6):
            if found := list(_dump(asking, family, port)):
                return found
    return []


def _dump(asking: socket.socket, family: int, port: int) -> Iterator[dict[str, Any]]:
    body = struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), 1 << _ESTABLISHED)
    asking.send(_HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, family, 0) + body)
    while True:
        data = asking.recv(1 << 16)
        at = 0
        while at + _HEADER.size <= len(data):
            length, kind, *_ = _HEADER.unpack_from(data, at)
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                number = -struct.unpack_from("=i", data, at + _HEADER.size)[0]
                raise OSError(number, "sock_diag")
            message = data[at + _HEADER.size : at + length]
            ports = _PORTS.unpack_from(message)
            info = _info(message)
            if port in ports and len(info) >= _SHORTEST_INFO:
                yield _connection(ports, info)
            at += length + 3 & ~3


def _info(message: bytes) -> bytes:
    """The struct tcp_info of a message, as long as this kernel makes it."""
    at = _MESSAGE_BYTES
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == _INET_DIAG_INFO:
            return message[at + _ATTRIBUTE.size : at + length]
        at += max(length, _ATTRIBUTE.size) + 3 & ~3
    return b""


def _connection(ports: tuple[Any, ...], info: bytes) -> dict[str, Any]:
    raw = {name: struct.unpack_from(form, info, offset)[0] for name, (offset, form) in _FIELDS.items()}
    unknown_rtt = raw["min_rtt_us"] == 0xFFFFFFFF
    return {
        "local_port": ports[0],
        "remote_port": ports[1],
        "busy_s": raw["busy_us"] / 1e6,
        "rwnd_limited_s": raw["rwnd_limited_us"] / 1e6,
        "sndbuf_limited_s": raw["sndbuf_limited_us"] / 1e6,
        "rtt_s": raw["rtt_us"] / 1e6,
        "min_rtt_s": None if unknown_rtt else raw["min_rtt_us"] / 1e6,
        "retransmits": raw["retransmits"],
        "acked_bytes": raw["acked_bytes"],
        "delivery_bps": raw["delivered_bytes_per_s"] * 8.0,
        "mss_bytes": raw["mss_bytes"],
    }
