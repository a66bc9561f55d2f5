"""Doubts that need more than one run of a device: what its runs say of one another. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.doubt_stream import ASYMMETRY, ASYMMETRY_SHARE
from pytest_netperf.quantities import format_value
from pytest_netperf.traffic.result import Result

__all__ = ["DOUBTS", "compare"]

BIDIRECTIONAL_BELOW: Final = KnownDoubt(
    name="Bidirectional far below each way alone",
    kind="device",
    sign="A direction of a bidirectional run delivered less than 80 % of what it delivered alone, under the same "
    "conditions.",
    meaning="The device, its bus or this machine cannot carry both directions at once.",
    next_step="Look at the CPU of both ends and at the width of the bus; run it with more streams.",
)
DOUBTS: Final = (BIDIRECTIONAL_BELOW,)

_FAR_BELOW: Final = 0.8


def compare(results: Sequence[Result]) -> tuple[Doubt, ...]:
    """What several runs over one link under the same conditions say of one another.

    Only runs that differ in nothing but their direction, and that can be trusted, are compared.
    """
    return tuple(_doubts([result for result in results if result.trusted]))


def _doubts(results: list[Result]) -> Iterator[Doubt]:
    for index, result in enumerate(results):
        alone = [each for each in results if _conditions(each) == _conditions(result)]
        if result.workload.direction == "forward":
            reverse = next((each for each in alone if each.workload.direction == "reverse"), None)
            first = not any(each.workload.direction == "forward" for each in results[:index] if each in alone)
            if reverse is not None and first:
                yield from _asymmetry(result, reverse)
        elif result.workload.direction == "bidirectional":
            for flow in result.flows:
                single = next((each for each in alone if each.workload.direction == flow.direction), None)
                rate = single.throughput_bps if single is not None else None
                if rate and flow.received_bps is not None and flow.received_bps < _FAR_BELOW * rate:
                    yield BIDIRECTIONAL_BELOW.seen(
                        f"{flow.direction.capitalize()} delivered {format_value(flow.received_bps, 'bit/s')} beside "
                        f"the other direction, and {format_value(rate, 'bit/s')} alone."
                    )


def _asymmetry(forward: Result, reverse: Result) -> Iterator[Doubt]:
    rates = forward.throughput_bps, reverse.throughput_bps
    if rates[0] is None or rates[1] is None or min(rates[0], rates[1]) >= ASYMMETRY_SHARE * max(rates[0], rates[1]):
        return
    yield ASYMMETRY.seen(
        f"Forward delivered {format_value(rates[0], 'bit/s')} and reverse {format_value(rates[1], 'bit/s')}."
    )


def _conditions(result: Result) -> tuple[object, ...]:
    workload = result.workload
    return (
        workload.protocol, workload.streams, workload.mss_bytes, workload.window_bytes, workload.congestion,
        workload.bitrate_bps, workload.length_bytes, workload.ip_version, result.engine,
    )  # fmt: skip
