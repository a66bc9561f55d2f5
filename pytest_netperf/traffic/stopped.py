"""A run that was stopped as soon as enough was known: its whole intervals, from the end that received them.

iperf3 exchanges the sums of both ends only at the end of a whole run. A client that is told to stop (SIGINT) tells the
server, and both write their documents at once; then each end knows what it received itself:

    direction   receiver's intervals stand in
    forward     the server's document
    reverse     the client's document

Sums are of no use there: the server's has the bytes up to the stop over the seconds up to its last whole interval.
"""

from __future__ import annotations

import msgspec

from pytest_netperf.traffic.result import Flow, Interval, Reading, Workload

__all__ = ["flow_of_stopped"]

_WHOLE = 0.95


def flow_of_stopped(direction: str, workload: Workload, receiver: Reading, sender: Reading) -> Flow | str:
    """One direction of a stopped run, or why nothing can be said of it.

    What was received is what the whole intervals hold. What came after the last of them is an omitted interval, so that
    the counters of the ports can be explained.
    """
    got = _of_direction(receiver, direction)
    if got is None or got.intervals_from != "receiver":
        return f"the end that received the {direction} data wrote no intervals before it was stopped"
    head, whole, rest = _whole_intervals(got.intervals, workload.interval_s)
    if not whole:
        return f"the {direction} direction was stopped before its first interval was over"
    received_bytes = sum(interval.bytes for interval in whole)
    seconds = sum(interval.seconds for interval in whole)
    sent = _of_direction(sender, direction) or Flow(direction=got.direction)
    tail_bytes = max((got.received_bytes or 0) - received_bytes, sum(interval.bytes for interval in rest))
    tail_s = max((sent.sent_seconds or 0.0) - seconds, sum(interval.seconds for interval in rest), 1e-3)
    tail = Interval(start_s=whole[-1].start_s + whole[-1].seconds, seconds=tail_s, bytes=tail_bytes, omitted=True)
    # The bytes cannot confirm the loss: those of the sums belong to other seconds than those of the intervals.
    lost, packets = got.lost_packets, got.packets
    return msgspec.structs.replace(
        got,
        received_bytes=received_bytes,
        received_seconds=seconds,
        received_bps=received_bytes * 8 / seconds,
        sent_bytes=sent.sent_bytes,
        sent_seconds=sent.sent_seconds,
        sent_bps=sent.sent_bps,
        retransmits=sent.retransmits,
        tcp=sent.tcp,
        frame_loss_ratio=lost / packets if packets and lost is not None else None,
        intervals=(*head, *whole, *((tail,) if tail_bytes else ())),
    )


def _whole_intervals(
    intervals: tuple[Interval, ...], usual_s: float
) -> tuple[list[Interval], list[Interval], list[Interval]]:
    """The omitted intervals, the whole ones that count, and what is left at the end."""
    head: list[Interval] = []
    whole: list[Interval] = []
    rest: list[Interval] = []
    for interval in intervals:
        if interval.omitted:
            head.append(interval)
        elif interval.seconds >= _WHOLE * usual_s and not rest:
            whole.append(interval)
        else:
            rest.append(interval)
    return head, whole, rest


def _of_direction(reading: Reading, direction: str) -> Flow | None:
    return next((flow for flow in reading.flows if flow.direction == direction), None)
