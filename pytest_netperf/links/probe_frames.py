"""Frames of our own that pass a cable and no bridge: whoever receives one is at the other end of the cable.

They have an EtherType that IEEE 802 keeps for local experiments, and go to the group address of the nearest bridge
(IEEE 802.1Q table 8-1), which a bridge does not forward. Cheap switches may do so all the same.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Final

__all__ = ["TOKEN_BYTES", "open_frames", "received_tokens", "send_token"]

TOKEN_BYTES: Final = 16
_ETHERTYPE: Final = 0x88B5  # IEEE 802 local experimental EtherType 1
_NEAREST_BRIDGE: Final = bytes.fromhex("0180c200000e")
_SOL_PACKET, _ADD_MEMBERSHIP, _MULTICAST = 263, 1, 0  # linux/if_packet.h
_MEMBERSHIP: Final = struct.Struct("=iHH8s")
_SHORTEST_FRAME: Final = 60


def open_frames(interface: str) -> socket.socket:
    """A socket for such frames at this port, of the calling thread's namespace."""
    index = socket.if_nametoindex(interface)
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    made.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, _MEMBERSHIP.pack(index, _MULTICAST, 6, _NEAREST_BRIDGE))
    made.bind((interface, _ETHERTYPE))
    return made


def send_token(sending: socket.socket, token: bytes) -> None:
    """Send a frame with this token; nothing is sent where there is no carrier yet."""
    name = sending.getsockname()
    frame = _NEAREST_BRIDGE + name[4][:6] + struct.pack("!H", _ETHERTYPE) + token
    with contextlib.suppress(OSError):  # no carrier yet: ENETDOWN, or the driver drops it
        sending.send(frame.ljust(_SHORTEST_FRAME, b"\0"))


def received_tokens(listening: socket.socket) -> Iterator[bytes]:
    """The tokens that have come in; those that this port sent itself are not among them."""
    while True:
        try:
            frame, address = listening.recvfrom(2048)
        except BlockingIOError:
            return
        except OSError:  # it has just gone down, or come up
            continue
        if address[2] != socket.PACKET_OUTGOING:
            yield frame[14 : 14 + TOKEN_BYTES]
