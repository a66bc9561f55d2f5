"""A doubt about heat: a machine that warms up while its rate falls. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_netperf.judge import stationarity
from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.scene import Scene, counted
from pytest_netperf.judge.statistics import Sample
from pytest_netperf.quantities import format_pair

__all__ = ["DOUBTS", "RULES"]

_RISE_C: Final = 10.0

HEAT: Final = KnownDoubt(
    name="Slower as it warms up",
    kind="note",
    sign="The hottest sensor of this machine rose by 10 °C or more over the traffic, while the rate fell by a step or "
    "a trend.",
    meaning="Heat may slow a port or a CPU; where both ports are in this machine, that is the device.",
    next_step="Cool it and run a soak; look at the temperatures in the evidence beside the plot over time.",
)
DOUBTS: Final = (HEAT,)


def slower_as_it_warms_up(scene: Scene) -> Iterator[Doubt]:
    """Temperature up and rate down in one run."""
    temperatures = scene.observation.temperatures_c if scene.observation is not None else ()
    if len(temperatures) < 2 or temperatures[-1] - temperatures[0] < _RISE_C:
        return
    for flow in scene.result.flows:
        samples = [Sample(interval.seconds, interval.bytes * 8) for interval in counted(flow)]
        shape = stationarity.step(samples) or stationarity.trend(samples)
        if shape is not None and shape.levels_bps[0] > shape.levels_bps[1]:
            first, last = format_pair(*shape.levels_bps, "bit/s")
            yield HEAT.seen(
                f"From {temperatures[0]:g} to {temperatures[-1]:g} °C the {flow.direction} run went from {first} to "
                f"{last}."
            )


RULES: Final = (slower_as_it_warms_up,)
