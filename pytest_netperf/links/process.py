"""A process in the namespace of an endpoint, as the one who started it sees it: output, signals, its end."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import time
from collections.abc import Sequence
from typing import Any, Protocol

from pytest_netperf.errors import KeeperError, NetperfError, SshError

__all__ = ["Holder", "Process"]

_LAST_WORDS_SECONDS = 0.2


class Holder(Protocol):
    """Who holds the process: our keeper, or a shell on another host."""

    def call(self, op: str, **arguments: Any) -> Any:
        """ "signal" it with a ``number``, or "end" it."""

    def gone(self, what: str) -> NetperfError:
        """The error for a holder that went away with the process."""


class Process:
    """A process in an endpoint's namespace, leader of its own process group. A context manager, which ends it."""

    def __init__(
        self, owner: Holder, argv: Sequence[str], born: Sequence[int], stdout: int, stderr: int, status: int
    ) -> None:
        self.argv = tuple(argv)
        self._pid, self._born = born  # inside the keeper's PID namespace
        self._owner = owner
        self._status = status
        self._open = {stdout: bytearray(), stderr: bytearray()}
        self._stdout, self._stderr = self._open.values()
        self._watched = {stdout, stderr, status}
        for fd in self._watched:
            os.set_blocking(fd, False)
        self.returncode: int | None = None
        self._ended = math.inf
        self._lost = False
        self._over = False

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def wait(self, timeout: float | None = None, *, reading: Process | None = None) -> bool:
        """Read output until the process ends and its pipes close. Returns whether it ended within ``timeout`` seconds.

        The output of the process ``reading`` is read meanwhile too: a process stands still when its pipe is full, and
        whoever waits for it stands still with it. Raises KeeperError when the keeper, and the process with it, is gone.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while self._watched:
            left = deadline - time.monotonic()
            self._read(None if left == math.inf else max(0.0, left), reading)
            if self.returncode is not None:  # a daemon it left behind may hold the pipes open, and write to them
                deadline = min(deadline, self._ended + _LAST_WORDS_SECONDS)
            if time.monotonic() >= deadline:
                break
        if self._lost:
            raise self._owner.gone(self.argv[0])
        return self.returncode is not None

    def _read(self, timeout: float | None, beside: Process | None) -> None:
        """Take what is there, of this process and the one beside it, or what comes first."""
        owners = {fd: process for process in (self, beside) if process is not None for fd in process._watched}
        poll = select.poll()
        for fd in owners:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(None if timeout is None else math.ceil(timeout * 1000)):
            owners[fd]._take(fd)

    def _take(self, fd: int) -> None:
        chunk = os.read(fd, 1 << 16)
        if fd == self._status:
            self._lost = not chunk  # only a keeper that died says nothing
            self.returncode = int(chunk) if chunk else -signal.SIGKILL
            self._ended = time.monotonic()
            chunk = b""
        elif chunk:
            self._open[fd] += chunk
        if not chunk:
            self._watched.discard(fd)
            os.close(fd)

    @property
    def stdout(self) -> str:
        """What was read so far."""
        return self._stdout.decode("utf-8", "replace")

    def stdout_since(self, offset: int) -> bytes:
        """What was read from this byte on."""
        return bytes(self._stdout[offset:])

    @property
    def stderr(self) -> str:
        """What was read so far."""
        return self._stderr.decode("utf-8", "replace")

    def send_signal(self, number: int) -> bool:
        """Signal the whole process group. Returns False when the process has ended already."""
        return bool(self._owner.call("signal", pid=self._pid, born=self._born, number=int(number)))

    def end(self, grace: float = 1.0) -> None:
        """End the process group: SIGINT, a short grace to let it say its last words, then SIGKILL. Safe to repeat."""
        if self._over:
            return
        with contextlib.suppress(KeeperError, SshError):  # then it has ended already
            if self.returncode is None:
                self.send_signal(signal.SIGINT)
                self.wait(grace)
            self._owner.call("end", pid=self._pid, born=self._born)
            if self.returncode is None:
                self.wait(5.0)
        self.release()

    def release(self) -> None:
        """Close the pipes; what it left running goes on until this process ends."""
        self._over = True
        while self._watched:
            os.close(self._watched.pop())
