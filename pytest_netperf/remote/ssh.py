"""Commands on another machine over ssh: blocking calls over asyncssh, which do not hang and say what is wrong.

    with connect(SshTarget(host="198.18.0.1", user="root", key="~/.ssh/bench")) as device:
        answer = device.run("uci show network", timeout=10)      # .status .stdout .stderr
        device.run(["ip", "link", "show"], check=True)           # SshError when the status is not 0

The host key must be known (``known_hosts``, or ~/.ssh/known_hosts) unless the target says otherwise. Who we are is
proved by the key of the target; without one by the agent (SSH_AUTH_SOCK) and the usual files of ~/.ssh. No password is
asked for. ~/.ssh/config is read, so that names and jump hosts defined there work; what the target gives wins.

Everything that goes wrong is an SshError, whose ``kind`` is "missing" (asyncssh is not installed), "unreachable",
"host key", "refused" (authentication), "key" (our own key file), "timeout", "status", or "lost". Its message names the
machine and the way out. asyncssh is imported by `connect`, which takes 0.4 s once.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib.util
import shlex
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_netperf.bench.ssh_target import SshTarget
from pytest_netperf.errors import SshError
from pytest_netperf.remote.failure import explain

if TYPE_CHECKING:
    import asyncssh

__all__ = ["SshAnswer", "SshConnection", "SshError", "SshTarget", "connect"]

T = TypeVar("T")

_KEEPALIVE_SECONDS: Final = 4
_KEEPALIVE_MISSED: Final = 3
_GRACE_SECONDS: Final = 5.0  # beyond each timeout, for the loop itself; nothing waits longer than both together
_NOT_FOUND: Final = 127
_LONGEST_NAME: Final = 120


class SshAnswer:
    """What a command said. ``status`` is its exit code; minus one where it ended by a signal or without any."""

    __slots__ = ("status", "stderr", "stdout")

    def __init__(self, status: int, stdout: str, stderr: str) -> None:
        self.status, self.stdout, self.stderr = status, stdout, stderr

    def __repr__(self) -> str:
        return f"<SshAnswer {self.status} {self.stdout[:60]!r}>"


def connect(target: SshTarget) -> SshConnection:
    """Connect and log in, within the target's ``connect_seconds``. Raises SshError."""
    if importlib.util.find_spec("asyncssh") is None:
        raise SshError(
            f"{target}: commands over ssh need asyncssh, which is not installed: pip install 'pytest-netperf[remote]'",
            "missing",
        )
    return SshConnection(target)


class SshConnection:
    """One connection, with a thread of its own that drives it. Usable from any thread; a context manager."""

    def __init__(self, target: SshTarget) -> None:
        self.target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"ssh-{target.host}", daemon=True)
        self._thread.start()
        self._connection: asyncssh.SSHClientConnection | None = None
        try:
            self._connection = self._wait(self._connect(), target.connect_seconds)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> SshConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _connect(self) -> asyncssh.SSHClientConnection:
        import asyncssh

        target = self.target
        options: dict[str, Any] = {
            "keepalive_interval": _KEEPALIVE_SECONDS,
            "keepalive_count_max": _KEEPALIVE_MISSED,
            "login_timeout": target.connect_seconds,
            "password": None,
        }
        if target.user is not None:
            options["username"] = target.user
        if target.port is not None:
            options["port"] = target.port
        if target.key is not None:
            options["client_keys"] = [str(Path(target.key).expanduser())]
        if not target.check_host_key:
            options["known_hosts"] = None
        elif target.known_hosts is not None:
            options["known_hosts"] = str(Path(target.known_hosts).expanduser())
        try:
            async with asyncio.timeout(target.connect_seconds):
                return await asyncssh.connect(target.host, **options)
        except Exception as error:  # noqa: BLE001 - whatever it is, explain() says which machine and what to do
            raise explain(error, target) from None

    def _wait(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """The result of what runs in the loop. Raises SshError when there is none even after the time for it."""
        try:
            answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop has ended
            work.close()
            raise SshError(f"{self.target}: the connection was closed", "lost") from None
        try:
            return answer.result(seconds + _GRACE_SECONDS)
        except concurrent.futures.TimeoutError:
            answer.cancel()
            raise SshError(f"{self.target}: no answer within {seconds:g} s", "timeout") from None
        except BaseException:
            answer.cancel()
            raise

    @property
    def is_open(self) -> bool:
        """Whether the connection is there, as far as anybody has noticed."""
        return self._connection is not None and not self._connection.is_closed()

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float = 30.0,
        check: bool = False,
        stdin: str = "",
        called: str | None = None,
    ) -> SshAnswer:
        """Run a command to its end: text for the shell there, or a program with its arguments.

        ``called`` is what messages call it, instead of by its text.

        Raises SshError: "timeout" after ``timeout`` seconds (the command is killed where the server can do that, which
        OpenSSH cannot for root: bound there what may take long),
        "lost" when the connection breaks, and "status" when ``check`` is true and the exit code is not 0.
        """
        text = command if isinstance(command, str) else shlex.join(command)
        name = _brief(text) if called is None else called
        answer = self._wait(self._run(text, timeout, stdin, name), timeout)
        if check and answer.status:
            raise SshError(self._failed(name, answer), "status")
        return answer

    async def _run(self, text: str, timeout: float, stdin: str, name: str) -> SshAnswer:
        connection = self._opened()
        process: asyncssh.SSHClientProcess[str] | None = None
        try:
            async with asyncio.timeout(timeout):
                process = await connection.create_process(text, input=stdin, encoding="utf-8", errors="replace")
                done = await process.wait()
        except TimeoutError:
            raise SshError(f"{self.target}: {name} did not end within {timeout:g} s", "timeout") from None
        except Exception as error:  # noqa: BLE001 - as above
            raise explain(error, self.target, name) from None
        finally:
            if process is not None and process.returncode is None:
                with contextlib.suppress(OSError):
                    process.kill()
                process.close()
        if done.exit_status is None and done.exit_signal is None and connection.is_closed():
            raise SshError(f"{self.target}: the connection was lost while {name} ran", "lost")
        status = -1 if done.exit_status is None else done.exit_status
        return SshAnswer(status, str(done.stdout or ""), str(done.stderr or ""))

    def _opened(self) -> asyncssh.SSHClientConnection:
        if self._connection is None:
            raise SshError(f"{self.target}: the connection was closed", "lost")
        return self._connection

    def _failed(self, name: str, answer: SshAnswer) -> str:
        said = (answer.stderr or answer.stdout).strip()[-500:] or "nothing"
        if answer.status == _NOT_FOUND:
            return f"{self.target}: there is no such command: {name} ({said}); install it there, or write its path"
        return f"{self.target}: {name} failed with status {answer.status}: {said}"

    def call(self, work: Callable[[asyncssh.SSHClientConnection], Coroutine[Any, Any, T]], timeout: float) -> T:
        """The result of ``work``, which runs in the connection's loop, within ``timeout`` seconds. Raises SshError."""

        async def bounded() -> T:
            try:
                async with asyncio.timeout(timeout):
                    return await work(self._opened())
            except SshError:
                raise
            except Exception as error:  # noqa: BLE001 - as above
                raise explain(error, self.target) from None

        return self._wait(bounded(), timeout)

    def soon(self, function: Callable[[], object]) -> None:
        """Call a function in the connection's loop; nobody waits for it. Nothing happens once it is closed."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """End the connection, and with it what runs over it. Safe to repeat; takes 5 s at most."""
        if self._loop.is_closed():
            return
        connection, self._connection = self._connection, None
        with contextlib.suppress(SshError):
            self._wait(self._end(connection), 0.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_GRACE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    @staticmethod
    async def _end(connection: asyncssh.SSHClientConnection | None) -> None:
        if connection is not None:
            connection.close()
            with contextlib.suppress(Exception):
                async with asyncio.timeout(1.0):
                    await connection.wait_closed()
            connection.abort()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


def _brief(text: str) -> str:
    """A command as messages can bear it."""
    line = " ".join(text.split())
    return f"`{line if len(line) <= _LONGEST_NAME else f'{line[:_LONGEST_NAME]}...'}`"
