"""Doubts about the link and its ports: trouble that the ports counted, and rates that no link can have. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.judgement import BOUND_TOLERANCE
from pytest_netperf.judge.scene import Scene, delta, run_backwards
from pytest_netperf.quantities import format_pair, format_value

__all__ = ["BINARY_UNITS", "DOUBTS", "RULES", "binary_unit"]

PORT_ERRORS: Final = KnownDoubt(
    name="Port errors",
    kind="device",
    sign="A port counted receive or transmit errors.",
    meaning="Frames arrived damaged (CRC) or could not be sent.",
    next_step="Change the cable or module, then the port; look into the kernel's log.",
)
PORT_DROPS: Final = KnownDoubt(
    name="Port drops",
    kind="note",
    sign="A port counted dropped frames.",
    meaning="They were whole, and there was no room for them: a queue or ring was full.",
    next_step="Enlarge the rings or queues of the port, or lower the load of this machine.",
)
LINK_CHANGED: Final = KnownDoubt(
    name="Link changed during the run",
    kind="device",
    sign="The carrier of a port changed, or its speed or duplex were others after the run than before.",
    meaning="The link went down and came back, perhaps at another speed: the mean is of two links.",
    next_step="Change the cable, and check the port and its partner.",
)
ABOVE_CEILING: Final = KnownDoubt(
    name="Above the ceiling",
    kind="invalid",
    sign="The rate of a direction is above what the framing allows at this link speed, by more than 200 ppm, the burst "
    "of a simulated link and the resolution of the clocks.",
    meaning="The data did not cross a link of this speed, the link is faster than the bench says, or the count is "
    "wrong.",
    next_step="Check the speed in the bench file and the path of the data.",
)
BINARY_UNITS: Final = KnownDoubt(
    name="Binary-looking units",
    kind="note",
    sign="An unlimited rate is 93.1 % (Gibit) or 95.4 % (Mibit) of the ceiling, within 0.3 %.",
    meaning="That is what a rate in binary units looks like when it is read as a decimal one.",
    next_step="Check the unit of the number and of its limit.",
)
DOUBTS: Final = (PORT_ERRORS, PORT_DROPS, LINK_CHANGED, ABOVE_CEILING, BINARY_UNITS)

_BINARY: Final = {"Gibit/s": 1e9 / 2**30, "Mibit/s": 1e6 / 2**20}
_BINARY_WIDTH: Final = 0.003  # published results in binary units lie within 0.3 % of the ceiling


def port_trouble(scene: Scene) -> Iterator[Doubt]:
    """Errors, drops and carrier changes on either port during the run."""
    if scene.observation is None or run_backwards(scene.observation):
        return
    for name in ("a", "b"):
        counted = delta(scene.observation, name)
        for known, count, what in (
            (PORT_ERRORS, counted.rx_errors, "receive errors"),
            (PORT_ERRORS, counted.tx_errors, "transmit errors"),
            (PORT_DROPS, counted.rx_dropped, "frames dropped on receipt"),
            (PORT_DROPS, counted.tx_dropped, "frames dropped on sending"),
            (LINK_CHANGED, counted.carrier_changes, "changes of its carrier"),
        ):
            if count > 0:
                yield known.seen(f"Port {name} had {count} {what}.")


def above_the_ceiling(scene: Scene) -> Iterator[Doubt]:
    """No direction can deliver more than the framing leaves, also the one that is not the value of the row."""
    bound = scene.bound_bps
    for flow in scene.result.flows if bound is not None else ():
        rate = flow.received_bps
        if rate is None or bound is None or not math.isfinite(rate):  # what is no number is refused as that
            continue
        if rate > bound * (1 + BOUND_TOLERANCE + scene.bound_tolerance):
            shown, top = format_pair(rate, bound, "bit/s")
            over = format_value(rate / bound - 1, "ratio", 3)
            yield ABOVE_CEILING.seen(
                f"The {flow.direction} rate of {shown} is above {top}, the most that physics allows here ({over} over)."
            )


def binary_unit(ratio: float) -> str | None:
    """The binary unit that a rate of this ratio to its ceiling looks like when it is read as a decimal one."""
    return next((unit for unit, typical in _BINARY.items() if abs(ratio / typical - 1) <= _BINARY_WIDTH), None)


def looks_binary(scene: Scene) -> Iterator[Doubt]:
    """A ratio of 0.931 or 0.954 to the ceiling is what binary units read as decimal ones look like."""
    for flow in scene.result.flows:
        if not scene.ceiling_bps or flow.received_bps is None or scene.result.workload.bitrate_bps is not None:
            continue
        ratio = flow.received_bps / scene.ceiling_bps
        unit = binary_unit(ratio)
        if unit is not None:
            shown = format_value(ratio, "ratio", 3)
            yield BINARY_UNITS.seen(f"The {flow.direction} rate is {shown} of the ceiling, as if in {unit}.")


RULES: Final = (port_trouble, above_the_ceiling, looks_binary)
