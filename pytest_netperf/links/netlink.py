"""The little of netlink that reads the kernel quickly: one request, the messages of its answer, their attributes.

pyroute2 decodes everything that an answer holds, 2 ms for a queue on a quiet machine. This is for what is read around
every measurement; what changes the kernel goes through pyroute2.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Final

__all__ = ["GENERIC", "ROUTE", "attribute", "attributes", "exchange"]

ROUTE: Final = 0
GENERIC: Final = 16
_REQUEST, _DUMP = 0x1, 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_HEADER: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_KIND_MASK: Final = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER


def exchange(protocol: int, kind: int, body: bytes, *, dump: bool = False) -> list[bytes]:
    """Ask the kernel of the calling thread's namespace; the messages that it answers, without their headers.

    ``dump`` asks for all of a kind; otherwise there is one message. Raises OSError where the kernel refuses.
    """
    flags = _REQUEST | (_DUMP if dump else 0)
    found: list[bytes] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as asking:
        asking.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, 0, 0) + body)
        while True:
            data = asking.recv(1 << 16)
            at = 0
            while at + _HEADER.size <= len(data):
                length, answered, *_ = _HEADER.unpack_from(data, at)
                if answered == _NLMSG_ERROR:
                    raise OSError(-struct.unpack_from("=i", data, at + _HEADER.size)[0], "netlink")
                if answered == _NLMSG_DONE:
                    return found
                found.append(data[at + _HEADER.size : at + length])
                at += length + 3 & ~3
            if not dump:
                return found


def attribute(kind: int, value: bytes) -> bytes:
    """struct nlattr with its value, padded to 4 bytes."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and value of each attribute, in their order."""
    at = 0
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _KIND_MASK, message[at + _ATTRIBUTE.size : at + length]
        at += length + 3 & ~3
