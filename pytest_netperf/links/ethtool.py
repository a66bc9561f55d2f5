"""What the driver of a port says of it, asked by ethtool's ioctl and, for its standard pause counters, by netlink.

pyroute2's Ethtool knows neither pause, EEE nor standard statistics, and takes no namespace. A socket belongs to the
namespace in which it was made, so everything here runs in the thread of the port's namespace. None of these questions
needs a privilege. Each is one system call into the driver, mostly some microseconds; the answer is None, or empty,
where the driver does not know it (EOPNOTSUPP) or the port is gone.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import socket
import struct
from typing import Any, Final, Self

from pytest_netperf.links.netlink import GENERIC, attribute, attributes, exchange

__all__ = ["OFFLOADS", "Ethtool", "standard_pause"]

_SIOCETHTOOL: Final = 0x8946

# linux/ethtool.h
_GDRVINFO, _GLINK, _GPAUSEPARAM, _GSTRINGS, _GSTATS = 0x03, 0x0A, 0x12, 0x1B, 0x1D
_GSSET_INFO, _GFEATURES, _GEEE, _GLINKSETTINGS = 0x37, 0x3A, 0x44, 0x4C
_SET_STATS, _SET_FEATURES = 1, 4
_STRING_BYTES: Final = 32
_MOST_STRINGS: Final = 1 << 14
_SLACK_STRINGS: Final = 512
_DRVINFO: Final = struct.Struct("=I32s32s32s32s32s12sIIIII")
_LINK: Final = struct.Struct("=IIBBBBBBBbBBBB28x")
_FEATURE_BLOCK: Final = struct.Struct("=IIII")  # available, requested, active, never_changed
_DUPLEX: Final = {0: "half", 1: "full"}
_NO_SPEED: Final = (0, 0xFFFF, 0xFFFFFFFF)

OFFLOADS: Final = {
    "tso": ("tx-tcp-segmentation", "tx-tcp6-segmentation"),
    "gso": ("tx-generic-segmentation",),
    "gro": ("rx-gro", "rx-gro-hw"),
    "lro": ("rx-lro",),
    "tx-checksum": ("tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"),
    "rx-checksum": ("rx-checksum",),
    "scatter-gather": ("tx-scatter-gather",),
}
"""Short name -> the kernel's features; one that is on is enough."""


class Ethtool:
    """Questions to the driver of one port of the calling thread's network namespace. A context manager."""

    def __init__(self, interface: str) -> None:
        self._name = interface.encode()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, question: bytes, size: int = 0) -> bytes | None:
        """One request in a buffer of ``size`` bytes; what the driver made of it, or None where it refused."""
        buffer = ctypes.create_string_buffer(question, max(size, len(question)))
        request = struct.pack("16sP16x", self._name, ctypes.addressof(buffer))
        try:
            fcntl.ioctl(self._socket, _SIOCETHTOOL, request)
        except OSError:
            return None
        return buffer.raw

    def driver(self) -> dict[str, str | None]:
        """``driver``, ``version``, ``firmware`` and ``bus_address``, as the driver gives them."""
        answer = self.ask(struct.pack("=I", _GDRVINFO), _DRVINFO.size)
        fields = [None] * 4 if answer is None else [_text(field) for field in _DRVINFO.unpack(answer)[1:5]]
        return dict(zip(("driver", "version", "firmware", "bus_address"), fields, strict=True))

    def link(self) -> dict[str, Any]:
        """``speed_bps``, ``duplex`` ("full", "half") and ``autoneg`` of the link as it is now.

        Without a carrier there is no speed, although e1000e gives the one that it was set to; without a speed there is
        no duplex, although drivers of USB ports say half.
        """
        answer = None
        if words := _words_of_link_modes(self):
            question = struct.pack("=I11xb", _GLINKSETTINGS, words)
            answer = self.ask(question, _LINK.size + 3 * 4 * words)
        if answer is None:
            return {"speed_bps": None, "duplex": None, "autoneg": None}
        _, mbps, duplex, _, _, autoneg, *_ = _LINK.unpack_from(answer)
        carrier = self.ask(struct.pack("=II", _GLINK, 0))
        if mbps in _NO_SPEED or (carrier is not None and not struct.unpack_from("=I", carrier, 4)[0]):
            return {"speed_bps": None, "duplex": None, "autoneg": bool(autoneg)}
        return {"speed_bps": mbps * 1e6, "duplex": _DUPLEX.get(duplex), "autoneg": bool(autoneg)}

    def supported_link_modes(self) -> int:
        """The link modes that the port can have, one bit for each (ETHTOOL_LINK_MODE_..._BIT); 0 where not known."""
        masks = self.link_mode_masks()
        return 0 if masks is None else masks[0]

    def link_mode_masks(self) -> tuple[int, int, int] | None:
        """The link modes that are supported, advertised, and advertised by the partner; None where not known."""
        words = _words_of_link_modes(self)
        question = struct.pack("=I11xb", _GLINKSETTINGS, words)
        answer = self.ask(question, _LINK.size + 3 * 4 * words) if words else None
        if answer is None:
            return None
        at, length = _LINK.size, 4 * words
        supported, advertised, partner = (
            int.from_bytes(answer[at + length * way : at + length * (way + 1)], "little") for way in range(3)
        )
        return supported, advertised, partner

    def link_mode_words(self) -> int:
        """How many 32-bit words a set of link modes has in this kernel; 0 where the driver does not answer."""
        answer = self.ask(struct.pack("=I", _GLINKSETTINGS), _LINK.size)
        return 0 if answer is None else -int(_LINK.unpack(answer)[9])  # it answers 0 words with what it wants, negated

    def pause(self) -> dict[str, bool | None]:
        """``pause_autoneg``, ``pause_rx`` and ``pause_tx``: the settings of flow control."""
        answer = self.ask(struct.pack("=IIII", _GPAUSEPARAM, 0, 0, 0))
        values = [None] * 3 if answer is None else [bool(value) for value in struct.unpack_from("=III", answer, 4)]
        return dict(zip(("pause_autoneg", "pause_rx", "pause_tx"), values, strict=True))

    def eee(self) -> dict[str, bool | None]:
        """``eee_supported``, ``eee_enabled`` and ``eee_active`` (both ends agreed on it)."""
        answer = self.ask(struct.pack("=I", _GEEE), 40)
        if answer is None:
            return {"eee_supported": None, "eee_enabled": None, "eee_active": None}
        supported, _, _, active, enabled = struct.unpack_from("=IIIII", answer, 4)
        return {"eee_supported": bool(supported), "eee_enabled": bool(enabled), "eee_active": bool(active)}

    def offloads(self) -> dict[str, str]:
        """Short name -> "on", "off" (it could be switched on), or "cannot": asking for it changes nothing, because
        the port cannot do it at all, or not without another one that is off. Empty: not known."""
        names = _features_of_kernel(self)
        blocks = (len(names) + 31) // 32
        answer = self.ask(struct.pack("=II", _GFEATURES, blocks), 8 + blocks * _FEATURE_BLOCK.size) if names else None
        if answer is None:
            return {}
        could = active = 0
        for block in range(blocks):
            available, requested, is_on, _ = _FEATURE_BLOCK.unpack_from(answer, 8 + block * _FEATURE_BLOCK.size)
            could |= (available & ~requested) << 32 * block
            active |= is_on << 32 * block
        bits = {name: 1 << number for number, name in enumerate(names)}
        found = {}
        for short, features in OFFLOADS.items():
            mask = sum(bits.get(feature, 0) for feature in features)
            if mask:
                found[short] = "on" if active & mask else "off" if could & mask else "cannot"
        return found

    def strings(self, which: int) -> tuple[str, ...]:
        """The names of a set of strings (ETH_SS_...), in the order of their values."""
        answer = self.ask(struct.pack("=IIQI", _GSSET_INFO, 0, 1 << which, 0))
        if answer is None or not struct.unpack_from("=Q", answer, 8)[0]:
            return ()
        count = struct.unpack_from("=I", answer, 16)[0]
        if count > _MOST_STRINGS:
            return ()
        # The kernel writes as many as there are now, whatever it is told: somebody may have added queues meanwhile.
        room = 2 * count + _SLACK_STRINGS
        answer = self.ask(struct.pack("=III", _GSTRINGS, which, count), 12 + room * _STRING_BYTES)
        if answer is None:
            return ()
        count = min(struct.unpack_from("=I", answer, 8)[0], room)
        return tuple(
            _text(answer[at : at + _STRING_BYTES]) or "" for at in range(12, 12 + count * _STRING_BYTES, _STRING_BYTES)
        )

    def statistics(self) -> dict[str, int]:
        """The driver's own counters (``ethtool -S``); their names are its own as well."""
        names = self.strings(_SET_STATS)
        room = 2 * len(names) + _SLACK_STRINGS  # as for the names
        answer = self.ask(struct.pack("=II", _GSTATS, len(names)), 8 + 8 * room) if names else None
        if answer is None or struct.unpack_from("=I", answer, 4)[0] != len(names):
            return {}  # other counters than those that were named
        return dict(zip(names, struct.unpack_from(f"={len(names)}Q", answer, 8), strict=True))


_cached: dict[str, Any] = {}


def _features_of_kernel(port: Ethtool) -> tuple[str, ...]:
    """The names of all features: the kernel's, the same for every port."""
    if not _cached.get("features"):
        _cached["features"] = port.strings(_SET_FEATURES)
    names: tuple[str, ...] = _cached["features"]
    return names


def _words_of_link_modes(port: Ethtool) -> int:
    """The kernel's too; a driver that does not answer leaves it open."""
    if not _cached.get("words"):
        _cached["words"] = port.link_mode_words()
    words: int = _cached["words"]
    return words


def _text(field: bytes) -> str | None:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace").strip() or None


_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2
_GENERIC_HEADER: Final = struct.Struct("=BBxx")
_NESTED: Final = 0x8000
_PAUSE_GET, _WITH_STATISTICS = 21, 1 << 2
_HEADER, _HEADER_NAME, _HEADER_FLAGS = 1, 2, 3
_PAUSE_STATISTICS, _TX_FRAMES, _RX_FRAMES = 5, 2, 3


def standard_pause(interface: str) -> dict[str, int]:
    """``rx_pause`` and ``tx_pause`` by the kernel's own names, from Linux 5.10 on; empty where the driver has none."""
    header = attribute(_HEADER_NAME, interface.encode() + b"\0")
    header += attribute(_HEADER_FLAGS, struct.pack("=I", _WITH_STATISTICS))
    try:
        answer = _generic(_ethtool_family(), _PAUSE_GET, attribute(_HEADER | _NESTED, header))
    except OSError:
        return {}
    inside = dict(attributes(answer.get(_PAUSE_STATISTICS, b"")))
    names = {_RX_FRAMES: "rx_pause", _TX_FRAMES: "tx_pause"}
    return {
        name: struct.unpack("=Q", inside[kind])[0] for kind, name in names.items() if len(inside.get(kind, b"")) == 8
    }


@functools.cache
def _ethtool_family() -> int:
    """The number that this kernel gave the family "ethtool". Raises OSError where it has none."""
    answer = _generic(_CONTROL, _GET_FAMILY, attribute(_FAMILY_NAME, b"ethtool\0"))
    return int(struct.unpack("=H", answer[_FAMILY_ID])[0])


def _generic(family: int, command: int, question: bytes) -> dict[int, bytes]:
    """The attributes of one answer of generic netlink. Raises OSError."""
    (answer,) = exchange(GENERIC, family, _GENERIC_HEADER.pack(command, 1) + question)
    return dict(attributes(answer[_GENERIC_HEADER.size :]))
