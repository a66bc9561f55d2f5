"""The doubts of a recorded series, in the words of `judge.doubts` where it knows them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_netperf.judge.doubt_link import BINARY_UNITS, binary_unit
from pytest_netperf.judge.doubt_series import BIMODAL, OUTLIERS, STALL, STEP, TREND
from pytest_netperf.judge.profile import Profile
from pytest_netperf.judge.stationarity import Shape, outliers, stalls
from pytest_netperf.judge.statistics import Sample
from pytest_netperf.quantities import format_pair, format_value

__all__ = ["describe_shape", "doubts_of_profile", "doubts_of_rate", "doubts_of_window"]

_KNOWN = {"step": STEP, "trend": TREND, "bimodal": BIMODAL}


def describe_shape(shape: Shape, kept: Sequence[Sample]) -> str:
    """The two levels of a shape, and when each of them was."""
    first, second = format_pair(*shape.levels_bps, "bit/s")
    if shape.kind == "step":
        at_s = math.fsum(sample.seconds for sample in kept[: shape.at])
        return f"{first} for {at_s:.3g} s and {second} after that"
    if shape.kind == "trend":
        return f"{first} at the beginning and {second} at the end"
    return f"clusters at {first} and at {second}"


def doubts_of_window(
    kept: Sequence[Sample], window: Sequence[Sample], warm_up_s: float, shapes: Sequence[Shape]
) -> Iterator[str]:
    """What the mean of a window hides. ``kept`` is the window without its warm-up."""
    if warm_up_s:
        yield (
            f"Warm-up: the first {warm_up_s:.3g} s after the omit were slower and do not count (MSER-5). "
            "Omit more if that is usual here."
        )
    for shape in shapes:
        yield _KNOWN[shape.kind].seen(f"The rates were {describe_shape(shape, kept)}.").text
    still = stalls(window)
    if still:
        first_s = math.fsum(sample.seconds for sample in window[: still[0]])
        yield STALL.seen(
            f"Next to nothing arrived in {len(still)} of {len(window)} intervals, first {first_s:.3g} s after the omit."
        ).text
    far = [place for place in outliers(kept) if kept[place] not in [window[index] for index in still]]
    if far and not shapes:
        slowest = min(kept[place].rate_bps for place in far)
        yield OUTLIERS.seen(
            f"{len(far)} of {len(kept)} intervals are far from the others, the slowest of them with "
            f"{format_value(slowest, 'bit/s')}."
        ).text


def doubts_of_rate(value_bps: float, bound_bps: float | None) -> Iterator[str]:
    """What a ratio to the ceiling looks like."""
    unit = binary_unit(value_bps / bound_bps) if bound_bps else None
    if unit and bound_bps:
        shown = format_value(value_bps / bound_bps, "ratio", 3)
        yield BINARY_UNITS.seen(f"The value is {shown} of the ceiling, as if in {unit}.").text


def doubts_of_profile(profile: Profile, declared_between: float | None) -> Iterator[str]:
    """What a single run cannot show although its profile asks for it."""
    if profile.repetitions > 1 and declared_between is None:
        yield (
            f"One run: profile {profile.name} asks for {profile.repetitions}, and the spread between runs is not "
            "known. Measure the others."
        )
