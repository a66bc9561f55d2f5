"""One measurement: traffic with the counters of both ports and the load of the machine around it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import msgspec

from pytest_netperf.links.link import Link
from pytest_netperf.links.slot import measurement_slot
from pytest_netperf.observe.course import LONG_S, Course, Keep
from pytest_netperf.observe.host import between, cpu_shares, cpu_times, read_host
from pytest_netperf.observe.latency import LatencyWatch
from pytest_netperf.observe.observation import Observation
from pytest_netperf.observe.probe import Probe, Probing
from pytest_netperf.observe.watch import Enough, RunWatch, Tell
from pytest_netperf.quantities import format_value
from pytest_netperf.traffic.engine import Engine
from pytest_netperf.traffic.framing import packet_bytes
from pytest_netperf.traffic.result import Flow, Result, Workload

__all__ = ["Measurement", "measure"]


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """What one traffic call brought home. None means that the run does not say; it never means zero."""

    result: Result
    observation: Observation
    waited_s: float
    """Seconds spent waiting for the measurement slot."""
    shaped_bps: dict[str, float | None]
    """Rate in bit/s that each end of a simulated link was shaped to; None where unshaped."""

    @property
    def flows(self) -> tuple[Flow, ...]:
        """Each direction by itself, forward first."""
        return self.result.flows

    @property
    def throughput_bps(self) -> float | None:
        """See `traffic.result.Result`; so are the two others."""
        return self.result.throughput_bps

    @property
    def retransmits(self) -> int | None:  # noqa: D102
        return self.result.retransmits

    @property
    def frame_loss_ratio(self) -> float | None:  # noqa: D102
        return self.result.frame_loss_ratio

    def with_state_lost(self, problem: str) -> Measurement:
        """The same, of a device that was not in its state any more when it was over."""
        return msgspec.structs.replace(
            self, observation=msgspec.structs.replace(self.observation, device_state_lost=problem)
        )

    def __repr__(self) -> str:
        rate = self.throughput_bps
        shown = "no received rate" if rate is None else format_value(rate, "bit/s")
        workload = self.result.workload
        return f"<Measurement {workload.protocol} {workload.direction} {shown}>"


def measure(
    engine: Engine,
    link: Link,
    workload: Workload,
    *,
    slots: int,
    enough: Enough | None = None,
    tell: Tell | None = None,
    probes: Iterable[Probe] = (),
    rtt: bool = False,
    soak: bool = False,
    keep: Keep | None = None,
) -> Measurement:
    """Run the workload when it is this process's turn, until it is over or ``enough`` says so.

    ``tell`` hears once a second how it goes, and how long it waits.
    ``probes`` are read before and after it, and while it runs where they ask for that. ``rtt`` measures the round-trip
    time beside it. A ``soak``, and any run of a minute or longer, is looked at once a second; ``keep`` hears of it.

    Raises what the engine raises.
    """
    engine.check(workload)
    waits = None if tell is None else tell.waits
    with measurement_slot(slots, waits=waits) as waited_s, contextlib.ExitStack() as stack:
        shaped = link.shape(packet_bytes(workload, link.mtu))
        probing = Probing(probes)
        probing.before()
        latency = stack.enter_context(LatencyWatch(link, workload)) if rtt else None
        if latency is not None:
            latency.before()
        a_port_before, b_port_before = link.port_facts()
        host_before = read_host()
        before = link.all_counters()
        cpu_before = cpu_times()
        watch = RunWatch(link, workload, enough, tell)
        link.traffic_begins()
        probing.begin()
        if latency is not None:
            latency.begin()
        try:
            course = Course(link, workload, watch, probing, keep) if soak or workload.duration_s >= LONG_S else None
            result = engine.run(link, workload, course or watch)
        finally:
            probing.end()
            link.traffic_ends()
        if latency is not None:
            latency.end()
        cpu_after = cpu_times()
        after = link.all_counters()
        far = link.far_load()
        host_after = read_host()
        a_port_after, b_port_after = link.port_facts()
        probing.after()
        device_programs = link.device_report()
    cpu = cpu_shares(cpu_before, cpu_after)
    return Measurement(
        result=result,
        observation=Observation(
            a_before=before.pop("a"),
            a_after=after.pop("a"),
            b_before=before.pop("b"),
            b_after=after.pop("b"),
            device_before=before,
            device_after=after,
            device_programs=device_programs,
            cpu_busy=cpu.busy,
            cpu_steal=cpu.steal,
            cpu_softirq=cpu.softirq,
            host=between(host_before, host_after),
            far=far,
            tcp=watch.tcp,
            temperatures_c=tuple(watch.temperatures_c),
            probes=probing.readings(),
            course=tuple(course.moments) if course is not None else (),
            latency=latency.latency() if latency is not None else None,
            a_port_before=a_port_before,
            a_port_after=a_port_after,
            b_port_before=b_port_before,
            b_port_after=b_port_after,
        ),
        waited_s=waited_s,
        shaped_bps=shaped,
    )
