"""What a traffic run was asked to do and what it delivered. Pure data, SI units."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec

__all__ = ["Direction", "Flow", "Interval", "Reading", "Result", "TcpState", "Workload"]

T = TypeVar("T", int, float)

Direction = Literal["forward", "reverse", "bidirectional"]


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """The load a test asks for. ``forward`` sends from endpoint a (iperf3 client) to endpoint b (iperf3 server)."""

    protocol: Literal["tcp", "udp"] = "tcp"
    direction: Direction = "forward"
    duration_s: float = 10.0
    """Seconds of traffic that count, after ``omit_s``."""
    omit_s: float = 1.0
    """Seconds of traffic at the start that do not count."""
    streams: int = 1
    interval_s: float = 1.0
    mss_bytes: int | None = None
    """Advertised TCP maximum segment size (``iperf3 -M``); with timestamps the payload of a segment is 12 less."""
    zerocopy: bool = False
    window_bytes: int | None = None
    congestion: str | None = None
    bitrate_bps: float | None = None
    """Offered payload rate of each direction in bit/s, all streams together; None is unlimited (TCP)."""
    length_bytes: int | None = None
    dscp: int | None = None
    ip_version: Literal[4, 6] = 4


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """One reporting interval, all streams of one direction together."""

    start_s: float
    """Seconds after the counted window began; below zero for omitted intervals."""
    seconds: float
    bytes: int
    omitted: bool = False
    retransmits: int | None = None


class TcpState(msgspec.Struct, frozen=True, kw_only=True):
    """What the sender's TCP said of itself at the end of each interval. All streams: their mean or their sum."""

    min_rtt_s: float | None = None
    """Smallest of the smoothed round-trip times."""
    mean_rtt_s: float | None = None
    last_cwnd_bytes: int | None = None
    """Congestion window at the end of the run, the sum of all streams."""
    max_peer_window_bytes: int | None = None
    """Largest window that the receiver advertised (snd_wnd, iperf3 from 3.10 on), the sum of all streams."""
    pmtu_bytes: int | None = None
    """Path MTU at the end of the run, the smallest of all streams."""


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """One direction of a run. None means the document does not say; it never means zero.

    ``received_*`` is what the receiver counted (the value we judge); ``sent_*`` what the sender counted (evidence).
    Each rate is over its own seconds. ``frame_loss_ratio`` is a fraction 0..1 recomputed from bytes where possible.
    """

    direction: Literal["forward", "reverse"]
    received_bytes: int | None = None
    received_seconds: float | None = None
    received_bps: float | None = None
    sent_bytes: int | None = None
    sent_seconds: float | None = None
    sent_bps: float | None = None
    retransmits: int | None = None
    packets: int | None = None
    lost_packets: int | None = None
    frame_loss_ratio: float | None = None
    jitter_s: float | None = None
    out_of_order: int | None = None
    """UDP datagrams that arrived after a later one, or a second time; only the receiver's own document says it."""
    intervals: tuple[Interval, ...] = ()
    """Receiver's intervals where known, else the sender's. Tails shorter than 10 % of the interval are dropped."""
    intervals_from: Literal["receiver", "sender"] | None = None
    tcp: TcpState | None = None
    """What the sending end saw of its connections; None for UDP, or where the output does not say."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What one iperf3 output says, and whether its received rate can be trusted."""

    trusted: bool
    reason: str
    """Why it can be trusted, or why not; always one sentence a person can act on."""
    flows: tuple[Flow, ...] = ()
    """Forward first, then reverse; empty when nothing usable was found."""
    kind: Literal["json", "json-stream", "text", "empty", "unknown"] = "unknown"
    role: Literal["client", "server"] | None = None
    iperf3_version: str | None = None
    protocol: Literal["tcp", "udp", "sctp"] | None = None
    duration_s: float | None = None
    omit_s: float | None = None
    streams: int | None = None
    congestion: str | None = None
    host_cpu_percent: float | None = None
    """CPU of the process that wrote the document (the process only, not softirq)."""
    remote_cpu_percent: float | None = None
    notes: tuple[str, ...] = ()
    """Oddities that do not spoil the trust (prefix text, repaired numbers, dropped tails ...)."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One traffic run as an engine delivers it."""

    workload: Workload
    """What was asked for; of a run that was stopped, with the ``duration_s`` that it counted."""
    planned_duration_s: float | None = None
    """Of a run that was stopped because enough was known: the seconds it was asked for. None for a whole run."""
    trusted: bool
    reason: str
    flows: tuple[Flow, ...]
    engine: str
    client_version: str | None = None
    server_version: str | None = None
    client_command: tuple[str, ...] = ()
    server_command: tuple[str, ...] = ()
    client_output: str = ""
    server_output: str = ""
    congestion: str | None = None
    client_cpu: float | None = None
    """CPU time of the client's process per second, as a fraction of one CPU; the kernel's softirq is not in it."""
    server_cpu: float | None = None
    elapsed_s: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def throughput_bps(self) -> float | None:
        """Payload per second at the receiver, in bit/s; of a bidirectional run, that of the slower direction."""
        rates = _known(flow.received_bps for flow in self.flows)
        return min(rates) if rates else None

    @property
    def retransmits(self) -> int | None:
        """TCP segments sent more than once, of all directions together."""
        counts = _known(flow.retransmits for flow in self.flows)
        return sum(counts) if counts else None

    @property
    def frame_loss_ratio(self) -> float | None:
        """Share 0..1 of the datagrams that did not arrive; of a bidirectional run, that of the worse direction."""
        ratios = _known(flow.frame_loss_ratio for flow in self.flows)
        return max(ratios) if ratios else None

    @property
    def jitter_s(self) -> float | None:
        """Mean variation of the transit time (RFC 3550) in seconds; of a bidirectional run, the worse one."""
        jitters = _known(flow.jitter_s for flow in self.flows)
        return max(jitters) if jitters else None


def _known(values: Iterable[T | None]) -> list[T]:
    """All values, or none at all when one of them is not known: a direction that is silent may be the worse one."""
    everything = list(values)
    known = [value for value in everything if value is not None]
    return known if len(known) == len(everything) else []
