"""Proof that packets pass a device: the time to live falls by one on the way, and the MTU of the whole path.

A packet that took another way than through the router keeps its TTL (RFC 1812, section 5.3.1), or loses more of it. The
path MTU is found by packets that may not be fragmented (DF), because the report of a router (ICMP) may be filtered.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pytest_netperf.errors import LinkError

if TYPE_CHECKING:
    from pytest_netperf.links.pair import Pair

__all__ = ["LEAST_MTU", "middle_mtu", "path_mtu", "seen_as", "ttl_at_arrival"]

_IP_RECVTTL, _IPV6_RECVHOPLIMIT, _IPV6_HOPLIMIT = 12, 51, 52  # linux/in.h, linux/in6.h
_IPV6_UNICAST_HOPS: Final = 16
_ANSWER_MS: Final = 50
_SECONDS: Final = 2.0
_TRY_SECONDS: Final = 0.12  # of a packet that may be too large, once the neighbours are known
LEAST_MTU: Final = {socket.AF_INET: 68, socket.AF_INET6: 1280}
"""IP version -> the smallest MTU that it can have, in bytes (RFC 791, RFC 8200)."""


def ttl_at_arrival(
    sender: socket.socket, receiver: socket.socket, sent_with: int = 64, to: tuple[str, int] | None = None
) -> int:
    """The TTL (IPv6: hop limit) with which a datagram arrives that left with ``sent_with``. Raises LinkError.

    ``to`` is the address and port to send to, where a device translates those of the receiver.
    """
    six = sender.family == socket.AF_INET6
    level, receive, kind = (
        (socket.IPPROTO_IPV6, _IPV6_RECVHOPLIMIT, _IPV6_HOPLIMIT)
        if six
        else (socket.IPPROTO_IP, _IP_RECVTTL, socket.IP_TTL)
    )
    sender.setsockopt(level, _IPV6_UNICAST_HOPS if six else socket.IP_TTL, sent_with)
    receiver.setsockopt(level, receive, 1)
    poller = select.poll()
    poller.register(receiver, select.POLLIN)
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        sender.sendto(b"ttl", to or receiver.getsockname()[:2])
        while poller.poll(_ANSWER_MS):
            data, ancillary, *_ = receiver.recvmsg(65535, socket.CMSG_SPACE(4))
            for at, what, value in ancillary:
                if data == b"ttl" and (at, what) == (level, kind):
                    return int.from_bytes(value[:4], "little" if value[0] else "big")
    raise LinkError(f"no datagram arrived over IPv{6 if six else 4} whose TTL could be read")


def path_mtu(passes: Callable[[int], bool], low: int, high: int) -> int:
    """The largest packet that passes, by halving; ``low`` bytes do and ``high`` bytes do not.

    The sizes that most paths have are asked for first.
    """
    for usual in (1500, 9000, 1492, 1280):
        if low < usual < high and passes(usual):
            low = usual
            if not passes(usual + 1):
                return usual
            break
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def middle_mtu(
    path: Pair, source: str, sender: socket.socket, receiver: socket.socket, to: tuple[str, int] | None = None
) -> str:
    """What to say of a path on which only short packets pass: the MTU in the middle, found out."""
    headers = 48 if sender.family == socket.AF_INET6 else 28
    found = path_mtu(
        lambda mtu: path.passes(source, sender, receiver, mtu - headers, _TRY_SECONDS, to),
        LEAST_MTU[socket.AddressFamily(sender.family)],
        path.mtu,
    )
    return (
        f"the MTU is {path.mtu} at both ends and {found} in the middle; set the MTU on every device of the path, "
        f"or measure at MTU {found}"
    )


def seen_as(sender: socket.socket, receiver: socket.socket, seconds: float) -> tuple[str, int] | None:
    """Address and port that the receiver sees a datagram come from: those of the sender, unless a device translates.

    None when nothing arrives within this time.
    """
    payload = os.urandom(16)
    poller = select.poll()
    poller.register(receiver, select.POLLIN)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):  # the neighbour is being looked for
            sender.sendto(payload, receiver.getsockname()[:2])
        while poller.poll(_ANSWER_MS):
            data, source = receiver.recvfrom(65535)
            if data == payload:
                return source[0], source[1]
    return None
