"""A program on another host that does not outlive us: it ends with the connection, and when we are not heard of.

A small shell stands beside it there. What we write to the shell's standard input are signals for the program, a line
each, and a sign of life every few seconds. At its end, or after half a minute without any line, the shell ends the
program: by SIGTERM, and after two seconds by SIGKILL. So nothing is left there by a killed pytest, whose connection the
kernel closes, nor by a controller that lost its power.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pytest_netperf.errors import SshError

if TYPE_CHECKING:
    import asyncssh

    from pytest_netperf.remote.ssh import SshConnection

__all__ = ["FarControl", "start", "supervised"]

_START_SECONDS: Final = 10.0
_BEAT_SECONDS = 5.0
_SILENCE_SECONDS: Final = 30
_BY_SIGNAL: Final = 128  # and the number of it: what a shell says of a program that was killed

# "$@" is the program. Nobody else holds its pipes: the session ends with it, and no shell dies of what it has to say
# when they are closed. `0` is no signal: a beat.
_BESIDE: Final = """
exec 3<&0 </dev/null
end() { kill -TERM $p; sleep 2; kill -KILL $p; }
"$@" 3<&- & p=$!
{ n=0; trap n=0 USR1
  while [ $n -lt SILENCE ]; do sleep 1; n=$((n+1)); done; end; } >/dev/null 2>&1 3<&- & t=$!
{ while read -r s <&3; do kill -USR1 $t; kill -"$s" $p; done; end; } >/dev/null 2>&1 & w=$!
exec 3<&- >/dev/null 2>&1
wait $p; s=$?
kill -KILL $w $t
exit $s
"""


def supervised(argv: Sequence[str], silence_s: int = _SILENCE_SECONDS) -> str:
    """The command line that runs a program with the shell beside it."""
    return shlex.join(["sh", "-c", _BESIDE.replace("SILENCE", str(silence_s)), "sh", *argv])


def start(connection: SshConnection, command: str, stdout: int, stderr: int, status: int) -> FarControl:
    """Start a command line made by `supervised`. Raises SshError.

    Its output goes to two descriptors of pipes; to ``status`` its exit code is written as text, minus the number of a
    signal that killed it. Nothing is written there when the connection is lost. The descriptors become ours.
    """
    control = FarControl(connection)

    async def begin(ssh: asyncssh.SSHClientConnection) -> None:
        import asyncssh

        process = await ssh.create_process(
            command, stdin=asyncssh.PIPE, stdout=os.dup(stdout), stderr=os.dup(stderr), encoding=None
        )
        control.watch(process, os.dup(status))

    try:
        connection.call(begin, _START_SECONDS)
    finally:
        for descriptor in (stdout, stderr, status):
            os.close(descriptor)
    return control


class FarControl:
    """The handle of one such program. Its requests are those of a keeper, so that `links.process` can hold either."""

    def __init__(self, connection: SshConnection) -> None:
        self._connection = connection
        self._process: asyncssh.SSHClientProcess[bytes] | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # the loop holds them weakly

    def watch(self, process: asyncssh.SSHClientProcess[bytes], status: int) -> None:
        """Begin to watch it; called in the connection's loop. ``status`` becomes ours."""
        self._process = process
        beats = asyncio.create_task(self._beat(process))
        end = asyncio.create_task(self._wait(process, status, beats))
        self._tasks |= {beats, end}

    async def _beat(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            with contextlib.suppress(OSError):
                process.stdin.write(b"0\n")

    async def _wait(self, process: asyncssh.SSHClientProcess[bytes], status: int, beats: asyncio.Task[None]) -> None:
        try:
            await process.wait_closed()
            if process.exit_status is not None:
                code = process.exit_status
                os.write(status, str(_BY_SIGNAL - code if code > _BY_SIGNAL else code).encode())
        finally:
            beats.cancel()
            os.close(status)

    def call(self, op: str, **arguments: Any) -> bool:
        """ "signal" with its ``number``, or "end": kill it. Returns whether it still ran, as far as is known."""
        process = self._process
        if process is None or process.exit_status is not None or not self._connection.is_open:
            return False
        if op == "end":
            self._connection.soon(process.stdin.write_eof)
        else:
            number = signal.Signals(arguments["number"])
            if number is signal.SIGINT:  # which a shell lets nothing hear that it starts in the background
                number = signal.SIGTERM
            line = number.name.removeprefix("SIG").encode() + b"\n"
            self._connection.soon(lambda: process.stdin.write(line))
        return True

    def gone(self, what: str) -> SshError:
        """The error for a program whose end nobody told us."""
        return SshError(f"{self._connection.target}: the connection was lost while {what!r} ran there", "lost")
