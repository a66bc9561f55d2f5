"""States of a device side by side: rows that differ in it alone, and the change against the plain one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from pytest_netperf.quantities import get_quantity
from pytest_netperf.record.schema import Row
from pytest_netperf.record.wording import (
    conditions_text,
    margin_text,
    measured_text,
    port_text,
    quantity_text,
    uncertainty_text,
    value_text,
)
from pytest_netperf.report.language import Words

__all__ = ["state_sections"]

_STATE: Final = "device_state"
_PLAIN: Final = "plain"
_BESIDE: Final = ("frame_rate", "wire_rate", "tester_cpu", "dut_cpu")
"""Quantities that a throughput row holds among its facts; each that one of them knows has a column."""


def state_sections(rows: Iterable[Row], w: Words) -> list[dict[str, Any]]:
    """A section, as those of the user's own, for each measurement that was made in two states or more."""
    listed = [row for row in rows if row.conditions.get(_STATE) is not None]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in listed:
        if row.value is not None:
            groups.setdefault((_place(row), tuple(sorted(_others(row).items(), key=str))), []).append(row)
    sections = []
    for (place, others), measured in groups.items():
        known = dict(others)
        # What was never measured does not know all conditions; it stands beside those that it does not contradict.
        beside = [row for row in listed if row.value is None and _place(row) == place and _fits(row, known)]
        found = sorted(measured, key=_plain_first) + beside
        if len({row.conditions[_STATE] for row in found}) > 1:
            sections.append(_section(found, w))
    return sections


def _place(row: Row) -> tuple[Any, ...]:
    return row.test.split("[", 1)[0], row.link, row.quantity, row.statistic, row.unit


def _others(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.conditions.items() if name != _STATE}


def _fits(row: Row, known: dict[str, Any]) -> bool:
    return all(known.get(name) == value for name, value in _others(row).items())


def _plain_first(row: Row) -> tuple[bool, float]:
    return row.conditions[_STATE] != _PLAIN, -(row.value or 0.0)


def _section(rows: list[Row], w: Words) -> dict[str, Any]:
    first = rows[0]
    plain = first.value if first.conditions[_STATE] == _PLAIN else None
    name = ", ".join(part for part in (port_text(first), quantity_text(first)) if part)
    conditions = conditions_text(msgspec.structs.replace(first, conditions=_others(first)))
    expected = any(row.expected is not None for row in rows)
    beside = [name for name in _BESIDE if first.quantity == "throughput" and any(_fact(row, name) for row in rows)]
    columns = ["state.state", "rows.value", "state.change", "rows.limit", *(["state.expected"] if expected else [])]
    names = [w.of("quantity", name, name.replace("_", " ")) for name in beside]
    return {
        "title": w("state.heading", what=name),
        "text": [conditions] if conditions else [],
        "header": [*map(w, columns), *names, w("rows.verdict")],
        "table": [_line(row, plain, expected, beside, w) for row in rows],
    }


def _fact(row: Row, quantity: str) -> float | None:
    value = row.evidence.facts.get(f"measured_{quantity}")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _line(row: Row, plain: float | None, expected: bool, beside: Sequence[str], w: Words) -> list[str]:
    word = w.of("row", f"{row.verdict.value}.word", row.verdict.value)
    is_plain = row.conditions[_STATE] == _PLAIN
    change = None if is_plain or not plain or row.value is None else row.value / plain - 1
    return [
        str(row.conditions[_STATE]),
        f"{measured_text(row)} {uncertainty_text(row)}".strip(),
        margin_text(change),
        row.limit or "-",
        *([value_text(row.expected, row.unit)] if expected else []),
        *(value_text(_fact(row, name), get_quantity(name).unit) for name in beside),
        word,
    ]
