"""The owner's side of the keeper: start it, ask it, and notice when it is gone."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from pytest_netperf import errors
from pytest_netperf.errors import KeeperError
from pytest_netperf.links.channel import Channel

__all__ = ["Owner"]

_START_SECONDS = 30.0
_CALL_SECONDS = 60.0
_END_SECONDS = 10.0
_PORTS_CALL_SECONDS = 120.0  # 30 s until a carrier is there, and a way home
_PORTS_END_SECONDS = 40.0
# -P and search paths behind the interpreter's own: no file of the user's that is named like a standard module gets in
_START = "import sys; sys.path += sys.argv[3:]; from pytest_netperf.links.keeper import main; main()"


class Owner:
    """A connection to a keeper of our own. Safe to use from several threads."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise KeeperError("pytest-netperf makes links from Linux network namespaces; this system is not Linux")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel = Channel(ours)
        self._lock = threading.Lock()
        self._serial = 0
        self._pid = os.getpid()
        self._end_seconds = _END_SECONDS
        package_root = str(Path(__file__).resolve().parents[2])
        arguments = [str(theirs.fileno()), str(self._pid), package_root, *(entry for entry in sys.path if entry)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the owner, which decides what becomes of the keeper
            )
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
        try:
            self._channel.settimeout(_START_SECONDS)
            self.facts: dict[str, Any] = self._receive("start", self._serial)[0]
            self._channel.settimeout(_CALL_SECONDS)
        except BaseException:
            self.close()
            raise
        atexit.register(self.close)

    def call(self, op: str, fds: tuple[int, ...] = (), **arguments: Any) -> Any:
        """One request. Raises the error that the keeper answered with, or KeeperError when it is gone."""
        return self.call_with_fds(op, fds, **arguments)[0]

    def call_with_fds(self, op: str, fds: tuple[int, ...] = (), **arguments: Any) -> tuple[Any, list[int]]:
        """As `call`, and the descriptors that came with the answer."""
        if os.getpid() != self._pid:
            raise KeeperError("a forked child cannot use its parent's links; start them in the child, or use spawn")
        with self._lock:
            self._serial += 1
            try:
                self._channel.send({"op": op, "request": self._serial, **arguments}, fds)
            except OSError:
                raise self.gone(op) from None
            return self._receive(op, self._serial)

    def _receive(self, op: str, serial: int) -> tuple[Any, list[int]]:
        """The answer to this very request. Ctrl-C or a timeout may have left the answer to an earlier one behind."""
        while True:
            try:
                answer, fds = self._channel.receive()
            except TimeoutError:
                self._process.kill()  # frozen: whoever asks next need not wait as long again
                raise KeeperError(f"the keeper process did not answer {op!r} in time; it was killed") from None
            except OSError:
                raise self.gone(op) from None
            if answer["request"] == serial:
                break
            for fd in fds:
                os.close(fd)
        if "error" in answer:
            raise getattr(errors, answer["kind"], KeeperError)(answer["error"])
        return answer["ok"], fds

    def gone(self, op: str) -> KeeperError:
        """The error that says how the keeper ended, as far as that is known."""
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            how = "it closed its connection"
        else:
            number = -code if code < 0 else code - 128
            how = f"killed by {signal.Signals(number).name}" if number > 0 else f"exit code {code}"
        return KeeperError(
            f"the keeper process, which owns the links of this run, is gone ({how}) at {op!r}, and its links and "
            "everything that ran on them with it"
        )

    def be_patient(self) -> None:
        """The keeper is about to hold physical ports: their carrier and their way home take longer."""
        self._end_seconds = _PORTS_END_SECONDS
        self._channel.settimeout(_PORTS_CALL_SECONDS)

    @property
    def is_alive(self) -> bool:
        """Whether the keeper process still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the keeper and everything it owns, and wait until it has gone. Safe to call twice."""
        if os.getpid() != self._pid:
            return
        self._channel.close()
        try:
            self._process.wait(timeout=self._end_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        atexit.unregister(self.close)
