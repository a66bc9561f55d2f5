"""Frames and bits on the wire, from the counters of the receiving port, held against what the receiver got. Pure.

The counters also see omitted seconds, and what was still on its way at the end, so they give no rate by themselves.
What they give is the mean frame, and with it the payload that a frame carries; the goodput does the rest:

    frame rate = goodput / 8 / (mean frame - headers)
    wire rate  = frame rate x (mean frame + preamble, check sequence and gap) x 8

A mean frame that is larger than the framing allows is one of super-frames (segmentation or receive offload, every veth
that has it): then both rates follow from the framing alone. So they do when the counted frames do not explain what the
receiver got.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pytest_netperf.observe.observation import Observation
from pytest_netperf.quantities import format_value
from pytest_netperf.traffic.framing import packet_bytes, rates_of
from pytest_netperf.traffic.result import Result

__all__ = ["WireRates", "forwarding_rate", "wire_rates"]

_ETHERNET: Final = 14
_CHECK_SEQUENCE: Final = 4
_PREAMBLE_AND_GAP: Final = 20
_FEWEST: Final = 1000
"""Frames below which handshakes and neighbour discovery would show."""
_FEWEST_FORWARDED: Final = 50
"""Here both ports count them, as often: super-frames of 64 kB will do."""
_EXPLAINED: Final = 0.98
"""Share of the receiver's payload that the counted frames must carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRates:
    """Of the direction that is judged."""

    frame_rate: float
    """Frames a second."""
    wire_rate: float
    """Bit/s with preamble, check sequence and gap."""
    bytes_on_wire: float | None
    """Of a mean frame, with everything; None when the rates follow from the framing."""
    source: str
    """Where they come from, and what the counters say, in words."""


def wire_rates(result: Result, observation: Observation | None, *, mtu_bytes: int) -> WireRates | None:
    """Frame rate and wire rate of a run; None when it is not known what was received."""
    goodput = result.throughput_bps
    if goodput is None:
        return None
    workload = result.workload
    framed = rates_of(goodput, workload, mtu_bytes)

    def by_framing(why: str) -> WireRates:
        return WireRates(
            frame_rate=framed["frame_rate"],
            wire_rate=framed["wire_rate"],
            bytes_on_wire=None,
            source=f"goodput and framing: {why}",
        )

    if observation is None:
        return by_framing("nobody read the counters")
    if len(result.flows) != 1:
        return by_framing("of both directions at once, a port counts acknowledgements with the data")
    (flow,) = result.flows
    received = sum(interval.bytes for interval in flow.intervals)
    if flow.intervals_from != "receiver" or received <= 0 or goodput <= 0:
        return by_framing("the receiver's own intervals are not known")
    end = "b" if flow.direction == "forward" else "a"
    first, last = (
        (observation.b_before, observation.b_after) if end == "b" else (observation.a_before, observation.a_after)
    )
    frames, octets = last.rx_packets - first.rx_packets, last.rx_bytes - first.rx_bytes
    if frames < _FEWEST or octets <= 0:
        return by_framing(f"port {end} counted only {frames} frames")
    if workload.protocol == "udp" and (workload.length_bytes or 0) + _headers(result) - _ETHERNET > mtu_bytes:
        return by_framing("only the first of several fragments has a UDP header")
    mean, full = octets / frames, packet_bytes(workload, mtu_bytes) + _ETHERNET
    if mean > full + _CHECK_SEQUENCE + 1:
        return by_framing(f"port {end} counted {frames} super-frames of {mean:.0f} B")
    with_check = mean > full + 0.5  # no frame without it is larger than a full one
    payload = mean - _headers(result) - (_CHECK_SEQUENCE if with_check else 0)
    explained = frames * payload / received
    if payload <= 0 or explained < _EXPLAINED:
        return by_framing(f"port {end} counted {frames} frames, which do not explain what the receiver got")
    on_wire = mean + _PREAMBLE_AND_GAP + (0 if with_check else _CHECK_SEQUENCE)
    frame_rate = goodput / 8 / payload
    return WireRates(
        frame_rate=frame_rate,
        wire_rate=frame_rate * on_wire * 8,
        bytes_on_wire=on_wire,
        source=(
            f"counters of port {end}: {frames} frames of {mean:.1f} B {'with' if with_check else 'without'} check "
            f"sequence, whose payload is {format_value(explained, 'ratio', 4)} of what the receiver got"
        ),
    )


def forwarding_rate(result: Result, observation: Observation | None, frame_rate: float) -> tuple[float, str] | None:
    """Frames a second that left the device towards the receiver (RFC 2285, 3.6.1), and where that comes from.

    ``frame_rate`` is that at the receiving port, which counts as the device's port does, super-frames for super-frames:
    their ratio is what got lost, or was added, behind the device. None without counters of a device in the middle, with
    too few frames, and in both directions at once, where a port counts acknowledgements with the data.
    """
    if observation is None or not observation.device_before or len(result.flows) != 1:
        return None
    way_in, way_out, end = ("device_a", "device_b", "b")
    if result.flows[0].direction == "reverse":
        way_in, way_out, end = ("device_b", "device_a", "a")
    first, last = observation.device_before, observation.device_after
    entered = last[way_in].rx_packets - first[way_in].rx_packets
    left = last[way_out].tx_packets - first[way_out].tx_packets
    before, after = (
        (observation.b_before, observation.b_after) if end == "b" else (observation.a_before, observation.a_after)
    )
    arrived = after.rx_packets - before.rx_packets
    if min(entered, left, arrived) < _FEWEST_FORWARDED:
        return None
    said = f"of {entered} frames that entered the device {left} left it, and {arrived} arrived at port {end}"
    return frame_rate * left / arrived, said


def _headers(result: Result) -> int:
    """Ethernet, IP, and TCP with timestamps or UDP."""
    workload = result.workload
    return _ETHERNET + (40 if workload.ip_version == 6 else 20) + (32 if workload.protocol == "tcp" else 8)
