"""Doubts that need more than one row of a device: what its measurements say of one another. Pure.

Rows are compared only when everything but one thing is the same: link, settings, protocol, streams, offered rate,
socket buffers ... That one thing is the direction, or the size of the packets. Rows of different tests are compared as
well as those of one. Where several rows are of the same, the best counts for a direction, and the mean for a size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.doubt_stream import ASYMMETRY, ASYMMETRY_SHARE
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import format_value
from pytest_netperf.record.schema import Row

__all__ = ["DOUBTS", "compare_rows"]

BIDIRECTIONAL_BELOW: Final = KnownDoubt(
    name="Bidirectional far below each way alone",
    kind="device",
    sign="A direction of a bidirectional run delivered less than 80 % of what it delivered alone, under the same "
    "conditions.",
    meaning="The device, its bus or this machine cannot carry both directions at once.",
    next_step="Look at the CPU of both ends and at the width of the bus; run it with more streams.",
)
DIP: Final = KnownDoubt(
    name="Dip in a sweep",
    kind="note",
    sign="In a sweep over MSS or MTU, the throughput of a single run is less than 90 % of that at the next smaller "
    "size and of that at the next larger one, by more than their U.",
    meaning="Nothing in the framing makes packets of one size slower than both smaller and larger ones: either the "
    "device has a fault at this size, or something disturbed this run. One run proves neither.",
    next_step="Repeat it (repeat=5) and look at the spread between the runs.",
)
DOUBTS: Final = (BIDIRECTIONAL_BELOW, DIP)

_FAR_BELOW: Final = 0.8
_DIP_SHARE: Final = 0.9
_COMPARED: Final = frozenset({Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE})
"""The others say that there is no value, or none that can be true."""
_WAYS: Final = ("forward", "reverse")
_NOT_ALIKE: Final = frozenset({"test", "direction", "mss", "mtu"})
_FACTS_ALIKE: Final = (
    "engine", "congestion", "offered_bps", "asked_window_bytes", "asked_length_bytes", "asked_zerocopy", "asked_dscp",
    "simulated_fault", "simulated_unshaped",
)  # fmt: skip


class _Sized(NamedTuple):
    """All rows of one size of packets."""

    size: float
    words: str
    value_bps: float
    uncertainty_bps: float
    runs: int
    ids: tuple[str, ...]


def compare_rows(rows: Iterable[Row]) -> dict[str, tuple[Doubt, ...]]:
    """Row id -> its doubts, from the rows of one device, each with its own id. The order of the rows has no influence.

    Only throughputs over a link that can be true are compared; no doubt is about a row without a value.
    """
    known = sorted((row for row in rows if _is_compared(row)), key=lambda row: row.id)
    found: dict[str, dict[Doubt, None]] = {}
    for row_id, doubt in (*_directions(known), *_sweeps(known, "mss"), *_sweeps(known, "mtu")):
        found.setdefault(row_id, {})[doubt] = None
    return {row_id: tuple(doubts) for row_id, doubts in found.items()}


def _is_compared(row: Row) -> bool:
    plain = row.quantity == "throughput" and row.statistic is None
    return plain and row.link is not None and row.value is not None and row.verdict in _COMPARED


def _alike(row: Row, *varied: str) -> tuple[Any, ...]:
    """What rows must have in common when they differ in what is named."""
    conditions = {name: value for name, value in row.conditions.items() if name not in _NOT_ALIKE}
    conditions |= {name: row.conditions.get(name) for name in _NOT_ALIKE - {"test", *varied}}
    facts = {name: row.evidence.facts.get(name) for name in _FACTS_ALIKE}
    return row.link, repr(sorted(conditions.items())), repr(facts)


def _groups(rows: Sequence[Row], *varied: str) -> list[list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(_alike(row, *varied), []).append(row)
    return list(groups.values())


# ---- directions ------------------------------------------------------------------------------------------------------


def _directions(rows: Sequence[Row]) -> Iterator[tuple[str, Doubt]]:
    for group in _groups(rows, "direction"):
        ways = {way: [row for row in group if row.conditions.get("direction") == way] for way in _WAYS}
        alone = {way: max((row.value or 0.0 for row in of_way), default=0.0) for way, of_way in ways.items()}
        if 0 < min(alone.values()) < ASYMMETRY_SHARE * max(alone.values()):
            forward, reverse = (format_value(alone[way], "bit/s") for way in _WAYS)
            doubt = ASYMMETRY.seen(f"Forward delivered {forward} and reverse {reverse}.")
            for row in (*ways["forward"], *ways["reverse"]):
                yield row.id, doubt
        for row in group:
            if row.conditions.get("direction") == "bidirectional":
                yield from ((row.id, doubt) for doubt in _beside_the_other(row, alone))


def _beside_the_other(row: Row, alone: dict[str, float]) -> Iterator[Doubt]:
    for way in _WAYS:
        rate = row.evidence.facts.get(f"{way}_received_bps")
        if isinstance(rate, int | float) and rate < _FAR_BELOW * alone[way]:
            yield BIDIRECTIONAL_BELOW.seen(
                f"{way.capitalize()} delivered {format_value(rate, 'bit/s')} beside the other direction, and "
                f"{format_value(alone[way], 'bit/s')} alone."
            )


# ---- sizes -----------------------------------------------------------------------------------------------------------


def _sweeps(rows: Sequence[Row], axis: str) -> Iterator[tuple[str, Doubt]]:
    for group in _groups(rows, axis):
        points = _points(group, axis)
        for smaller, here, larger in zip(points, points[1:], points[2:], strict=False):
            if here.runs == 1 and all(_far_below(here, beside) for beside in (smaller, larger)):
                doubt = DIP.seen(
                    f"At {here.words} it is {format_value(here.value_bps, 'bit/s')}, but "
                    f"{format_value(smaller.value_bps, 'bit/s')} at {smaller.words} and "
                    f"{format_value(larger.value_bps, 'bit/s')} at {larger.words}."
                )
                yield from ((row_id, doubt) for row_id in here.ids)


def _far_below(here: _Sized, beside: _Sized) -> bool:
    gap = beside.value_bps - here.value_bps
    return here.value_bps < _DIP_SHARE * beside.value_bps and gap > here.uncertainty_bps + beside.uncertainty_bps


def _points(group: Sequence[Row], axis: str) -> list[_Sized]:
    """By size. A row that asked for no MSS has that of its MTU; it is a point beside those that asked."""
    sizes: dict[float, list[Row]] = {}
    words: dict[float, str] = {}
    for row in group:
        asked, mtu = row.conditions.get(axis), row.conditions.get("mtu")
        if not isinstance(asked, int | float) and axis == "mss" and isinstance(mtu, int | float):
            asked = mtu - (60 if row.conditions.get("ip_version") == 6 else 40)
            words.setdefault(asked, f"the MSS of MTU {mtu}")
        if isinstance(asked, int | float) and not isinstance(asked, bool):
            sizes.setdefault(asked, []).append(row)
            words.setdefault(asked, f"{axis.upper()} {asked}")
    return [
        _Sized(
            size=size,
            words=words[size],
            value_bps=math.fsum(row.value or 0.0 for row in at) / len(at),
            uncertainty_bps=max(row.uncertainty or 0.0 for row in at),
            runs=sum(max(1, len(row.evidence.runs)) for row in at),
            ids=tuple(row.id for row in at),
        )
        for size, at in sorted(sizes.items())
    ]
