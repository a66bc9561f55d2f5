"""Conditions of a limit: when it applies. Pure.

A condition is a key and the values it accepts; a list means any of them. Texts that name things (device, link, model,
test ...) may be shell patterns. Wrong keys and values are a `LimitError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from pytest_netperf.errors import LimitError, QuantityError
from pytest_netperf.quantities import format_speed, near_misses, parse_size, parse_speed

__all__ = ["CONDITION_KEYS", "Conditions", "describe", "matches", "parse_conditions"]

Conditions = tuple[tuple[str, Any], ...]
"""Sorted by key. A value is a scalar, or a tuple of scalars of which any may hold."""


def _speed(value: object) -> float:
    return parse_speed(value)


def _bytes(value: object) -> int:
    size = parse_size(value)
    if size < 1:
        raise QuantityError(f"{value!r}: must be above zero.")
    return size


def _streams(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise QuantityError(f"{value!r}: expected a whole number of at least 1.")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise QuantityError(f"{value!r}: expected true or false.")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise QuantityError(f"{value!r}: expected a text that is not empty.")
    return value


def _one_of(*allowed: object) -> Callable[[object], object]:
    def read(value: object) -> object:
        if isinstance(value, bool) or value not in allowed:
            raise QuantityError(f"{value!r}: expected {' or '.join(map(repr, allowed))}.")
        return value

    return read


_READERS: Final[dict[str, Callable[[object], Any]]] = {
    "speed": _speed,
    "mtu": _bytes,
    "mss": _bytes,
    "streams": _streams,
    "direction": _one_of("forward", "reverse", "bidirectional"),
    "protocol": _one_of("tcp", "udp", "sctp"),
    "ip_version": _one_of(4, 6),
    "zerocopy": _flag,
    "topology": _one_of("pair", "routed", "switched", "remote"),
    "simulated": _flag,
    "device_state": _text,
    **dict.fromkeys(("offloads", "ring", "pause", "eee", "negotiation", "irq_cpus", "governor"), _text),
    "link": _text,
    "device": _text,
    "model": _text,
    "batch": _text,
    "media": _text,
    "test": _text,
}
CONDITION_KEYS: Final = tuple(_READERS)
_PATTERNS: Final = frozenset(key for key, read in _READERS.items() if read is _text)


def parse_conditions(given: Mapping[str, object]) -> Conditions:
    """The conditions of one limit, checked. Raises LimitError for an unknown key or a value that cannot be."""
    conditions = []
    for key in sorted(given):
        value = given[key]
        read = _READERS.get(key)
        if read is None:
            raise LimitError(f"unknown condition {key!r}{near_misses(key, _READERS)}; known: {', '.join(_READERS)}.")
        listed = isinstance(value, list | tuple | set | frozenset)
        try:
            values = tuple(read(item) for item in value) if listed else (read(value),)  # type: ignore[attr-defined]
        except QuantityError as error:
            raise LimitError(f"condition {key}: {error}") from None
        if not values:
            raise LimitError(f"condition {key}: the list is empty, so the limit would never apply. Leave {key} out.")
        conditions.append((key, values[0] if len(values) == 1 else values))
    return tuple(conditions)


def matches(conditions: Conditions, actual: Mapping[str, Any], *, unknown_matches: bool = False) -> bool:
    """Whether all conditions hold in ``actual``; one that it says nothing about (or None) is ``unknown_matches``."""
    for key, accepted in conditions:
        value = actual.get(key)
        if value is None:
            if not unknown_matches:
                return False
        elif not any(_same(key, each, value) for each in (accepted if isinstance(accepted, tuple) else (accepted,))):
            return False
    return True


def _same(key: str, accepted: object, value: object) -> bool:
    if key in _PATTERNS:
        # A test is named whole ("TestPort::test_rate") or by its last part; "[" is literal where it is spelt out.
        names = {str(value), str(value).rpartition("::")[2]} if key == "test" else {str(value)}
        return any(name == accepted or fnmatchcase(name, str(accepted)) for name in names)
    if key == "speed" and isinstance(value, str):
        value = parse_speed(value)
    return accepted == value and isinstance(accepted, bool) == isinstance(value, bool)


def describe(conditions: Conditions) -> str:
    """``speed 2.5G, mtu 1500 or 9000``; empty without conditions."""
    return ", ".join(
        f"{key} {' or '.join(_shown(key, item) for item in (value if isinstance(value, tuple) else (value,)))}"
        for key, value in conditions
    )


def _shown(key: str, value: object) -> str:
    return format_speed(value) if key == "speed" and isinstance(value, float) else str(value)
