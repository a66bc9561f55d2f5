"""A limit that is to be met in k of n runs, held against the runs that were made. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_netperf.judge.judgement import Judgement, distance_of, margin_of
from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import format_pair, format_value, get_quantity

__all__ = ["deciding_value", "met_in_runs"]


def deciding_value(values: Sequence[float], limit: ResolvedLimit) -> float | None:
    """Of k runs that must meet a limit, the value of the k-th best: it meets the limit when k runs do.

    The worst one while fewer were made; None without any.
    """
    ranked = sorted(values, key=lambda each: distance_of(each, limit), reverse=True)
    return ranked[min(limit.statistic.needed or len(ranked), len(ranked)) - 1] if ranked else None


def met_in_runs(values: Sequence[float], limit: ResolvedLimit) -> Judgement:
    """PASS when enough runs meet the limit and all that it speaks of were made; ``values`` in the order of the runs.

    FAIL as soon as too many miss it, INCONCLUSIVE while runs are missing. Of more runs than the limit speaks of, those
    behind count too: they cannot turn a FAIL into a PASS, and a PASS that they do not bear out is INCONCLUSIVE. A value
    that is no finite number above zero makes it INVALID.
    """
    unit = get_quantity(limit.quantity).unit
    for number, value in enumerate(values, 1):
        if not 0 < value < math.inf:
            return Judgement(
                Verdict.INVALID,
                f"Run {number} of {len(values)} has the value {value!r}, which is no finite number above zero.",
                "Do not use this number. Find out why it cannot be true, then run this test again.",
            )
    asked = limit.statistic.runs or len(values)
    needed = limit.statistic.needed or asked
    missed = [number for number, value in enumerate(values, 1) if distance_of(value, limit) < 0]
    deciding = deciding_value(values, limit)
    margin = None if deciding is None else margin_of(deciding, limit)
    said = _said(values, missed, limit, unit)
    if not values or (len(values) < asked and len(missed) <= asked - needed):
        made = "was" if len(values) == 1 else "were"
        return Judgement(
            Verdict.INCONCLUSIVE,
            f"{len(values)} of {asked or 'the'} runs {made} made{f': {said}' if values else ''}.",
            f"Measure {asked or 'several'} runs in this test (repeat={asked or 5}).",
            margin,
        )
    if len(missed) <= asked - needed:
        return Judgement(Verdict.PASS, f"{said}; {_required(limit, needed, asked)}.", None, margin)
    if len([number for number in missed if number <= asked]) <= asked - needed:
        return Judgement(
            Verdict.INCONCLUSIVE,
            f"{said}; {_required(limit, needed, asked)}: the first {asked} bear it out, all {len(values)} do not.",
            f"Measure {asked} runs in this test (repeat={asked}), or agree on a limit for {len(values)}.",
            margin,
        )
    return Judgement(
        Verdict.FAIL,
        f"{said}; {_required(limit, needed, asked)}.",
        "Find out what differs from run to run (cable, port, heat); if it stays, the device does not meet the limit.",
        margin,
    )


def _said(values: Sequence[float], missed: Sequence[int], limit: ResolvedLimit, unit: str) -> str:
    """``4 of 5 runs meet >= 2.3 Gbit/s; run 3 is the worst with 2.1 Gbit/s``."""
    if not values:
        return ""
    met = len(values) - len(missed)
    text = f"{met} of {len(values)} run{'' if len(values) == 1 else 's'} meet{'s' if met == 1 else ''} it"
    number, worst = min(enumerate(values, 1), key=lambda item: distance_of(item[1], limit))
    bound = limit.low if limit.low is not None and (limit.high is None or worst < limit.high) else limit.high
    shown = format_value(worst, unit) if bound is None else format_pair(worst, bound, unit)[0]
    return f"{text}, with {shown}" if len(values) == 1 else f"{text}, the worst (run {number}) with {shown}"


def _required(limit: ResolvedLimit, needed: int, asked: int) -> str:
    unit = get_quantity(limit.quantity).unit
    bounds = " to ".join(format_value(bound, unit) for bound in (limit.low, limit.high) if bound is not None)
    which = "at least " if limit.high is None else "at most " if limit.low is None else ""
    how = "every run" if not limit.statistic.runs else f"{needed} of {asked}"
    return f"{which}{bounds} is required in {how}"
