"""From the workers of xdist to their controller: one datagram for each message, over a socket without a name on disk.

A look at a measurement that finds no room is dropped: a display must not hold up a measurement. What must arrive waits
for room, a moment long (``patience_s``).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from pytest_netperf.live.progress import Progress

__all__ = ["Receiver", "Sender", "progress_of"]

_MOST_BYTES: Final = 1 << 18

T = TypeVar("T")


def progress_of(data: bytes) -> Progress:
    """A look, as it was sent. Raises msgspec.DecodeError for anything else."""
    import msgspec  # only now: every run with xdist has a receiver, measuring or not

    from pytest_netperf.live.progress import Progress

    return msgspec.json.decode(data, type=Progress)


class Sender:
    """The side of a worker. Whatever goes wrong is silent."""

    def __init__(self, address: str, patience_s: float = 0.0) -> None:
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(patience_s)

    def __call__(self, message: Any) -> None:
        """Send one message, a msgspec.Struct."""
        import msgspec

        with contextlib.suppress(OSError):
            self._socket.sendto(msgspec.json.encode(message), f"\0{self._address}")

    def close(self) -> None:
        """No more."""
        self._socket.close()


class Receiver(Generic[T]):
    """The side of the controller: a thread that hands on what arrives, until it is closed."""

    def __init__(self, hear: Callable[[T], None], decode: Callable[[bytes], T]) -> None:
        self.address = f"pytest-netperf/live-{os.getpid()}-{secrets.token_hex(8)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{self.address}")
        self._hear, self._decode = hear, decode
        self._thread = threading.Thread(target=self._receive, name="netperf-live", daemon=True)
        self._thread.start()

    def _receive(self) -> None:
        while data := self._socket.recv(_MOST_BYTES):
            import msgspec

            with contextlib.suppress(msgspec.DecodeError, OSError):
                self._hear(self._decode(data))

    def close(self) -> None:
        """End the thread when it has handed on what was sent before; an empty datagram is the end."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", f"\0{self.address}")
            self._thread.join(5)
        self._socket.close()
