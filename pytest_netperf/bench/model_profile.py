"""What a model of device has and what was published of it: the profiles in this package, and a user's own folder.

A profile is a TOML file: ``model`` and ``source``, a ``[[port]]`` table for each kind of port, and ``[[baseline]]``
tables with published values. A baseline is data with its source, never a requirement.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_netperf.bench.model import MTU_RANGE
from pytest_netperf.bench.toml_table import TomlTable, shown
from pytest_netperf.errors import BenchError, QuantityError
from pytest_netperf.quantities import get_quantity, may_be_negative, parse_speed

__all__ = ["Baseline", "ModelProfile", "PortKind", "fitting_profiles", "load_profiles", "parse_profile"]

_SHIPPED: Final = Path(__file__).parent / "profiles"
_MOST_PORTS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PortKind:
    """Ports of a model that are alike."""

    name: str
    count: int
    speed_bps: float
    """What they are sold for, in bit/s."""
    drivers: tuple[str, ...]
    """Names of drivers that are expected, as ``ethtool -i`` gives them."""
    max_mtu: int | None = None
    """The largest MTU in bytes; None: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One published value."""

    name: str
    test: str
    """What was done, in words."""
    quantity: str
    value: float
    """In the unit of the quantity."""
    source: str
    """The sentence that says where the number comes from."""
    unit_note: str | None = None
    """How the published number became this one, where that is not plain."""
    speed_bps: float | None = None
    mtu: int | None = None
    mss_bytes: int | None = None
    line_limited: bool = False
    """Whether the wire was what limited it, so that it must be just below the ceiling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """What is known of a model."""

    model: str
    source: str
    ports: tuple[PortKind, ...]
    baselines: tuple[Baseline, ...] = ()
    where: str
    """The file it was read from."""


def load_profiles(folder: str | Path | None = None) -> dict[str, ModelProfile]:
    """Model -> its profile: those of this package, and those of a folder of the user's, which win.

    Raises BenchError with every mistake of every file of the folder.
    """
    found = _of_folder(_SHIPPED)
    if folder is None:
        return found
    if not Path(folder).is_dir():
        raise BenchError(f"{folder}: there is no such folder; give one with profiles of models (*.toml)")
    own = _of_folder(Path(folder))
    if not own:
        raise BenchError(f"{folder}: there is no profile in this folder; a profile is a file *.toml")
    return {**found, **own}


def _of_folder(folder: Path) -> dict[str, ModelProfile]:
    found: dict[str, ModelProfile] = {}
    mistakes = []
    for path in sorted(folder.glob("*.toml")):
        try:
            profile = parse_profile(path.read_text("utf-8-sig"), path)
        except (OSError, UnicodeDecodeError) as error:
            mistakes.append(f"{path}: the profile cannot be read: {getattr(error, 'strerror', None) or error}")
        except BenchError as error:
            mistakes.append(str(error))
        else:
            if profile.model in found:
                mistakes.append(f"{path}: model: {shown(profile.model)} is that of {found[profile.model].where} too")
            found[profile.model] = profile
    if mistakes:
        raise BenchError("\n".join(mistakes))
    return found


def parse_profile(text: str, where: str | Path = "profile") -> ModelProfile:
    """The profile that this TOML text describes. Raises BenchError with all mistakes."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BenchError(f"{where}: broken TOML: {error}") from None
    mistakes: list[str] = []
    root = TomlTable(data, "", mistakes)
    model = root.text("model", required=True) or ""
    source = root.text("source", required=True) or ""
    ports = tuple(_port_kind(table) for table in root.tables("port"))
    baselines = tuple(_baseline(table) for table in root.tables("baseline"))
    if not ports and not mistakes:
        root.wrong("port", "is missing; describe the ports of the model in [[port]] tables")
    root.close()
    for key, names in (("port", [kind.name for kind in ports]), ("baseline", [each.name for each in baselines])):
        mistakes += [
            f"{key}: the name {shown(name)} is used {count} times; make it unique"
            for name, count in Counter(names).items()
            if name and count > 1
        ]
    if mistakes:
        raise BenchError("\n".join(f"{where}: {mistake}" for mistake in mistakes))
    return ModelProfile(model=model, source=source, ports=ports, baselines=baselines, where=str(where))


def _port_kind(table: TomlTable) -> PortKind:
    name = table.text("name", required=True) or ""
    count = _required_integer(table, "count", 1, _MOST_PORTS, "ports")
    speed = table.quantity("speed", parse_speed, "2.5G")
    if not table.given("speed"):
        table.wrong("speed", 'is missing; write the speed that the ports are sold for, such as speed = "2.5G"')
    drivers = table.take("drivers")
    if not isinstance(drivers, list) or not drivers or not all(isinstance(each, str) and each for each in drivers):
        found = f"{shown(drivers)} is not" if table.given("drivers") else "is missing;"
        table.wrong("drivers", f'{found} a list of drivers, such as drivers = ["igc"]')
        drivers = []
    max_mtu = table.integer("max_mtu", *MTU_RANGE, "bytes")
    table.close()
    return PortKind(name=name, count=count, speed_bps=speed or 0.0, drivers=tuple(drivers), max_mtu=max_mtu)


def _required_integer(table: TomlTable, key: str, low: int, high: int, unit: str) -> int:
    value = table.integer(key, low, high, unit)
    if not table.given(key):
        table.wrong(key, f"is missing; write an integer number of {unit}")
    return value or 0


def _baseline(table: TomlTable) -> Baseline:
    name = table.text("name", required=True) or ""
    test = table.text("test", required=True) or ""
    quantity = table.text("quantity", required=True) or ""
    value = _value(table, quantity)
    source = table.text("source", required=True) or ""
    baseline = Baseline(
        name=name,
        test=test,
        quantity=quantity,
        value=value,
        source=source,
        unit_note=table.text("unit_note"),
        speed_bps=table.quantity("speed", parse_speed, "2.5G"),
        mtu=table.integer("mtu", *MTU_RANGE, "bytes"),
        mss_bytes=table.integer("mss", 1, MTU_RANGE[1], "bytes"),
        line_limited=bool(table.flag("line_limited", default=False)),
    )
    table.close()
    return baseline


def _value(table: TomlTable, quantity: str) -> float:
    """A bare number in the unit of its quantity: what was published in other units has a unit_note."""
    value = table.take("value")
    try:
        unit = get_quantity(quantity).unit if quantity else None
    except QuantityError as error:
        table.wrong("quantity", str(error))
        unit = None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < float("inf"):
        found = f"{shown(value)} is not a finite number" if table.given("value") else "is missing; write a number"
        table.wrong("value", f"{found}{f' in {unit}' if unit else ''}, without quotes and unit")
        return 0.0
    if value < 0 and unit is not None and not may_be_negative(unit):
        table.wrong("value", f"{shown(value)} is below zero, which {quantity} cannot be")
    return float(value)


def fitting_profiles(
    profiles: Mapping[str, ModelProfile], ports: Iterable[tuple[str | None, float | None]]
) -> list[ModelProfile]:
    """The profiles whose ports are exactly these (driver, highest speed in bit/s), in the order of their models.

    Models that have the same kinds of ports all fit: nothing here tells them apart.
    """
    there = list(ports)
    return [profile for _, profile in sorted(profiles.items()) if there and _fits(profile, there)]


def _fits(profile: ModelProfile, ports: list[tuple[str | None, float | None]]) -> bool:
    left = list(ports)
    for kind in profile.ports:
        these = [port for port in left if port[0] in kind.drivers and port[1] == kind.speed_bps]
        if len(these) != kind.count:
            return False
        left = [port for port in left if port not in these]
    return not left
