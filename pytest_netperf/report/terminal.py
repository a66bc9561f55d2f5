"""The end of a run on the terminal: a line per device, a line per row, worst first. Pure functions, no pytest.

Each line is a text and the markup that pytest's terminal writer takes. Colour repeats what the words say.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from pytest_netperf.judge.verdict import DeviceVerdict, Verdict, has_a_say
from pytest_netperf.record.schema import Row, Sheet
from pytest_netperf.record.wording import (
    conditions_text,
    differing_rules,
    limit_text,
    margin_text,
    measured_text,
    printable,
    quantity_text,
    speed_text,
    value_text,
    zero_loss_text,
)

__all__ = ["Line", "device_lines"]

Line = tuple[str, dict[str, bool]]

_MARKUP: dict[Verdict | DeviceVerdict, dict[str, bool]] = {
    Verdict.PASS: {"green": True},
    Verdict.FAIL: {"red": True},
    Verdict.INCONCLUSIVE: {"yellow": True},
    Verdict.INVALID: {"purple": True},
    Verdict.ERROR: {"red": True, "bold": True},
    Verdict.CRASHED: {"red": True, "bold": True},
    DeviceVerdict.ACCEPTED: {"green": True, "bold": True},
    DeviceVerdict.ACCEPTED_WITH_WAIVER: {"yellow": True, "bold": True},
    DeviceVerdict.REJECTED: {"red": True, "bold": True},
    DeviceVerdict.NOT_PROVEN: {"yellow": True, "bold": True},
}
_LONGEST_NAME = 32
_NUMBERS = (7, 10)  # columns of `_cells`: value and ceiling


def device_lines(
    sheet: Sheet, path: Path | str | None, verbosity: int = 0, color: bool = True, width: int = 0
) -> list[Line]:
    """The lines of one device: its verdict and sheet, then its rows with their reasons where they are not PASS.

    ``verbosity`` below -1 (-qq) leaves out the rows that passed, above 0 adds evidence and doubts. ``width`` is that
    of the terminal in columns; reasons are wrapped to it (0: not at all). Without ``color`` every markup is empty.
    """
    required = [row for row in sheet.rows if has_a_say(row)]
    passed = sum(row.verdict is Verdict.PASS for row in required)
    marks = [word for word, true in (("SIMULATED", sheet.simulated), ("INCOMPLETE", not sheet.complete)) if true]
    head = [printable(sheet.device.serial), sheet.verdict.value, f"{passed} of {len(required)} rows passed", *marks]
    lines: list[Line] = [("   ".join([*head, *([str(path)] if path else [])]), _MARKUP[sheet.verdict])]
    if sheet.verdict is not DeviceVerdict.ACCEPTED:
        lines += [(text, {}) for text in _wrapped(printable(sheet.sentence), width, "  ")]
    rules = differing_rules(sheet)
    apart = _differing_conditions(sheet)
    shown = [row for row in sheet.rows if verbosity >= -1 or row.verdict is not Verdict.PASS]
    for row, text in zip(shown, _table([_cells(row, rules, apart) for row in shown]), strict=True):
        lines.append((f"  {text}", _MARKUP.get(row.verdict, {"yellow": True})))
        if row.verdict is not Verdict.PASS:
            step = f" Next: {row.next_step}" if row.next_step else ""
            lines += [(part, {}) for part in _wrapped(printable(row.reason + step), width, "        ")]
        if row.waived:
            lines += [(part, {"bold": True}) for part in _wrapped(_waived(row, sheet), width, "        ")]
        if verbosity > 0:
            lines += [(part, {}) for part in _wrapped(_evidence(row), width, "        ")]
    for waiver in sheet.waivers:
        if waiver.problem:
            text = printable(f"{waiver.where}: {waiver.problem}")
            lines += [(part, {"yellow": True}) for part in _wrapped(text, width, "  ")]
    return lines if color else [(text, {}) for text, _ in lines]


def _differing_conditions(sheet: Sheet) -> set[str]:
    """The conditions, beside those that have a column, that tell rows of this sheet apart."""
    rows = [row for row in sheet.rows if "direction" in row.conditions]  # traffic
    names = {name for row in rows for name in row.conditions} - {"mtu", "direction"}
    return {name for name in names if len({str(row.conditions.get(name)) for row in rows}) > 1}


def _cells(row: Row, rules: bool, apart: Collection[str]) -> list[str]:
    conditions = row.conditions
    ceiling = value_text(row.ceiling, row.unit)
    cells = [
        row.verdict.value,
        _shortened(printable(row.link or row.test.split("::")[-1].split("[")[0])),
        speed_text(conditions.get("speed")),
        str(conditions.get("mtu", "")),
        str(conditions.get("direction", "")),
        conditions_text(row, apart),
        quantity_text(row),
        measured_text(row),
        limit_text(row),
        "" if row.ceiling is None else "ceiling",
        "" if row.ceiling is None else ceiling,
        "" if row.margin is None else f"margin {margin_text(row.margin):>8}",
        "" if row.required else "information only",
        zero_loss_text(row),
        f"rule {row.rule}" if rules and row.rule else "",
    ]
    return [printable(cell) for cell in cells]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines with aligned columns; a column that is empty everywhere is left out."""
    columns = []
    for index, column in enumerate(zip(*rows, strict=True)):
        if any(column):
            cells = _by_point(column) if index in _NUMBERS else list(column)
            widest = max(map(_width, cells))
            columns.append([cell + " " * (widest - _width(cell)) for cell in cells])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def _by_point(cells: Iterable[str]) -> list[str]:
    """Numbers with units, moved right so that their decimal points stand below each other, and their units too."""
    parts = [cell.partition(" ") for cell in cells]
    numbers = [number for number, _, _ in parts]
    left = max(len(number.partition(".")[0]) for number in numbers)
    aligned = [" " * (left - len(number.partition(".")[0])) + number if number else "" for number in numbers]
    widest = max(map(len, aligned))
    return [f"{number:<{widest}} {unit}".rstrip() for number, (_, _, unit) in zip(aligned, parts, strict=True)]


def _waived(row: Row, sheet: Sheet) -> str:
    """Who takes the device all the same."""
    waivers = [waiver for waiver in sheet.waivers if row.id in waiver.covers]
    return printable(" ".join(f"Waived by {each.who} until {each.until}: {each.why}" for each in waivers))


def _evidence(row: Row) -> str:
    facts = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in row.evidence.facts.items()
        if isinstance(value, (int, float, str)) and len(str(value)) <= 60
    ]
    doubts = " ".join(row.evidence.doubts) or "no doubts"
    return printable(", ".join([*facts, doubts]))


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    if width <= len(indent) + 20:
        return [indent + text]
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _shortened(text: str) -> str:
    return text if _width(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 9] + "..." + text[-6:]


def _width(text: str) -> int:
    """Columns that the text takes on a terminal: wide characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
