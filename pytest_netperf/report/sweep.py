"""Rows that differ in one condition alone, as the points of one plot: sweeps over MSS, MTU, offered rate ... Pure.

A sweep is three or more values of one condition, of one test, link and quantity, everything else being equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_netperf.quantities import get_quantity
from pytest_netperf.record.schema import Row

__all__ = ["SWEPT", "Point", "Sweep", "sweeps_of"]

SWEPT: Final = ("mss", "mtu", "length", "offered", "streams")
"""What may be swept: conditions of a row, and two facts of its workload."""
_FACTS: Final = {"offered": "offered_bps", "length": "asked_length_bytes"}
_FEWEST: Final = 3
_BESIDE: Final = ("frame_rate", "wire_rate", "tester_cpu", "dut_cpu")
"""Quantities that a throughput row holds among its facts, each of which gets a plot of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One row of a sweep, or one other quantity of it."""

    x: float
    row: Row
    value: float | None
    limit_low: float | None = None
    limit_high: float | None = None
    ceiling: float | None = None
    expected: float | None = None
    uncertainty: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The points of one quantity, in the order of the swept condition."""

    swept: str
    quantity: str
    unit: str
    statistic: str | None
    points: tuple[Point, ...]
    beside: tuple[Sweep, ...] = ()
    """Other quantities of the same runs, that have no row of their own."""


def sweeps_of(rows: Iterable[Row]) -> list[Sweep]:
    """The sweeps among the rows of a device; each row is in at most one."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row.value is not None and math.isfinite(row.value) and row.quantity not in SWEPT:
            key = (row.test.split("[")[0], row.link, row.quantity, row.statistic, row.unit)
            groups.setdefault(key, []).append(row)
    return [sweep for group in groups.values() for sweep in _of_group(group)]


def _of_group(rows: list[Row]) -> Iterator[Sweep]:
    """The condition with most values first: what is in its sweeps is in no other."""
    taken: set[int] = set()
    at = {id(row): _places(row) for row in rows}
    counts = {swept: len({at[id(row)].get(swept) for row in rows}) for swept in SWEPT}
    for swept in sorted(SWEPT, key=lambda name: -counts[name]):
        alike: dict[str, list[Row]] = {}
        for row in rows:
            if id(row) not in taken and at[id(row)].get(swept) is not None:
                alike.setdefault(_others(row, at[id(row)], swept), []).append(row)
        for same in alike.values():
            if len({at[id(row)][swept] for row in same}) >= _FEWEST:
                taken.update(map(id, same))
                yield _sweep(swept, sorted(same, key=lambda row: at[id(row)][swept]), at)


def _places(row: Row) -> dict[str, float]:
    """Where a row lies on each axis that it has a place on."""
    found = {name: row.conditions.get(name) for name in SWEPT}
    found |= {name: row.evidence.facts.get(fact) for name, fact in _FACTS.items()}
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
    }


def _others(row: Row, places: Mapping[str, float], swept: str) -> str:
    """Everything but the swept condition; the MTU of a sweep of MSS belongs to it, for instance."""
    conditions = {name: value for name, value in row.conditions.items() if name != swept}
    return repr((sorted(conditions.items(), key=lambda item: item[0]), sorted({**places, swept: 0.0}.items())))


def _sweep(swept: str, rows: list[Row], at: Mapping[int, Mapping[str, float]]) -> Sweep:
    points = tuple(
        Point(
            x=at[id(row)][swept],
            row=row,
            value=row.value,
            limit_low=row.limit_low,
            limit_high=row.limit_high,
            ceiling=row.ceiling,
            expected=row.expected,
            uncertainty=row.uncertainty,
        )
        for row in rows
    )
    first = rows[0]
    beside = tuple(_beside(swept, rows, at)) if first.quantity == "throughput" and first.statistic is None else ()
    return Sweep(
        swept=swept,
        quantity=first.quantity,
        unit=first.unit,
        statistic=first.statistic,
        points=points,
        beside=beside,
    )


def _beside(swept: str, rows: list[Row], at: Mapping[int, Mapping[str, float]]) -> Iterator[Sweep]:
    for quantity in _BESIDE:
        values = [row.evidence.facts.get(f"measured_{quantity}") for row in rows]
        if any(isinstance(value, int | float) for value in values):
            yield Sweep(
                swept=swept,
                quantity=quantity,
                unit=get_quantity(quantity).unit,
                statistic=None,
                points=tuple(
                    Point(x=at[id(row)][swept], row=row, value=float(value) if isinstance(value, int | float) else None)
                    for row, value in zip(rows, values, strict=True)
                ),
            )
