"""What the rules of `judge.doubts` look at: one traffic run with everything seen around it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from pytest_netperf.observe.observation import Observation, PortCounters
from pytest_netperf.traffic.result import Flow, Interval, Result

__all__ = [
    "Port",
    "Scene",
    "counted",
    "delta",
    "iperf3_versions",
    "near",
    "received_bytes",
    "release",
    "run_backwards",
]

_IPERF3: Final = ("iperf3", "libiperf")
_NEAR: Final = 0.99
_ROUNDING: Final = 0.05  # of a rate that was read from text


class Port(NamedTuple):
    """One port of the link."""

    name: str
    counted: PortCounters
    """Differences over the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Everything the rules look at. Rates are bit/s."""

    result: Result
    observation: Observation | None
    speed_bps: float | None
    mtu_bytes: int
    simulated: bool
    faulted: bool
    """Whether the simulated link has a fault on purpose."""
    ceiling_bps: float | None
    expected_bps: Mapping[str, float]
    """Direction -> goodput that a simulated link with its fault delivers; empty when that is not known."""
    bound_bps: float | None = None
    """Goodput that nothing can exceed."""
    bound_tolerance: float = 0.0
    """As a fraction of ``bound_bps``."""

    @property
    def rate_explained(self) -> bool:
        """Whether each direction delivered what its link can deliver: then nothing slowed it that matters."""
        flows = self.result.flows
        return bool(flows) and all(near(flow.received_bps, self.reachable(flow)) for flow in flows)

    @property
    def lost(self) -> int | None:
        """Datagrams lost, or segments sent again, of all directions together; None when one of them does not say."""
        udp = self.result.workload.protocol == "udp"
        counts = [flow.lost_packets if udp else flow.retransmits for flow in self.result.flows]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def expected(self, flow: Flow) -> float | None:
        """Goodput that a simulated link owes this flow, or None when nobody can say."""
        expected = self.expected_bps.get(flow.direction)
        if expected is None and self.simulated and not self.faulted:
            expected = self.ceiling_bps
        return self._offered(expected)

    def reachable(self, flow: Flow) -> float | None:
        """Goodput at which a flow has nothing left to gain: what its link delivers, or what was offered."""
        return self.expected(flow) or (None if self.faulted else self._offered(self.ceiling_bps))

    def _offered(self, rate_bps: float | None) -> float | None:
        offered = self.result.workload.bitrate_bps
        return rate_bps if offered is None or rate_bps is None else min(offered, rate_bps)

    def ports(self, flow: Flow) -> tuple[Port, Port] | None:
        """The sending and the receiving port of a flow, or None without usable counters."""
        if self.observation is None or run_backwards(self.observation):
            return None
        ports = Port("a", delta(self.observation, "a")), Port("b", delta(self.observation, "b"))
        return ports if flow.direction == "forward" else (ports[1], ports[0])


def near(value: float | None, reachable: float | None) -> bool:
    """Whether a rate is known to be within 1 % of what can be reached."""
    return value is not None and reachable is not None and value >= _NEAR * reachable


def delta(observation: Observation, port: str) -> PortCounters:
    """What the counters of port "a" or "b" gained over the run."""
    before = msgspec.structs.asdict(getattr(observation, f"{port}_before"))
    after = msgspec.structs.asdict(getattr(observation, f"{port}_after"))
    return PortCounters(**{name: after[name] - before[name] for name in after})


def release(version: str | None) -> tuple[int, ...] | None:
    """The numbers of a version such as "3.10.1", which compare; None for a text that is none."""
    parts = (version or "").split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else None


def iperf3_versions(result: Result) -> tuple[str | None, str | None]:
    """The versions of client and server where both are iperf3; what is known of its releases holds of no other tool."""
    return (result.client_version, result.server_version) if result.engine in _IPERF3 else (None, None)


def run_backwards(observation: Observation) -> list[str]:
    """The ports of which any counter fell."""
    return [name for name in ("a", "b") if min(msgspec.structs.astuple(delta(observation, name))) < 0]


def counted(flow: Flow) -> list[Interval]:
    """The intervals of a flow that count and have a length."""
    return [interval for interval in flow.intervals if not interval.omitted and interval.seconds > 0]


def received_bytes(flow: Flow) -> int | None:
    """Payload bytes that the receiver counted, or what its rate over its seconds comes to, less its rounding."""
    if flow.received_bytes is not None:
        return flow.received_bytes
    if flow.received_bps is None or flow.received_seconds is None:
        return None
    return int(flow.received_bps * flow.received_seconds / 8 * (1 - _ROUNDING))
