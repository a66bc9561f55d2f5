"""Doubts about the host at the far end of a link, where that is another one: it is a part of the tester. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.scene import Scene
from pytest_netperf.quantities import format_value

__all__ = ["DOUBTS", "RULES"]

FAR_CPU_BOUND: Final = KnownDoubt(
    name="Far host CPU bound",
    kind="tester",
    sign="A CPU of the host at the far end was 95 % busy or more.",
    meaning="The far end may have had no time left to send or receive faster.",
    next_step="Run it again when nothing else runs there, or with a faster host at the far end.",
)
FAR_DROPS: Final = KnownDoubt(
    name="Far host drops",
    kind="tester",
    or_note=True,
    sign="The host at the far end dropped packets because the queue of a CPU was full, and something was lost or sent "
    "again. They are too few to matter below a tenth of that.",
    meaning="They had arrived; the far end did not keep up.",
    next_step="Enlarge net.core.netdev_max_backlog there, lower the bitrate, or take a faster host.",
)
DOUBTS: Final = (FAR_CPU_BOUND, FAR_DROPS)

_BUSY: Final = 0.95
_EXPLAINS: Final = 0.1


def far_cpu_bound(scene: Scene) -> Iterator[Doubt]:
    """A CPU there without time left."""
    far = scene.observation.far if scene.observation is not None else None
    busy = max(far.cpu_busy, default=0.0) if far is not None else 0.0
    if far is not None and busy >= _BUSY:
        number = far.cpu_busy.index(busy)
        yield FAR_CPU_BOUND.seen(f"CPU {number} of the far host was {format_value(busy, 'ratio', 3)} busy.")


def far_drops(scene: Scene) -> Iterator[Doubt]:
    """Packets that arrived there and that its kernel had no room for."""
    far = scene.observation.far if scene.observation is not None else None
    lost = scene.lost
    if far is not None and far.softnet_dropped and lost != 0:
        shown = "an unknown number" if lost is None else f"{lost}"
        yield FAR_DROPS.seen(
            f"It dropped {far.softnet_dropped} packets on receipt; {shown} were lost or sent again.",
            note=lost is None or far.softnet_dropped < _EXPLAINS * lost,
        )


RULES: Final = (far_cpu_bound, far_drops)
