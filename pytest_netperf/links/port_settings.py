"""What ``ethtool`` can set on a port: read as plain numbers, and written back where they differ.

Offloads, rings, channels, coalescing, pause, EEE, Wake-on-LAN, private flags, and what the link is negotiated with. A
group that the driver does not know is None. Setting rings, channels or the link makes many drivers restart the port, so
only what differs is written.
"""

from __future__ import annotations

import ctypes
import fcntl
import struct
from collections.abc import Mapping
from typing import Any, Final

from pytest_netperf.links.ethtool import Ethtool

__all__ = ["PortSettings"]

_COALESCING: Final = (
    "rx_usecs", "rx_frames", "rx_usecs_irq", "rx_frames_irq", "tx_usecs", "tx_frames", "tx_usecs_irq", "tx_frames_irq",
    "stats_usecs", "adaptive_rx", "adaptive_tx",
    "rate_low", "rx_usecs_low", "rx_frames_low", "tx_usecs_low", "tx_frames_low",
    "rate_high", "rx_usecs_high", "rx_frames_high", "tx_usecs_high", "tx_frames_high", "sample_s",
)  # fmt: skip
# linux/ethtool.h: (read, write, number of 32-bit words behind the command, name -> which of them can be set)
_GROUPS: Final[dict[str, tuple[int, int, int, dict[str, int]]]] = {
    "rings": (0x10, 0x11, 8, {"rx": 4, "rx_mini": 5, "rx_jumbo": 6, "tx": 7}),
    "channels": (0x3C, 0x3D, 8, {"rx": 4, "tx": 5, "other": 6, "combined": 7}),
    "coalescing": (0x0E, 0x0F, 22, {name: number for number, name in enumerate(_COALESCING)}),
    "pause": (0x12, 0x13, 3, {"autoneg": 0, "rx": 1, "tx": 2}),
    "eee": (0x44, 0x45, 9, {"advertised": 1, "enabled": 4, "tx_lpi_enabled": 5, "tx_lpi_timer": 6}),
    "wake_on_lan": (0x05, 0x06, 4, {"options": 1}),
    "private_flags": (0x27, 0x28, 1, {"flags": 0}),
}
_ADAPTED: Final = {"adaptive_rx": "rx_", "adaptive_tx": "tx_"}

_SIOCETHTOOL: Final = 0x8946
_GFEATURES, _SFEATURES, _GLINKSETTINGS, _SLINKSETTINGS = 0x3A, 0x3B, 0x4C, 0x4D
_FEATURE_NAMES: Final = 4
_FEATURE: Final = struct.Struct("=IIII")  # available, requested, active, never_changed
_LINK: Final = struct.Struct("=IIBBBBBBBbBBBB28x")
_SPEED, _DUPLEX, _PORT, _AUTONEG, _MDIX_CONTROL = 1, 2, 3, 5, 8  # fields of _LINK
_NO_SPEED: Final = (0, 0xFFFF, 0xFFFFFFFF)


class PortSettings(Ethtool):
    """The settings of one port of the calling thread's namespace. A context manager."""

    def read(self) -> dict[str, dict[str, Any] | None]:
        """Every group: name -> number; only what can be set, never what the port measures."""
        found: dict[str, dict[str, Any] | None] = {name: self._group(name) for name in _GROUPS}
        return found | {"link": self._link_settings(), "offloads": self._wishes()}

    def write(self, group: str, wanted: Mapping[str, Any]) -> None:
        """Bring one group to these values. Raises OSError with the driver's own refusal."""
        if group == "offloads":
            self._write_wishes(wanted)
        elif group == "link":
            self._write_link_settings(wanted)
        else:
            read, write, words, names = _GROUPS[group]
            answer = self._tell(struct.pack("=I", read) + bytes(4 * words))
            values = list(struct.unpack(f"={words}I", answer[4:]))
            for name in names.keys() & wanted.keys():
                values[names[name]] = wanted[name]
            self._tell(struct.pack(f"=I{words}I", write, *values))

    def most_ring_entries(self) -> dict[str, int] | None:
        """How long the driver lets its rings be; None where it does not say."""
        read, _, words, _ = _GROUPS["rings"]
        try:
            answer = self._tell(struct.pack("=I", read) + bytes(4 * words))
        except OSError:
            return None
        rx, _, _, tx = struct.unpack_from("=IIII", answer, 4)
        return {"rx": rx, "tx": tx}

    def available_features(self) -> set[str]:
        """The kernel's names of the offloads that can be switched at this port."""
        names, blocks = self._feature_blocks()
        return {name for at, name in enumerate(names) if name and blocks[at // 32][0] >> at % 32 & 1}

    def connector(self) -> int:
        """The number of the connector in use (PORT_TP, PORT_FIBRE ...). Raises OSError."""
        raw = self._raw_link()
        if raw is None:
            raise OSError("the driver does not say how the link is negotiated")
        return int(_LINK.unpack_from(raw)[_PORT])

    def _tell(self, question: bytes) -> bytes:
        """One request; what the driver made of it. Raises OSError."""
        buffer = ctypes.create_string_buffer(question, len(question))
        request = struct.pack("16sP16x", self._name, ctypes.addressof(buffer))
        fcntl.ioctl(self._socket, _SIOCETHTOOL, request)
        return buffer.raw

    def _group(self, name: str) -> dict[str, Any] | None:
        read, _, words, names = _GROUPS[name]
        try:
            answer = self._tell(struct.pack("=I", read) + bytes(4 * words))
        except OSError:
            return None
        values = struct.unpack(f"={words}I", answer[4:])
        found = {name: values[number] for name, number in names.items()}
        for adaptive, prefix in _ADAPTED.items():  # then the driver moves the others as it sees fit
            if found.get(adaptive):
                found = {key: value for key, value in found.items() if not key.startswith(prefix)}
        return found

    def _raw_link(self) -> bytes | None:
        words = self.link_mode_words()
        if not words:
            return None
        return self.ask(struct.pack("=I11xb", _GLINKSETTINGS, words), _LINK.size + 3 * 4 * words)

    def _link_settings(self) -> dict[str, Any] | None:
        raw = self._raw_link()
        if raw is None:
            return None
        fields = _LINK.unpack_from(raw)
        words = (len(raw) - _LINK.size) // 12
        found: dict[str, Any] = {
            "autoneg": fields[_AUTONEG],
            "mdix": fields[_MDIX_CONTROL],
            "advertised": raw[_LINK.size + 4 * words : _LINK.size + 8 * words].hex(),
        }
        if not fields[_AUTONEG]:  # else both are results, and the port not a choice either
            found["mbps"] = None if fields[_SPEED] in _NO_SPEED else fields[_SPEED]
            found["duplex"] = None if found["mbps"] is None else fields[_DUPLEX]
            found["port"] = fields[_PORT]
        return found

    def _write_link_settings(self, wanted: Mapping[str, Any]) -> None:
        raw = self._raw_link()
        if raw is None:
            raise OSError("the driver does not say how the link is negotiated")
        fields = list(_LINK.unpack_from(raw))
        words = (len(raw) - _LINK.size) // 12
        fields[0] = _SLINKSETTINGS
        fields[_AUTONEG], fields[_MDIX_CONTROL] = wanted["autoneg"], wanted["mdix"]
        if wanted.get("mbps") is not None:
            fields[_SPEED], fields[_DUPLEX], fields[_PORT] = wanted["mbps"], wanted["duplex"], wanted["port"]
        advertised = bytes.fromhex(wanted["advertised"])
        masks = raw[_LINK.size : _LINK.size + 4 * words] + advertised + raw[_LINK.size + 8 * words :]
        self._tell(_LINK.pack(*fields) + masks)

    def _feature_blocks(self) -> tuple[tuple[str, ...], list[tuple[int, ...]]]:
        names = self.strings(_FEATURE_NAMES)
        blocks = (len(names) + 31) // 32
        if not blocks:
            return (), []
        answer = self._tell(struct.pack("=II", _GFEATURES, blocks) + bytes(blocks * _FEATURE.size))
        return names, [_FEATURE.unpack_from(answer, 8 + block * _FEATURE.size) for block in range(blocks)]

    def _wishes(self) -> dict[str, Any] | None:
        """The offloads that somebody wants, and those that are on."""
        try:
            names, blocks = self._feature_blocks()
        except OSError:
            return None
        if not names:
            return None

        def on(which: int) -> list[str]:
            return sorted(name for at, name in enumerate(names) if name and blocks[at // 32][which] >> at % 32 & 1)

        return {"wanted": on(1), "on": on(2)}

    def _write_wishes(self, wanted: Mapping[str, Any]) -> None:
        names, blocks = self._feature_blocks()
        wishes = set(wanted["wanted"])
        question = struct.pack("=II", _SFEATURES, len(blocks))
        for number, (available, requested, *_) in enumerate(blocks):
            asked = sum(1 << at for at, name in enumerate(names[32 * number : 32 * number + 32]) if name in wishes)
            question += struct.pack("=II", (asked ^ requested) & available, asked)
        self._tell(question)
