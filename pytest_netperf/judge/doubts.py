"""Can this number be true, and is it about the device? What the evidence around a traffic run says. Pure.

Each rule looks at the whole scene and yields doubts, which have a name and one of four kinds:

    invalid   the number cannot be true, or did not come over this link: the row becomes INVALID
    tester    the tester may have made it worse than the device is: it cannot FAIL, a met limit stays met
    device    the device may be the cause: it excuses nothing
    note      a person should look at it: shown on the sheet, the verdict stays

No doubt makes a verdict better. A new rule is one more function in a module of its theme, and in its `RULES`; the
doubts it raises are in that module's `DOUBTS`, and in docs/reference/doubts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pytest_netperf.judge import (
    doubt_bus,
    doubt_device,
    doubt_far,
    doubt_heat,
    doubt_iperf3,
    doubt_link,
    doubt_port,
    doubt_reference,
    doubt_runs,
    doubt_series,
    doubt_stream,
    doubt_tcp,
    doubt_tester,
    path,
)
from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.scene import Scene
from pytest_netperf.observe.observation import Observation
from pytest_netperf.traffic.result import Result

__all__ = ["KNOWN", "RULES", "Findings", "examine"]

_RATES: Final = frozenset({"throughput", "frame_rate", "wire_rate"})

RULES: Final[tuple[Callable[[Scene], Iterator[Doubt]], ...]] = (
    *path.RULES,
    *doubt_device.RULES,
    *doubt_link.RULES,
    *doubt_port.RULES,
    *doubt_bus.RULES,
    *doubt_tester.RULES,
    *doubt_far.RULES,
    *doubt_iperf3.RULES,
    *doubt_tcp.RULES,
    *doubt_stream.RULES,
    *doubt_series.RULES,
    *doubt_heat.RULES,
)
"""All rules about one run, in the order in which one would look: the path first."""

KNOWN: Final[tuple[KnownDoubt, ...]] = (
    *path.DOUBTS,
    *doubt_device.DOUBTS,
    *doubt_link.DOUBTS,
    *doubt_port.DOUBTS,
    *doubt_bus.DOUBTS,
    *doubt_tester.DOUBTS,
    *doubt_far.DOUBTS,
    *doubt_iperf3.DOUBTS,
    *doubt_tcp.DOUBTS,
    *doubt_stream.DOUBTS,
    *doubt_series.DOUBTS,
    *doubt_heat.DOUBTS,
    *doubt_runs.DOUBTS,
    *doubt_reference.DOUBTS,
)
"""All doubts that there are."""


@dataclass(frozen=True, slots=True)
class Findings:
    """All doubts about one run."""

    named: tuple[Doubt, ...] = ()
    rate_explained: bool = False
    """Whether each direction delivered what its link can deliver: then the tester did not slow it."""

    @property
    def invalid(self) -> tuple[str, ...]:
        """Why the value cannot be true, whatever it is."""
        return tuple(doubt.text for doubt in self.named if doubt.kind == "invalid")

    @property
    def tester_limited(self) -> str | None:
        """Why the tester may have made the value worse than the device is."""
        return " ".join(doubt.text for doubt in self.named if doubt.kind == "tester") or None

    @property
    def doubts(self) -> tuple[str, ...]:
        """What changes no verdict and should be looked at."""
        return tuple(doubt.text for doubt in self.named if doubt.kind in ("device", "note"))

    def tester_limited_for(self, quantity: str) -> str | None:
        """Why the tester may have spoilt this quantity; a rate that reached what its link delivers it did not spoil."""
        return None if self.rate_explained and quantity in _RATES else self.tester_limited

    def shown_for(self, quantity: str) -> tuple[str, ...]:
        """The doubts that a row of this quantity lists, in whatever verdict; what makes it INVALID is its reason."""
        spoilt = self.tester_limited_for(quantity) is not None
        return tuple(
            doubt.text
            for doubt in self.named
            if doubt.kind in ("device", "note") or (doubt.kind == "tester" and spoilt)
        )


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
    bound_bps: float | None = None,
    bound_tolerance: float = 0.0,
) -> Findings:
    """Look at one run with all rules.

    ``expected_bps`` (direction -> bit/s) is the goodput that a simulated link owes in spite of its fault, where that is
    known: the ceiling at the fault's rate. Without a fault it is ``ceiling_bps``. ``bound_bps`` is the goodput that
    nothing can exceed, by more than ``bound_tolerance`` as a fraction.
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
        bound_bps=bound_bps,
        bound_tolerance=bound_tolerance,
    )
    named = tuple(doubt for rule in RULES for doubt in rule(scene))
    return Findings(named=named, rate_explained=scene.rate_explained)
