"""Loss in bursts: the fault `loss` with `burst` of a simulated link, by an nftables counter at the receiving end.

    table netdev netperf {
      chain CHAIN { type filter hook ingress device PORT priority 0; numgen inc mod PERIOD >= PERIOD - BURST drop }
    }

The counter remembers where it is from frame to frame, which no classic BPF program can: of every PERIOD frames the
last BURST are lost, PERIOD = BURST / share. So each burst has exactly that length, and they are evenly spaced. The
messages are written here: pyroute2 knows no numgen, and a machine that simulates links need not have nft.

Needs CONFIG_NF_TABLES_NETDEV and CONFIG_NFT_NUMGEN, and CAP_NET_ADMIN in the namespace only.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Any, Final

from pytest_netperf.errors import LinkError

__all__ = ["lose_bursts", "stop_bursts"]

_TABLE: Final = b"netperf\0"
_NETLINK_NETFILTER = 12
_NFPROTO_NETDEV = 5
_NF_NETDEV_INGRESS = 0
_SUBSYS_NFTABLES = 10 << 8
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NEWTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE = 0, 2, 3, 6
_REQUEST, _ACK, _CREATE = 0x1, 0x4, 0x400
_NESTED = 0x8000
_ERROR = 2
_NF_DROP = 0
_NUMGEN_INCREMENTAL = 0
_BYTEORDER_HTON = 1
_CMP_GTE = 5
_REGISTER_VERDICT, _REGISTER = 0, 1


def lose_bursts(ipr: Any, index: int, burst: int, ratio: float) -> None:
    """Lose ``burst`` frames in a row, again and again, so that ``ratio`` of them are lost. Raises LinkError, OSError.

    To be called in the thread of the namespace.
    """
    interface = ipr.link("get", index=index)[0].get_attr("IFLA_IFNAME")
    chain = f"{interface}\0".encode()
    period = round(burst / ratio)
    hook = _nested(4, _be32(1, _NF_NETDEV_INGRESS) + _be32(2, 0) + _attribute(3, chain))
    numgen = _be32(1, _REGISTER) + _be32(2, period) + _be32(3, _NUMGEN_INCREMENTAL)
    byteorder = _be32(1, _REGISTER) + _be32(2, _REGISTER) + _be32(3, _BYTEORDER_HTON) + _be32(4, 4) + _be32(5, 4)
    in_burst = _be32(1, _REGISTER) + _be32(2, _CMP_GTE) + _nested(3, _be32(1, period - burst))
    verdict = _be32(1, _REGISTER_VERDICT) + _nested(2, _nested(2, _be32(1, _NF_DROP)))
    expressions = b"".join(
        _nested(1, _attribute(1, name) + _nested(2, data))
        for name, data in (
            (b"numgen\0", numgen),
            (b"byteorder\0", byteorder),
            (b"cmp\0", in_burst),
            (b"immediate\0", verdict),
        )
    )
    _transact(
        [
            (_NEWTABLE, _CREATE, _attribute(1, _TABLE)),
            (_NEWCHAIN, _CREATE, _attribute(1, _TABLE) + _attribute(3, chain) + hook + _attribute(7, b"filter\0")),
            (_NEWRULE, _CREATE, _attribute(1, _TABLE) + _attribute(2, chain) + _nested(4, expressions)),
        ]
    )


def stop_bursts(ipr: Any, index: int) -> None:  # noqa: ARG001 - as all that a fault calls in a namespace
    """Take the table away again. To be called in the thread of the namespace."""
    _transact([(_DELTABLE, 0, _attribute(1, _TABLE))])


def _attribute(kind: int, value: bytes) -> bytes:
    """struct nlattr with its value, padded to 4 bytes."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _nested(kind: int, value: bytes) -> bytes:
    return _attribute(kind | _NESTED, value)


def _be32(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("!I", value))


def _message(kind: int, flags: int, serial: int, family: int, resource: int, body: bytes) -> bytes:
    """struct nlmsghdr and struct nfgenmsg before the attributes."""
    length = 20 + len(body)
    head = struct.pack("=IHHIIBBH", length, kind, _REQUEST | flags, serial, 0, family, 0, socket.htons(resource))
    return head + body


def _transact(changes: list[tuple[int, int, bytes]]) -> None:
    """One nftables transaction: all of it or nothing. Raises OSError with what the kernel answered."""
    batch = _message(_BATCH_BEGIN, 0, 0, socket.AF_UNSPEC, 10, b"")
    for serial, (kind, flags, body) in enumerate(changes, 1):
        batch += _message(_SUBSYS_NFTABLES | kind, flags | _ACK, serial, _NFPROTO_NETDEV, 0, body)
    batch += _message(_BATCH_END, 0, len(changes) + 1, socket.AF_UNSPEC, 10, b"")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER) as netlink:
        netlink.settimeout(5.0)
        netlink.send(batch)
        answered = 0
        while answered < len(changes):
            packet = netlink.recv(65536)
            while packet:
                length, kind, _, _, _, code = struct.unpack_from("=IHHIIi", packet)
                if kind == _ERROR:
                    if code in (-errno.ENOENT, -errno.EOPNOTSUPP, -errno.EPROTONOSUPPORT, -errno.EAFNOSUPPORT):
                        raise LinkError(_MISSING)
                    if code:
                        raise OSError(-code, os.strerror(-code))
                    answered += 1
                packet = packet[(length + 3) & ~3 :]


_MISSING: Final = (
    "this kernel cannot lose frames in bursts: it has no nf_tables at the ingress of a port, or no numgen in it. Run "
    "`sudo modprobe -a nf_tables nft_numgen`, or use a kernel with CONFIG_NF_TABLES_NETDEV and CONFIG_NFT_NUMGEN, or "
    "take burst out of the fault"
)
