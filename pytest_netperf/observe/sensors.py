"""Probes of temperatures: the sensors of this machine (hwmon), and those of any machine that has ``sensors -j``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_netperf.errors import ConfigError
from pytest_netperf.observe.probe import Probe

__all__ = ["hottest_of_sensors", "hwmon", "sensors"]

_HWMON = Path("/sys/class/hwmon")


def hwmon(
    *,
    quantity: str = "temperature",
    chip: str | None = None,
    during: bool = False,
    every_s: float = 10.0,
    root: Path = _HWMON,
) -> Probe:
    """The hottest sensor of this machine, in degrees Celsius; only those of one ``chip`` (``coretemp``) if given.

    The probe fails where there is no such sensor.
    """

    def read() -> float:
        chips: dict[str, list[float]] = {}
        for folder in sorted(root.glob("hwmon*")):
            name = (folder / "name").read_text().strip() if (folder / "name").exists() else folder.name
            for file in folder.glob("temp*_input"):
                try:
                    chips.setdefault(name, []).append(int(file.read_text()) / 1000)
                except (OSError, ValueError):  # a sensor that is asleep
                    continue
        return _hottest(chips, chip, f"{root} has")

    name = f"hwmon of this machine{f', {chip}' if chip else ''}"
    return Probe(quantity=quantity, read=read, unit="degC", name=name, during=during, every_s=every_s)


def sensors(
    command: Sequence[str] = ("sensors", "-j"),
    *,
    quantity: str = "temperature",
    chip: str | None = None,
    during: bool = False,
    every_s: float = 10.0,
) -> Probe:
    """The hottest sensor that ``sensors -j`` (lm-sensors) prints, in degrees Celsius.

    ``command`` may ask another machine; `observe.over_ssh.ssh_temperature` does so with one login. The probe fails when
    the command does, or prints no temperature.
    """
    if isinstance(command, str) or not command or not all(isinstance(word, str) for word in command):
        raise ConfigError(f"sensors({command!r}): expected a list of a program and its arguments")

    def read() -> float:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=9, check=False)
        except FileNotFoundError:
            raise RuntimeError(
                f"there is no program {command[0]!r}; install lm-sensors, or name another command"
            ) from None
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip() or "it says nothing").splitlines()[0]
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {said}")
        return hottest_of_sensors(done.stdout, chip, f"{' '.join(command)} prints")

    name = f"{' '.join(command)}{f', {chip}' if chip else ''}"
    return Probe(quantity=quantity, read=read, unit="degC", name=name, during=during, every_s=every_s)


def hottest_of_sensors(text: str, chip: str | None, where: str) -> float:
    """The hottest sensor in the output of ``sensors -j``; RuntimeError when there is none. ``where`` says whose."""
    return _hottest(dict(_of_chips(text)), chip, where)


def _of_chips(text: str) -> Iterator[tuple[str, list[float]]]:
    """Chip -> its temperatures: ``{"coretemp-isa-0000": {"Core 0": {"temp2_input": 41.0, ...}, ...}}``."""
    try:
        document: Any = json.loads(text)
    except ValueError as error:
        raise RuntimeError(f"this is not the JSON of sensors -j: {error}") from None
    for chip, features in document.items() if isinstance(document, dict) else ():
        found = [
            float(value)
            for feature in (features.values() if isinstance(features, dict) else ())
            for name, value in (feature.items() if isinstance(feature, dict) else ())
            if name.startswith("temp") and name.endswith("_input") and isinstance(value, int | float)
        ]
        if found:
            yield chip, found


def _hottest(chips: dict[str, list[float]], chip: str | None, where: str) -> float:
    chosen = [value for name, values in chips.items() if chip is None or name.startswith(chip) for value in values]
    if not chosen:
        have = f"; chips with one: {', '.join(chips)}" if chips else ""
        raise RuntimeError(f"{where} no temperature{f' of chip {chip!r}' if chip else ''}{have}")
    return max(chosen)
