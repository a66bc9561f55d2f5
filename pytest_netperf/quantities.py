"""The registry of quantities: what can be measured and limited, in which unit, and which way is better.

Values of a quantity are floats in its unit: bit/s, frame/s, s, B, W, degC, "1" for counts, "ratio" for fractions.
`pytest_netperf.units` reads and prints the numbers; its names are offered here too.

This module is imported when pytest starts: it imports nothing heavy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pytest_netperf import units
from pytest_netperf.errors import QuantityError
from pytest_netperf.units import (
    format_exact,
    format_pair,
    format_speed,
    format_value,
    may_be_negative,
    parse_duration,
    parse_rate,
    parse_ratio,
    parse_size,
    parse_speed,
)

__all__ = [
    "Better",
    "Quantity",
    "convert",
    "format_exact",
    "format_pair",
    "format_speed",
    "format_value",
    "get_quantity",
    "may_be_negative",
    "near_misses",
    "parse_duration",
    "parse_rate",
    "parse_ratio",
    "parse_size",
    "parse_speed",
    "parse_value",
    "quantities",
    "register_quantity",
]

Better = Literal["higher", "lower", "none"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something that can be measured and limited."""

    name: str
    unit: str
    """Unit of every value of this quantity in this package and on the sheet."""
    better: Better
    description: str
    how: str
    """How the number is obtained."""
    aliases: tuple[str, ...] = ()


_REGISTRY: dict[str, Quantity] = {}
_RESERVED = frozenset({"source", "required", "rule", "role"})  # keys of a limit that are not quantities


def register_quantity(
    name: str,
    unit: str,
    *,
    better: Better,
    description: str = "",
    how: str = "recorded by the test",
    aliases: tuple[str, ...] = (),
) -> Quantity:
    """Make a quantity known. The same registration twice is fine; the same name with another meaning is not.

    ``unit`` is a base unit of this module ("bit/s", "B/s", "s", "B", "W", "degC", "1" for counts, "ratio") or any
    short unit of your own ("dBm"), which is then understood exactly as spelt, without prefixes.
    """
    if better not in ("higher", "lower", "none"):
        raise QuantityError(f"quantity {name!r}: better is 'higher', 'lower' or 'none', not {better!r}.")
    if not isinstance(unit, str) or not re.fullmatch(r"[^\s\d.,+-][^\s,]{0,15}|1", unit):
        raise QuantityError(f"quantity {name!r}: {unit!r} is no unit. Give e.g. 'W', 's', 'bit/s', '1' for a count.")
    base = units.base_unit(unit)
    if base is not None and not units.is_base_unit(unit):
        raise QuantityError(
            f"quantity {name!r}: register it in {base!r}, not {unit!r}; limits and values may still be written "
            f"in any of: {units.understood(base)}."
        )
    for each in (name, *aliases):
        if not isinstance(each, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", each) or each in _RESERVED:
            raise QuantityError(
                f"{each!r} cannot name a quantity: lower-case letters, digits and '_' starting with a letter, "
                f"and none of {', '.join(sorted(_RESERVED))}."
            )
        known = _REGISTRY.get(each)
        if known is not None and (known.name, known.unit, known.better) != (name, unit, better):
            raise QuantityError(
                f"quantity {each!r} is already known as {known.name!r} in {known.unit!r} ({known.better} is better); "
                f"it cannot also be {name!r} in {unit!r} ({better} is better). Choose another name."
            )
    if name in _REGISTRY:
        return _REGISTRY[name]
    quantity = Quantity(name, unit, better, description, how, tuple(aliases))
    _REGISTRY.update(dict.fromkeys((name, *aliases), quantity))
    return quantity


def get_quantity(name: object) -> Quantity:
    """The quantity of this name or alias; an unknown name is refused with the near misses."""
    found = _REGISTRY.get(name) if isinstance(name, str) else None
    if found is None:
        known = sorted(_REGISTRY)
        hint = near_misses(name, known) if isinstance(name, str) else ""
        raise QuantityError(
            f"unknown quantity {name!r}{hint}. Known: {', '.join(known)}. "
            "Others are made known by pytest_netperf.quantities.register_quantity()."
        )
    return found


def near_misses(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x' or 'y'?)``, or nothing when no known name is close."""
    import difflib  # only a mistake needs it

    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(repr(match) for match in close)}?)" if close else ""


def parse_value(text: object, quantity: Quantity | str) -> float:
    """A value of a quantity, in its unit. Counts are bare numbers, everything else needs a unit."""
    return units.read(text, (get_quantity(quantity) if isinstance(quantity, str) else quantity).unit)


def convert(value: float, unit: str, quantity: Quantity | str) -> float:
    """``value`` given in ``unit``, in the unit of the quantity. NaN and infinity pass: the judge calls them INVALID."""
    wanted = (get_quantity(quantity) if isinstance(quantity, str) else quantity).unit
    numerator, denominator = units.scale(f"{value} {unit}".strip(), "" if unit == "1" else unit, wanted)
    if not math.isfinite(value):
        return float(value)
    over, under = value.as_integer_ratio()
    try:
        return over * numerator / (under * denominator)
    except OverflowError:
        return math.copysign(math.inf, value)


def quantities() -> tuple[Quantity, ...]:
    """All known quantities, in the order of their registration."""
    return tuple(dict.fromkeys(_REGISTRY.values()))


for _name, _unit, _better, _description, _how, *_aliases in (
    ("throughput", "bit/s", "higher", "payload delivered to the receiver per second (RFC 6349)",
     "bytes counted by the receiver over the receiver's seconds", "goodput"),
    ("frame_rate", "frame/s", "higher", "frames per second on the wire", "frame counters of the receiving port"),
    ("wire_rate", "bit/s", "higher", "rate on the wire with all framing", "frames and bytes of the receiving port"),
    ("retransmits", "1", "lower", "TCP segments sent more than once", "counted by the sender's kernel"),
    ("frame_loss_ratio", "ratio", "lower", "frames sent but not received (RFC 2544)", "counted by the receiver"),
    ("jitter", "s", "lower", "mean variation of the transit time (RFC 3550)", "computed by the receiver"),
    ("rtt_p50", "s", "lower", "median round-trip time", "sampled during the run"),
    ("rtt_p99", "s", "lower", "99th percentile of the round-trip time", "sampled during the run"),
    ("buffer_delay", "ratio", "lower", "how much longer the round trip is under load (RFC 6349)",
     "mean under load over the idle median, less 1"),
    ("tester_cpu", "ratio", "lower", "busiest CPU of the tester", "/proc/stat over the run"),
    ("dut_cpu", "ratio", "lower", "CPU load of the device", "read on the device"),
    ("temperature", "degC", "lower", "highest temperature", "sensors of the device or a meter"),
    ("power", "W", "lower", "electrical power taken", "a meter"),
    ("drift", "ratio", "lower", "fall of the throughput from the first third of a long run to the last",
     "intervals at the receiver"),
    ("link_speed", "bit/s", "higher", "negotiated speed of the port", "ethtool"),
    ("mtu", "B", "higher", "largest IP packet that crosses the link", "probed with the don't-fragment bit"),
    ("pcie_bandwidth", "bit/s", "higher", "usable bandwidth of the slowest hop of the bus", "PCIe link status"),
    ("errors", "1", "lower", "receive and transmit errors", "port counters over the run"),
    ("carrier_changes", "1", "lower", "times the carrier came or went", "port counter over the run"),
    ("crc_errors", "1", "lower", "frames received with a wrong checksum, by both ports", "counters of the drivers"),
    ("missed", "1", "lower", "frames that arrived and were not fetched in time, at both ports",
     "counters of the drivers"),
    ("drops", "1", "lower", "frames dropped by both ports, whole as they were", "port counters over the run"),
    ("pause_forward", "1", "lower", "pause frames that asked port a to stop sending", "counters of the drivers"),
    ("pause_reverse", "1", "lower", "pause frames that asked port b to stop sending", "counters of the drivers"),
    ("eee_ports", "1", "lower", "ports on which Energy Efficient Ethernet is active", "ethtool, before and after"),
    ("forwarding_rate", "frame/s", "higher", "frames per second that a device in the middle passes on (RFC 2285)",
     "counters of the device's ports and of the receiving one"),
):  # fmt: skip
    register_quantity(
        _name, _unit, better=_better, description=_description, how=_how, aliases=tuple(_aliases)  # type: ignore[arg-type]
    )  # fmt: skip
