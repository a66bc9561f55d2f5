"""Doubts about the device in the middle: whether it was what the row says that it was. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.scene import Scene

__all__ = ["DOUBTS", "RULES"]

STATE_LOST: Final = KnownDoubt(
    name="Device left its state",
    kind="invalid",
    sign="The check of the device's state, asked again when the run was over, does not find it in force, or the device "
    "does not answer.",
    meaning="Nobody knows when it left the state: the number is not of the state that the row names.",
    next_step="Look into the log of the device, for who loaded its configuration anew or which service ended.",
)
DOUBTS: Final = (STATE_LOST,)


def state_lost(scene: Scene) -> Iterator[Doubt]:
    """Whether the check of its state found it in force no more, once the run was over."""
    lost = scene.observation.device_state_lost if scene.observation is not None else None
    if lost is not None:
        yield STATE_LOST.seen(f"Behind the run, {lost}.")


RULES: Final = (state_lost,)
