"""The tester reference, what the tester can do without the device, against what a limit asks for. Pure.

RFC 9411 section 5 asks for such a run before any benchmark: a tester that cannot deliver the required rate over a cable
of its own can never show that a device does. Which reference speaks for a measurement:

    an unshaped veth pair          for every link: nothing that this machine sends or receives is faster
    a cable-only link of the bench for the links of its speed, simulated ones for simulated ones

at `reference_mtu`, and of several the slowest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.judgement import Measured
from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.scene import release
from pytest_netperf.quantities import format_pair
from pytest_netperf.record.schema import TesterReference

__all__ = ["DOUBTS", "beyond", "doubt_limit", "limited_by", "reference_facts", "reference_mtu", "slowest"]

LIMIT_ABOVE_REFERENCE: Final = KnownDoubt(
    name="Limit above the tester reference",
    kind="tester",
    sign="A throughput limit asks for more than the tester delivered without the device, by more than 1 %, and the run "
    "used one thread as the reference did (one stream, or iperf3 before 3.16).",
    meaning="This tester cannot show that the limit is met, whatever the device does.",
    next_step="Measure the reference again when nothing else runs (--netperf-reference), use a faster tester, or lower "
    "the limit.",
)
DOUBTS: Final = (LIMIT_ABOVE_REFERENCE,)

_TOLERANCE: Final = 0.01  # a reference over a cable reaches the ceiling of its link to within this
_MTUS: Final = (1500, 9000)
_THREAD_PER_STREAM: Final = (3, 16)


def reference_mtu(mtu_bytes: int) -> int:
    """The MTU at which the reference for a link is measured: 1500 for one up to that, 9000 for a larger one.

    A tester is the slower the smaller the MTU, so what is beyond its reference is beyond it at the link's own MTU too.
    """
    return _MTUS[0] if mtu_bytes <= _MTUS[0] else _MTUS[1]


def slowest(references: Iterable[TesterReference], conditions: Mapping[str, Any]) -> TesterReference | None:
    """The reference that speaks for a measurement under these conditions (mtu, speed, simulated), or None."""
    mtu, speed_bps = conditions.get("mtu"), conditions.get("speed")
    if not isinstance(mtu, int):
        return None
    fits = [
        each
        for each in references
        if each.mtu == reference_mtu(mtu)
        and (
            each.speed_bps is None
            or (each.speed_bps == speed_bps and each.simulated == bool(conditions.get("simulated")))
        )
    ]
    measured = [each for each in fits if each.throughput_bps is not None]
    return min(measured, key=lambda each: each.throughput_bps or 0.0, default=fits[0] if fits else None)


def reference_facts(references: Iterable[TesterReference], conditions: Mapping[str, Any]) -> dict[str, Any]:
    """What the evidence of a traffic row says of the reference that speaks for it."""
    found = slowest(references, conditions)
    if found is None:
        return {}
    if found.throughput_bps is None:
        return {"reference_not_measured": found.missing or "no reason was given"}
    facts = {
        "reference_bps": found.throughput_bps,
        "reference_link": found.link,
        "reference_mtu": found.mtu,
        "reference_measured_at": found.measured_at,
        "reference_kernel": found.kernel,
        "reference_software": found.software,
        "reference_stored": found.stored,
        "reference_note": found.note,
    }
    return {name: value for name, value in facts.items() if value is not None}


def beyond(limit_low_bps: float | None, reference_bps: float | None) -> bool:
    """Whether a lower bound is above what the tester can show; False where either is not known."""
    return limit_low_bps is not None and reference_bps is not None and limit_low_bps > reference_bps * (1 + _TOLERANCE)


def doubt_limit(
    quantity: str, limit: ResolvedLimit | None, conditions: Mapping[str, Any], facts: Mapping[str, Any]
) -> Doubt | None:
    """The doubt that a limit of a row gives rise to, from what the row records (`reference_facts` among it)."""
    reference = facts.get("reference_bps")
    if quantity != "throughput" or limit is None or limit.low is None or not isinstance(reference, int | float):
        return None
    if not beyond(limit.low, reference) or facts.get("rate_explained") is True or _has_more_threads(conditions, facts):
        return None
    asked, shown = format_pair(limit.low, reference, "bit/s")
    return LIMIT_ABOVE_REFERENCE.seen(
        f"{asked} are required; without the device this tester delivered {shown} "
        f"({facts.get('reference_link')}, MTU {facts.get('reference_mtu')})."
    )


def limited_by(measured: Measured, doubt: Doubt | None) -> Measured:
    """The measurement with this doubt about its tester, beside those it has already."""
    if doubt is None:
        return measured
    return replace(measured, tester_limited=" ".join(filter(None, (measured.tester_limited, doubt.text))))


def _has_more_threads(conditions: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether the run could use more of the machine than the one thread of the reference."""
    streams, version = conditions.get("streams"), facts.get("client_version")
    known = release(version) if isinstance(version, str) else None
    return isinstance(streams, int) and streams > 1 and known is not None and known >= _THREAD_PER_STREAM
