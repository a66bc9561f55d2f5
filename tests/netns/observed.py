"""A measurement over a link of a test, looked at as a row looks at it."""

from __future__ import annotations

from pytest_netperf.judge.doubts import Findings, examine
from pytest_netperf.links.link import Link
from pytest_netperf.observe.measure import Measurement, measure
from pytest_netperf.traffic.framing import bound_bps, ceiling_bps
from pytest_netperf.traffic.iperf3 import Iperf3Engine
from pytest_netperf.traffic.result import Workload

__all__ = ["named", "observe"]


def observe(link: Link, **settings: object) -> tuple[Measurement, Findings]:
    """Measure over a link, and look at the run with all rules, as a row does."""
    known = {"duration_s": 3.0, "omit_s": 0.0, "interval_s": 0.25}
    workload = Workload(**{**known, **settings})  # type: ignore[arg-type]
    measured = measure(Iperf3Engine(), link, workload, slots=1)
    assert measured.result.trusted, measured.result.reason
    speed, bound = link.speed_bps, None
    if speed is not None:
        bound = bound_bps(workload, speed, link.mtu)
    findings = examine(
        measured.result,
        measured.observation,
        speed_bps=speed,
        mtu_bytes=link.mtu,
        simulated=link.simulated,
        faulted=link.faulted,
        ceiling_bps=None if speed is None else ceiling_bps(workload, speed, link.mtu),
        bound_bps=bound,
        bound_tolerance=0.0 if bound is None else (link.burst_bits / bound + 0.002) / workload.duration_s,
    )
    return measured, findings


def named(findings: Findings, name: str) -> str:
    """What was seen of the doubt with this name; fails with all doubts when there is none."""
    seen = [doubt.seen for doubt in findings.named if doubt.name == name]
    assert seen, f"no {name!r} among: {[doubt.text for doubt in findings.named]}"
    return seen[0]
