"""A look at a run every second while its traffic flows: what arrived since, and what TCP says of itself.

From iperf3 3.17 on, what arrived is what the receiving end prints of each interval (``--json-stream``). Older versions
print nothing before their end; then it comes from the counters of the receiving port:

    payload = bytes - packets x headers

holds for frames and for the super-frames of segmentation offload alike, whose headers are counted once. It is an
estimate (a retransmission counts twice, pure acknowledgements count nothing). Both decide only when to stop; the value
of a run is what the receiver's document says.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Protocol

from pytest_netperf.errors import LinkError
from pytest_netperf.links.link import Link
from pytest_netperf.observe.host import hottest_c
from pytest_netperf.observe.observation import PortCounters, TcpTimes
from pytest_netperf.observe.tcp_times import tcp_times
from pytest_netperf.traffic.engine import Look
from pytest_netperf.traffic.live import StreamMeter
from pytest_netperf.traffic.result import Workload

__all__ = ["Arrived", "Enough", "RunWatch", "Tell", "payload_between"]

Way = Literal["forward", "reverse"]
_ETHERNET = 14
_TEMPERATURE_EVERY_S = 10.0


class Arrived(NamedTuple):
    """What reached the receiver of one direction in one interval."""

    seconds: float
    bits: float


Enough = Callable[[Mapping[Way, Arrived]], bool]
"""Told what arrived in the last interval, of each direction; says whether that is enough to stop."""


class Tell(Protocol):
    """Told how a run goes, once a second."""

    def waits(self, waited_s: float) -> None:
        """It has waited so long for its turn."""

    def __call__(self, elapsed_s: float, arrived: Mapping[Way, Arrived]) -> None:
        """Seconds since the traffic began, and what `Enough` is told."""


class RunWatch:
    """The `traffic.engine.Watch` of one run."""

    def __init__(self, link: Link, workload: Workload, enough: Enough | None, tell: Tell | None = None) -> None:
        self._link, self._workload, self._enough, self._tell = link, workload, enough, tell
        self._ways: tuple[Way, ...] = (
            ("forward", "reverse") if workload.direction == "bidirectional" else (workload.direction,)
        )
        self._began_s = self._seen_s = time.monotonic()
        self._seen = link.counters()
        self._heat_due_s = self._seen_s
        self._meters = (StreamMeter(), StreamMeter())
        self._streams = False
        self.tcp: tuple[TcpTimes, ...] = ()
        """At the last look at which the connections were open."""
        self.temperatures_c: list[float] = []
        """The hottest sensor of this machine, every 10 s; empty where there is none."""

    def __call__(self, look: Look) -> bool:
        """One look; True when enough is known."""
        with contextlib.suppress(LinkError):
            self.tcp = tcp_times(self._link, self._workload, look.port) or self.tcp
        now_s = time.monotonic()
        if now_s >= self._heat_due_s:
            self._heat_due_s = now_s + _TEMPERATURE_EVERY_S
            heat_c = hottest_c()
            if heat_c is not None:
                self.temperatures_c.append(heat_c)
        if self._enough is None and self._tell is None:
            return False
        self._streams = self._streams or bool(look.client or look.server)
        arrived = self._printed(look) if self._streams else self._counted()
        if self._tell is not None:
            self._tell(now_s - self._began_s, arrived)
        return self._enough is not None and self._enough(arrived)

    def _printed(self, look: Look) -> dict[Way, Arrived]:
        """What the receiving ends printed since the last look; nothing for an interval that is not over."""
        arrived: dict[Way, Arrived] = {}
        for meter, text in zip(self._meters, (look.client, look.server), strict=True):
            meter.feed(text)
            for interval in meter.take():
                if interval.counted_by == "receiver":
                    before = arrived.get(interval.direction, Arrived(0.0, 0.0))
                    arrived[interval.direction] = Arrived(
                        before.seconds + interval.seconds, before.bits + interval.bytes * 8
                    )
        return arrived

    def _counted(self) -> dict[Way, Arrived]:
        """What the receiving ports counted since the last look."""
        counters = self._link.counters()
        now_s = time.monotonic()
        arrived: dict[Way, Arrived] = {}
        for way in self._ways:
            end = 1 if way == "forward" else 0
            payload = payload_between(self._seen[end], counters[end], self._workload)
            arrived[way] = Arrived(now_s - self._seen_s, payload * 8)
        self._seen, self._seen_s = counters, now_s
        return arrived


def payload_between(earlier: PortCounters, later: PortCounters, workload: Workload) -> int:
    """Payload bytes that a port received between two readings of its counters, never below zero."""
    ip = 40 if workload.ip_version == 6 else 20
    headers = _ETHERNET + ip + (32 if workload.protocol == "tcp" else 8)
    packets = later.rx_packets - earlier.rx_packets
    return max(0, later.rx_bytes - earlier.rx_bytes - packets * headers)
