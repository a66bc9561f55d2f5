"""Baselines: published values of a model, or what a golden device did, as ``[[baseline]]`` tables of a TOML file.

A baseline is data with its source. A limit may relate to it (``>= 95 % of baseline plain``), and a sheet shows it as
expected beside what is required and what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_netperf.bench.model import MTU_RANGE, TOPOLOGIES
from pytest_netperf.bench.toml_table import TomlTable, shown
from pytest_netperf.errors import QuantityError
from pytest_netperf.quantities import get_quantity, may_be_negative, parse_speed, parse_value

__all__ = ["CONDITIONS_OF_BASELINES", "Baseline", "read_baselines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One value, and under which conditions it was measured. Several may have one name, each for its conditions."""

    model: str
    name: str
    test: str
    """What was done, in words."""
    quantity: str
    value: float
    """In the unit of the quantity."""
    source: str
    """The sentence that says where the number comes from."""
    statistic: str | None = None
    """Which number of the measurement, as of a row: ``p5 of intervals``; None: the mean."""
    conditions: dict[str, Any] = field(default_factory=dict)
    """Under the keys of limits, ``device_state`` and ``zerocopy`` among them; only those that are stated."""
    os: str | None = None
    """What ran on the device."""
    driver: str | None = None
    method: str | None = None
    """How it was measured."""
    unit_note: str | None = None
    """How the published number became this one, where that is not plain."""
    uncertainty: float | None = None
    """Expanded uncertainty (k = 2) in the unit of the quantity; None: not known."""
    line_limited: bool = False
    """Whether the wire was what limited it, so that it must be just below the ceiling."""
    simulated: bool = False
    """Whether it was measured on a simulated link: it then says nothing about real devices."""

    @property
    def identity(self) -> tuple[Any, ...]:
        """What no two baselines may share."""
        return (self.model, self.name, self.quantity, self.statistic, tuple(sorted(self.conditions.items())))


_Reader = Callable[[TomlTable, str], Any]
_CONDITIONS: Final[dict[str, _Reader]] = {
    "speed": lambda table, key: table.quantity(key, parse_speed, "2.5G"),
    "mtu": lambda table, key: table.integer(key, *MTU_RANGE, "bytes"),
    "mss": lambda table, key: table.integer(key, 1, MTU_RANGE[1], "bytes"),
    "streams": lambda table, key: table.integer(key, 1, 128, "streams"),
    "direction": lambda table, key: _choice(table, key, ("forward", "reverse", "bidirectional")),
    "protocol": lambda table, key: _choice(table, key, ("tcp", "udp")),
    "ip_version": lambda table, key: _ip_version(table, key),
    "zerocopy": lambda table, key: table.flag(key, default=False) if table.given(key) else table.take(key),
    "topology": lambda table, key: _choice(table, key, TOPOLOGIES),
    "media": lambda table, key: table.text(key),
    "device_state": lambda table, key: table.text(key),
    "link": lambda table, key: table.text(key),
    "test_name": lambda table, key: table.text(key),
}
CONDITIONS_OF_BASELINES: Final = tuple(_CONDITIONS)
"""``test_name`` is the condition ``test`` of a limit: ``test`` says in words what was done."""


def read_baselines(
    tables: Iterable[TomlTable], *, model: str, os: str | None, method: str | None
) -> tuple[Baseline, ...]:
    """Those of one file; what is wrong is noted by their tables. ``os`` and ``method`` are for those that give none."""
    first: dict[tuple[Any, ...], str] = {}
    found = []
    for table in tables:
        baseline = _baseline(table, model, os, method)
        found.append(baseline)
        if not baseline.name or not baseline.quantity:
            continue
        earlier = first.setdefault(baseline.identity, table.path)
        if earlier != table.path:
            table.wrong(
                "name",
                f"{shown(baseline.name)} has a {baseline.quantity} for the same conditions in {earlier}; remove one, "
                "or give it another name or condition",
            )
    return tuple(found)


def _baseline(table: TomlTable, model: str, os: str | None, method: str | None) -> Baseline:
    name = table.text("name", required=True) or ""
    if "/" in name:
        table.wrong("name", f"{shown(name)} has a slash, which stands between model and name in a limit; leave it out")
    test = table.text("test", required=True) or ""
    quantity, unit = _quantity(table)
    value = _number(table, "value", quantity, unit)
    conditions = {key: read(table, key) for key, read in _CONDITIONS.items()}
    if "test_name" in conditions:
        conditions["test"] = conditions.pop("test_name")
    baseline = Baseline(
        model=model,
        name=name,
        test=test,
        quantity=quantity,
        value=0.0 if value is None else value,
        source=table.text("source", required=True) or "",
        statistic=_statistic(table),
        conditions={key: each for key, each in conditions.items() if each is not None},
        os=table.text("os") or os,
        driver=table.text("driver"),
        method=table.text("method") or method,
        unit_note=table.text("unit_note"),
        uncertainty=_number(table, "uncertainty", quantity, unit) if table.given("uncertainty") else None,
        line_limited=bool(table.flag("line_limited", default=False)),
        simulated=bool(table.flag("simulated", default=False)),
    )
    table.take("uncertainty")
    if not table.given("value"):
        table.wrong("value", f"is missing; write a number{f' in {unit}' if unit else ''}")
    table.close()
    return baseline


def _quantity(table: TomlTable) -> tuple[str, str | None]:
    name = table.text("quantity", required=True)
    if name is None:
        return "", None
    try:
        known = get_quantity(name)
    except QuantityError as error:
        table.wrong("quantity", str(error))
        return name, None
    return known.name, known.unit


def _number(table: TomlTable, key: str, quantity: str, unit: str | None) -> float | None:
    """A bare number in the unit of its quantity, or a text with another unit."""
    value = table.take(key)
    if value is None:
        return None
    if isinstance(value, str) and unit is not None:
        try:
            number = float(parse_value(value, quantity))
        except QuantityError as error:
            table.wrong(key, str(error))
            return None
    elif isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < float("inf"):
        table.wrong(key, f"{shown(value)} is not a finite number{f' in {unit}' if unit else ''}")
        return None
    else:
        number = float(value)
    if number < 0 and (key == "uncertainty" or (unit is not None and not may_be_negative(unit))):
        table.wrong(key, f"{shown(value)} is below zero, which {quantity} cannot be")
    return number


def _choice(table: TomlTable, key: str, allowed: tuple[str, ...]) -> str | None:
    return table.choice(key, allowed, allowed[0]) if table.given(key) else table.text(key)


def _ip_version(table: TomlTable, key: str) -> int | None:
    value = table.take(key)
    if value is None or (value in (4, 6) and not isinstance(value, bool)):
        return value if isinstance(value, int) else None
    table.wrong(key, f"{shown(value)} is not 4 or 6")
    return None


def _statistic(table: TomlTable) -> str | None:
    text = table.text("statistic")
    return None if text == "mean" else text
