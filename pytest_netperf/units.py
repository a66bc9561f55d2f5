"""Numbers with units: how they are read and how they are printed.

A number that a person writes carries its unit; it is never guessed. It is read exactly (integer arithmetic, rounded
once), so that ``2.3 Gbps`` is 2 300 000 000 bit/s and nothing beside. Base units are bit/s, frame/s, s, B, W, V, A,
Hz, degC, "1" for counts and "ratio" for fractions (0.005, written ``0.5 %``).

Everything refused here is a `QuantityError` that says what was given and what is understood.
"""

from __future__ import annotations

import math
import re
from typing import NoReturn

from pytest_netperf.errors import QuantityError

__all__ = [
    "base_unit",
    "format_exact",
    "format_pair",
    "format_speed",
    "format_value",
    "is_base_unit",
    "may_be_negative",
    "parse_duration",
    "parse_rate",
    "parse_ratio",
    "parse_size",
    "parse_speed",
    "read",
    "scale",
    "understood",
]

_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def _unit_table() -> dict[str, tuple[str, int, int]]:
    """Spelling -> (dimension, numerator, denominator); one of the unit is numerator/denominator of the base unit."""
    table: dict[str, tuple[str, int, int]] = {}

    def add(base: str, spellings: str, prefixes: dict[str, int], factor: int = 1) -> None:
        for spelling in spellings.split():
            for prefix, scale in prefixes.items():
                table[prefix + spelling] = (base, scale * factor, 1)

    # "Kbps" is common and can only mean 1000; "KB" is read as 1000 and as 1024, so bytes take kB or KiB only.
    add("bit/s", "bit/s bits/s bit/sec bits/sec b/s bps", {**_DECIMAL, "K": 10**3, **_BINARY})
    add("bit/s", "B/s byte/s bytes/s B/sec Byte/s Bytes/s", {**_DECIMAL, **_BINARY}, 8)
    add("B", "B byte bytes Byte Bytes", {**_DECIMAL, **_BINARY})
    add("frame/s", "frame/s frames/s fps pps packet/s packets/s", _DECIMAL)
    for base in ("W", "V", "A", "Hz"):
        add(base, base, {"": 1, "k": 10**3, "M": 10**6, "G": 10**9})
        table["m" + base] = (base, 1, 10**3)
    for spelling, scale in {"s": 1, "sec": 1, "second": 1, "seconds": 1, "min": 60, "h": 3600, "d": 86400}.items():
        table[spelling] = ("s", scale, 1)
    for spelling, scale in {"ms": 10**3, "us": 10**6, "\u00b5s": 10**6, "\u03bcs": 10**6, "ns": 10**9}.items():
        table[spelling] = ("s", 1, scale)
    for spelling, scale in {"ratio": 1, "%": 100, "percent": 100, "ppm": 10**6}.items():
        table[spelling] = ("ratio", 1, scale)
    for spelling in ("degC", "\u00b0C", "C", "Celsius"):
        table[spelling] = ("degC", 1, 1)
    return table


_UNITS = _unit_table()
_SPEEDS = {prefix + ending: scale for prefix, scale in _DECIMAL.items() if prefix for ending in ("", "bE")}

# Dimension -> (its name in messages, an example, what is understood). "speed" is a rate with short forms.
_DIMENSIONS = {
    "speed": ("link speed", "2.5G", "100M, 2.5G, 10G, 10GbE, or any rate such as 2.5 Gbps"),
    "bit/s": (
        "rate",
        "9.8 Gbps",
        "bit/s, kbit/s, Mbit/s, Gbit/s (also bps, kbps, Mbps, Gbps, Gb/s), binary Mibit/s, Gibit/s, "
        "bytes as MB/s, GB/s, MiB/s, GiB/s",
    ),
    "frame/s": ("frame rate", "812 kpps", "frames/s, packets/s, pps, kpps, Mpps"),
    "s": ("time", "500 ms", "s, ms, us, ns, min, h, d"),
    "B": ("size", "64 KiB", "B, kB, MB, GB (decimal), KiB, MiB, GiB (binary)"),
    "ratio": ("ratio", "0.5 %", "%, ppm, ratio"),
    "W": ("power", "15 W", "mW, W, kW"),
    "V": ("voltage", "12 V", "mV, V, kV"),
    "A": ("current", "1.2 A", "mA, A, kA"),
    "Hz": ("frequency", "2.9 GHz", "Hz, kHz, MHz, GHz"),
    "degC": ("temperature", "60 degC", "degC, \u00b0C"),
    "1": ("count", "50", "a plain number"),
}

_NUMBER = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,3}))?(?![0-9.,_])\s*(.*)", re.DOTALL)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)\b", re.IGNORECASE)


def _base(unit: str) -> tuple[str, int, int]:
    """Dimension and scale of a quantity's unit; a unit that only a user knows is a dimension of its own."""
    if unit == "speed":
        return "bit/s", 1, 1
    return _UNITS.get(unit, (unit, 1, 1))


def _about(unit: str) -> tuple[str, str, str]:
    """Name in messages, an example, and what is understood, for values in ``unit``."""
    return _DIMENSIONS.get(unit) or _DIMENSIONS.get(_base(unit)[0], (f"value in {unit}", f"50 {unit}", unit))


def may_be_negative(unit: str) -> bool:
    """Whether a value in this unit may be below zero: temperatures, and units that only the user knows (dBm)."""
    return unit == "degC" or _base(unit)[0] not in _DIMENSIONS


def is_base_unit(unit: str) -> bool:
    """Whether values are kept in this unit. "B/s" is one beside "bit/s", for storage."""
    return unit == "B/s" or (unit != "speed" and unit in _DIMENSIONS)


def base_unit(unit: str) -> str | None:
    """The base unit that a known spelling belongs to ("Gbps" -> "bit/s"), None for a unit nobody here knows."""
    found = _UNITS.get(unit)
    alike = [known for known in _DIMENSIONS if known.lower() == unit.lower()]
    return found[0] if found else alike[0] if alike else None


def understood(unit: str) -> str:
    """The units that are understood for values in ``unit``, as words."""
    return _about(unit)[2]


def _refuse(given: object, problem: str, unit: str) -> NoReturn:
    _, example, known = _about(unit)
    raise QuantityError(f"{given!r}: {problem}. Write for example {example!r}; understood: {known}.")


def scale(given: object, spelling: str, unit: str) -> tuple[int, int]:
    """How many of ``unit`` one ``spelling`` is, as numerator and denominator; ``given`` is what messages quote."""
    dimension, numerator, denominator = _base(unit)
    if spelling in (unit, "") and (spelling or dimension == "1"):
        return 1, 1
    kind = _about(unit)[0]
    if not spelling:
        _refuse(given, f"a {kind} needs its unit", unit)
    if unit == "speed" and spelling in _SPEEDS:
        return _SPEEDS[spelling], 1
    if dimension == "1":
        _refuse(given, f"a count takes no unit, found {spelling!r}", unit)
    found = _UNITS.get(spelling)
    if found is None:
        if re.fullmatch(r"[kKMGT]i?Bps", spelling):
            bits, size = spelling.replace("Bps", "bit/s"), spelling.replace("Bps", "B/s")
            _refuse(given, f"{spelling!r} is read as bits and as bytes; say {bits!r} or {size!r}", unit)
        alike = [known for known in _UNITS if known.lower() == spelling.lower() and _UNITS[known][0] == dimension]
        hint = f" (did you mean {' or '.join(map(repr, alike))}?)" if alike else ""
        _refuse(given, f"unknown unit {spelling!r} for a {kind}{hint}", unit)
    if found[0] != dimension:
        _refuse(given, f"{spelling!r} is a unit of {_DIMENSIONS[found[0]][0]}, expected a {kind}", unit)
    return found[1] * denominator, found[2] * numerator


def read(text: object, unit: str, default: str = "") -> float:
    """A number with its unit, in ``unit``. A bare number has the unit ``default``, or is refused."""
    kind = _about(unit)[0]
    if not isinstance(text, str):
        _refuse(text, f"a {kind} is written as text, not as {type(text).__name__}", unit)
    stripped = text.strip().replace("\u2212", "-")
    if not stripped:
        _refuse(text, f"empty, expected a {kind}", unit)
    if _NOT_FINITE.match(stripped):
        _refuse(text, f"a {kind} must be a finite number", unit)
    match = _NUMBER.fullmatch(stripped)
    if match is None:
        if re.match(r"[+-]?[0-9]+,[0-9]", stripped):
            _refuse(text, "a comma is not understood in numbers, use a decimal point and no thousands separator", unit)
        problem = "cannot read this number" if re.match(r"[+-]?[.]?[0-9]", stripped) else "the number is missing"
        _refuse(text, problem, unit)
    sign, mantissa, exponent, spelling = match.groups()
    if len(mantissa) > 300:
        _refuse(text[:20] + "...", "the number has too many digits", unit)
    numerator, denominator = scale(text, spelling or default, unit)
    whole, _, fraction = mantissa.partition(".")
    numerator *= int(whole + fraction or "0")
    power = int(exponent or 0) - len(fraction)
    numerator *= int(10 ** max(power, 0))
    denominator *= int(10 ** max(-power, 0))
    if sign == "-" and numerator and not may_be_negative(unit):
        _refuse(text, f"a {kind} cannot be negative", unit)
    try:
        value = numerator / denominator
    except OverflowError:
        _refuse(text, "the number is too large", unit)
    if numerator and value == 0:
        _refuse(text, "the number is too small", unit)
    return -value if sign == "-" and value else value


def parse_rate(text: object) -> float:
    """A data rate in bit/s. ``GB/s`` is 8e9 bit/s, ``Gibit/s`` is 2**30 bit/s."""
    return read(text, "bit/s")


def parse_speed(text: object) -> float:
    """A link speed in bit/s: ``2.5G``, ``100M``, ``10GbE``, or any rate. A bare number is refused, zero too."""
    speed_bps = read(text, "speed")
    if not speed_bps:
        _refuse(text, "a link speed must be above zero", "speed")
    return speed_bps


def parse_duration(value: object) -> float:
    """A duration in seconds, zero or more: ``10``, ``"10"`` and ``"10 s"`` are the same; ``"500 ms"``, ``"30 min"``."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value < 1e12:  # NaN is refused too
            _refuse(value, "a duration must be a finite number, zero or more", "s")
        return float(value)
    return read(value, "s", default="s")


def parse_size(value: object) -> int:
    """A size in bytes: an int is bytes, text needs its unit (``"64 KiB"``). It must be a whole number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            _refuse(value, "a size cannot be negative", "B")
        return value
    size = read(value, "B")
    if size != int(size):
        _refuse(value, "not a whole number of bytes", "B")
    return int(size)


def parse_ratio(text: object) -> float:
    """A fraction: ``0.5 %``, ``5000 ppm`` and ``0.005 ratio`` are 0.005. A bare ``0.005`` is refused: % or ratio?"""
    return read(text, "ratio")


# ---- printing --------------------------------------------------------------------------------------------------------

_PREFIXES: dict[str, tuple[tuple[int, str], ...]] = {
    "bit/s": ((0, ""), (3, "k"), (6, "M"), (9, "G"), (12, "T")),
    "B/s": ((0, ""), (3, "k"), (6, "M"), (9, "G"), (12, "T")),
    "frame/s": ((0, ""), (3, "k"), (6, "M"), (9, "G")),
    "s": ((-9, "n"), (-6, "u"), (-3, "m"), (0, "")),
    "B": ((0, ""), (6, "M"), (9, "G"), (12, "T")),  # no k: an MTU is 9000 B
    "Hz": ((0, ""), (3, "k"), (6, "M"), (9, "G")),
    "W": ((-3, "m"), (0, ""), (3, "k")),
    "V": ((-3, "m"), (0, ""), (3, "k")),
    "A": ((-3, "m"), (0, ""), (3, "k")),
    "ratio": ((-2, ""),),
}
_LABELS = {"1": "", "ratio": "%", "degC": "\u00b0C"}


def format_value(value: float, unit: str, digits: int = 4) -> str:
    """``1.897 Gbit/s``, ``13.2 ms``, ``0.5 %``, ``50``: rounded to ``digits`` significant digits, zeros dropped.

    Digits before the decimal point are always true ones: a count of 123456 is printed whole.
    """
    label = _LABELS.get(unit, unit)
    if not math.isfinite(value):
        return f"{value} {label}".strip()
    if value == 0:
        return f"0 {label}".strip()
    for _ in range(2):
        mantissa, _, exponent = f"{abs(value):.{digits - 1}e}".partition("e")
        prefixes = _PREFIXES.get(unit, ((0, ""),))
        shift, prefix = max((item for item in prefixes if item[0] <= int(exponent)), default=prefixes[0])
        point = int(exponent) - shift + 1
        if point <= digits:
            break
        digits = point
    figures = mantissa.replace(".", "")
    if point <= 0:
        whole, fraction = "0", "0" * -point + figures
    else:
        whole, fraction = figures[:point].ljust(point, "0"), figures[point:]
    number = f"{whole}.{fraction}".rstrip("0").rstrip(".")
    return f"{'-' if value < 0 else ''}{number} {prefix}{label}".strip()


def format_pair(value: float, bound: float, unit: str, digits: int = 4) -> tuple[str, str]:
    """Both numbers with as many digits as it takes to tell them apart."""
    for count in range(digits, 18):
        pair = format_value(value, unit, count), format_value(bound, unit, count)
        if value == bound or pair[0] != pair[1]:
            break
    return pair


def format_exact(value: float, unit: str) -> str:
    """As `format_value`, with as many digits as it takes to read the same number back."""
    for count in range(4, 18):
        text = format_value(value, unit, count)
        if read(text, unit) == value:
            break
    return text


def format_speed(speed_bps: float) -> str:
    """A link speed as people write it: ``2.5G``, ``100M``."""
    number, _, unit = format_exact(speed_bps, "bit/s").partition(" ")
    return number + unit.removesuffix("bit/s") if unit != "bit/s" else f"{number} {unit}"
