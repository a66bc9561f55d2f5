"""Doubts about the data of one run: what never arrived, what was lost, and whether both directions agree. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.scene import Scene, counted, received_bytes
from pytest_netperf.quantities import format_value
from pytest_netperf.traffic.result import Flow

__all__ = ["ASYMMETRY", "ASYMMETRY_SHARE", "DOUBTS", "RULES", "large_packets_stopped"]

LARGE_PACKETS: Final = KnownDoubt(
    name="Large packets not passed",
    kind="device",
    sign="A TCP sender got rid of one window at most (below 8 MB), less than 1 MB of it arrived, nothing in the second "
    "half of the run, and the congestion window shrank to two segments or fewer.",
    meaning="Small packets pass, full ones do not: something on the path has a smaller MTU, or drops jumbo frames.",
    next_step="Compare the MTU of both ports and of everything between them; run it again at MTU 1500.",
)
RETRANSMITS: Final = KnownDoubt(
    name="Many retransmits",
    kind="device",
    sign="TCP sent 100 segments or more again, and more than 100 per GB delivered.",
    meaning="Segments were lost or overtook one another on the way.",
    next_step="Look at the errors and drops of both ports; change the cable or module; lower the load of this machine.",
)
IMPOSSIBLE_LOSS: Final = KnownDoubt(
    name="Impossible loss",
    kind="invalid",
    sign="More datagrams are reported lost than sent, or a loss outside 0 to 100 %.",
    meaning="That is no count.",
    next_step="Run it again; a newer iperf3 may count better.",
)
LOSS_CONTRADICTED: Final = KnownDoubt(
    name="UDP loss contradicts the bytes",
    kind="note",
    sign="The reported loss differs from the share of the bytes that are missing by more than 1 % (5 % with omitted "
    "seconds).",
    meaning="One of the two counts is wrong, as between iperf3 3.14 or newer and 3.13 or older (esnet/iperf#2055).",
    next_step="Use the same iperf3 at both ends, and hold the port counters against it.",
)
COUNTED_TWICE: Final = KnownDoubt(
    name="Datagrams counted twice",
    kind="invalid",
    sign="More UDP bytes were received than sent, by 0.01 % and 10 datagrams (5 % with omitted seconds).",
    meaning="Something on the way sends datagrams twice; iperf3 counts both as delivered, so that the rate is too high "
    "and the loss too low.",
    next_step="Look for a loop, a bond or a mirror port on the way, and at the device itself.",
)
OUT_OF_ORDER: Final = KnownDoubt(
    name="Datagrams out of order",
    kind="device",
    sign="UDP datagrams, 10 or more and above 0.01 % of them, arrived after a later one, or a second time.",
    meaning="They overtook one another on the way, or were sent twice.",
    next_step="Look at how the device spreads its traffic over queues, CPUs or links.",
)
ASYMMETRY: Final = KnownDoubt(
    name="Directions differ",
    kind="device",
    sign="One direction delivered less than 80 % of the other, under the same conditions.",
    meaning="The fault is in one direction only: one transmitter, one receiver, one ring.",
    next_step="Swap the two ends of the cable: if the slow direction stays with the port, it is the port.",
)
DOUBTS: Final = (
    LARGE_PACKETS, RETRANSMITS, IMPOSSIBLE_LOSS, LOSS_CONTRADICTED, COUNTED_TWICE, OUT_OF_ORDER, ASYMMETRY,
)  # fmt: skip

ASYMMETRY_SHARE: Final = 0.8
_ONE_WINDOW_SENT: Final = 8e6
_ONE_WINDOW_RECEIVED: Final = 1e6
_FEW_SEGMENTS: Final = 2
_RETRANSMITS: Final = 100
_RETRANSMITS_PER_GB: Final = 100.0
_FEW_DATAGRAMS: Final = 10
_FEW_OF_THEM: Final = 1e-4
_EDGE: Final = 0.05  # of the bytes, in flight at the end of the omitted seconds


def large_packets_stopped(scene: Scene, flow: Flow) -> bool:
    """Whether a flow looks like full-size packets that never arrive."""
    intervals = counted(flow)
    late = intervals[len(intervals) // 2 :]
    sent = flow.sent_bytes or 0
    window = flow.tcp.last_cwnd_bytes if flow.tcp is not None else None
    segments = scene.result.workload.streams * _FEW_SEGMENTS
    return (
        scene.result.workload.protocol == "tcp"
        and len(intervals) >= 2
        and not any(interval.bytes for interval in late)
        and 0 < sent < _ONE_WINDOW_SENT
        and (received_bytes(flow) or 0) < _ONE_WINDOW_RECEIVED
        and (window is None or window <= segments * scene.mtu_bytes)
    )


def large_packets(scene: Scene) -> Iterator[Doubt]:
    """A window of data, then nothing: the picture of an MTU that the path does not have."""
    for flow in scene.result.flows:
        if large_packets_stopped(scene, flow):
            got = format_value(received_bytes(flow) or 0, "B")
            yield LARGE_PACKETS.seen(
                f"Of the {flow.direction} run at MTU {scene.mtu_bytes} only {got} arrived, at its beginning."
            )


def many_retransmits(scene: Scene) -> Iterator[Doubt]:
    """Segments sent again, per GB: a rate that is still met may hide a bad cable."""
    for flow in scene.result.flows:
        received, again = received_bytes(flow), flow.retransmits
        if again is None or not received or again < _RETRANSMITS:
            continue
        per_gb = again / (received / 1e9)
        if per_gb > _RETRANSMITS_PER_GB:
            yield RETRANSMITS.seen(
                f"{again} segments of the {flow.direction} run were sent again, {per_gb:.0f} per GB."
            )


def impossible_loss(scene: Scene) -> Iterator[Doubt]:
    """More datagrams lost than sent is no measurement."""
    for flow in scene.result.flows:
        ratio, lost, packets = flow.frame_loss_ratio, flow.lost_packets, flow.packets
        if (ratio is not None and not 0 <= ratio <= 1) or (lost is not None and packets is not None and lost > packets):
            yield IMPOSSIBLE_LOSS.seen(
                f"The {flow.direction} run reports {lost} of {packets} datagrams lost (ratio {ratio})."
            )


def loss_contradicts_bytes(scene: Scene) -> Iterator[Doubt]:
    """A loss that is not the share of the bytes that are missing."""
    workload = scene.result.workload
    allowed = 0.01 if workload.omit_s == 0 else 0.05  # datagrams in flight at the omit edge
    for flow in scene.result.flows:
        if workload.protocol != "udp" or flow.frame_loss_ratio is None or not flow.sent_bytes:
            continue
        if flow.received_bytes is None:
            continue
        missing = 1 - flow.received_bytes / flow.sent_bytes
        if _twice(scene, flow):
            continue
        if abs(missing - flow.frame_loss_ratio) > allowed:
            yield LOSS_CONTRADICTED.seen(
                f"The {flow.direction} run reports {format_value(flow.frame_loss_ratio, 'ratio', 3)} of its datagrams "
                f"lost, but {format_value(missing, 'ratio', 3)} of the bytes are missing."
            )


def _twice(scene: Scene, flow: Flow) -> float:
    """How many UDP bytes were received more than sent, as a share; 0 where the edges of the run explain it."""
    workload = scene.result.workload
    sent, received = flow.sent_bytes, flow.received_bytes
    if workload.protocol != "udp" or not sent or received is None:
        return 0.0
    share = received / sent - 1
    few = max(_EDGE if workload.omit_s else _FEW_OF_THEM, _FEW_DATAGRAMS / max(flow.packets or 1, 1))
    return share if share > few else 0.0


def counted_twice(scene: Scene) -> Iterator[Doubt]:
    """A receiver that got more than was sent."""
    for flow in scene.result.flows:
        if share := _twice(scene, flow):
            yield COUNTED_TWICE.seen(
                f"The {flow.direction} run received {format_value(flow.received_bytes or 0, 'B')} of the "
                f"{format_value(flow.sent_bytes or 0, 'B')} that were sent, {format_value(share, 'ratio', 3)} more."
            )


def out_of_order(scene: Scene) -> Iterator[Doubt]:
    """Datagrams that others overtook."""
    for flow in scene.result.flows:
        late, packets = flow.out_of_order or 0, flow.packets or 0
        if packets and late >= _FEW_DATAGRAMS and late > _FEW_OF_THEM * packets:
            yield OUT_OF_ORDER.seen(
                f"Of {packets} datagrams of the {flow.direction} run {late} "
                f"({format_value(late / packets, 'ratio', 3)}) arrived after a later one, or a second time."
            )


def directions_differ(scene: Scene) -> Iterator[Doubt]:
    """Both directions of one bidirectional run."""
    rates = [(flow.received_bps, flow.direction) for flow in scene.result.flows if flow.received_bps is not None]
    if len(rates) == 2 and min(rates)[0] < ASYMMETRY_SHARE * max(rates)[0]:
        (slow, slower), (fast, faster) = min(rates), max(rates)
        yield ASYMMETRY.seen(
            f"Of a bidirectional run, {slower} delivered {format_value(slow, 'bit/s')} and {faster} "
            f"{format_value(fast, 'bit/s')}."
        )


RULES: Final = (
    large_packets, many_retransmits, impossible_loss, loss_contradicts_bytes, counted_twice, out_of_order,
    directions_differ,
)  # fmt: skip
