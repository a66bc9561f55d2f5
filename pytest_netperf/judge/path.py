"""Rules about the path: did the data cross this link, all of it and nothing else? Pure.

Only the bytes that both ports counted prove it: iperf3 reports the same numbers when its data went over the loopback of
the machine, or out of another card. Counters may count super-frames of 64 kB with their headers once, so what they show
has a least (the payload) and a most (every frame with all its headers), and both are wide.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.scene import Port, Scene, received_bytes, run_backwards
from pytest_netperf.physics import datagram_packets, payload_bytes
from pytest_netperf.quantities import format_pair, format_value
from pytest_netperf.traffic.result import Flow

__all__ = ["DOUBTS", "RULES"]

COUNTERS_BACKWARDS: Final = KnownDoubt(
    name="Counters ran backwards",
    kind="invalid",
    sign="A counter of a port is lower after the run than before it.",
    meaning="The card or its driver was reset.",
    next_step="Look into the kernel's log and run it again.",
)
NOT_OBSERVED: Final = KnownDoubt(
    name="Path not observed",
    kind="note",
    sign="The counters of the ports or the byte count of a direction are missing.",
    meaning="Nothing proves that the data crossed this link.",
    next_step="Run it where both ports can be read, with both ends started by the plugin.",
)
PATH: Final = KnownDoubt(
    name="Path",
    kind="invalid",
    sign="A port counted fewer bytes than the receiver got as payload.",
    meaning="The data did not all cross this link.",
    next_step="Check the cabling, the addresses and the routes.",
)
ACK_ONLY: Final = KnownDoubt(
    name="ACK-only path",
    kind="invalid",
    sign="A port counted less than the payload, in packets of at most 128 bytes: one for every 20 segments, or more.",
    meaning="Only the acknowledgements crossed this port; the data took another way.",
    next_step="Check the routes and which port owns which address (binding to an address does not choose the port).",
)
FOREIGN: Final = KnownDoubt(
    name="Foreign traffic",
    kind="invalid",
    sign="A port counted more bytes than payload, framing and retransmissions come to, by 2 % and 1 MiB, or, against "
    "the direction of the run, more than acknowledgements, by 0.1 % of the payload and 1 MiB.",
    meaning="Other traffic was on the link, or the run counted too little.",
    next_step="Stop the other traffic and run it again.",
)
PORTS_DISAGREE: Final = KnownDoubt(
    name="Ports disagree",
    kind="invalid",
    sign="What one port sent is not what the other received, beyond headers and the loss that the run reports.",
    meaning="The ports are not the two ends of this run, or something else is connected to them.",
    next_step="Check the cabling, and that the ports are connected to one another and to nothing else.",
)
BYPASSED: Final = KnownDoubt(
    name="Device bypassed",
    kind="invalid",
    sign="A port of the device in the middle counted fewer bytes than the receiver got as payload.",
    meaning="The data did not all pass the device.",
    next_step="Check the routes of both ends: each must send to the device's port as its gateway.",
)
DOUBTS: Final = (COUNTERS_BACKWARDS, NOT_OBSERVED, PATH, ACK_ONLY, FOREIGN, PORTS_DISAGREE, BYPASSED)

_L2_BYTES: Final = 14 + 4  # header and FCS; some drivers count the FCS, some do not
_MOST_HEADERS: Final = 40 + 60 + _L2_BYTES  # IPv6 and TCP with all options: what one frame can carry beside payload
_SLACK: Final = 0.05
_FINE_SLACK: Final = 0.02  # where the port's own count of packets says how many headers there were
_SLACK_BYTES: Final = 1 << 20
_CHATTER: Final = 0.001  # of the payload: neighbour discovery and the like in a long run
_LARGEST_DATAGRAM: Final = 65507


def counters_run_backwards(scene: Scene) -> Iterator[Doubt]:
    """A port whose counters fell was reset or left the bus during the run."""
    for name in run_backwards(scene.observation) if scene.observation is not None else ():
        yield COUNTERS_BACKWARDS.seen(f"The counters of port {name} ran backwards during the run.")


def path_not_observed(scene: Scene) -> Iterator[Doubt]:
    """Without counters and bytes nothing proves which way the data took."""
    if scene.observation is None:
        yield NOT_OBSERVED.seen("No port counters were read.")
    for flow in scene.result.flows:
        if received_bytes(flow) is None:
            yield NOT_OBSERVED.seen(f"The {flow.direction} run has no byte count to hold against the port counters.")


def payload_missing_at_a_port(scene: Scene) -> Iterator[Doubt]:
    """What the receiver got must have left one port and entered the other."""
    for flow in scene.result.flows:
        received, ports = received_bytes(flow), scene.ports(flow)
        if received is None or ports is None:
            continue
        for port, verb, counted, packets in _both_ends(ports):
            if counted < received:
                shown, payload = format_pair(counted, received, "B")
                seen = f"Port {port.name} {verb} {shown}, but the {flow.direction} run reports {payload} of payload"
                segments = received / _packet(scene, flow)[0]
                if packets * 20 >= segments and counted <= 128 * packets:
                    yield ACK_ONLY.seen(f"{seen}, and its {packets} packets had {counted / packets:.0f} bytes each.")
                else:
                    yield PATH.seen(f"{seen}.")


def more_at_a_port_than_payload_explains(scene: Scene) -> Iterator[Doubt]:
    """Framing, retransmissions, acknowledgements and omitted seconds explain all other bytes of a port."""
    for flow in scene.result.flows:
        ports, most, payload = scene.ports(flow), _most_bytes(scene, flow), _most_payload(scene, flow)
        if ports is None or most is None or payload is None:
            continue
        for port, verb, counted, packets in _both_ends(ports):
            explains = min(most, (payload + packets * _MOST_HEADERS) * (1 + _FINE_SLACK) + _SLACK_BYTES)
            if counted > explains:
                shown, explained = format_pair(counted, explains, "B")
                yield FOREIGN.seen(
                    f"Port {port.name} {verb} {shown}, but the {flow.direction} run explains at most {explained} with "
                    "all framing."
                )


def more_the_other_way_than_acknowledgements(scene: Scene) -> Iterator[Doubt]:
    """Against the direction of a run there are only acknowledgements, and what iperf3's own two ends say."""
    flows = scene.result.flows
    ports = scene.ports(flows[0]) if len(flows) == 1 else None
    if ports is None or received_bytes(flows[0]) is None:
        return
    (flow,) = flows
    payload = (received_bytes(flow) or 0) + _omitted_bytes(scene, flow)
    segments = payload / _packet(scene, flow)[0] + (flow.retransmits or 0)
    tcp = scene.result.workload.protocol == "tcp"
    for port, verb, counted, packets in _both_ends((ports[1], ports[0])):
        acknowledgements = min(segments * (1 + _SLACK), packets) if tcp else 0
        most = acknowledgements * _MOST_HEADERS + _CHATTER * payload + _SLACK_BYTES
        if counted > most:
            shown, explained = format_pair(counted, most, "B")
            yield FOREIGN.seen(
                f"Port {port.name} {verb} {shown} against the direction of the {flow.direction} run, which explains "
                f"at most {explained} of acknowledgements."
            )


def _both_ends(ports: tuple[Port, Port]) -> tuple[tuple[Port, str, int, int], ...]:
    """The receiving and the sending port, each with what it did, its bytes and its packets."""
    sender, receiver = ports
    return (
        (receiver, "received", receiver.counted.rx_bytes, receiver.counted.rx_packets),
        (sender, "sent", sender.counted.tx_bytes, sender.counted.tx_packets),
    )


def ports_disagree(scene: Scene) -> Iterator[Doubt]:
    """What one port sent is what the other received, but for headers counted once per super-frame and reported loss."""
    for flow in scene.result.flows:
        ports = scene.ports(flow)
        if ports is None:
            continue
        sender, receiver = ports
        sent, received = sender.counted.tx_bytes, receiver.counted.rx_bytes
        if received > sent + receiver.counted.rx_packets * _MOST_HEADERS + _SLACK_BYTES:
            yield PORTS_DISAGREE.seen(
                f"Port {receiver.name} received {_bytes(received)}, but port {sender.name} sent only {_bytes(sent)}: "
                "frames came from elsewhere."
            )
        lost = _lost_bytes(scene, flow)
        headers = sender.counted.tx_packets * _MOST_HEADERS
        if lost is not None and sent > received + headers + lost + _SLACK_BYTES:
            yield PORTS_DISAGREE.seen(
                f"Port {sender.name} sent {_bytes(sent)}, but port {receiver.name} received only {_bytes(received)}, "
                f"and the run explains at most {_bytes(lost)} of loss."
            )


def payload_missing_at_the_device(scene: Scene) -> Iterator[Doubt]:
    """What the receiver got must have entered the device at one port and left it at the other."""
    seen = scene.observation
    if seen is None or not seen.device_before:
        return
    for flow in scene.result.flows:
        received = received_bytes(flow)
        way_in, way_out = ("device_a", "device_b") if flow.direction == "forward" else ("device_b", "device_a")
        for port, verb, counter in ((way_in, "received", "rx_bytes"), (way_out, "sent", "tx_bytes")):
            counted = getattr(seen.device_after[port], counter) - getattr(seen.device_before[port], counter)
            if received is not None and counted < received:
                shown, payload = format_pair(counted, received, "B")
                yield BYPASSED.seen(
                    f"The device {verb} {shown} at its side {port[-1]}, but the {flow.direction} run reports {payload} "
                    "of payload."
                )


def _bytes(count: float) -> str:
    return format_value(round(count), "B")


def _omitted_bytes(scene: Scene, flow: Flow) -> float:
    """Payload of the seconds that do not count, and as much again for retransmissions nobody reports for them."""
    workload = scene.result.workload
    known = sum(interval.bytes for interval in flow.intervals if interval.omitted)
    rate = max(flow.received_bps or 0, flow.sent_bps or 0)
    estimate = max(known, rate * workload.omit_s / 8)
    line = scene.speed_bps * workload.omit_s / 8 if scene.speed_bps is not None else float("inf")
    return max(estimate, min(2 * estimate, line))


def _packet(scene: Scene, flow: Flow) -> tuple[int, int]:
    """Payload of one full segment or datagram, and the bytes that ports count for it."""
    workload = scene.result.workload
    version = workload.ip_version
    if workload.protocol == "udp":
        length = workload.length_bytes
        if length is None and flow.sent_bytes and flow.packets:
            length = min(max(1, flow.sent_bytes // flow.packets), _LARGEST_DATAGRAM)
        payload = payload_bytes(scene.mtu_bytes, protocol="udp", ip_version=version, length_bytes=length)
        packets = datagram_packets(scene.mtu_bytes, payload, ip_version=version)
        return payload, sum(packets) + len(packets) * _L2_BYTES
    payload = payload_bytes(scene.mtu_bytes, ip_version=version, mss_bytes=workload.mss_bytes)
    if workload.length_bytes is not None:  # a small write may leave as a small segment
        payload = min(payload, workload.length_bytes)
    return payload, payload + (40 if version == 6 else 20) + 32 + _L2_BYTES


def _most_payload(scene: Scene, flow: Flow) -> float | None:
    """The most payload that can have passed a port, what was sent again included; None where that is not known."""
    received = received_bytes(flow)
    if received is None or (scene.result.workload.protocol == "tcp" and flow.retransmits is None):
        return None
    again = (flow.retransmits or 0) * _packet(scene, flow)[0]
    return max(received, flow.sent_bytes or 0) + _omitted_bytes(scene, flow) + again


def _most_bytes(scene: Scene, flow: Flow) -> float | None:
    """The most that a port can have counted for a flow; None when the flow does not say enough."""
    received = received_bytes(flow)
    tcp = scene.result.workload.protocol == "tcp"
    if received is None or (tcp and flow.retransmits is None):
        return None
    payload, framed = _packet(scene, flow)
    total = max(received, flow.sent_bytes or 0) + _omitted_bytes(scene, flow)
    most = (total / payload + (flow.retransmits or 0) + 1) * framed
    if tcp:
        for other in scene.result.flows:
            if other.direction != flow.direction:  # its acknowledgements share this direction, at worst one a segment
                segments = ((received_bytes(other) or 0) + _omitted_bytes(scene, other)) / payload
                most += segments * _MOST_HEADERS
    return most * (1 + _SLACK) + _SLACK_BYTES


def _lost_bytes(scene: Scene, flow: Flow) -> float | None:
    """The most that the run itself reports as lost between the ports; None when it does not say."""
    lost = flow.lost_packets if scene.result.workload.protocol == "udp" else flow.retransmits
    if lost is None:
        return None
    return lost * _packet(scene, flow)[1] + _omitted_bytes(scene, flow)


RULES: Final = (
    counters_run_backwards,
    path_not_observed,
    payload_missing_at_a_port,
    more_at_a_port_than_payload_explains,
    more_the_other_way_than_acknowledgements,
    ports_disagree,
    payload_missing_at_the_device,
)
