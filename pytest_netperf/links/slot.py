"""The measurement slot: measurements that would disturb one another take turns, over all processes of this host.

A slot is an abstract UNIX socket name. The kernel gives it to one process at a time and frees it when that process
ends, however it ends; nothing is written to disk. Whoever waits connects to the holder and sleeps until the connection
breaks, so the slot is handed on without polling.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator

from pytest_netperf.errors import StationError

__all__ = ["measurement_slot", "slot_holders"]

_RETRY_SECONDS = 0.001
_LOOK_AGAIN_SECONDS = 1.0
_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid


@contextlib.contextmanager
def measurement_slot(
    slots: int, timeout: float | None = None, waits: Callable[[float], None] | None = None
) -> Iterator[float]:
    """Hold one of the ``slots`` measurement slots of this host. Yields the seconds it had to wait.

    ``waits`` hears once a second, while it waits, for how many seconds it has.

    Raises StationError when no slot came free within ``timeout`` seconds (None: wait for ever).
    """
    started = told = time.monotonic()
    while True:
        for number in range(slots):
            holder = _take(number)
            if holder is not None:
                with holder:
                    yield time.monotonic() - started
                return
        left = math.inf if timeout is None else started + timeout - time.monotonic()
        if left <= 0:
            raise StationError(
                f"no measurement slot of this host came free within {timeout:g} s; measuring: {_holders(slots)}. Wait "
                "for it, or let more measurements run at the same time with --netperf-slots"
            )
        _wait_for_any(slots, left)
        if waits is not None and time.monotonic() - told >= _LOOK_AGAIN_SECONDS:
            told = time.monotonic()
            waits(told - started)


def _name(number: int) -> str:
    return f"\0pytest-netperf/measurement-slot/{number}"


def _take(number: int) -> socket.socket | None:
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(_name(number))
        holder.listen(128)
    except OSError:
        holder.close()
        return None
    return holder


def _holders(slots: int) -> str:
    return slot_holders(slots) or "somebody who has ended by now"


def slot_holders(most: int) -> str:
    """Who has one of the first ``most`` slots, as in "process 17, process 23"; "" when nobody measures."""
    pids = set()
    for number in range(most):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking, contextlib.suppress(OSError):
            asking.setblocking(False)
            asking.connect(_name(number))
            pid, _, _ = _CREDENTIALS.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
            pids.add(f"process {pid}" if pid else "a process of another container")
    return ", ".join(sorted(pids))


def _wait_for_any(slots: int, seconds: float) -> None:
    with contextlib.ExitStack() as stack:
        waiters = []
        for number in range(slots):
            waiter = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            waiter.setblocking(False)
            try:
                waiter.connect(_name(number))
            except BlockingIOError:  # the holder's queue of waiters is full
                time.sleep(_RETRY_SECONDS)
            except OSError:  # freed a moment ago, or not yet listening
                time.sleep(_RETRY_SECONDS)
                return
            else:
                waiters.append(waiter)
        select.select(waiters, [], [], min(seconds, _LOOK_AGAIN_SECONDS))
