"""Commands that put a real device into a state and back: enter, check, undo, from the bench file or for an OS. Pure.

In commands of the bench file ``{a}`` and ``{b}`` stand for the device's own interfaces at the two ends of the link,
where the device says ``sides``. Those of an operating system (`bench.device_os`) know more words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pytest_netperf.bench.toml_table import TomlTable, shown
from pytest_netperf.quantities import parse_duration

__all__ = ["DEFAULT_SECONDS", "KEYS", "StateCommands", "filled", "read_commands", "words_of"]

DEFAULT_SECONDS: Final = 30.0
KEYS: Final = ("enter", "check", "expect", "undo", "timeout")
_LONGEST_SECONDS: Final = 3600.0
_WORD: Final = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCommands:
    """How one thing is switched on, proved and switched off. Texts for the shell of the device, one after the other."""

    enter: tuple[str, ...]
    check: str
    """Prints what shows whether it is in force; its exit code does not matter."""
    expect: str
    """Regular expression that is found in what ``check`` prints when it is in force, and only then."""
    undo: tuple[str, ...]
    """Must do no harm when there is nothing to undo."""
    seconds: float = DEFAULT_SECONDS
    """How long each command, and the wait for the check, may take."""

    def in_force(self, said: str) -> re.Match[str] | None:
        """Where the output of the check says that it is in force."""
        return re.search(self.expect, said, re.MULTILINE)


def read_commands(table: TomlTable) -> StateCommands | None:
    """The commands of a ``[[device.state]]`` table; None where it has none."""
    enter, undo = _list(table, "enter"), _list(table, "undo")
    check, expect = table.text("check"), table.text("expect")
    seconds = table.quantity("timeout", parse_duration, "60 s", bare=True)
    given = [key for key in KEYS if table.given(key)]
    if not given:
        return None
    for key, example in (
        ("enter", '["service suricata start"]'),
        ("check", '"service suricata status"'),
        ("expect", '"is running"'),
        ("undo", '["service suricata stop"]'),
    ):
        if not table.given(key):
            table.wrong(key, f"is missing beside {given[0]}; write {key} = {example}")
    if expect is not None:
        try:
            compiled = re.compile(expect, re.MULTILINE)
        except re.error as error:
            table.wrong("expect", f"{shown(expect)} is not a regular expression: {error}")
        else:
            if compiled.search(""):
                table.wrong("expect", f"{shown(expect)} is found in no output at all too, so it would prove nothing")
    if seconds is not None and seconds > _LONGEST_SECONDS:
        table.wrong("timeout", f"{seconds:g} s is longer than an hour")
    return StateCommands(
        enter=enter,
        check=check or "",
        expect=expect or "",
        undo=undo,
        seconds=DEFAULT_SECONDS if seconds is None else seconds,
    )


def _list(table: TomlTable, key: str) -> tuple[str, ...]:
    value = table.take(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each.strip() for each in value):
        table.wrong(key, f'{shown(value)} is not a list of commands, such as {key} = ["service suricata start"]')
        return ()
    return tuple(value)


def words_of(commands: StateCommands) -> set[str]:
    """The words in braces that these commands need."""
    return set(_WORD.findall(" ".join((*commands.enter, commands.check, commands.expect, *commands.undo))))


def filled(commands: StateCommands, words: Mapping[str, str]) -> StateCommands:
    """The commands with each known word in braces replaced; in the regular expression it stands for itself."""

    def put(text: str) -> str:
        return _WORD.sub(lambda found: words.get(found[1], found[0]), text)

    def put_escaped(text: str) -> str:
        return _WORD.sub(lambda found: re.escape(words[found[1]]) if found[1] in words else found[0], text)

    return replace(
        commands,
        enter=tuple(map(put, commands.enter)),
        check=put(commands.check),
        expect=put_escaped(commands.expect),
        undo=tuple(map(put, commands.undo)),
    )
