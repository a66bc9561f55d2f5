"""One table of a TOML document while it is read: hands out values by key, and notes everything that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from pytest_netperf.errors import QuantityError
from pytest_netperf.quantities import near_misses

__all__ = ["TomlTable", "shown"]

_Choice = TypeVar("_Choice", bound=str)


def shown(value: object) -> str:
    """A value as the user wrote it in the file, on one line and not longer than a message can bear."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=not value.isprintable()) if isinstance(value, str) else _scalar(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return str(value)
    except ValueError:  # Python refuses to write integers of more than 4300 digits; TOML can hold them as 0x...
        return "a huge number"


class TomlTable:
    """Reads one table. ``mistakes`` is shared by all tables of a document, so that they are reported together."""

    def __init__(self, data: dict[str, object], path: str, mistakes: list[str]) -> None:
        self.path = path
        self.mistakes = mistakes
        self._data = data
        self._known: list[str] = []

    def path_of(self, key: str) -> str:
        """``device[1].link[0].speed``."""
        return f"{self.path}.{key}" if self.path else key

    def wrong(self, key: str | None, problem: str, near: tuple[str, tuple[str, ...]] | None = None) -> None:
        """Note a mistake: what was found, what is allowed, and the near misses if there are any."""
        where = self.path_of(key) if key is not None else self.path
        self.mistakes.append(f"{where}: {problem}{near_misses(*near) if near else ''}")

    def given(self, key: str) -> bool:
        """Whether the key is there, whatever its value."""
        return key in self._data

    def take(self, key: str) -> object | None:
        """The raw value or None; from now on the key is a known one."""
        self._known.append(key)
        return self._data.get(key)

    def text(self, key: str, *, required: bool = False) -> str | None:
        """A text with something in it."""
        value = self.take(key)
        if value is None:
            if required:
                self.wrong(key, f'is missing; write {key} = "..."')
            return None
        if not isinstance(value, str):
            example = f'; write {key} = "{value}"' if isinstance(value, int | float) else ""
            self.wrong(key, f"{shown(value)} is not text{example}")
            return None
        if not value.strip():
            self.wrong(key, "is empty")
            return None
        return value

    def flag(self, key: str, *, default: bool) -> bool | None:
        """A boolean; None when it is something else, so that what depends on it is not called wrong too."""
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.wrong(key, f"{shown(value)} is not true or false (without quotes)")
            return None
        return value

    def integer(self, key: str, low: int, high: int, unit: str) -> int | None:
        """An integer from ``low`` to ``high``."""
        value = self.take(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.wrong(key, f"{shown(value)} is not an integer number of {unit} from {low} to {high}")
            return None
        return value

    def quantity(
        self, key: str, parse: Callable[[str], float], example: str, *, positive: bool = True, bare: bool = False
    ) -> float | None:
        """A finite number with its unit, above zero where it has to be ``positive``; ``bare``: a number will do too."""
        value = self.take(key)
        if value is None:
            return None
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and not bare:
            self.wrong(key, f'{shown(value)} has no unit; write text with a unit, such as "{example}"')
            return None
        if not number and not isinstance(value, str):
            self.wrong(key, f'{shown(value)} is not text with a unit, such as "{example}"')
            return None
        try:
            read = float(parse(value))  # type: ignore[arg-type] # a parser of bare numbers takes them
        except QuantityError as error:
            self.wrong(key, str(error))
            return None
        if not read < float("inf") or (positive and read <= 0):
            self.wrong(key, f'{shown(value)} is not a finite number above zero; write a value such as "{example}"')
            return None
        return read

    def choice(self, key: str, allowed: tuple[_Choice, ...], default: _Choice) -> _Choice:
        """One of the allowed texts; the default when it is left out, or wrong."""
        value = self.text(key)
        if value is None:
            return default
        for choice in allowed:
            if value == choice:
                return choice
        self.wrong(key, f"{shown(value)} is not one of {', '.join(allowed)}", near=(value, allowed))
        return default

    def table(self, key: str) -> TomlTable | None:
        """A table inside this one."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.wrong(key, f"{shown(value)} is not a table")
            return None
        return TomlTable(value, self.path_of(key), self.mistakes)

    def tables(self, key: str) -> list[TomlTable]:
        """A list of tables inside this one, as ``[[...]]`` makes it."""
        value = self.take(key)
        if value is None:
            return []
        header = f"[[{'.'.join(part.split('[')[0] for part in self.path_of(key).split('.'))}]]"
        if not isinstance(value, list):
            self.wrong(key, f"{shown(value)} is not a list of tables; write {header}, with two brackets, for each")
            return []
        found = []
        for index, item in enumerate(value):
            if isinstance(item, dict):
                found.append(TomlTable(item, f"{self.path_of(key)}[{index}]", self.mistakes))
            else:
                self.mistakes.append(f"{self.path_of(key)}[{index}]: {shown(item)} is not a table; write {header}")
        return found

    def close(self) -> None:
        """All keys have been asked for: every other one is unknown."""
        for key in self._data:
            if key not in self._known:
                hint = near_misses(key, self._known)
                self.wrong(key, f"unknown key{hint}; known here: {', '.join(self._known)}")
