"""Messages between an owner and its keeper: one JSON object per packet, with descriptors beside it."""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
from collections.abc import Sequence
from typing import Any

__all__ = ["Channel"]

_PACKET_BYTES = 1 << 16
_MAX_FDS = 8
_IN_MEMORY_FILE = b"@"  # no JSON object begins with it


class Channel:
    """One end of a SOCK_SEQPACKET socketpair. Both methods raise OSError when the other end is gone."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def fileno(self) -> int:
        """The descriptor, to wait on."""
        return self._socket.fileno()

    def settimeout(self, seconds: float) -> None:
        """How long `receive` and `send` wait before they raise TimeoutError."""
        self._socket.settimeout(seconds)

    def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send one message. What the socket's buffer may not hold (a large environment) travels in a memory file."""
        packet = json.dumps(message).encode()
        if len(packet) <= _PACKET_BYTES:
            self._send(packet, fds)
            return
        memory = os.memfd_create("netperf-message", os.MFD_CLOEXEC)
        try:
            with os.fdopen(memory, "wb", closefd=False) as file:
                file.write(packet)
            self._send(_IN_MEMORY_FILE, (*fds, memory))
        finally:
            os.close(memory)

    def _send(self, packet: bytes, fds: Sequence[int]) -> None:
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self._socket.sendmsg([packet], beside, socket.MSG_NOSIGNAL)

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """The next message, and the descriptors beside it, which the caller closes."""
        # not socket.recv_fds: it cannot set MSG_CMSG_CLOEXEC, and each program started later would inherit them
        packet, beside, _, _ = self._socket.recvmsg(
            _PACKET_BYTES, socket.CMSG_LEN((_MAX_FDS + 1) * array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
        )
        fds = array.array("i")
        for _, _, data in beside:
            fds.frombytes(data)
        if packet == _IN_MEMORY_FILE:
            memory = fds.pop()
            with os.fdopen(memory, "rb") as file:
                file.seek(0)
                packet = file.read()
        if not packet:
            raise ConnectionResetError("the other end is closed")
        message: dict[str, Any] = json.loads(packet)
        return message, list(fds)

    def close(self) -> None:
        """End the connection for both sides, also when a forked child still holds a copy of this end."""
        with contextlib.suppress(OSError):  # closed already, here or there
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
