"""Waivers (concessions): who takes a device although a row of it failed, why, and until when. Pure.

    [[waiver]]
    serial = "R86S-U4-0008"
    row = "test_acceptance.py::test_line_rate[*/p2]::throughput"    # id of the row; * stands for any text
    who = "head of quality"
    why = "Port p2 is not used by this customer; agreed in order 4711."
    until = 2026-12-31                                               # last day, UTC

A waiver covers a FAIL and nothing else: a number that cannot be trusted, or does not exist, cannot be waived.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pytest_netperf.errors import ConfigError
from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.quantities import near_misses
from pytest_netperf.record.schema import Row, Waiver

__all__ = ["apply_waivers", "parse_waivers", "waivers_sentence"]

_KEYS: Final = ("serial", "row", "who", "why", "until")
_DAY: Final = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", re.ASCII)
_MEANINGS: Final = {
    "serial": "the serial of the device",
    "row": 'the id of the row as sheet.json has it, such as "test_acceptance.py::test_line_rate[*/p2]::throughput"',
    "who": "the name of who takes the responsibility",
    "why": "the sentence that says why the device may be taken all the same",
    "until": "the last day on which it holds, such as 2026-12-31",
}


def parse_waivers(text: str, where: str) -> tuple[Waiver, ...]:
    """The waivers of a file's text; ``where`` names the file. Raises ConfigError that lists every mistake."""
    try:
        document = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: this is not TOML: {error}.") from None
    mistakes = [
        f"{where}: {key!r} is not known here{near_misses(key, ('waiver',))}; the file holds [[waiver]] tables."
        for key in document
        if key != "waiver"
    ]
    tables = document.get("waiver", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        mistakes.append(f"{where}: waiver must be tables written [[waiver]], with double brackets.")
        tables = []
    elif not tables:
        mistakes.append(f"{where}: no waiver is given; write at least one [[waiver]] table, or leave the file away.")
    waivers = [_waiver(table, f"{where}: waiver {number}", mistakes) for number, table in enumerate(tables, 1)]
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return tuple(waiver for waiver in waivers if waiver is not None)


def _waiver(table: Mapping[str, object], at: str, mistakes: list[str]) -> Waiver | None:
    wrong = [f"{at}: {key!r} is not known here{near_misses(key, _KEYS)}." for key in table if key not in _KEYS]
    found: dict[str, str] = {}
    for key in _KEYS:
        value = table.get(key)
        day = str(value) if key == "until" and _is_day(value) else value
        if not isinstance(day, str) or not day.strip() or not day.isprintable():
            given = "is missing" if value is None else f"is {value!r}"
            wrong.append(f"{at}: {key} {given}; write {_MEANINGS[key]}.")
        elif key == "until" and not _is_day(day):
            wrong.append(f"{at}: until is {value!r}; write {_MEANINGS[key]}.")
        elif key == "row" and not re.search(r"\w", day):
            wrong.append(
                f"{at}: row {day!r} names every row, also those of later tests; a waiver names what it waives: write "
                f"{_MEANINGS[key]}."
            )
        else:
            found[key] = day.strip()
    mistakes += wrong
    if wrong:
        return None
    serial, row, who, why, until = (found[key] for key in _KEYS)
    return Waiver(where=at, serial=serial, row=row, who=who, why=why, until=until)


def _is_day(value: object) -> bool:
    """A day as text, or as TOML has dates."""
    return bool(_DAY.fullmatch(str(value)))


def apply_waivers(
    rows: Sequence[Row], waivers: Iterable[Waiver], serial: str, day: str
) -> tuple[list[Row], tuple[Waiver, ...]]:
    """The rows of a device, those marked that a waiver covers on this day (YYYY-MM-DD); and its waivers, each with the
    rows that it covers and why it does not cover what else it names.
    """
    found = []
    waived: set[str] = set()
    for waiver in waivers:
        if waiver.serial == serial:
            applied = _applied(waiver, rows, day)
            waived.update(applied.covers)
            found.append(applied)
    marked = [msgspec.structs.replace(row, waived=True) if row.id in waived else row for row in rows]
    return marked, tuple(found)


def waivers_sentence(waivers: Iterable[Waiver], verdict: DeviceVerdict) -> str:
    """What the sentence of a sheet adds: who takes the device, or that waivers do not suffice."""
    covering = [waiver for waiver in waivers if waiver.covers]
    if not covering:
        return ""
    who = ", ".join(dict.fromkeys(waiver.who for waiver in covering))
    until = min(waiver.until for waiver in covering)
    if verdict is DeviceVerdict.ACCEPTED_WITH_WAIVER:
        return f" Waived by {who} until {until}."
    return f" What is waived by {who} does not suffice."


def _applied(waiver: Waiver, rows: Sequence[Row], day: str) -> Waiver:
    named = [row for row in rows if _pattern(waiver.row).fullmatch(row.id)]
    failed = [row.id for row in named if row.required and row.verdict is Verdict.FAIL]
    if not named:
        return msgspec.structs.replace(waiver, problem=f"There is no row {waiver.row!r} on this sheet.")
    if day > waiver.until:
        return msgspec.structs.replace(waiver, problem=f"It expired: its last day was {waiver.until}, this is {day}.")
    problems = [_not_covered(row) for row in named if row.id not in failed]
    shown = " ".join(dict.fromkeys(problem for problem in problems if problem))
    if not failed and not shown:
        shown = "It is not needed: what it names did not fail."
    return msgspec.structs.replace(waiver, covers=tuple(failed), problem=shown or None)


def _not_covered(row: Row) -> str | None:
    """Why a row that a waiver names is not covered by it; None for one that needs none."""
    if row.verdict is Verdict.PASS or row.verdict is Verdict.NOT_APPLICABLE or not row.required:
        return None
    return (
        f"It cannot cover {row.id}, which is {row.verdict.value}: only a FAIL can be waived, not a measurement that is "
        "missing or cannot be trusted."
    )


def _pattern(text: str) -> re.Pattern[str]:
    """``*`` stands for any text; everything else for itself, brackets too."""
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)
