"""Reads a ``fault`` table, of a bench file or a mark, into a `Fault`; every mistake in it is reported at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_netperf.bench.model import FAULT_DIRECTIONS, FAULT_SHARES, LOSS_MEANS, MTU_RANGE, Fault, LossMeans
from pytest_netperf.bench.toml_table import TomlTable, shown
from pytest_netperf.quantities import parse_duration, parse_rate, parse_ratio

__all__ = ["parse_fault"]

_KINDS: Final = ("rate", "loss", "duplicate", "reorder", "mtu_hole", "stall", "flap")
_MOST_BURST: Final = 10_000
_LONGEST_S: Final = 86_400.0


def parse_fault(data: object, key: str) -> tuple[Fault | None, list[str]]:
    """The table as a fault, or None and what is wrong with it, each with its key path below ``key``."""
    mistakes: list[str] = []
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        return None, [f"{key}: {shown(data)} is not a table with {', '.join(_KINDS)}"]
    table = TomlTable(data, key, mistakes)
    fault = Fault(
        rate_bps=table.quantity("rate", parse_rate, "1.9 Gbps"),
        loss_ratio=_share(table, "loss"),
        loss_by=_loss_by(table),
        burst_frames=table.integer("burst", 2, _MOST_BURST, "frames"),
        duplicate_ratio=_share(table, "duplicate"),
        reorder_ratio=_share(table, "reorder"),
        mtu_hole_bytes=table.integer("mtu_hole", MTU_RANGE[0], MTU_RANGE[1] - 1, "bytes"),
        stall=bool(table.flag("stall", default=False)),
        flap=bool(table.flag("flap", default=False)),
        after_s=_seconds(table, "after"),
        for_s=_seconds(table, "for"),
        direction=table.choice("direction", FAULT_DIRECTIONS, "both"),
    )
    table.close()
    if not mistakes:
        for name, problem in _contradictions(fault, data):
            table.wrong(name, problem)
    return (None if mistakes else fault), mistakes


def _contradictions(fault: Fault, data: dict[str, object]) -> Iterator[tuple[str | None, str]]:
    """What is wrong although each key by itself is right: the key, or None for the whole table, and why."""
    kinds = [kind for kind in _KINDS if data.get(kind) not in (None, False)]
    if not kinds:
        yield None, f'names no fault; give one of {", ".join(_KINDS)}, such as rate = "1.9 Gbps" or loss = "0.5 %"'
    for total in ("stall", "flap"):
        if total in kinds and len(kinds) > 1:
            others = ", ".join(kind for kind in kinds if kind != total)
            yield total, f"stands beside {others}: while nothing passes, nothing else can be wrong; keep one of them"
    if fault.burst_frames is not None and fault.loss_ratio is None:
        yield "burst", 'says how many frames in a row each loss takes; give the share too, such as loss = "0.5 %"'
    if fault.loss_by is not None and fault.loss_ratio is None:
        yield "loss_by", 'says what loses frames; give the share too, such as loss = "0.5 %"'
    elif fault.loss_by is not None and fault.burst_frames is not None:
        yield "loss_by", "stands beside burst: bursts are lost by a counter of nftables; remove one of them"
    if fault.flap and fault.for_s is None:
        yield "flap", 'the carrier goes down and comes back; say how long it is down, such as for = "500 ms"'
    if fault.flap and fault.direction != "both":
        yield "direction", "both ends lose the carrier; leave the direction of a flap out"


def _loss_by(table: TomlTable) -> LossMeans | None:
    given = table.given("loss_by")
    means = table.choice("loss_by", LOSS_MEANS, "netem")
    return means if given else None


def _share(table: TomlTable, key: str) -> float | None:
    low, high = FAULT_SHARES
    share = table.quantity(key, parse_ratio, "0.5 %", positive=False)
    if share is not None and not low <= share <= high:
        table.wrong(key, f"{share * 100:g} % is not from {low * 100:g} % to {high * 100:g} %")
        return None
    return share


def _seconds(table: TomlTable, key: str) -> float | None:
    """Seconds above zero; a number without a unit is seconds, as in all durations."""
    seconds = table.quantity(key, parse_duration, "2 s", bare=True)
    if seconds is not None and seconds > _LONGEST_S:
        table.wrong(key, f"{seconds:g} s are longer than a day; no measurement lasts that long")
        return None
    return seconds
