"""Doubts about the tester: the machine that measures may have made the value worse than the device is. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.scene import Scene, iperf3_versions, near, release
from pytest_netperf.observe.observation import Host, Observation
from pytest_netperf.quantities import format_value

__all__ = ["DOUBTS", "RULES"]

_QUIET: Final = "Run it again when nothing else runs on this machine, or on a faster tester."

CPU_BOUND: Final = KnownDoubt(
    name="Tester CPU bound",
    kind="tester",
    sign="A CPU of this machine, or an iperf3 of one thread, was 95 % busy or more.",
    meaning="The tester may have had no time left to send or receive faster.",
    next_step=_QUIET,
)
STEAL: Final = KnownDoubt(
    name="CPU taken by a hypervisor",
    kind="tester",
    sign="At least 5 % of a CPU went to other guests (steal).",
    meaning="This machine is a guest that did not get the time it needed.",
    next_step="Measure on a machine of its own, or give this guest CPUs of its own.",
)
BUSY_PROCESS: Final = KnownDoubt(
    name="Another process busy",
    kind="tester",
    or_note=True,
    sign="Other processes took half a CPU or more, and a rate stayed below what the link delivers or something was "
    "lost. It cannot have mattered where all CPUs together were idle for a whole CPU or more.",
    meaning="They competed with the traffic for this machine.",
    next_step="Stop them and run it again.",
)
SOFTNET_DROPS: Final = KnownDoubt(
    name="Softnet drops",
    kind="tester",
    or_note=True,
    sign="This machine dropped packets because the queue of a CPU was full, and something was lost or sent again. They "
    "are too few to matter below a tenth of that.",
    meaning="The device had delivered them; the tester did not keep up.",
    next_step="Enlarge net.core.netdev_max_backlog, lower the bitrate, or run it on a faster tester.",
)
TIME_SQUEEZE: Final = KnownDoubt(
    name="Softnet time squeeze",
    kind="note",
    sign="More than 100 times a second a CPU stopped receiving with packets left, and a rate stayed below what the "
    "link delivers.",
    meaning="Receiving used up its share of the CPU.",
    next_step="Enlarge net.core.netdev_budget, or spread the interrupts of the port over more CPUs.",
)
THROTTLED: Final = KnownDoubt(
    name="Tester throttled",
    kind="tester",
    sign="A CPU of this machine was slowed because of heat (thermal_throttle).",
    meaning="The tester was slower than it can be.",
    next_step="Let this machine cool down, see to its fans, and run it again.",
)
CLOCK_STEP: Final = KnownDoubt(
    name="Clock step",
    kind="invalid",
    or_note=True,
    sign="The clock of the day was set by 50 ms or more during the run. It cannot have mattered where both iperf3 are "
    "3.7 or newer, which measure on a clock that no one can set.",
    meaning="Times of day on this sheet jump; an iperf3 before 3.7 divided by wrong seconds.",
    next_step="Let the time service settle, use iperf3 3.7 or newer, and run it again.",
)
SUSPENDED: Final = KnownDoubt(
    name="Suspended machine",
    kind="tester",
    sign="This machine slept for 50 ms or more during the run.",
    meaning="No traffic flowed meanwhile.",
    next_step="Switch off sleep on this machine and run it again.",
)
SIMULATED_SLOW: Final = KnownDoubt(
    name="Simulated link too slow",
    kind="tester",
    sign="A simulated link delivered less than 99 % of what it was made for.",
    meaning="There is no device that could have slowed it: this machine did.",
    next_step=_QUIET,
)
UDP_LOSS_HERE: Final = KnownDoubt(
    name="UDP loss in the tester",
    kind="tester",
    or_note=True,
    sign="Datagrams that are reported lost had reached the receiving port: thrown away in a full receive buffer, or "
    "lost behind the port's counter. They are too few to matter below a tenth of the loss.",
    meaning="The device had delivered them; the tester read too slowly.",
    next_step="Lower the bitrate or enlarge net.core.rmem_max.",
)
DOUBTS: Final = (
    CPU_BOUND, STEAL, BUSY_PROCESS, SOFTNET_DROPS, TIME_SQUEEZE, THROTTLED, CLOCK_STEP, SUSPENDED, SIMULATED_SLOW,
    UDP_LOSS_HERE,
)  # fmt: skip

_BUSY: Final = 0.95
_STEAL: Final = 0.05
_OTHERS_BUSY: Final = 0.5  # of one CPU
_IDLE_ENOUGH: Final = 1.0  # CPUs
_EXPLAINS: Final = 0.1
_SQUEEZES_PER_SECOND: Final = 100.0
_CLOCK_SECONDS: Final = 0.05
_STEADY_CLOCK: Final = (3, 7)
_CPU_COUNTED_RIGHT: Final = (3, 10)
_THREAD_PER_STREAM: Final = (3, 16)
_SPINS: Final = ((3, 16), (3, 18))


def _host(scene: Scene) -> Host | None:
    return scene.observation.host if scene.observation is not None else None


def cpu_bound(scene: Scene) -> Iterator[Doubt]:
    """A CPU without time left, or a process that can use only one."""
    seen = scene.observation
    busy = max(seen.cpu_busy, default=0.0) if seen is not None else 0.0
    if seen is not None and busy >= _BUSY:
        number = seen.cpu_busy.index(busy)
        yield CPU_BOUND.seen(f"CPU {number} of this machine was {_percent(busy)} busy{_with(seen, number)}.")
    workload = scene.result.workload
    for end, used, version in (
        ("client", scene.result.client_cpu, release(iperf3_versions(scene.result)[0])),
        ("server", scene.result.server_cpu, release(iperf3_versions(scene.result)[1])),
    ):
        if used is None or used < _BUSY or version is None or version < _CPU_COUNTED_RIGHT:
            continue
        several = workload.streams > 1 or workload.direction == "bidirectional"
        spins = _SPINS[0] <= version < _SPINS[1] and workload.bitrate_bps is not None
        if not spins and not (several and version >= _THREAD_PER_STREAM):
            yield CPU_BOUND.seen(f"The iperf3 {end} used {_percent(used)} of a CPU, and it has only one thread.")


def _with(seen: Observation, number: int) -> str:
    """What the busy CPU did, and who else was busy."""
    words = ""
    if number < len(seen.cpu_softirq) and seen.cpu_softirq[number] >= 0.1:
        words += f", {_percent(seen.cpu_softirq[number])} of it with packets in the kernel (softirq)"
    if seen.host is not None and seen.host.others:
        words += f"; busiest other process: {_processes(seen.host, 1)}"
    if seen.host is not None and seen.host.governors:
        words += f"; frequency governor: {', '.join(seen.host.governors)}"
    return words


def _processes(host: Host, most: int = 3) -> str:
    return ", ".join(
        f"{process.name} ({process.cpu_s:g} s of CPU in {host.seconds:.3g} s)" for process in host.others[:most]
    )


def cpu_taken_away(scene: Scene) -> Iterator[Doubt]:
    """Time that a hypervisor gave to other guests."""
    if scene.observation is not None and scene.observation.cpu_steal >= _STEAL:
        yield STEAL.seen(f"A hypervisor took {_percent(scene.observation.cpu_steal)} of a CPU away from this machine.")


def another_process_busy(scene: Scene) -> Iterator[Doubt]:
    """Other programs on this machine while traffic ran that did not reach what it could."""
    host = _host(scene)
    if host is None or scene.observation is None or host.seconds <= 0 or (scene.rate_explained and not scene.lost):
        return
    share = sum(process.cpu_s for process in host.others) / host.seconds
    if share >= _OTHERS_BUSY:
        busy = scene.observation.cpu_busy
        idle = len(busy) - sum(busy)
        yield BUSY_PROCESS.seen(
            f"Other processes of this machine used {_percent(share)} of a CPU: {_processes(host)}.",
            note=bool(busy) and idle >= _IDLE_ENOUGH,
        )


def softnet(scene: Scene) -> Iterator[Doubt]:
    """Packets that arrived and that the kernel of this machine had no room or no time for."""
    host = _host(scene)
    if host is None:
        return
    lost = scene.lost
    if host.softnet_dropped and lost != 0:
        shown = "an unknown number" if lost is None else f"{lost}"
        yield SOFTNET_DROPS.seen(
            f"This machine dropped {host.softnet_dropped} packets on receipt; {shown} were lost or sent again.",
            note=lost is None or host.softnet_dropped < _EXPLAINS * lost,
        )
    squeezes = (host.softnet_squeezed or 0) / host.seconds if host.seconds > 0 else 0.0
    if squeezes > _SQUEEZES_PER_SECOND and not scene.rate_explained:
        yield TIME_SQUEEZE.seen(f"It happened {squeezes:.0f} times a second.")


def throttled(scene: Scene) -> Iterator[Doubt]:
    """Heat of the tester, not of the device."""
    host = _host(scene)
    if host is not None and host.throttle_events:
        hot = "" if host.temperature_c is None else f"; its hottest sensor says {host.temperature_c:g} °C"
        yield THROTTLED.seen(f"CPUs of this machine were throttled {host.throttle_events} times{hot}.")


def clock_step(scene: Scene) -> Iterator[Doubt]:
    """A clock of the day that was set while seconds were counted."""
    host = _host(scene)
    if host is None or abs(host.clock_step_s) < _CLOCK_SECONDS:
        return
    versions = [*map(release, iperf3_versions(scene.result))]
    old = any(version is not None and version < _STEADY_CLOCK for version in versions)
    way = "forward" if host.clock_step_s > 0 else "back"
    shown = format_value(abs(host.clock_step_s), "s", 3)
    yield CLOCK_STEP.seen(f"The clock of this machine was set {way} by {shown} during the run.", note=not old)


def suspended(scene: Scene) -> Iterator[Doubt]:
    """A machine that slept while it measured."""
    host = _host(scene)
    if host is not None and host.suspended_s >= _CLOCK_SECONDS:
        yield SUSPENDED.seen(f"This machine slept for {format_value(host.suspended_s, 's', 3)} during the run.")


def simulated_link_too_slow(scene: Scene) -> Iterator[Doubt]:
    """A simulated link delivers what it was made for; whatever is missing, this machine owes."""
    if not scene.simulated:
        return
    for flow in scene.result.flows:
        expected = scene.expected(flow)
        if flow.received_bps is None or expected is None or near(flow.received_bps, expected):
            continue
        shown = f"{format_value(flow.received_bps, 'bit/s')} of {format_value(expected, 'bit/s')} {flow.direction}"
        which = "with this fault can only be slowed further" if scene.faulted else "without a fault can only be slowed"
        yield SIMULATED_SLOW.seen(f"A simulated link {which} by this machine: it delivered {shown}.")


def udp_loss_in_the_tester(scene: Scene) -> Iterator[Doubt]:
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
            yield UDP_LOSS_HERE.seen(
                f"{thrown} datagrams reached port {receiver.name} and were thrown away in a full receive buffer; "
                f"{lost} are reported lost.",
                note=thrown < _EXPLAINS * lost,
            )
        elif not scene.faulted and flow.packets and sender.counted.tx_packets >= flow.packets:
            on_the_way = max(0, sender.counted.tx_packets - receiver.counted.rx_packets)
            if on_the_way < 0.5 * lost:
                yield UDP_LOSS_HERE.seen(
                    f"{lost} datagrams are reported lost, but only {on_the_way} of them before port {receiver.name}."
                )


def _percent(share: float) -> str:
    return format_value(share, "ratio", 3)


RULES: Final = (
    cpu_bound,
    cpu_taken_away,
    another_process_busy,
    softnet,
    throttled,
    clock_step,
    suspended,
    simulated_link_too_slow,
    udp_loss_in_the_tester,
)
