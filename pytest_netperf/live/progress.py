"""One running measurement, once a second: what is known of it, and as a line of text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pytest_netperf.quantities import format_value

__all__ = ["Progress", "pieces", "sparkline", "text_line"]

_BARS: Final = "▁▂▃▄▅▆▇█"
_SHORTEST_END_S: Final = 1.0


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A look at a running measurement."""

    test: str
    """Node id."""
    label: str
    """The test and its link for people."""
    elapsed_s: float
    """Of the traffic of this run, the omitted seconds included."""
    planned_s: float
    rates_bps: tuple[float, ...] = ()
    """Payload received per second since the look before, one for each direction; none when nothing is known yet."""
    limit: str | None = None
    """The limit on the throughput, as it was written."""
    run: int = 1
    """Which of its repeated runs."""
    runs: int = 1
    sure: float | None = None
    """How much of the evidence is there that ends a run early, 0 to 1; None for a run of a fixed time."""
    waited_s: float = 0.0
    """So long it waits for its turn to measure; 0 when it measures."""


def text_line(progress: Progress) -> str:
    """All of it on one line, as in "12 of 63 s  test_line_rate[...]  2.354 Gbit/s  limit >= 2.3 Gbps"."""
    first, *figures = pieces(progress)
    return "  ".join(piece for piece in (first, progress.label, *figures) if piece)


def pieces(progress: Progress) -> tuple[str, str, str, str, str]:
    """How far it is, which of several runs, how fast, what is required, how sure; "" for what does not apply."""
    return (
        f"{progress.elapsed_s:.0f} of {progress.planned_s:.0f} s"
        if not progress.waited_s
        else f"waiting for its turn, {progress.waited_s:.0f} s",
        f"run {progress.run} of {progress.runs}" if progress.runs > 1 else "",
        " and ".join(format_value(rate, "bit/s") for rate in progress.rates_bps),
        f"limit {progress.limit}" if progress.limit else "",
        f"{progress.sure * 100:.0f} % of the evidence" if progress.sure is not None else "",
    )


def sparkline(values: Sequence[float], width: int) -> str:
    """The last ``width`` values as bars between zero and the highest of them."""
    shown = list(values)[-width:]
    highest = max(shown, default=0.0)
    if highest <= 0:
        return _BARS[0] * len(shown)
    return "".join(_BARS[round(max(0.0, value) / highest * (len(_BARS) - 1))] for value in shown)
