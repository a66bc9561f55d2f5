"""Frames that arrive late or twice: the faults `reorder` and `duplicate` of a simulated link.

    [ port b ] <- clsact: take it, or copy it --> [ near ] == veth == [ far ] <- AF_PACKET: held for a millisecond
         ^                                           |                   |
         '------- as if it had arrived at b ---------'<------------------'

A second veth pair beside the receiving port, in the same namespace. The kernel picks the frames by a random draw, this
program holds them up, and the kernel hands them to the stack of port b, whose counters have counted each once already.
Frames must arrive one by one (`classifier.cut_into_frames`); what each says of its checksum travels with it.

A program holds up some thousand frames a second (`bench.model.MOST_DIVERTED`), not a whole link.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections import deque
from typing import Any, Final

from pytest_netperf.links.classifier import EVERY_FRAME, divert
from pytest_netperf.links.namespace import Namespace

__all__ = ["Detour"]

_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING = 263, 15, 23
_ETH_P_ALL = 0x0003
_LONGEST_FRAME = 1 << 17
_BUFFER_BYTES = 8 << 20
_ADDR_GEN_MODE_NONE = 1
_HOLD_SECONDS: Final = 0.001
_HOLD_FRAMES: Final = 3  # on a slow link a millisecond is less than one frame


class Detour:
    """A way beside the receiving port of one direction. Closed with the link."""

    def __init__(self, receiver: Namespace, interface: str, mac: str, index: int, mtu: int, speed_bps: float) -> None:
        self._hold_s = max(_HOLD_SECONDS, _HOLD_FRAMES * (mtu + 38) * 8 / speed_bps)
        near, far = f"{interface}n", f"{interface}f"
        self.entrance = receiver.call(_build, receiver.ipr, near, far, mac, index, mtu)
        self._socket = receiver.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        receiver.call(self._socket.bind, (far, _ETH_P_ALL))
        self._socket.setblocking(False)
        self._stop, self._stopped = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._carry, name=f"detour-{interface}", daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        waiting: deque[tuple[float, bytes]] = deque()
        while True:
            left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
            ready, _, _ = select.select([self._socket.fileno(), self._stop], [], [], left)
            if self._stop in ready:
                break
            now = time.monotonic()
            with contextlib.suppress(BlockingIOError):
                while ready:
                    waiting.append((now + self._hold_s, self._socket.recv(_LONGEST_FRAME)))
            while waiting and waiting[0][0] <= now:
                with contextlib.suppress(OSError):  # the link is going down
                    self._socket.send(waiting.popleft()[1])
        self._socket.close()
        os.close(self._stop)

    def close(self) -> None:
        """Give the namespace free; what is on the way is lost."""
        os.close(self._stopped)
        self._thread.join()


def _build(ipr: Any, near: str, far: str, mac: str, index: int, mtu: int) -> int:
    """The second pair; returns the index of its near end.

    That has the address of the port, or the stack would take its frames for a stranger's.
    """
    ipr.link("add", ifname=near, address=mac, kind="veth", mtu=mtu, peer={"ifname": far, "mtu": mtu})
    found = []
    for name in (near, far):
        found.append(socket.if_nametoindex(name))
        with contextlib.suppress(Exception):  # a kernel without IPv6: then it says nothing by itself either
            quiet = {"attrs": [("AF_INET6", {"attrs": [("IFLA_INET6_ADDR_GEN_MODE", _ADDR_GEN_MODE_NONE)]})]}
            ipr.link("set", index=found[-1], IFLA_AF_SPEC=quiet)
        ipr.link("set", index=found[-1], state="up")
    divert(ipr, found[0], EVERY_FRAME, index, into_ingress=True)
    return found[0]
