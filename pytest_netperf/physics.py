"""What the wire allows: Ethernet framing, frames per second, and the goodput ceiling of a link.

    wire bytes of a frame = IP packet + 14 header + 4 FCS + 8 preamble and start delimiter + 12 gap + 4 per VLAN tag,
                            at least 84 (IEEE 802.3: the shortest frame is 64 bytes)
    TCP payload           = MTU - 20 (IPv4, RFC 791) or 40 (IPv6, RFC 8200) - 20 (RFC 9293) - 12 (timestamps, RFC 7323)
    UDP payload           = MTU - 20 or 40 - 8 (RFC 768)
    goodput ceiling       = speed x payload / wire bytes (RFC 6349 section 3.3.1)
    frames per second     = speed / (8 x (frame with FCS + 20)) (RFC 2544)

Sizes are bytes, rates bit/s, kilo is 1000. Everything refused here is a `QuantityError`.
"""

from __future__ import annotations

import math
from typing import Literal

from pytest_netperf.errors import QuantityError

__all__ = ["datagram_packets", "frame_rate_fps", "goodput_ceiling_bps", "payload_bytes", "wire_bytes_per_frame"]

_FRAMING_BYTES = 14 + 4 + 8 + 12
_TAG_BYTES = 4
_SHORTEST_ON_WIRE = 64 + 8 + 12
_IP_BYTES = {4: 20, 6: 40}
_TCP_BYTES = 20
_TIMESTAMP_BYTES = 12
_UDP_BYTES = 8
_FRAGMENT_HEADER_BYTES = {4: 0, 6: 8}  # IPv4 fragments carry their offset in the header they have anyway
_LARGEST_DATAGRAM = {4: 65535 - 20 - _UDP_BYTES, 6: 65535 - _UDP_BYTES}
_SMALLEST_MTU = {4: 68, 6: 1280}  # RFC 791, RFC 8200
_SMALLEST_MSS = 88  # TCP_MIN_MSS of Linux: setsockopt(TCP_MAXSEG) refuses less

Protocol = Literal["tcp", "udp"]


def _whole(name: str, value: object, low: int, high: int, why: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise QuantityError(f"{name} is {value!r}; expected a whole number from {low} to {high} ({why}).")


def _check(mtu_bytes: int, protocol: str, ip_version: int, mss_bytes: int | None, length_bytes: int | None) -> None:
    if protocol not in ("tcp", "udp"):
        raise QuantityError(f"protocol is {protocol!r}; the ceiling is known for 'tcp' and 'udp'.")
    if ip_version not in (4, 6) or isinstance(ip_version, bool):
        raise QuantityError(f"ip_version is {ip_version!r}; expected 4 or 6.")
    _whole("MTU", mtu_bytes, _SMALLEST_MTU[ip_version], 65535, f"bytes, what IPv{ip_version} allows")
    if protocol == "tcp" and mss_bytes is not None:
        _whole("MSS", mss_bytes, _SMALLEST_MSS, 65535, "bytes, what Linux accepts")
    if protocol == "udp" and length_bytes is not None:
        _whole("UDP length", length_bytes, 1, _LARGEST_DATAGRAM[ip_version], "bytes, what one datagram can carry")


def wire_bytes_per_frame(ip_bytes: int, *, vlan_tags: int = 0) -> int:
    """Bytes that an IP packet of ``ip_bytes`` takes on the wire, preamble and gap included; never below 84."""
    _whole("IP packet", ip_bytes, 1, 65535, "bytes")
    _whole("VLAN tags", vlan_tags, 0, 8, "802.1Q tags of one frame")
    return max(_SHORTEST_ON_WIRE, ip_bytes + _FRAMING_BYTES + _TAG_BYTES * vlan_tags)


def frame_rate_fps(speed_bps: float, frame_bytes: int) -> float:
    """The most frames per second at this speed; ``frame_bytes`` counts from the MAC header to the FCS (RFC 2544)."""
    _check_speed(speed_bps)
    _whole("frame", frame_bytes, 64, 65535 + 14 + 4 + 8 * _TAG_BYTES, "bytes, header and FCS included")
    return speed_bps / (8 * (frame_bytes + 20))


def payload_bytes(
    mtu_bytes: int,
    *,
    protocol: Protocol = "tcp",
    ip_version: Literal[4, 6] = 4,
    timestamps: bool = True,
    mss_bytes: int | None = None,
    length_bytes: int | None = None,
) -> int:
    """User bytes in one full TCP segment or one UDP datagram.

    ``mss_bytes`` is the advertised MSS (``iperf3 -M n``): a segment then carries n bytes less the options, so n - 12
    with timestamps. An MSS above what the MTU allows changes nothing, as in the kernel. ``length_bytes`` is the UDP
    datagram; None is the largest that fits into the MTU (iperf3's own default is smaller: the MSS of its control
    connection). Each is ignored for the other protocol.
    """
    _check(mtu_bytes, protocol, ip_version, mss_bytes, length_bytes)
    room = mtu_bytes - _IP_BYTES[ip_version]
    if protocol == "udp":
        return room - _UDP_BYTES if length_bytes is None else length_bytes
    segment = room - _TCP_BYTES if mss_bytes is None else min(mss_bytes, room - _TCP_BYTES)
    return segment - (_TIMESTAMP_BYTES if timestamps else 0)


def datagram_packets(mtu_bytes: int, length_bytes: int, *, ip_version: Literal[4, 6] = 4) -> tuple[int, ...]:
    """IP packet sizes that a UDP datagram of ``length_bytes`` becomes: one, or as few fragments as IP allows.

    All fragments but the last carry a multiple of 8 bytes (RFC 791 section 3.2, RFC 8200 section 4.5).
    """
    _check(mtu_bytes, "udp", ip_version, None, length_bytes)
    header = _IP_BYTES[ip_version]
    left = length_bytes + _UDP_BYTES
    if header + left <= mtu_bytes:
        return (header + left,)
    header += _FRAGMENT_HEADER_BYTES[ip_version]
    room = mtu_bytes - header
    step = room // 8 * 8
    full = -(-(left - room) // step)
    return (header + step,) * full + (header + left - full * step,)


def goodput_ceiling_bps(
    speed_bps: float,
    mtu_bytes: int,
    *,
    protocol: Protocol = "tcp",
    ip_version: Literal[4, 6] = 4,
    timestamps: bool = True,
    mss_bytes: int | None = None,
    length_bytes: int | None = None,
    vlan_tags: int = 0,
    segments_per_ack: float | None = None,
) -> float:
    """The most payload per second, in bit/s, that one direction of a link can deliver.

    ``mss_bytes`` and ``length_bytes`` are as in `payload_bytes`; a UDP datagram above the MTU is counted with all its
    fragments. ``segments_per_ack`` adds the ACKs of an equal TCP stream in the other direction, which share this
    direction's wire (a bidirectional run; 2 with delayed ACKs, RFC 9293); None is no ACK load. UDP has none.
    """
    _check_speed(speed_bps)
    payload = payload_bytes(
        mtu_bytes,
        protocol=protocol,
        ip_version=ip_version,
        timestamps=timestamps,
        mss_bytes=mss_bytes,
        length_bytes=length_bytes,
    )
    header = _IP_BYTES[ip_version]
    options = _TIMESTAMP_BYTES if timestamps else 0
    if protocol == "udp":
        packets = datagram_packets(mtu_bytes, payload, ip_version=ip_version)
        return speed_bps * payload / sum(wire_bytes_per_frame(packet, vlan_tags=vlan_tags) for packet in packets)
    wire: float = wire_bytes_per_frame(header + _TCP_BYTES + options + payload, vlan_tags=vlan_tags)
    if segments_per_ack is not None:
        if isinstance(segments_per_ack, bool) or not 1 <= segments_per_ack < math.inf:
            raise QuantityError(f"segments_per_ack is {segments_per_ack!r}; expected a finite number of at least 1.")
        wire += wire_bytes_per_frame(header + _TCP_BYTES + options, vlan_tags=vlan_tags) / segments_per_ack
    return speed_bps * payload / wire


def _check_speed(speed_bps: object) -> None:
    if not isinstance(speed_bps, int | float) or isinstance(speed_bps, bool) or not 0 < speed_bps < math.inf:
        raise QuantityError(f"speed is {speed_bps!r}; expected bit/s as a finite number above zero.")
