"""One traffic call, repeated or not, as its rows share it: values, findings, conditions, bounds and evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_netperf.judge.doubts import Findings, examine
from pytest_netperf.judge.port_evidence import port_facts_of
from pytest_netperf.judge.probe_values import probe_facts, probe_values
from pytest_netperf.judge.run_to_run import HISTORY
from pytest_netperf.judge.soak import course_facts, drift_of, soak_facts
from pytest_netperf.judge.throughput import method_facts
from pytest_netperf.judge.values import traffic_values
from pytest_netperf.judge.wire import forwarding_rate, wire_rates
from pytest_netperf.quantities import get_quantity
from pytest_netperf.record.schema import Evidence, Run, SeriesPoint
from pytest_netperf.traffic.framing import bound_bps, ceiling_bps, rates_of

if TYPE_CHECKING:
    from pytest_netperf.bench.plan import LinkPlan
    from pytest_netperf.collection import ItemPlan
    from pytest_netperf.observe.measure import Measurement
    from pytest_netperf.session import TrafficCall
    from pytest_netperf.traffic.result import Flow, Workload

__all__ = ["Trial", "ceilings_of", "conditions_of", "trials_of"]

_ON_THE_SHEET = ("frame_rate", "wire_rate", "forwarding_rate", "tester_cpu")
"""Beside the goodput, on whichever row it is."""
_CLOCK_START_SECONDS = 0.002  # seen: 0.3 ms on a busy machine


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One traffic call, with everything its quantities share."""

    values: dict[str, float | None]
    findings: Findings
    conditions: dict[str, Any]
    trusted: bool
    trust_reason: str
    ceilings: dict[str, float]
    """What this workload can reach on this link, per quantity that has a ceiling."""
    bounds: dict[str, float]
    """What nothing can exceed, for the same quantities."""
    bound_tolerance: float
    """As a fraction of the bound."""
    received_bytes: int | None
    evidence: Evidence
    errors: dict[str, str] = field(default_factory=dict)
    """Quantity -> what failed at the bench, so that it has no value."""


def trials_of(
    plan: ItemPlan, calls: Sequence[TrafficCall], link_facts: dict[str, Any], burst_bits: float, faulted: bool
) -> list[Trial]:
    """A trial for each traffic call that measured something; the arguments are those of `rows.rows_of`."""
    made = [call for call in calls if call.runs]
    runs = [
        _trial_of_run(plan, call, measurement, link_facts, burst_bits, faulted)
        for call in made
        for measurement in call.runs
    ]
    trials = []
    for call in made:
        own, runs = runs[: len(call.runs)], runs[len(call.runs) :]
        trials.append(own[0] if call.repeat == 1 else _together(call, own))
    return trials


def _together(call: TrafficCall, runs: list[Trial]) -> Trial:
    """The runs of a repeated measurement as one: the mean throughput, the worst of everything else."""
    values: dict[str, float | None] = {}
    for quantity in runs[0].values:
        found = [run.values.get(quantity) for run in runs]
        known = [value for value in found if value is not None and math.isfinite(value)]
        if len(known) < len(found):
            values[quantity] = None
        elif quantity in ("throughput", "frame_rate", "wire_rate"):
            values[quantity] = math.fsum(known) / len(known)
        else:
            values[quantity] = (min if get_quantity(quantity).better == "higher" else max)(known)
    slowest = min(runs, key=lambda run: _or_zero(run.values.get("throughput")))
    numbered = [(f"run {number}: ", run) for number, run in enumerate(runs, 1)]
    texts = dict.fromkeys(doubt for run in runs for doubt in run.evidence.doubts)
    limited = " ".join(name + run.findings.tester_limited for name, run in numbered if run.findings.tester_limited)
    named = tuple(dict.fromkeys(doubt for run in runs for doubt in run.findings.named))
    return replace(
        slowest,
        values=values,
        findings=Findings(named=named, rate_explained=all(run.findings.rate_explained for run in runs)),
        trusted=all(run.trusted for run in runs),
        trust_reason=" ".join(name + run.trust_reason for name, run in numbered if not run.trusted),
        received_bytes=_least([run.received_bytes for run in runs]),
        errors={quantity: error for run in reversed(runs) for quantity, error in run.errors.items()},
        evidence=msgspec.structs.replace(
            slowest.evidence,
            facts={
                **slowest.evidence.facts,
                "runs_asked": call.repeat,
                "between_runs": call.between_runs,
                "rate_explained": all(run.findings.rate_explained for run in runs),
                **({"tester_limited": limited} if limited else {}),
            },
            doubts=tuple(texts),
            documents={},
            runs=tuple(Run(throughput_bps=run.values.get("throughput"), evidence=run.evidence) for run in runs),
        ),
    )


def _or_zero(value: float | None) -> float:
    return 0.0 if value is None else value


def _trial_of_run(
    plan: ItemPlan,
    call: TrafficCall,
    measurement: Measurement,
    link_facts: dict[str, Any],
    burst_bits: float,
    faulted: bool,
) -> Trial:
    """Everything about one run that does not depend on a limit."""
    assert plan.link is not None
    result, workload = measurement.result, measurement.result.workload
    speed_bps, mtu = plan.link.link.line_rate_bps, plan.link.settings.mtu
    state = plan.link.state if plan.link.link.simulated else None
    faulted = faulted or (state is not None and state.is_simulated)  # it owes no line rate
    ceilings = ceilings_of(plan, workload)
    bounds: dict[str, float] = {}
    if speed_bps is not None:
        bounds = rates_of(bound_bps(workload, speed_bps, mtu), workload, mtu)
    wire = wire_rates(result, measurement.observation, mtu_bytes=mtu)
    forwarded = forwarding_rate(result, measurement.observation, wire.frame_rate) if wire is not None else None
    if wire is not None and wire.bytes_on_wire is not None and speed_bps is not None:
        bounds["frame_rate"] = speed_bps / (8 * wire.bytes_on_wire)  # of the frames that were seen, of whatever size
    findings = examine(
        result,
        measurement.observation,
        speed_bps=speed_bps,
        mtu_bytes=mtu,
        simulated=plan.link.link.simulated,
        faulted=faulted,
        ceiling_bps=ceilings.get("throughput"),
        expected_bps=_owed_bps(plan.link, workload),
        bound_bps=bounds.get("throughput"),
        bound_tolerance=_tolerance(workload, burst_bits, bounds),
    )
    values = traffic_values(result, measurement.observation, mtu_bytes=mtu, speed_bps=speed_bps)
    probed, errors = probe_values(measurement.observation.probes)
    values |= probed
    points, source = _series(result.flows)
    values |= drift_of(points, soak=bool(measurement.observation.course))
    conditions = conditions_of(plan, workload)
    points, source = _series(result.flows)
    return Trial(
        values=values,
        findings=findings,
        conditions=conditions,
        trusted=result.trusted,
        trust_reason=result.reason,
        ceilings=ceilings,
        bounds=bounds,
        bound_tolerance=_tolerance(workload, burst_bits, bounds),
        received_bytes=_least(flow.received_bytes for flow in result.flows),
        errors=errors,
        evidence=Evidence(
            series=points,
            series_from=source,
            facts={
                **_facts(measurement),
                **({"tester_limited": findings.tester_limited} if findings.tester_limited else {}),
                "rate_explained": findings.rate_explained,
                **method_facts(call.profile, call.run_to_run),
                **({HISTORY: call.history.name} if call.history is not None else {}),
                **soak_facts(points, soak=bool(measurement.observation.course)),
                **({"wire_from": wire.source} if wire is not None else {}),
                **({"forwarding_from": forwarded[1]} if forwarded is not None else {}),
                **{f"measured_{name}": values[name] for name in _ON_THE_SHEET if values.get(name) is not None},
                **({"not_stopped_because": call.not_stopped} if call.not_stopped else {}),
                **_made_like_this(plan.link),
                **link_facts,
            },
            doubts=findings.shown_for("throughput"),
            documents={"client": result.client_output, "server": result.server_output},
        ),
    )


def conditions_of(plan: ItemPlan, workload: Workload) -> dict[str, Any]:
    """Everything that a limit may depend on, now that the traffic is known."""
    return {
        **plan.conditions,
        "protocol": workload.protocol,
        "direction": workload.direction,
        "streams": workload.streams,
        "ip_version": workload.ip_version,
        **({"mss": workload.mss_bytes} if workload.mss_bytes is not None else {}),
        **({"zerocopy": workload.zerocopy} if workload.protocol == "tcp" else {}),
    }


def ceilings_of(plan: ItemPlan, workload: Workload) -> dict[str, float]:
    """What a workload can reach on the link of its test, per quantity that has a ceiling."""
    assert plan.link is not None
    speed_bps, mtu = plan.link.link.line_rate_bps, plan.link.settings.mtu
    return {} if speed_bps is None else rates_of(ceiling_bps(workload, speed_bps, mtu), workload, mtu)


def _made_like_this(link: LinkPlan) -> dict[str, Any]:
    """What was done to a simulated link on purpose."""
    fault, shaped = link.link.fault, link.link.shaped
    return {
        **({"simulated_fault": fault.label} if fault is not None else {}),
        **({} if shaped else {"simulated_unshaped": True}),
    }


def _tolerance(workload: Workload, burst_bits: float, bounds: dict[str, float]) -> float:
    """How far a true value can lie above its bound, as a fraction.

    The shaper's burst, once, and the moment by which the receiver's clock may start late.
    """
    if not bounds:
        return 0.0
    return (burst_bits / bounds["throughput"] + _CLOCK_START_SECONDS) / workload.duration_s


def _owed_bps(link: LinkPlan, workload: Workload) -> dict[str, float]:
    """Goodput that a simulated link owes each direction in spite of a rate fault; empty when nobody can say."""
    fault, speed_bps = link.link.fault, link.link.line_rate_bps
    state = link.state if link.link.simulated else None
    if fault is None and state is not None and state.only_rate_bps is not None:
        slower = min(state.only_rate_bps, speed_bps or math.inf)
        return {way: ceiling_bps(workload, slower, link.settings.mtu) for way in ("forward", "reverse")}
    if fault is None or fault.only_rate_bps is None:
        return {}
    owed = {}
    for direction, way in (("forward", "a-to-b"), ("reverse", "b-to-a")):
        rate = fault.only_rate_bps if fault.direction in ("both", way) else speed_bps
        if rate is not None:
            owed[direction] = ceiling_bps(workload, rate, link.settings.mtu)
    return owed


def _least(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return min(known) if known else None


def _series(flows: tuple[Flow, ...]) -> tuple[tuple[SeriesPoint, ...], Any]:
    """Throughput over time of the slower direction."""
    if not flows:
        return (), None
    flow = min(flows, key=lambda each: math.inf if each.received_bps is None else each.received_bps)
    return (
        tuple(
            SeriesPoint(
                start_s=interval.start_s,
                seconds=interval.seconds,
                throughput_bps=interval.bytes * 8 / interval.seconds,
                omitted=interval.omitted,
            )
            for interval in flow.intervals
            if interval.seconds > 0
        ),
        flow.intervals_from,
    )


def _facts(measurement: Measurement) -> dict[str, Any]:
    result, seen = measurement.result, measurement.observation
    facts: dict[str, Any] = {}
    for flow in result.flows:
        prefix = f"{flow.direction}_" if len(result.flows) > 1 else ""
        for name in (
            "received_bps", "received_bytes", "received_seconds", "sent_bps", "sent_bytes", "sent_seconds",
            "retransmits", "packets", "lost_packets", "frame_loss_ratio", "jitter_s",
        ):  # fmt: skip
            value = getattr(flow, name)
            if value is not None:
                facts[prefix + name] = value
        for name, known in msgspec.structs.asdict(flow.tcp).items() if flow.tcp is not None else ():
            if known is not None:
                facts[f"{prefix}tcp_{name}"] = known
    of_device = [(end, first, seen.device_after[end]) for end, first in seen.device_before.items()]
    for end, first, last in (("a", seen.a_before, seen.a_after), ("b", seen.b_before, seen.b_after), *of_device):
        for name in first.__struct_fields__:
            facts[f"port_{end}_{name}"] = getattr(last, name) - getattr(first, name)
    facts |= {
        "cpu_busy": list(seen.cpu_busy),
        "cpu_softirq": list(seen.cpu_softirq),
        "cpu_steal": seen.cpu_steal,
        "client_cpu": result.client_cpu,
        "server_cpu": result.server_cpu,
        "engine": result.engine,
        "client_version": result.client_version,
        "server_version": result.server_version,
        "client_command": " ".join(result.client_command),
        "server_command": " ".join(result.server_command),
        "congestion": result.congestion,
        "asked_duration_s": result.planned_duration_s or result.workload.duration_s,
        "stopped_after_s": result.workload.duration_s if result.planned_duration_s is not None else None,
        "asked_omit_s": result.workload.omit_s,
        "offered_bps": result.workload.bitrate_bps,
        "asked_window_bytes": result.workload.window_bytes,
        "asked_length_bytes": result.workload.length_bytes,
        "asked_zerocopy": result.workload.zerocopy or None,
        "asked_dscp": result.workload.dscp,
        "waited_for_slot_s": round(measurement.waited_s, 3),
        "trust": result.reason,
        "notes": list(result.notes),
        "temperatures_c": list(seen.temperatures_c),
    }
    for times in seen.tcp:
        for name in ("busy_s", "rwnd_limited_s", "sndbuf_limited_s", "rtt_s"):
            facts[f"{times.direction}_tcp_{name}" if len(result.flows) > 1 else f"tcp_{name}"] = getattr(times, name)
    if seen.host is not None:
        host = msgspec.structs.asdict(seen.host)
        host["others"] = [f"{process.name} {process.cpu_s:g} s" for process in seen.host.others]
        facts |= {f"host_{name}": list(value) if isinstance(value, tuple) else value for name, value in host.items()}
    if seen.far is not None:
        facts |= {"far_cpu_busy": list(seen.far.cpu_busy), "far_softnet_dropped": seen.far.softnet_dropped}
    facts |= seen.device_programs
    facts |= port_facts_of(seen)
    facts |= probe_facts(seen.probes)
    facts |= course_facts(seen.course)
    if seen.latency is not None:
        facts |= {f"rtt_{name}": value for name, value in msgspec.structs.asdict(seen.latency).items()}
    return {name: value for name, value in facts.items() if value is not None and value != []}
