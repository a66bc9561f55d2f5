"""Puts a real device into a state and back, by commands over ssh, and proves each state by what the device says.

    before anything is told    what will have to be undone is on disk (`remote.device_journal`)
    enter                      from the plain state only: what is in force already, nobody can tell whose it is
    check                      of each part; asked again before and after every measurement
    undo                       in reverse order; then no state of the device is in force, as its checks say

What a killed run left is undone by the next one that wants the device, or by `rescue`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_netperf.bench.ssh_target import SshTarget
from pytest_netperf.bench.state_commands import StateCommands
from pytest_netperf.errors import LinkError, SshError
from pytest_netperf.remote.device_journal import DeviceClaim, DeviceJournal
from pytest_netperf.remote.ssh import SshConnection, connect

__all__ = ["DeviceDriver", "rescue"]

_POLL_SECONDS: Final = 0.3
_NO_COMMAND: Final = 127
_BROKEN: Final = ("lost", "timeout")
_SHOWN: Final = 200

Parts = Mapping[str, StateCommands]


class DeviceDriver:
    """The states of one device, changed by this process only. Raises LinkError (SshError) from every method."""

    def __init__(self, serial: str, target: SshTarget, states: Mapping[str, Parts], folder: Path) -> None:
        """``states`` has the commands of every state that can be entered so, part by part; without the plain one."""
        self._serial, self._target, self._states = serial, target, dict(states)
        self._connection: SshConnection | None = None
        self._claim = DeviceClaim(folder, serial)
        try:
            self._journal = DeviceJournal(folder, serial)
            if self._journal.read():  # of a run that was killed
                self._undo()
        except BaseException:
            self._claim.close()
            self._hang_up()
            raise

    @property
    def _ssh(self) -> SshConnection:
        if self._connection is None or not self._connection.is_open:
            self._hang_up()
            self._connection = connect(self._target)
        return self._connection

    def enter(self, state: str | None) -> str:
        """Go into a state from whichever is in force, None is the plain one. Returns how it was proved."""
        self._undo()
        self._prove_off()
        if state is None:
            return self.proof(None)
        parts = self._states[state]
        self._journal.begin(self._target, state, parts)
        try:
            for commands in parts.values():
                for command in commands.enter:
                    self._ssh.run(command, timeout=commands.seconds, check=True)
            for part, commands in parts.items():
                self._wait(part, commands)
        except BaseException:
            with contextlib.suppress(LinkError, SshError):  # the first reason is the better one
                self._undo()
            raise
        return self.proof(state)

    def proof(self, state: str | None) -> str:
        """What the checks say of a state that is in force, in a sentence. Raises LinkError where they do not."""
        if state is None:
            checks = len({commands.check for parts in self._states.values() for commands in parts.values()})
            self._prove_off()
            return f"none of the {checks} checks of the other states finds anything in force on the device"
        said = []
        for part, commands in self._states[state].items():
            answer = self._ask(commands)
            found = commands.in_force(answer)
            if found is None:
                raise LinkError(self._not_in_force(part, commands, answer))
            line = answer[answer.rfind("\n", 0, found.start()) + 1 :].splitlines()[0].strip()
            said.append(f"{part}: `{_short(commands.check)}` said {_short(line)!r}")
        return "; ".join(said)

    def close(self) -> None:
        """Put the device into the plain state, and let it go. Raises LinkError; then the next run will try."""
        try:
            self._undo()
            self._prove_off()
        finally:
            self._claim.close()
            self._hang_up()

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _ask(self, commands: StateCommands) -> str:
        try:
            answer = self._ssh.run(commands.check, timeout=commands.seconds)
        except SshError as error:
            if error.kind not in _BROKEN:
                raise
            self._hang_up()  # it was idle while traffic ran, and a check does no harm: ask once more
            answer = self._ssh.run(commands.check, timeout=commands.seconds)
        if answer.status == _NO_COMMAND:
            raise LinkError(
                f"device {self._serial}: its check `{_short(commands.check)}` is no command there: "
                f"{_short(answer.stderr.strip())}"
            )
        return answer.stdout

    def _wait(self, part: str, commands: StateCommands) -> None:
        """Until the check says that it is in force: a service takes its time."""
        deadline = time.monotonic() + commands.seconds
        while (answer := self._ask(commands)) is not None and commands.in_force(answer) is None:
            if time.monotonic() > deadline:
                raise LinkError(self._not_in_force(part, commands, answer))
            time.sleep(_POLL_SECONDS)

    def _not_in_force(self, part: str, commands: StateCommands, answer: str) -> str:
        said = repr(_short(answer.strip())) if answer.strip() else "nothing"
        return (
            f"device {self._serial}: {part} is not in force: `{_short(commands.check)}` said {said}, in which "
            f"{commands.expect!r} is not found"
        )

    def _undo(self) -> None:
        """Undo what the journal says, in reverse, until its own checks find nothing more."""
        parts = self._journal.parts
        problems = []
        for commands in reversed(list(parts.values())):
            for command in commands.undo:
                try:
                    self._ssh.run(command, timeout=commands.seconds, check=True)
                except SshError as error:  # the others must be undone all the same
                    problems.append(str(error))
        for part, commands in parts.items():
            deadline = time.monotonic() + commands.seconds
            while commands.in_force(answer := self._ask(commands)):
                if problems or time.monotonic() > deadline:
                    said = "; ".join([f"`{_short(commands.check)}` still says {_short(answer.strip())!r}", *problems])
                    raise LinkError(
                        f"device {self._serial} is still in the state {self._journal.state!r} ({part}): {said}; put it "
                        f"back by hand, then remove {self._journal.path}"
                    )
                time.sleep(_POLL_SECONDS)
        self._journal.end()

    def _prove_off(self) -> None:
        """No check of any state finds it in force. Where one does, and it is not ours, nobody knows what to undo."""
        asked: dict[str, str] = {}
        for state, parts in self._states.items():
            for part, commands in parts.items():
                if commands.check not in asked:
                    asked[commands.check] = self._ask(commands)
                if commands.in_force(asked[commands.check]):
                    raise LinkError(
                        f"device {self._serial} should be in its plain state, and {part} of its state {state!r} is in "
                        f"force, which this run did not enter: `{_short(commands.check)}` said "
                        f"{_short(asked[commands.check].strip())!r}; switch it off, or correct the check"
                    )


def rescue(folder: Path, *, dry_run: bool = False) -> list[tuple[str, str | None]]:
    """Put back every device that a killed run left in another state: serial and what is wrong, None where nothing is.

    Devices that a process holds are left alone. Raises nothing: what is wrong with one must not keep the others.
    """
    found: list[tuple[str, str | None]] = []
    for serial in DeviceJournal.left_in(folder):
        try:
            claim = DeviceClaim(folder, serial)
        except LinkError:
            continue
        journal = DeviceJournal(folder, serial)
        try:
            there = journal.read()
            claim.close()
            if there and not dry_run and journal.target is not None:
                DeviceDriver(serial, journal.target, {}, folder).close()
        except (LinkError, SshError) as error:
            found.append((serial, str(error)))
        else:
            if there:
                found.append((serial, None))
        finally:
            claim.close()
    return found


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
