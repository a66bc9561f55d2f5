"""Settings that a test may ask of both ports of its link: read from a mark, named in an id, shown on a row. Pure.

Each value is hashable and prints well: pairs of a name and what it shall be, in a fixed order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_netperf.errors import QuantityError
from pytest_netperf.quantities import format_speed, near_misses, parse_speed

__all__ = [
    "OFFLOADS",
    "PORT_SETTINGS",
    "Negotiation",
    "WishError",
    "cpu_set",
    "read_wish",
    "wish_label",
    "wish_text",
    "wish_to_send",
]

OFFLOADS: Final = ("tso", "gso", "gro", "lro", "tx-checksum", "rx-checksum", "scatter-gather")
"""The names of `links.ethtool`, for the kernel's features of all drivers."""
_RING_RANGE: Final = (1, 65536)
_FORCED_MBPS: Final = 1_000_000
_GOVERNOR: Final = re.compile(r"[a-z_]{1,15}")  # CPUFREQ_NAME_LEN is 16 with the closing NUL
_CPUS: Final = re.compile(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", re.ASCII)

Pairs = tuple[tuple[str, Any], ...]


class WishError(ValueError):
    """A value that cannot be asked for; the text says why, and is the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Negotiation:
    """What the two ports shall agree on: offered as the only choice, or forced without asking."""

    speed_bps: float
    duplex: str = "full"
    autoneg: bool = True

    @property
    def text(self) -> str:
        """``100M full duplex, forced``."""
        return f"{format_speed(self.speed_bps)} {self.duplex} duplex, {'negotiated' if self.autoneg else 'forced'}"


def _pairs(value: object, names: tuple[str, ...], read: Callable[[str, object], Any]) -> Pairs:
    if not isinstance(value, Mapping) or not value:
        raise WishError("")
    for name in value:
        if not isinstance(name, str) or name not in names:
            raise WishError(f"{name!r} is not one of {', '.join(names)}{near_misses(str(name), names)}")
    return tuple((name, read(name, value[name])) for name in names if name in value)


def _switch(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise WishError(f"{name} must be True or False, not {value!r}")
    return value


def _entries(name: str, value: object) -> int:
    low, high = _RING_RANGE
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise WishError(f"{name} must be a whole number of entries from {low} to {high}, not {value!r}")
    return value


def _offloads(value: object) -> Pairs:
    return _pairs(value, OFFLOADS, _switch)


def _ring(value: object) -> Pairs:
    return _pairs(value, ("rx", "tx"), _entries)


def _pause(value: object) -> Pairs:
    return _pairs(value, ("autoneg", "rx", "tx"), _switch)


def _eee(value: object) -> bool:
    if not isinstance(value, bool):
        raise WishError("")
    return value


def _negotiation(value: object) -> Negotiation:
    fields = dict(_pairs(value, ("speed", "duplex", "autoneg"), lambda _, each: each))
    if "speed" not in fields:
        raise WishError("it has no speed")
    try:
        speed = float(parse_speed(fields["speed"]))
    except QuantityError as error:
        raise WishError(f"speed: {error}") from None
    if speed % 1e6 or not 1e6 <= speed <= _FORCED_MBPS * 1e6:
        raise WishError("speed must be a whole number of Mbit/s, up to 1 Tbit/s")
    duplex = fields.get("duplex", "full")
    if duplex not in ("full", "half"):
        raise WishError(f"duplex must be 'full' or 'half', not {duplex!r}")
    return Negotiation(speed_bps=speed, duplex=duplex, autoneg=_switch("autoneg", fields.get("autoneg", True)))


def _cpus(value: object) -> str:
    if not isinstance(value, str) or not _CPUS.fullmatch(value):
        raise WishError(f"write '{value}'" if isinstance(value, int) and not isinstance(value, bool) else "")
    if any(int(first) > int(last) for first, _, last in (part.partition("-") for part in value.split(",")) if last):
        raise WishError("a range goes from the lower number to the higher one")
    return value


def cpu_set(text: str) -> frozenset[int]:
    """The numbers of a list of CPUs as the kernel writes it: ``0-2,5``."""
    found: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _governor(value: object) -> str:
    if not isinstance(value, str) or not _GOVERNOR.fullmatch(value):
        raise WishError("")
    return value


PORT_SETTINGS: Final[dict[str, tuple[Callable[[object], Any], str]]] = {
    "offloads": (_offloads, f"a dict such as {{'tso': False, 'gro': True}} of {', '.join(OFFLOADS)}"),
    "ring": (_ring, "a dict such as {'rx': 4096, 'tx': 4096} of numbers of entries"),
    "pause": (_pause, "a dict such as {'autoneg': False, 'rx': False, 'tx': False}"),
    "eee": (_eee, "True or False"),
    "negotiation": (_negotiation, "a dict such as {'speed': '100M', 'duplex': 'full', 'autoneg': False}"),
    "irq_cpus": (_cpus, "a list of CPUs as the kernel writes it, such as '0' or '0-1,4'"),
    "governor": (_governor, "the name of a frequency governor such as 'performance'"),
}
"""Name -> how its value is read, and what is allowed."""


def read_wish(name: str, value: object) -> Any:
    """The value of one setting, as it goes into a plan; None is "as the port is". Raises WishError."""
    return None if value is None else PORT_SETTINGS[name][0](value)


def wish_text(name: str, value: Any) -> str:
    """What is asked for, in words: ``tso off, gro on``."""
    match value:
        case None:
            return "as the port is"
        case bool():
            return "on" if value else "off"
        case Negotiation():
            return value.text
        case tuple():
            return ", ".join(f"{key} {wish_text(name, each)}" for key, each in value)
    return str(value)


def wish_label(name: str, value: Any) -> str:
    """The same for a test id, without spaces: ``tso-off-gro-on``, ``ring-rx512``."""
    match value:
        case None:
            return f"{name.replace('_', '-')}-default"
        case Negotiation():
            return f"{format_speed(value.speed_bps)}-{value.duplex}-{'negotiated' if value.autoneg else 'forced'}"
    text = re.sub(r"[ ,]+", "-", wish_text(name, value))
    return text if name == "offloads" else f"{name.replace('_', '-')}-{text}"


def wish_to_send(value: Any) -> Any:
    """The same as plain data, for the keeper."""
    if isinstance(value, Negotiation):
        return {"mbps": round(value.speed_bps / 1e6), "duplex": value.duplex, "autoneg": value.autoneg}
    return dict(value) if isinstance(value, tuple) else value
