"""What a long measurement showed while it ran, a few seconds at a time, so that a kill does not take it along. Pure.

The events of one traffic run, put together, are what is known of it when its row never arrives.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec

from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import format_value
from pytest_netperf.record.schema import Evidence, Planned, Row, SeriesPoint

__all__ = ["CUT_SHORT", "Stretch", "rows_of_stretches"]

CUT_SHORT: Final = "The run ended while this test was running. "

ESTIMATED: Final = "counters of the receiving port, while the traffic ran; its receiver was never heard"


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """The latest seconds of one traffic run."""

    test: str
    """pytest node id."""
    traffic: int
    """Which traffic run of the test, from 0."""
    points: tuple[SeriesPoint, ...] = ()
    """Estimates of the payload that arrived, by the counters of the receiving port."""
    moments: dict[str, list[float]] = {}
    """Name -> values, as the facts of a row have them: ``course_at_s``, ``course_cpu`` ..."""
    worst: dict[str, float] = {}
    """Quantity -> the worst value so far."""


def rows_of_stretches(
    events: Iterable[Stretch], planned: Iterable[Planned], running: Collection[str], arrived: Collection[str]
) -> list[Row]:
    """A row, ABORTED, for each planned one of a test that was running, with what was seen of its last traffic run.

    ``arrived`` are the ids of rows that came in time.
    """
    last: dict[str, list[Stretch]] = {}
    for event in events:
        known = last.setdefault(event.test, [])
        if known and known[0].traffic != event.traffic:
            known.clear()
        known.append(event)
    rows = []
    for plan in planned:
        seen = last.get(plan.test, [])
        if plan.selected and plan.test in running and plan.id not in arrived and seen:
            row = _row(plan, seen)
            if row is not None:
                rows.append(row)
    return rows


def _row(plan: Planned, seen: list[Stretch]) -> Row | None:
    points = [point for event in seen for point in event.points]
    counted = [point for point in points if not point.omitted and point.seconds > 0]
    seconds = math.fsum(point.seconds for point in counted)
    value: float | None
    if plan.quantity == "throughput" and plan.statistic is None and seconds > 0:
        rates = [point.throughput_bps for point in counted]
        value = math.fsum(point.throughput_bps * point.seconds for point in counted) / seconds
        what = f"about {format_value(value, 'bit/s')} on average, {format_value(min(rates), 'bit/s')} at worst"
    elif plan.quantity == "throughput" and plan.statistic in ("min interval", "max interval") and seconds > 0:
        rates = [point.throughput_bps for point in counted]
        value = min(rates) if plan.statistic == "min interval" else max(rates)
        what = f"about {format_value(value, 'bit/s')}"
    else:
        value = next((event.worst[plan.quantity] for event in reversed(seen) if plan.quantity in event.worst), None)
        if value is None or plan.statistic is not None:
            return None
        what = f"{format_value(value, plan.unit)} so far"
    moments: dict[str, Any] = {}
    for event in seen:
        for name, values in event.moments.items():
            moments.setdefault(name, []).extend(values)
    return Row(
        id=plan.id,
        test=plan.test,
        device=plan.device,
        link=plan.link,
        quantity=plan.quantity,
        unit=plan.unit,
        limit=plan.limit,
        limit_low=plan.limit_low,
        statistic=plan.statistic,
        value=value,
        verdict=Verdict.ABORTED,
        reason=f"{CUT_SHORT}In {seconds:.0f} s of traffic that count: {what}.",
        next_step="Run it again and let it end by itself.",
        simulated=plan.simulated,
        conditions=plan.conditions,
        evidence=Evidence(
            series=tuple(points),
            series_from="receiver" if points else None,
            facts={"series_estimated_by": ESTIMATED, **moments},
        ),
    )
