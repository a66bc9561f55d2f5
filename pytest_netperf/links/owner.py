"""The owner's side of the keeper: start it, ask it, and notice when it is gone."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from pytest_netperf import errors
from pytest_netperf.errors import KeeperError

__all__ = ["Owner"]

_PACKET_BYTES = 1 << 20
_START_SECONDS = 30.0
_CALL_SECONDS = 60.0


class Owner:
    """A connection to a keeper of our own. Safe to use from several threads."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise KeeperError("pytest-netperf makes links from Linux network namespaces; this system is not Linux")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self._lock = threading.Lock()
        self._pid = os.getpid()
        package_root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join([package_root, *(entry for entry in sys.path if entry)])
        try:
            # -P: a file of the user's named like a standard module must not reach the keeper
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pytest_netperf.links.keeper", str(theirs.fileno()), str(self._pid)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
            )
        finally:
            theirs.close()
        ours.settimeout(_START_SECONDS)
        self.facts: dict[str, Any] = self._receive("start")[0]
        ours.settimeout(_CALL_SECONDS)
        atexit.register(self.close)

    def call(self, op: str, fds: tuple[int, ...] = (), **arguments: Any) -> Any:
        """One request. Raises the error that the keeper answered with, or KeeperError when it is gone."""
        return self.call_with_fds(op, fds, **arguments)[0]

    def call_with_fds(self, op: str, fds: tuple[int, ...] = (), **arguments: Any) -> tuple[Any, list[int]]:
        """As `call`, and the descriptors that came with the answer."""
        if os.getpid() != self._pid:
            raise KeeperError("a forked child cannot use its parent's links; start them in the child, or use spawn")
        with self._lock:
            try:
                socket.send_fds(self._socket, [json.dumps({"op": op, **arguments}).encode()], fds)
            except OSError as error:
                raise KeeperError(f"the keeper process is gone ({error.strerror}) at {op!r}") from None
            return self._receive(op)

    def _receive(self, op: str) -> tuple[Any, list[int]]:
        try:
            packet, fds, _, _ = socket.recv_fds(self._socket, _PACKET_BYTES, 8)
        except TimeoutError:
            raise KeeperError(f"the keeper process did not answer {op!r} in time") from None
        except OSError as error:
            raise KeeperError(f"the keeper process is gone ({error.strerror}) at {op!r}") from None
        if not packet:
            code = self._process.wait()
            raise KeeperError(f"the keeper process ended (exit code {code}) at {op!r}")
        answer = json.loads(packet)
        if "error" in answer:
            raise getattr(errors, answer["kind"], KeeperError)(answer["error"])
        return answer["ok"], fds

    def close(self) -> None:
        """End the keeper and everything it owns, and wait until it has gone. Safe to call twice."""
        if os.getpid() != self._pid:
            return
        self._socket.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        atexit.unregister(self.close)
