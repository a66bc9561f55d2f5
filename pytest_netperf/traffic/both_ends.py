"""What the client and the server of one run printed, read as one result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_netperf.traffic.output import read_output
from pytest_netperf.traffic.result import Flow, Reading, Workload
from pytest_netperf.traffic.stopped import flow_of_stopped

if TYPE_CHECKING:
    from pytest_netperf.links.process import Process

__all__ = ["Readings", "combine", "combine_stopped"]

_ENDS_AGREE = 0.01


class Readings(msgspec.Struct, frozen=True):
    """Both outputs, and what they say together."""

    client: Reading
    server: Reading
    flows: tuple[Flow, ...]
    trusted: bool
    reason: str
    seconds: float
    """Of the slower direction: what its whole intervals come to, where the run was stopped; else what was asked for."""


def combine(workload: Workload, client: Process, server: Process) -> Readings:
    """Read what both ends of a whole run printed.

    The client's document carries the sums of both ends, because iperf3 exchanges them when it ends. The server's is a
    witness: it has the receiver's intervals of the forward direction, and its own sum must agree with the client's.
    """
    ours = read_output(client.stdout, asked=workload, exit_code=client.returncode, stderr=client.stderr)
    theirs = read_output(server.stdout, stderr=server.stderr)
    trusted, reason = ours.trusted, ours.reason
    witnesses = {flow.direction: flow for flow in theirs.flows}
    flows = []
    for flow in ours.flows:
        witness = witnesses.get(flow.direction)
        if witness is not None and witness.received_bytes and flow.received_bytes:
            apart = abs(witness.received_bytes - flow.received_bytes) / flow.received_bytes
            if apart > _ENDS_AGREE:
                trusted = False
                reason = (
                    f"the two ends disagree on the bytes received ({flow.direction}): the client's document says "
                    f"{flow.received_bytes}, the server's {witness.received_bytes}"
                )
        if witness is not None and witness.intervals and witness.intervals_from == "receiver":
            flow = msgspec.structs.replace(flow, intervals=witness.intervals, intervals_from="receiver")
        if witness is not None and flow.out_of_order is None:
            flow = msgspec.structs.replace(flow, out_of_order=witness.out_of_order)
        if witness is not None and flow.tcp is None:  # the server sends in reverse
            flow = msgspec.structs.replace(flow, tcp=witness.tcp)
        flows.append(flow)
    wanted = 2 if workload.direction == "bidirectional" else 1
    if trusted and len(flows) != wanted:
        trusted, reason = False, f"the document speaks of {len(flows)} direction(s), the workload of {wanted}"
    return Readings(ours, theirs, tuple(flows) if ours.flows else (), trusted, reason, workload.duration_s)


def combine_stopped(workload: Workload, client: Process, server: Process) -> Readings:
    """Read what both ends of a run printed that was stopped because enough was known."""
    ours = read_output(client.stdout, asked=workload, stderr=client.stderr, stopped=True)
    theirs = read_output(server.stdout, stderr=server.stderr, stopped=True)
    directions = ("forward", "reverse") if workload.direction == "bidirectional" else (workload.direction,)
    flows = []
    for direction in directions:
        receiver, sender = (theirs, ours) if direction == "forward" else (ours, theirs)
        flow = flow_of_stopped(direction, workload, receiver, sender)
        if isinstance(flow, str):
            return Readings(ours, theirs, (), False, flow, 0.0)
        flows.append(flow)
    spoilt = next((reading.reason for reading in (ours, theirs) if not reading.trusted), None)
    reason = spoilt or "One run, stopped when enough was known, counted by the receiver in whole intervals."
    seconds = min(flow.received_seconds or 0.0 for flow in flows)
    return Readings(ours, theirs, tuple(flows), spoilt is None, reason, round(seconds, 3))
