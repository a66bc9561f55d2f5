"""Doubts about how the ports were set and what their drivers counted. Pure.

The settings of a port in this machine are the tester's: an offload that is off, a queue that shapes. What a link
negotiated and what a port asked of the other one is another matter. In a pair, both ports may belong to the device
under test (a small machine that tests itself), and nothing in the run tells; so those doubts are of the kind "device"
and excuse nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.doubt_link import LINK_CHANGED, PORT_ERRORS
from pytest_netperf.judge.port_evidence import ReadPort, ports_read, queue_text
from pytest_netperf.judge.scene import Scene, delta, near, received_bytes, run_backwards
from pytest_netperf.observe.observation import PortFacts, PortQueue
from pytest_netperf.quantities import format_pair, format_value
from pytest_netperf.traffic.result import Flow

__all__ = ["DOUBTS", "RULES"]

OFFLOAD_OFF: Final = KnownDoubt(
    name="Offload off at the tester",
    kind="tester",
    or_note=True,
    sign="A rate stayed below what the link delivers, and its sending port had segmentation (tso, gso), scatter-gather "
    "or transmit checksums switched off, or its receiving port coalescing (gro) or receive checksums, although it can "
    "do them. It cannot have mattered where no CPU of this machine was 70 % busy.",
    meaning="The CPU did what the port could do, and may have had no time left.",
    next_step="Switch it on (ethtool -K, or the offloads of the mark) and run it again.",
)
SHAPER: Final = KnownDoubt(
    name="Shaper at the tester",
    kind="tester",
    or_note=True,
    sign="A rate stayed below what the link delivers or something was lost, and a queue that limits (tbf, htb, hfsc, "
    "cake, netem, fq with a rate ...) was at a port, other than the shaper of a simulated link. It cannot have "
    "mattered where it lets through clearly more than was measured.",
    meaning="This machine held the traffic back itself.",
    next_step="Take the queue off (tc qdisc del dev PORT root) and run it again.",
)
SPEED_BELOW: Final = KnownDoubt(
    name="Link speed below the rated one",
    kind="device",
    sign="A physical port ran at less than the speed that the bench file says.",
    meaning="The two ends agreed on less than they are sold for.",
    next_step="Change the cable or module, and look at what both ends advertise (ethtool).",
)
HALF_DUPLEX: Final = KnownDoubt(
    name="Half duplex",
    kind="device",
    sign="A port ran in half duplex.",
    meaning="Both directions share the line and collide; mostly one end does not negotiate.",
    next_step="Switch autonegotiation on at both ends, and change the cable.",
)
PAUSE: Final = KnownDoubt(
    name="Pause frames",
    kind="device",
    sign="A port received or sent pause frames: more than one a second, or any while the direction that they stop "
    "stayed below what the link delivers.",
    meaning="The end that sent them could not take more, and no counter of drops shows what that cost.",
    next_step="Look at the end that asked to stop (its machine, bus, rings), or switch flow control off (ethtool -A).",
)
EEE: Final = KnownDoubt(
    name="Energy Efficient Ethernet active with loss",
    kind="device",
    sign="Both ends agreed on EEE, and datagrams were lost, frames arrived damaged, or TCP sent more than 100 segments "
    "per GB again (100 at least).",
    meaning="Some ports lose frames when they wake from its low-power state.",
    next_step="Switch it off (ethtool --set-eee PORT eee off) and run it again.",
)
MISSED: Final = KnownDoubt(
    name="Frames not fetched",
    kind="note",
    sign="The driver of a port counted frames that its machine did not fetch in time (missed).",
    meaning="They had arrived whole; the ring, the bus or the CPU behind the port was too slow.",
    next_step="Enlarge the rings (ethtool -G), and look at the CPU and the bus of this port.",
)
DOUBTS: Final = (OFFLOAD_OFF, SHAPER, SPEED_BELOW, HALF_DUPLEX, PAUSE, EEE, MISSED)

_SENDING: Final = ("tso", "gso", "scatter-gather", "tx-checksum")
_RECEIVING: Final = ("gro", "rx-checksum")
_CHECKSUMS: Final = ("tx-checksum", "rx-checksum")
_CUTTING: Final = ("tso", "gso")
_BUSY: Final = 0.7
_FRAMING: Final = 0.9  # payload of what a queue counts, where the ceiling does not say it
_HELD: Final = 0.8
_ACKNOWLEDGEMENTS: Final = 0.1  # of the data: more than they ever are
_ABOVE_SPEED: Final = 1.05
_PAUSES_PER_SECOND: Final = 1.0
_RETRANSMITS: Final = 100


def offload_off(scene: Scene) -> Iterator[Doubt]:
    """What the port of a slow direction could do, and the CPU had to do instead."""
    busy = max(scene.observation.cpu_busy, default=1.0) if scene.observation is not None else 1.0
    for port in ports_read(scene.observation):
        wanted = set()
        for flow in _slow(scene):
            names = _SENDING if port.name == _sender(flow) else _RECEIVING
            wanted |= {name for name in names if _matters(name, scene, port.before)}
        off = [name for name in (*_SENDING, *_RECEIVING) if name in wanted and port.before.offloads[name] == "off"]
        if off:
            yield OFFLOAD_OFF.seen(
                f"At port {port.name} {', '.join(off)} {'was' if len(off) == 1 else 'were'} off; the busiest CPU was "
                f"{format_value(busy, 'ratio', 3)} busy.",
                note=busy < _BUSY,
            )


def _matters(name: str, scene: Scene, port: PortFacts) -> bool:
    """Whether this offload can make a difference to this run."""
    if name not in port.offloads:
        return False
    if scene.result.workload.protocol == "udp":  # datagrams are neither cut nor joined
        return name in _CHECKSUMS
    if name == "gro":  # an end of a veth is made without it, and gets super-frames whole
        return not scene.simulated and port.offloads.get("lro") != "on"
    # A fault of a simulated link that decides on single frames takes segmentation off, on purpose.
    return not (name in _CUTTING and scene.simulated and scene.faulted)


def shaper(scene: Scene) -> Iterator[Doubt]:
    """A queue that is not ours and limits what leaves a port."""
    slow = _slow(scene)
    if not slow and not scene.lost:
        return
    for port in ports_read(scene.observation):
        for queue in port.before.queues or ():
            if not queue.limits or queue.ours:
                continue
            if queue.rate_bps is not None and scene.speed_bps and queue.rate_bps > _ABOVE_SPEED * scene.speed_bps:
                continue
            concerned = [flow for flow in slow or scene.result.flows if _held_back(scene, flow, port, queue)]
            yield SHAPER.seen(f"Port {port.name} has the queue {queue_text(queue)}.", note=not concerned)


def _held_back(scene: Scene, flow: Flow, port: ReadPort, queue: PortQueue) -> bool:
    """Whether a queue may be what a flow waited for."""
    sends = port.name == _sender(flow)
    if not sends and scene.result.workload.protocol == "udp":
        return False
    if queue.rate_bps is None or flow.received_bps is None:
        return True
    if not sends:  # acknowledgements leave through it
        return queue.rate_bps < _ACKNOWLEDGEMENTS * flow.received_bps
    share = scene.ceiling_bps / scene.speed_bps if scene.ceiling_bps and scene.speed_bps else _FRAMING
    return flow.received_bps >= _HELD * share * queue.rate_bps


def speed_or_duplex_changed(scene: Scene) -> Iterator[Doubt]:
    """A link that was another one after the traffic."""
    for port in ports_read(scene.observation):
        before, after = port.before, port.after
        if None in (before.speed_bps, after.speed_bps):
            continue  # without a carrier; its changes are counted elsewhere
        if (before.speed_bps, before.duplex) != (after.speed_bps, after.duplex):
            yield LINK_CHANGED.seen(f"Port {port.name} went from {_line(before)} to {_line(after)}.")


def _line(port: PortFacts) -> str:
    duplex = f" {port.duplex} duplex" if port.duplex else ""
    return f"{format_value(port.speed_bps or 0.0, 'bit/s')}{duplex}"


def below_its_rating(scene: Scene) -> Iterator[Doubt]:
    """A physical port that does not run at the speed that it is sold for, or not both ways at once."""
    for port in ports_read(scene.observation):
        known = [seen.speed_bps for seen in (port.before, port.after) if seen.speed_bps is not None]
        if known and not scene.simulated and scene.speed_bps is not None and min(known) < scene.speed_bps:
            found, rated = format_pair(min(known), scene.speed_bps, "bit/s")
            yield SPEED_BELOW.seen(f"Port {port.name} ran at {found}, rated {rated}.")
        if "half" in (port.before.duplex, port.after.duplex):
            yield HALF_DUPLEX.seen(f"Port {port.name} ran in half duplex.")


def pause_frames(scene: Scene) -> Iterator[Doubt]:
    """Which port was asked to stop, which asked, and what is missing of the direction that stood still."""
    seconds = _seconds(scene)
    for port in ports_read(scene.observation):
        for way, did, says in (
            ("rx", "received", "the other end asked it to stop"),
            ("tx", "sent", "it asked the other end to stop"),
        ):
            count, paused_s = port.gained(f"{way}_pause"), port.gained(f"{way}_pause_s")
            stopped = "forward" if (port.name == "a") is (way == "rx") else "reverse"
            slow = [flow for flow in _slow(scene) if flow.direction == stopped]
            if not count or (not slow and seconds and count <= _PAUSES_PER_SECOND * seconds):
                continue
            often = f", {format_value(count / seconds, '', 3)} a second" if seconds else ""
            long = f", for {format_value(paused_s / seconds, 'ratio', 3)} of the time" if paused_s and seconds else ""
            missing = "".join(_missing(scene, flow) for flow in slow)
            yield PAUSE.seen(f"Port {port.name} {did} {count:.0f} pause frames{often}{long}: {says}{missing}.")


def _missing(scene: Scene, flow: Flow) -> str:
    """How far a slow direction is from what its link delivers."""
    reachable = scene.reachable(flow)
    if not reachable or flow.received_bps is None:
        return ""
    share = format_value(1 - flow.received_bps / reachable, "ratio", 3)
    return f"; {share} of what the link delivers {flow.direction} is missing"


def eee_with_loss(scene: Scene) -> Iterator[Doubt]:
    """Low-power idle and frames that did not arrive."""
    active = [port.name for port in ports_read(scene.observation) if port.before.eee_active or port.after.eee_active]
    lost = _loss(scene)
    if active and lost:
        where = " and ".join(active)
        yield EEE.seen(f"EEE is active at port{'s' if len(active) > 1 else ''} {where}, and {lost}.")


def _loss(scene: Scene) -> str | None:
    """What did not arrive, in words; None when nothing that matters."""
    for port in ports_read(scene.observation):
        if damaged := port.gained("rx_crc_errors"):
            return f"port {port.name} received {damaged:.0f} frames with a wrong checksum"
    for flow in scene.result.flows:
        if flow.lost_packets:
            return f"the {flow.direction} run lost {flow.lost_packets} datagrams"
        again, got = flow.retransmits or 0, received_bytes(flow) or 0
        if again >= _RETRANSMITS and again * 1e9 > _RETRANSMITS * got:
            return f"{again} segments of the {flow.direction} run were sent again"
    return None


def driver_counts(scene: Scene) -> Iterator[Doubt]:
    """Trouble that only the driver counts."""
    usable = scene.observation is not None and not run_backwards(scene.observation)
    for port in ports_read(scene.observation):
        if missed := port.gained("rx_missed"):
            yield MISSED.seen(f"Port {port.name} had {missed:.0f} frames that its machine did not fetch in time.")
        damaged = port.gained("rx_crc_errors")
        if damaged and usable and scene.observation is not None and not delta(scene.observation, port.name).rx_errors:
            yield PORT_ERRORS.seen(f"Port {port.name} received {damaged:.0f} frames with a wrong checksum (CRC).")


def _slow(scene: Scene) -> list[Flow]:
    """The directions that are not known to have delivered what their link can."""
    return [flow for flow in scene.result.flows if not near(flow.received_bps, scene.reachable(flow))]


def _sender(flow: Flow) -> str:
    return "a" if flow.direction == "forward" else "b"


def _seconds(scene: Scene) -> float:
    host = scene.observation.host if scene.observation is not None else None
    return host.seconds if host is not None else 0.0


RULES: Final = (
    offload_off, shaper, speed_or_duplex_changed, below_its_rating, pause_frames, eee_with_loss, driver_counts,
)  # fmt: skip
