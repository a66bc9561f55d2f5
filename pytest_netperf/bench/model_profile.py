"""What a model of device has and what was published of it: the profiles in this package, and a user's own folder.

A profile is a TOML file: ``model`` and ``source``, a ``[[port]]`` table for each kind of port, and ``[[baseline]]``
tables with published values (`bench.baseline`). A file of baselines, as of a golden device, is one without ports.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from pytest_netperf.bench.baseline import Baseline, read_baselines
from pytest_netperf.bench.device_state import DeviceState, read_state
from pytest_netperf.bench.identity import read_serial_pattern
from pytest_netperf.bench.model import MTU_RANGE, Bench
from pytest_netperf.bench.toml_table import TomlTable, shown
from pytest_netperf.errors import BenchError
from pytest_netperf.quantities import parse_speed

__all__ = [
    "ModelProfile",
    "PortKind",
    "fitting_profiles",
    "load_baselines",
    "load_profiles",
    "parse_profile",
    "serial_mistakes",
    "states_of_model",
    "with_own_profiles",
]

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
class ModelProfile:
    """What is known of a model."""

    model: str
    source: str
    ports: tuple[PortKind, ...]
    baselines: tuple[Baseline, ...] = ()
    states: tuple[DeviceState, ...] = ()
    """Those that it was measured in, and how a simulated device does them."""
    serial_pattern: str | None = None
    """Regular expression that the whole serial of each device of this model matches."""
    where: str
    """The file it was read from."""


def load_profiles(*folders: str | Path | None) -> dict[str, ModelProfile]:
    """Model -> its profile: those of this package, and those of folders of the user's, of which the last one wins.

    Raises BenchError with every mistake of every file of a folder.
    """
    found = _of_folder(_SHIPPED)
    for folder in folders:
        found |= {} if folder is None else _own_profiles(folder)
    return found


def _own_profiles(folder: str | Path) -> dict[str, ModelProfile]:
    if not Path(folder).is_dir():
        raise BenchError(f"{folder}: there is no such folder; give one with profiles of models (*.toml)")
    own = _of_folder(Path(folder))
    if not own:
        raise BenchError(f"{folder}: there is no profile in this folder; a profile is a file *.toml")
    return own


def with_own_profiles(bench: Bench, folders: Iterable[str | Path]) -> Bench:
    """The bench, whose devices have the states that profiles in these folders know of their models, too.

    A state that the bench file describes stays as it is there; of the folders the last one wins. Raises BenchError,
    for a serial that is none of its model too.
    """
    profiles: dict[str, ModelProfile] = {}
    for folder in folders:
        profiles |= _own_profiles(folder)
    if mistakes := serial_mistakes(bench, profiles):
        raise BenchError("\n".join(mistakes))
    devices = []
    for device in bench.devices:
        profile = profiles.get(device.model or "")
        known = {state.name for state in device.states}
        more = () if profile is None else tuple(state for state in profile.states if state.name not in known)
        devices.append(replace(device, states=(*device.states, *more)))
    return replace(bench, devices=tuple(devices))


@cache
def states_of_model(model: str | None) -> tuple[DeviceState, ...]:
    """The states in which the shipped profile of a model knows it; none without a profile."""
    profile = _of_folder(_SHIPPED).get(model or "")
    return () if profile is None else profile.states


def load_baselines(paths: Iterable[str | Path] = ()) -> tuple[Baseline, ...]:
    """The published values of this package, and those of files and folders of the user's.

    A name of a user's file takes the place of the same name of the same model. BenchError lists every mistake of every
    file.
    """
    profiles: list[ModelProfile] = []
    mistakes = []
    for path in map(Path, paths):
        files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
        if not files:
            mistakes.append(f"{path}: there is no file of baselines (*.toml) in this folder")
        for file in files:
            try:
                profiles.append(parse_profile(_text_of(file), file))
            except BenchError as error:
                mistakes.append(str(error))
            else:
                if not path.is_dir() and not profiles[-1].baselines:
                    mistakes.append(f"{file}: there is no [[baseline]] table in this file")
    own: dict[tuple[Any, ...], str] = {}
    for profile in profiles:
        for baseline in profile.baselines:
            earlier = own.setdefault(baseline.identity, profile.where)
            if earlier != profile.where:
                mistakes.append(
                    f"{profile.where}: {baseline.name!r} has a {baseline.quantity} for the same conditions as in "
                    f"{earlier}; record it under another name (--name)"
                )
    if mistakes:
        raise BenchError("\n".join(dict.fromkeys(mistakes)))
    given = [baseline for profile in profiles for baseline in profile.baselines]
    taken = {(baseline.model, baseline.name) for baseline in given}
    shipped = [each for profile in _of_folder(_SHIPPED).values() for each in profile.baselines]
    return (*(each for each in shipped if (each.model, each.name) not in taken), *given)


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(
            f"{path}: the file of baselines cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None


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
    serial_pattern = read_serial_pattern(root)
    ports = tuple(_port_kind(table) for table in root.tables("port"))
    baselines = read_baselines(root.tables("baseline"), model=model, os=root.text("os"), method=root.text("method"))
    states = tuple(read_state(table) for table in root.tables("state"))
    if not ports and not baselines and not mistakes:
        root.wrong("port", "is missing; describe the ports of the model in [[port]] tables")
    root.close()
    for key, names in (("port", [kind.name for kind in ports]), ("state", [state.name for state in states])):
        mistakes += [
            f"{key}: the name {shown(name)} is used {count} times; make it unique"
            for name, count in Counter(names).items()
            if name and count > 1
        ]
    if mistakes:
        raise BenchError("\n".join(f"{where}: {mistake}" for mistake in mistakes))
    return ModelProfile(
        model=model,
        source=source,
        ports=ports,
        baselines=baselines,
        states=states,
        serial_pattern=serial_pattern,
        where=str(where),
    )


def serial_mistakes(bench: Bench, profiles: Mapping[str, ModelProfile]) -> list[str]:
    """The serials of a bench file that cannot be those of their models, one sentence each."""
    mistakes = []
    for number, device in enumerate(bench.devices):
        profile = profiles.get(device.model or "")
        if profile is None or profile.serial_pattern is None or re.fullmatch(profile.serial_pattern, device.serial):
            continue
        mistakes.append(
            f"{bench.path or 'the built-in bench'}: device[{number}].serial: {shown(device.serial)} is no serial of "
            f"model {shown(device.model)}: its profile ({profile.where}) has serial_pattern = "
            f"{shown(profile.serial_pattern)}; correct the serial or the model"
        )
    return mistakes


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
