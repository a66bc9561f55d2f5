"""Sheets in Markdown, as the summary of a CI job shows it (GitHub flavour). Pure; every text of a user is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_netperf.judge.verdict import DeviceVerdict, Verdict, has_a_say
from pytest_netperf.record.schema import Row, Sheet
from pytest_netperf.record.wording import (
    conditions_text,
    limit_text,
    margin_text,
    measured_text,
    port_text,
    printable,
    quantity_text,
    uncertainty_text,
    value_text,
)

__all__ = ["sheets_markdown"]

_MOST_BYTES = 900_000
"""GitHub takes 1 MiB for a step."""
_MOST_ROWS = 200
_SIGNS = {DeviceVerdict.ACCEPTED: "\u2705", DeviceVerdict.REJECTED: "\u274c"}
_SPECIAL = re.compile(r"[\\`*_\[\]#|<>~@&]")


def sheets_markdown(sheets: Sequence[Sheet]) -> bytes:
    """One line for each device, the rows that are not PASS with their reasons, and all rows folded away."""
    counts = {verdict: sum(sheet.verdict is verdict for sheet in sheets) for verdict in DeviceVerdict}
    said = ", ".join(f"{number} {verdict.value}" for verdict, number in counts.items() if number) or "no device"
    lines = [f"## Network acceptance: {said}", ""]
    if sheets:
        lines += ["| device | verdict | rows | why |", "| --- | --- | --- | --- |"]
        lines += [_device(sheet) for sheet in sheets]
    text = "\n".join(lines) + "\n"
    for number, sheet in enumerate(sheets):
        part = "\n".join(["", *_details(sheet)]) + "\n"
        if len((text + part).encode("utf-8", "replace")) > _MOST_BYTES:
            text += f"\n{len(sheets) - number} further devices are left out here; their sheets have everything.\n"
            break
        text += part
    return text.encode("utf-8", "replace")


def _device(sheet: Sheet) -> str:
    required = [row for row in sheet.rows if has_a_say(row)]
    passed = sum(row.verdict is Verdict.PASS for row in required)
    marks = ["SIMULATED"] * sheet.simulated + ["INCOMPLETE"] * (not sheet.complete)
    verdict = " ".join([_SIGNS.get(sheet.verdict, "\u2753"), f"**{sheet.verdict.value}**", *marks])
    return f"| {_text(sheet.device.serial)} | {verdict} | {passed} of {len(required)} | {_text(sheet.sentence)} |"


def _details(sheet: Sheet) -> list[str]:
    bad = [row for row in sheet.rows if row.verdict is not Verdict.PASS]
    lines = [
        f"- **{row.verdict.value}** {_text(_name(row))}: {_text(row.reason)}"
        + (f" *Next:* {_text(row.next_step)}" if row.next_step else "")
        for row in bad[:_MOST_ROWS]
    ]
    if lines:
        lines = [f"### {_text(sheet.device.serial)}", "", *lines, ""]
    lines += [f"<details><summary>{_text(sheet.device.serial)}: {len(sheet.rows)} rows</summary>", ""]
    lines += ["| verdict | row | quantity | value | limit | ceiling | margin |", "| --- " * 7 + "|"]
    lines += [_row(row) for row in sheet.rows[:_MOST_ROWS]]
    lines += [f"\n{len(sheet.rows) - _MOST_ROWS} further rows are on the sheet."] * (len(sheet.rows) > _MOST_ROWS)
    return [*lines, "", "</details>"]


def _row(row: Row) -> str:
    value = f"{measured_text(row)} {uncertainty_text(row)}".strip()
    ceiling = value_text(row.ceiling, row.unit)
    cells = [
        row.verdict.value,
        _name(row),
        quantity_text(row),
        value,
        limit_text(row),
        ceiling,
        margin_text(row.margin),
    ]
    return f"| {' | '.join(map(_text, cells))} |"


def _name(row: Row) -> str:
    parts = [part for part in (port_text(row), conditions_text(row)) if part]
    return ", ".join(parts) or row.test.split("::", 1)[-1]


def _text(text: str) -> str:
    """The text as Markdown and HTML show it unchanged, in one line."""
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", printable(text))
