"""Can this number be true, and is it about the device? What the evidence around a traffic run says. Pure.

Each rule looks at the whole scene and yields findings of three kinds:

    invalid   the number cannot be true, or did not come over this link: the row becomes INVALID
    tester    the tester may have made it worse than the device is: it cannot FAIL, a met limit stays met
    doubt     a person should look at it: shown on the sheet, the verdict stays

No finding makes a verdict better. A new rule is one more function in `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pytest_netperf.judge import path
from pytest_netperf.judge.scene import Finding, Scene, delta, near, run_backwards
from pytest_netperf.observe.observation import Observation
from pytest_netperf.quantities import format_value
from pytest_netperf.traffic.result import Result

__all__ = ["RULES", "Findings", "examine"]

_BUSY: Final = 0.95
_STEAL: Final = 0.05
_BINARY: Final = {"Gibit/s": 1e9 / 2**30, "Mibit/s": 1e6 / 2**20}
_BINARY_WIDTH: Final = 0.003  # published results in binary units lie within 0.3 % of the ceiling
_RATES: Final = frozenset({"throughput", "frame_rate", "wire_rate"})


@dataclass(frozen=True, slots=True)
class Findings:
    """All findings about one run."""

    invalid: tuple[str, ...] = ()
    tester_limited: str | None = None
    doubts: tuple[str, ...] = ()
    rate_explained: bool = False
    """Whether each direction delivered what its link can deliver: then the tester did not slow it."""

    def tester_limited_for(self, quantity: str) -> str | None:
        """Why the tester may have spoilt this quantity; a rate that reached what its link delivers it did not spoil."""
        return None if self.rate_explained and quantity in _RATES else self.tester_limited


def examine(
    result: Result,
    observation: Observation | None,
    *,
    speed_bps: float | None,
    mtu_bytes: int,
    simulated: bool,
    faulted: bool,
    ceiling_bps: float | None,
    expected_bps: Mapping[str, float] | None = None,
) -> Findings:
    """Look at one run with all rules.

    ``expected_bps`` (direction -> bit/s) is the goodput that a simulated link owes in spite of its fault, where that is
    known: the ceiling at the fault's rate. Without a fault it is ``ceiling_bps``.
    """
    scene = Scene(
        result=result,
        observation=observation,
        speed_bps=speed_bps,
        mtu_bytes=mtu_bytes,
        simulated=simulated,
        faulted=faulted,
        ceiling_bps=ceiling_bps,
        expected_bps=expected_bps or {},
    )
    found = [finding for rule in RULES for finding in rule(scene)]
    texts = {kind: tuple(text for each, text in found if each == kind) for kind in ("invalid", "tester", "doubt")}
    return Findings(
        invalid=texts["invalid"],
        tester_limited=" ".join(texts["tester"]) or None,
        doubts=texts["doubt"],
        rate_explained=bool(result.flows)
        and all(near(flow.received_bps, scene.reachable(flow)) for flow in result.flows),
    )


# ---- the ports -------------------------------------------------------------------------------------------------------


def port_trouble(scene: Scene) -> Iterator[Finding]:
    """Errors, drops and carrier changes on either port during the run."""
    if scene.observation is None or run_backwards(scene.observation):
        return
    for name in ("a", "b"):
        counted = delta(scene.observation, name)
        troubles = (
            (counted.rx_errors, "receive errors", "Change the cable or module."),
            (counted.tx_errors, "transmit errors", "Look into the kernel's log."),
            (counted.rx_dropped, "frames dropped on receipt", "The tester may be too slow, or its rings too small."),
            (counted.tx_dropped, "frames dropped on sending", "The tester's queue may be too short."),
            (counted.carrier_changes, "changes of its carrier", "Change the cable, and check the port's partner."),
        )
        for count, what, way_out in troubles:
            if count > 0:
                yield Finding("doubt", f"Port {name} had {count} {what} during the run. {way_out}")


# ---- the tester ------------------------------------------------------------------------------------------------------


def tester_cpu(scene: Scene) -> Iterator[Finding]:
    """A CPU without time left, or taken away by a hypervisor, limits any rate."""
    if scene.observation is None:
        return
    busy = max(scene.observation.cpu_busy, default=0.0)
    if busy >= _BUSY:
        number = scene.observation.cpu_busy.index(busy)
        yield Finding("tester", f"CPU {number} of this machine was {format_value(busy, 'ratio', 3)} busy.")
    if scene.observation.cpu_steal >= _STEAL:
        stolen = format_value(scene.observation.cpu_steal, "ratio", 3)
        yield Finding("tester", f"A hypervisor took {stolen} of a CPU away from this machine.")


def simulated_link_too_slow(scene: Scene) -> Iterator[Finding]:
    """A simulated link delivers what it was made for; whatever is missing, this machine owes."""
    if not scene.simulated:
        return
    for flow in scene.result.flows:
        expected = scene.expected(flow)
        if flow.received_bps is None or expected is None or near(flow.received_bps, expected):
            continue
        shown = f"{format_value(flow.received_bps, 'bit/s')} of {format_value(expected, 'bit/s')} {flow.direction}"
        which = "with this fault can only be slowed further" if scene.faulted else "without a fault can only be slowed"
        yield Finding("tester", f"A simulated link {which} by this machine: it delivered {shown}.")


def lost_behind_the_port(scene: Scene) -> Iterator[Finding]:
    """UDP datagrams that reached the receiving port were not lost by the device but in the tester's receive buffer.

    Not concluded from frame counts on a link with a fault: it drops behind the port's counter, on purpose.
    """
    for flow in scene.result.flows:
        ports = scene.ports(flow)
        if scene.result.workload.protocol != "udp" or ports is None or not flow.lost_packets:
            continue
        sender, receiver = ports
        lost, thrown = flow.lost_packets, receiver.counted.udp_buffer_errors
        if thrown > 0:
            # Buffer errors of the omitted seconds are among them: a small share may explain nothing of the loss.
            kind: Literal["tester", "doubt"] = "tester" if thrown >= 0.1 * lost else "doubt"
            yield Finding(
                kind,
                f"{thrown} datagrams reached port {receiver.name} and were thrown away because the tester read too "
                f"slowly; {lost} are reported lost. Lower the bitrate or enlarge net.core.rmem_max.",
            )
        elif not scene.faulted and flow.packets and sender.counted.tx_packets >= flow.packets:
            on_the_way = max(0, sender.counted.tx_packets - receiver.counted.rx_packets)
            if on_the_way < 0.5 * lost:
                yield Finding(
                    "tester",
                    f"{lost} datagrams are reported lost, but only {on_the_way} of them before port {receiver.name}: "
                    "the rest was lost in this machine. Lower the bitrate or enlarge net.core.rmem_max.",
                )


# ---- the numbers -----------------------------------------------------------------------------------------------------


def impossible_loss(scene: Scene) -> Iterator[Finding]:
    """More datagrams lost than sent is no measurement."""
    for flow in scene.result.flows:
        ratio, lost, packets = flow.frame_loss_ratio, flow.lost_packets, flow.packets
        if (ratio is not None and not 0 <= ratio <= 1) or (lost is not None and packets is not None and lost > packets):
            yield Finding(
                "invalid",
                f"The {flow.direction} run reports {lost} of {packets} datagrams lost (ratio {ratio}), which cannot "
                "be. Run it again; a newer iperf3 may count better.",
            )


def loss_contradicts_bytes(scene: Scene) -> Iterator[Finding]:
    """iperf3 >= 3.14 against a server <= 3.13 reports no loss although bytes are missing (esnet/iperf#2055)."""
    workload = scene.result.workload
    allowed = 0.01 if workload.omit_s == 0 else 0.05  # datagrams in flight at the omit edge
    for flow in scene.result.flows:
        if workload.protocol != "udp" or flow.frame_loss_ratio is None or not flow.sent_bytes:
            continue
        if flow.received_bytes is None:
            continue
        missing = 1 - flow.received_bytes / flow.sent_bytes
        if abs(missing - flow.frame_loss_ratio) > allowed:
            yield Finding(
                "doubt",
                f"The {flow.direction} run reports {format_value(flow.frame_loss_ratio, 'ratio', 3)} of its datagrams "
                f"lost, but {format_value(missing, 'ratio', 3)} of the bytes are missing. Use the same iperf3 at both "
                "ends, and hold the port counters against it.",
            )


def looks_binary(scene: Scene) -> Iterator[Finding]:
    """A ratio of 0.931 or 0.954 to the ceiling is what binary units read as decimal ones look like."""
    for flow in scene.result.flows:
        if not scene.ceiling_bps or flow.received_bps is None or scene.result.workload.bitrate_bps is not None:
            continue
        ratio = flow.received_bps / scene.ceiling_bps
        for unit, typical in _BINARY.items():
            if abs(ratio / typical - 1) <= _BINARY_WIDTH:
                yield Finding(
                    "doubt",
                    f"The {flow.direction} rate is {format_value(ratio, 'ratio', 3)} of the ceiling, which looks like "
                    f"binary units ({unit}) read as decimal ones. Check the unit of the number and of its limit.",
                )


def versions_differ(scene: Scene) -> Iterator[Finding]:
    """Two releases of iperf3 may count differently."""
    client, server = scene.result.client_version, scene.result.server_version
    if client and server and client != server:
        yield Finding(
            "doubt", f"The client is iperf3 {client}, the server {server}. Use the same version at both ends."
        )


def stalls(scene: Scene) -> Iterator[Finding]:
    """Intervals in which nothing arrived, hidden by the mean."""
    for flow in scene.result.flows:
        still = [interval for interval in flow.intervals if not interval.omitted and interval.bytes == 0]
        if still:
            yield Finding(
                "doubt",
                f"Nothing arrived in {len(still)} of {len(flow.intervals)} intervals of the {flow.direction} run, "
                f"first at {format_value(still[0].start_s, 's')}: the mean hides a stall. Look at the plot over time.",
            )


RULES: tuple[Callable[[Scene], Iterator[Finding]], ...] = (
    path.counters_run_backwards,
    path.path_not_observed,
    path.payload_missing_at_a_port,
    path.more_at_a_port_than_payload_explains,
    path.ports_disagree,
    port_trouble,
    tester_cpu,
    simulated_link_too_slow,
    lost_behind_the_port,
    impossible_loss,
    loss_contradicts_bytes,
    looks_binary,
    versions_differ,
    stalls,
)
