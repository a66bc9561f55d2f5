"""The physics of one workload: its packet size, its ceiling, and the bound that no true value can exceed."""

from __future__ import annotations

from pytest_netperf.physics import datagram_packets, goodput_ceiling_bps, payload_bytes, wire_bytes_per_frame
from pytest_netperf.traffic.result import Workload

__all__ = ["bound_bps", "ceiling_bps", "packet_bytes", "rates_of"]

_DELAYED_ACK = 2.0  # segments an ordinary receiver takes before it acknowledges (RFC 9293, section 3.8.6.3)


def _payload(workload: Workload, mtu_bytes: int) -> int:
    return payload_bytes(
        mtu_bytes,
        protocol=workload.protocol,
        ip_version=workload.ip_version,
        mss_bytes=workload.mss_bytes,
        length_bytes=workload.length_bytes if workload.protocol == "udp" else None,
    )


def _packets(workload: Workload, mtu_bytes: int) -> tuple[int, ...]:
    payload = _payload(workload, mtu_bytes)
    if workload.protocol == "udp":
        return datagram_packets(mtu_bytes, payload, ip_version=workload.ip_version)
    return (payload + 12 + 20 + (40 if workload.ip_version == 6 else 20),)


def packet_bytes(workload: Workload, mtu_bytes: int) -> int:
    """Size in bytes of the IP packets that carry most of the data."""
    return _packets(workload, mtu_bytes)[0]


def rates_of(goodput_bps: float, workload: Workload, mtu_bytes: int) -> dict[str, float]:
    """Goodput in bit/s, and the frames per second and bit/s on the wire that carry it.

    From the framing: counters of a simulated port count super-frames of up to 64 kB, so they cannot tell.
    """
    packets, payload = _packets(workload, mtu_bytes), _payload(workload, mtu_bytes)
    return {
        "throughput": goodput_bps,
        "frame_rate": goodput_bps / 8 * len(packets) / payload,
        "wire_rate": goodput_bps * sum(map(wire_bytes_per_frame, packets)) / payload,
    }


def ceiling_bps(workload: Workload, speed_bps: float, mtu_bytes: int) -> float:
    """Goodput in bit/s that one direction can reach: the figure that limits relate to and people compare with.

    A bidirectional TCP run also carries the other direction's acknowledgements, one for two segments.
    """
    return _goodput(workload, speed_bps, mtu_bytes, _DELAYED_ACK if workload.direction == "bidirectional" else None)


def bound_bps(workload: Workload, speed_bps: float, mtu_bytes: int) -> float:
    """Goodput in bit/s that nothing can exceed: no acknowledgements at all. A value above it is INVALID."""
    return _goodput(workload, speed_bps, mtu_bytes, None)


def _goodput(workload: Workload, speed_bps: float, mtu_bytes: int, segments_per_ack: float | None) -> float:
    return goodput_ceiling_bps(
        speed_bps,
        mtu_bytes,
        protocol=workload.protocol,
        ip_version=workload.ip_version,
        mss_bytes=workload.mss_bytes,
        length_bytes=workload.length_bytes if workload.protocol == "udp" else None,
        segments_per_ack=segments_per_ack if workload.protocol == "tcp" else None,
    )
