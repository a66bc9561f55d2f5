"""From the workers of xdist to their controller: one datagram for each look, over a socket without a name on disk.

A datagram that finds no room is dropped: a display must not hold up a measurement.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_netperf.live.progress import Progress

__all__ = ["Receiver", "Sender"]

_MOST_BYTES: Final = 8192


class Sender:
    """The side of a worker. Whatever goes wrong is silent."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def __call__(self, progress: Progress) -> None:
        """Send one look."""
        import msgspec

        with contextlib.suppress(OSError):
            self._socket.sendto(msgspec.json.encode(progress), f"\0{self._address}")

    def close(self) -> None:
        """No more."""
        self._socket.close()


class Receiver:
    """The side of the controller: a thread that hands on what arrives, until it is closed."""

    def __init__(self, show: Callable[[Progress], None]) -> None:
        self.address = f"pytest-netperf/live-{os.getpid()}-{secrets.token_hex(8)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{self.address}")
        self._show = show
        self._thread = threading.Thread(target=self._receive, name="netperf-live", daemon=True)
        self._thread.start()

    def _receive(self) -> None:
        while data := self._socket.recv(_MOST_BYTES):
            import msgspec  # only now: every run with xdist has this thread, measuring or not

            from pytest_netperf.live.progress import Progress

            with contextlib.suppress(msgspec.DecodeError, OSError):
                self._show(msgspec.json.decode(data, type=Progress))

    def close(self) -> None:
        """End the thread; an empty datagram is the end."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", f"\0{self.address}")
            self._thread.join(5)
        self._socket.close()
