"""The course of a long run, once a second: load, errors, carrier and temperature, and what arrived so far.

What a soak shows over time, and what is kept of it should it be killed. A reading takes about a millisecond.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_netperf.errors import LinkError
from pytest_netperf.observe.host import cpu_shares, cpu_times, hottest_c
from pytest_netperf.observe.observation import Moment, PortCounters
from pytest_netperf.observe.probe import Probing
from pytest_netperf.observe.watch import payload_between
from pytest_netperf.traffic.engine import Look, Watch
from pytest_netperf.traffic.result import Workload

if TYPE_CHECKING:
    from pytest_netperf.links.link import Link

__all__ = ["LONG_S", "Arrival", "Course", "Keep"]

LONG_S: Final = 60.0
"""Runs of this length and longer have a course; shorter ones where the profile is a soak."""
_KEPT_EVERY_S: Final = 2.0
_MOST: Final = 2000
"""Moments of one run: more seconds than these lie between them in a longer one."""


class Arrival(NamedTuple):
    """What arrived in one second, in the direction that is slower so far."""

    start_s: float
    """After the traffic began, omitted seconds included."""
    seconds: float
    bps: float


Keep = Callable[[list[Arrival], list[Moment], list[tuple[str, float, float]]], None]
"""Told every 2 s what is new; of probes as `Probing.news` says it."""


class Course:
    """The `traffic.engine.Watch` around another one."""

    def __init__(self, link: Link, workload: Workload, watch: Watch, probing: Probing, keep: Keep | None) -> None:
        self._link, self._workload, self._watch, self._keep = link, workload, watch, keep
        self._probing = probing
        self._every_s = (workload.duration_s + workload.omit_s) / _MOST
        self._began_s = self._seen_s = time.monotonic()
        self._first = self._seen = link.counters()
        self._cpu = cpu_times()
        self._heat_s = -10.0
        self._heat: float | None = None
        self._new: tuple[list[Arrival], list[Moment]] = ([], [])
        self._kept_s = self._began_s
        self.moments: list[Moment] = []

    def __call__(self, look: Look) -> bool:
        """One look."""
        now_s = time.monotonic()
        if now_s - self._seen_s >= self._every_s:
            with contextlib.suppress(LinkError):  # the engine will say what is wrong with the link
                self._take(now_s)
        if self._keep is not None and now_s - self._kept_s >= _KEPT_EVERY_S:
            self._kept_s = now_s
            arrivals, moments = self._new
            self._new = ([], [])
            self._keep(arrivals, moments, self._probing.news())
        return self._watch(look)

    def _take(self, now_s: float) -> None:
        counters, cpu = self._link.counters(), cpu_times()
        at_s, seconds = now_s - self._began_s, now_s - self._seen_s
        busy = cpu_shares(self._cpu, cpu).busy
        if at_s - self._heat_s >= 10:
            self._heat_s, self._heat = at_s, hottest_c()
        moment = Moment(
            at_s=round(at_s, 3),
            cpu_busy=round(max(busy, default=0.0), 4),
            errors=sum(_errors(last) - _errors(first) for first, last in zip(self._first, counters, strict=True)),
            carrier_changes=max(
                last.carrier_changes - first.carrier_changes for first, last in zip(self._first, counters, strict=True)
            ),
            temperature_c=self._heat,
        )
        ends = {"forward": (1,), "reverse": (0,), "bidirectional": (0, 1)}[self._workload.direction]
        payload = min(payload_between(self._seen[end], counters[end], self._workload) for end in ends)
        self.moments.append(moment)
        self._new[0].append(Arrival(round(at_s - seconds, 3), round(seconds, 3), round(payload * 8 / seconds)))
        self._new[1].append(moment)
        self._seen, self._seen_s, self._cpu = counters, now_s, cpu


def _errors(counters: PortCounters) -> int:
    return counters.rx_errors + counters.tx_errors
