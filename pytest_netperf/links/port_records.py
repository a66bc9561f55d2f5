"""The addresses, routes and neighbours of a port as the kernel gives them, to be given back to it one by one.

As ``ip route save`` does it: the message of a dump, sent again as a request, keeps every attribute, also those that
this program does not know. What the kernel makes by itself (the routes of an address, what a router announced) is left
to it. A record is plain data: what it says to people, the bytes to send again, and the bytes that must be equal.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, Final

from pytest_netperf.links.netlink import ROUTE, attribute, attributes, exchange

__all__ = [
    "ADDRESSES",
    "NEIGHBOURS",
    "ROUTES",
    "give_back",
    "has_run_out",
    "read_records",
    "routes_of_several_ports",
    "take_away",
]

ADDRESSES, ROUTES, NEIGHBOURS = "addresses", "routes", "neighbours"

# linux/rtnetlink.h, linux/if_addr.h, linux/neighbour.h: (new, get)
_MESSAGES: Final = {ADDRESSES: (20, 22), ROUTES: (24, 26), NEIGHBOURS: (28, 30)}
_ADDRESS: Final = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, interface
_ROUTE: Final = struct.Struct("=BBBBBBBBI")  # family, dst, src, tos, table, protocol, scope, type, flags
_NEIGHBOUR: Final = struct.Struct("=BxxxiHBB")  # family, interface, state, flags, type

_IFA_ADDRESS, _IFA_LOCAL, _IFA_CACHEINFO, _IFA_FLAGS, _IFA_PROTO = 1, 2, 6, 8, 11
_IFA_KEPT: Final = 0xFFFFFFFF & ~(0x01 | 0x04 | 0x08 | 0x20 | 0x40 | 0x800)  # without what the kernel finds out
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY, _RTA_MULTIPATH, _RTA_CACHEINFO = 1, 4, 5, 6, 9, 12
_RTA_PREFSRC, _RTA_TABLE, _RTA_NH_ID = 7, 15, 30
_BY_KERNEL, _BY_ANNOUNCEMENT = 2, 9  # RTPROT_KERNEL, RTPROT_RA
_LOCAL_TABLE: Final = 255
_RTNH_ONLINK, _RTM_CLONED = 4, 0x200
_NDA_DST, _NDA_ADDRESS, _NDA_CACHEINFO, _NDA_PROBES = 1, 2, 3, 4
_NUD_PERMANENT: Final = 0x80
_FOREVER: Final = 0xFFFFFFFF
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)

_REQUEST_CREATE_ACK: Final = 0x1 | 0x4 | 0x400
_HEADER: Final = struct.Struct("=IHHII")


def read_records(what: str, index: int) -> list[dict[str, Any]]:
    """All of one kind that belong to this interface of the calling thread's namespace, in the kernel's order."""
    reader = {ADDRESSES: _addresses, ROUTES: _routes, NEIGHBOURS: _neighbours}[what]
    return list(reader(index))


def give_back(what: str, record: dict[str, Any], index: int) -> None:
    """Send a record to the kernel again, for the interface that has this index now. Raises OSError.

    An address whose lifetime has run out meanwhile is not given back; one that is there already is well.
    """
    message = bytes.fromhex(record["raw"])
    if what == ADDRESSES:
        message = _address_now(message, index, record["read_at"])
        if not message:
            return
    elif what == ROUTES:
        head, inside = message[: _ROUTE.size], list(attributes(message[_ROUTE.size :]))
        message = head + b"".join(
            attribute(kind, struct.pack("=I", index) if kind == _RTA_OIF else value)
            for kind, value in inside
            if kind != _RTA_CACHEINFO
        )
    else:
        family, _, state, flags, kind = _NEIGHBOUR.unpack_from(message)
        message = _NEIGHBOUR.pack(family, index, state, flags, kind) + message[_NEIGHBOUR.size :]
    _request(_MESSAGES[what][0], message)


def has_run_out(address: dict[str, Any]) -> bool:
    """Whether the lifetime of an address has ended since it was read."""
    return not _address_now(bytes.fromhex(address["raw"]), 0, address["read_at"])


def take_away(what: str, record: dict[str, Any], index: int) -> None:
    """Remove a record of this interface. Raises OSError."""
    message = bytes.fromhex(record["raw"])
    if what == ADDRESSES:
        message = message[:4] + struct.pack("=I", index) + message[_ADDRESS.size :]
    _request(_MESSAGES[what][0] + 1, message)


def routes_of_several_ports(index: int) -> list[str]:
    """Routes that a move of this interface loses and that are not its own: they cannot be given back.

    They lead through it and others, or through a nexthop object, or through another one from an address of this one.
    """
    found = []
    addresses = {bytes.fromhex(record["local"]) for record in _addresses(index)}
    for message in _dump(ROUTES):
        inside = dict(attributes(message[_ROUTE.size :]))
        hops = _hops(inside.get(_RTA_MULTIPATH, b""))
        through = struct.unpack("=I", inside[_RTA_OIF])[0] if _RTA_OIF in inside else None
        borrowed = inside.get(_RTA_PREFSRC) in addresses and message[4] != _LOCAL_TABLE
        if index in hops or (through == index and _RTA_NH_ID in inside) or (through != index and borrowed):
            found.append(_route_text(message, inside))
    return found


def _addresses(index: int) -> Iterator[dict[str, Any]]:
    for message in _dump(ADDRESSES):
        family, length, _, scope, at = _ADDRESS.unpack_from(message)
        if at != index:
            continue
        inside = dict(attributes(message[_ADDRESS.size :]))
        flags = struct.unpack("=I", inside[_IFA_FLAGS])[0] if _IFA_FLAGS in inside else message[2]
        same = [(kind, value) for kind, value in sorted(inside.items()) if kind not in (_IFA_CACHEINFO, _IFA_PROTO)]
        same = [(kind, value) for kind, value in same if kind != _IFA_FLAGS]
        key = _ADDRESS.pack(family, length, 0, scope, 0) + struct.pack("=I", flags & _IFA_KEPT)
        local = inside.get(_IFA_LOCAL) or inside[_IFA_ADDRESS]
        text = f"{_ip(family, local)}/{length}"
        yield {
            "is": text,
            "key": (key + _packed(same)).hex(),
            "raw": message.hex(),
            "local": local.hex(),
            "read_at": time.monotonic(),
        }


def _address_now(message: bytes, index: int, read_at: float) -> bytes:
    """The request that gives an address back, with the lifetime that is left of it; empty when none is."""
    family, length, flags, scope, _ = _ADDRESS.unpack_from(message)
    answer = _ADDRESS.pack(family, length, flags & ~0x48 & 0xFF, scope, index)
    for kind, value in attributes(message[_ADDRESS.size :]):
        kept = value
        if kind == _IFA_CACHEINFO:
            preferred, valid, *stamps = struct.unpack("=IIII", value)
            passed = int(time.monotonic() - read_at)
            if valid != _FOREVER and valid <= passed:
                return b""
            preferred, valid = (each if each == _FOREVER else max(0, each - passed) for each in (preferred, valid))
            kept = struct.pack("=IIII", preferred, valid, *stamps)
        elif kind == _IFA_FLAGS:
            kept = struct.pack("=I", struct.unpack("=I", value)[0] & ~0x48)
        answer += attribute(kind, kept)
    return answer


def _routes(index: int) -> Iterator[dict[str, Any]]:
    for message in _dump(ROUTES):
        fields = list(_ROUTE.unpack_from(message))
        inside = dict(attributes(message[_ROUTE.size :]))
        if _RTA_OIF not in inside or struct.unpack("=I", inside[_RTA_OIF])[0] != index:
            continue
        table = struct.unpack("=I", inside[_RTA_TABLE])[0] if _RTA_TABLE in inside else fields[4]
        if fields[5] in (_BY_KERNEL, _BY_ANNOUNCEMENT) or table == _LOCAL_TABLE or fields[8] & _RTM_CLONED:
            continue
        fields[8] &= _RTNH_ONLINK  # the rest is what became of it
        same = [(kind, value) for kind, value in sorted(inside.items()) if kind not in (_RTA_OIF, _RTA_CACHEINFO)]
        raw = _ROUTE.pack(*fields) + message[_ROUTE.size :]
        yield {
            "is": _route_text(message, inside),
            "key": (_ROUTE.pack(*fields) + _packed(same)).hex(),
            "raw": raw.hex(),
        }


def _route_text(message: bytes, inside: dict[int, bytes]) -> str:
    family, length = message[:2]
    text = f"{_ip(family, inside[_RTA_DST])}/{length}" if _RTA_DST in inside else "default"
    if _RTA_GATEWAY in inside:
        text += f" via {_ip(family, inside[_RTA_GATEWAY])}"
    if _RTA_PRIORITY in inside:
        text += f" metric {struct.unpack('=I', inside[_RTA_PRIORITY])[0]}"
    return text


def _hops(multipath: bytes) -> list[int]:
    """The interfaces of a list of struct rtnexthop."""
    found, at = [], 0
    while at + 8 <= len(multipath):
        length, interface = struct.unpack_from("=HxxI", multipath, at)
        found.append(interface)
        at += max(8, length + 3 & ~3)
    return found


def _neighbours(index: int) -> Iterator[dict[str, Any]]:
    """Only those that somebody wrote down; the others are found again."""
    for message in _dump(NEIGHBOURS):
        family, at, state, flags, kind = _NEIGHBOUR.unpack_from(message)
        inside = dict(attributes(message[_NEIGHBOUR.size :]))
        if at != index or family not in _FAMILIES or not state & _NUD_PERMANENT or _NDA_DST not in inside:
            continue
        raw = _NEIGHBOUR.pack(family, index, state, flags, kind)
        raw += _packed([(key, inside[key]) for key in (_NDA_DST, _NDA_ADDRESS) if key in inside])
        text = f"{_ip(family, inside[_NDA_DST])} at {inside.get(_NDA_ADDRESS, b'').hex(':')}"
        yield {"is": text, "key": (raw[:4] + raw[8:]).hex(), "raw": raw.hex()}


def _dump(what: str) -> Iterator[bytes]:
    for family in _FAMILIES:
        size = {ADDRESSES: _ADDRESS.size, ROUTES: _ROUTE.size, NEIGHBOURS: _NEIGHBOUR.size}[what]
        for message in exchange(ROUTE, _MESSAGES[what][1], bytes([family]) + bytes(size - 1), dump=True):
            if message[0] == family:  # a kernel without IPv6 answers with what it has
                yield message


def _packed(pairs: list[tuple[int, bytes]]) -> bytes:
    return b"".join(attribute(kind, value) for kind, value in pairs)


def _ip(family: int, address: bytes) -> str:
    return socket.inet_ntop(family, address) if len(address) in (4, 16) else address.hex()


def _request(kind: int, body: bytes) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, ROUTE) as asking:
        asking.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST_CREATE_ACK, 0, 0) + body)
        answer = asking.recv(1 << 16)
    number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
    if number:
        raise OSError(number, "netlink")
