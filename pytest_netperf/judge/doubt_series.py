"""Doubts about the rate over time: what the mean of a run hides. Pure; the finders are in `judge.stationarity`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from pytest_netperf.judge import stationarity
from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.doubt_stream import large_packets_stopped
from pytest_netperf.judge.scene import Scene, counted
from pytest_netperf.judge.statistics import Sample, quantile
from pytest_netperf.quantities import format_value
from pytest_netperf.traffic.result import Flow, Interval, Workload

__all__ = ["BIMODAL", "DOUBTS", "OUTLIERS", "RULES", "STALL", "STEP", "TREND"]

_PLOT: Final = "Look at the plot over time; run it again, and longer."

STALL: Final = KnownDoubt(
    name="Data stall",
    kind="device",
    sign="In an interval nothing arrived, or less than 1 % of the median interval.",
    meaning="The data stopped, and the mean hides it.",
    next_step="Look at the plot over time, at the carrier changes, and into the kernel's log.",
)
STEP: Final = KnownDoubt(
    name="Rate step",
    kind="note",
    sign="From 10 intervals on: one change of level, beyond the noise and 0.25 % of the value.",
    meaning="The mean describes neither part of the run.",
    next_step=_PLOT,
)
TREND: Final = KnownDoubt(
    name="Rate trend",
    kind="note",
    sign="From 10 intervals on: a steady rise or fall over the run, beyond the noise and 0.5 % of the value.",
    meaning="The rate had not settled: a warm-up that was not over, or heat.",
    next_step="Omit more seconds or run it longer, and watch the temperature.",
)
BIMODAL: Final = KnownDoubt(
    name="Bimodal intervals",
    kind="note",
    sign="From 10 intervals on: two clusters of rates, each a fifth of the intervals or more, with a gap of 0.5 %.",
    meaning="The link switches between two states, and the mean is neither.",
    next_step=_PLOT,
)
OUTLIERS: Final = KnownDoubt(
    name="Outlier intervals",
    kind="note",
    sign="From 10 intervals on: single ones that differ from the median by 6 robust standard deviations, 1 % and what "
    "10 ms deliver.",
    meaning="Something disturbed them.",
    next_step=_PLOT,
)
SHORT: Final = KnownDoubt(
    name="Run shorter than asked",
    kind="note",
    sign="The receiver's seconds, or those of the intervals, fall short of the asked ones by more than 5 % and 0.3 s.",
    meaning="The rate is of a part of the run only.",
    next_step="Find out what held the run up, and run it again.",
)
FEW: Final = KnownDoubt(
    name="Too few intervals",
    kind="note",
    sign="A direction has fewer than 3 intervals that count.",
    meaning="Nothing says whether the rate was steady.",
    next_step="Measure for longer (--netperf-duration), or in shorter intervals.",
)
HELD_UP: Final = KnownDoubt(
    name="iperf3 held up",
    kind="tester",
    sign="An interval lasted longer than asked, by half of it and 0.2 s.",
    meaning="The iperf3 that counted was stopped, or got no CPU, and the data waited for it.",
    next_step="Find out what stopped it, and run it again.",
)
DOUBTS: Final = (STALL, STEP, TREND, BIMODAL, OUTLIERS, SHORT, FEW, HELD_UP)

_FEWEST: Final = 3
_SHORT_SHARE: Final = 0.95
_SHORT_SECONDS: Final = 0.3
_HICCUP_SECONDS: Final = 0.01  # of data: a shaper's burst, the last words of iperf3, a process that woke up late
_END_SECONDS: Final = 0.05
_GRAINS: Final = 2
_STEP_BEFORE_MODES: Final = 1.5
_LATE_SHARE: Final = 1.5
_LATE_SECONDS: Final = 0.2
_SMALLEST_COUNT: Final = 10  # datagrams an interval must hold for its rate to mean anything


def _samples(intervals: list[Interval]) -> list[Sample]:
    return [Sample(interval.seconds, interval.bytes * 8.0) for interval in intervals]


def _steady_part(scene: Scene, flow: Flow) -> list[Interval]:
    """The intervals that should be alike.

    Not the first of a run without omitted seconds, which holds the start. The last one is closed when the word that the
    test is over arrives, up to 20 ms after the last data was seen here: it counts for its nominal length.
    """
    intervals, nominal_s = counted(flow), scene.result.workload.interval_s
    if intervals and nominal_s < intervals[-1].seconds <= nominal_s + _END_SECONDS:
        intervals[-1] = msgspec.structs.replace(intervals[-1], seconds=nominal_s)
    return intervals if scene.result.workload.omit_s else intervals[1:]


def data_stall(scene: Scene) -> Iterator[Doubt]:
    """Intervals in which nothing arrived, hidden by the mean."""
    for flow in scene.result.flows:
        if large_packets_stopped(scene, flow) or _too_thin(scene):
            continue
        intervals = counted(flow)
        still = stationarity.stalls(_samples(intervals))
        if still:
            first = format_value(max(0.0, intervals[still[0]].start_s), "s", 3)
            yield STALL.seen(
                f"Next to nothing arrived in {len(still)} of {len(intervals)} intervals of the {flow.direction} run, "
                f"first at {first}."
            )


def _too_thin(scene: Scene) -> bool:
    """Whether so little was offered that an empty interval is nothing strange."""
    workload = scene.result.workload
    if workload.bitrate_bps is None:
        return False
    return workload.bitrate_bps / 8 * workload.interval_s < _SMALLEST_COUNT * _write_bytes(workload)


def _write_bytes(workload: Workload) -> int:
    """What iperf3 sends at a time, by its own defaults where nothing was asked."""
    return workload.length_bytes or (1448 if workload.protocol == "udp" else 128 * 1024)


def _grain_bps(scene: Scene) -> float:
    """By how much intervals of a limited rate differ only because iperf3 sends whole writes."""
    workload = scene.result.workload
    if workload.bitrate_bps is None:
        return 0.0
    return _GRAINS * 8 * _write_bytes(workload) * workload.streams / workload.interval_s


def rate_shape(scene: Scene) -> Iterator[Doubt]:
    """The one of step, trend and two levels that describes an unsteady run best."""
    for flow in scene.result.flows:
        intervals = _steady_part(scene, flow)
        samples = _samples(intervals)
        if _too_thin(scene) or stationarity.stalls(samples):
            continue
        shapes = [shape for find in (stationarity.step, stationarity.trend) if (shape := find(samples)) is not None]
        modes = stationarity.bimodality(samples)
        if modes is not None:  # a step has two levels too, and says more: it must be clearly worse to lose
            shapes.append(modes._replace(unexplained=modes.unexplained * _STEP_BEFORE_MODES))
        if not shapes:
            continue
        shape = min(shapes, key=lambda each: each.unexplained)
        if abs(shape.levels_bps[1] - shape.levels_bps[0]) <= _grain_bps(scene):
            continue
        low, high = (format_value(level, "bit/s") for level in shape.levels_bps)
        run = f"The {flow.direction} rate"
        if shape.kind == "step":
            at = format_value(max(0.0, intervals[shape.at].start_s), "s", 3)
            yield STEP.seen(f"{run} was {low} until {at}, then {high}.")
        elif shape.kind == "trend":
            yield TREND.seen(f"{run} went from {low} to {high}.")
        else:
            yield BIMODAL.seen(f"{run} was either about {low} or about {high}.")


def outlier_intervals(scene: Scene) -> Iterator[Doubt]:
    """Single intervals far from all others."""
    for flow in scene.result.flows:
        intervals = _steady_part(scene, flow)
        samples = _samples(intervals)
        if _too_thin(scene) or stationarity.stalls(samples):
            continue
        middle = quantile([sample.rate_bps for sample in samples], 0.5) if samples else 0.0
        far = [
            index
            for index in stationarity.outliers(samples)
            if abs(samples[index].rate_bps - middle)
            > max(middle * _HICCUP_SECONDS / samples[index].seconds, _grain_bps(scene))
        ]
        if far:
            worst = max(far, key=lambda index: abs(samples[index].rate_bps - middle))
            yield OUTLIERS.seen(
                f"{len(far)} of {len(samples)} intervals of the {flow.direction} run stand out, most of all "
                f"{format_value(samples[worst].rate_bps, 'bit/s')} at "
                f"{format_value(max(0.0, intervals[worst].start_s), 's', 3)}; the median is "
                f"{format_value(middle, 'bit/s')}."
            )


def run_too_short(scene: Scene) -> Iterator[Doubt]:
    """A receiver that counted for fewer seconds than were asked for."""
    workload = scene.result.workload
    asked = workload.duration_s
    spared = workload.interval_s if workload.omit_s else 0.0  # the interval across the edge of -O is left out
    for flow in scene.result.flows:
        intervals = counted(flow)
        lasted = [sum(interval.seconds for interval in intervals) + spared] if intervals else []
        lasted += [flow.received_seconds] if flow.received_seconds else []
        shortest = min(lasted, default=asked)
        if shortest < _SHORT_SHARE * asked and asked - shortest > _SHORT_SECONDS:
            yield SHORT.seen(
                f"The {flow.direction} run counted for {format_value(shortest, 's', 3)} of the "
                f"{format_value(asked, 's', 3)} asked for."
            )


def too_few_intervals(scene: Scene) -> Iterator[Doubt]:
    """A rate without a series behind it."""
    for flow in scene.result.flows:
        count = len(counted(flow))
        if count < _FEWEST:
            yield FEW.seen(f"The {flow.direction} run has {count} interval{'' if count == 1 else 's'} that count.")


def held_up(scene: Scene) -> Iterator[Doubt]:
    """A timer that was late: the program that counts did not run."""
    nominal_s = scene.result.workload.interval_s
    for flow in scene.result.flows:
        late = [each for each in counted(flow) if each.seconds > _LATE_SHARE * nominal_s + _LATE_SECONDS]
        if late:
            worst = max(late, key=lambda interval: interval.seconds)
            yield HELD_UP.seen(
                f"An interval of the {flow.direction} run took {format_value(worst.seconds, 's', 3)} instead of "
                f"{format_value(nominal_s, 's', 3)}, at {format_value(max(0.0, worst.start_s), 's', 3)}."
            )


RULES: Final = (data_stall, rate_shape, outlier_intervals, run_too_short, too_few_intervals, held_up)
