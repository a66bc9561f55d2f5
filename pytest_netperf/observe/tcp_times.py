"""TCP's own account of a run, taken while it runs: who made the sender wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pytest_netperf.links.link import Endpoint, Link
from pytest_netperf.observe.observation import TcpConnection, TcpTimes
from pytest_netperf.traffic.result import Workload

__all__ = ["tcp_times", "times_of"]


def tcp_times(link: Link, workload: Workload, port: int) -> tuple[TcpTimes, ...]:
    """Of each direction, forward first, at this moment; without one whose connections are not open (yet, or any more).

    ``port`` is the one that the iperf3 server listens on. Raises LinkError where the kernel does not answer.
    """
    ends: tuple[tuple[Literal["forward", "reverse"], Endpoint], ...] = (("forward", link.a), ("reverse", link.b))
    found = []
    for direction, end in ends:
        if workload.protocol == "tcp" and workload.direction in (direction, "bidirectional"):
            times = times_of(direction, end.tcp_info(port), workload)
            if times is not None:
                found.append(times)
    return tuple(found)


def times_of(
    direction: Literal["forward", "reverse"], connections: Sequence[TcpConnection], workload: Workload
) -> TcpTimes | None:
    """The data connections of one direction together, seen from its sending end; None when not all are open.

    They are the busiest: the control connection sends a few hundred bytes, and one that only receives a cookie of 37.
    """
    ways = 2 if workload.direction == "bidirectional" else 1
    if len(connections) < ways * workload.streams + 1:  # the control connection is always among them
        return None
    ranked = sorted(connections, key=lambda each: (each.busy_s, each.acked_bytes), reverse=True)
    busiest = ranked[: workload.streams]
    return TcpTimes(
        direction=direction,
        connections=len(busiest),
        busy_s=round(sum(each.busy_s for each in busiest), 6),
        rwnd_limited_s=round(sum(each.rwnd_limited_s for each in busiest), 6),
        sndbuf_limited_s=round(sum(each.sndbuf_limited_s for each in busiest), 6),
        rtt_s=round(sum(each.rtt_s for each in busiest) / len(busiest), 6),
        min_rtt_s=min((each.min_rtt_s for each in busiest if each.min_rtt_s is not None), default=None),
        mss_bytes=min(each.mss_bytes for each in busiest),
    )
