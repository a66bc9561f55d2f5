"""How much a value differs from one run to the next, where a row has one run only. Pure.

    declared     by the mark, the option or the ini file; it wins
    remembered   by the station, from repeated measurements of the same kind

Either is a number in the facts of the row, so that a journal is judged again without the station that knew it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pytest_netperf.judge.doubt_reference import DOUBTS as TESTER_TOO_SLOW
from pytest_netperf.judge.method import BETWEEN_RUNS, BetweenRuns
from pytest_netperf.judge.statistics import small_sample_factor
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import format_value
from pytest_netperf.record.schema import Row

__all__ = [
    "DECLARED",
    "FEWEST_DEGREES",
    "FEWEST_RUNS",
    "HISTORY",
    "NEWEST",
    "REMEMBERED",
    "SOURCE",
    "RunToRun",
    "Spread",
    "pooled",
    "run_to_run_in",
    "spreads_of",
]

DECLARED: Final = "declared_run_to_run"
"""The fact of a row that holds the declared relative standard deviation from run to run."""
REMEMBERED: Final = "station_run_to_run"
"""The fact of a row that holds the relative standard uncertainty from run to run that the station remembers."""
SOURCE: Final = "run_to_run_from"
"""The fact of a row that says from which measurements the station knows that."""
HISTORY: Final = "station_history"
"""The fact of a row that names what it is comparable with: rows with the same name share a history."""

FEWEST_RUNS: Final = 3
"""Runs of a repeated measurement that is worth remembering."""
NEWEST: Final = 20
"""Measurements that count; older ones are forgotten."""
FEWEST_DEGREES: Final = 4
"""Degrees of freedom below which a pooled standard deviation says next to nothing."""
_JUDGED: Final = frozenset({Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE})


class Spread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one repeated measurement says of the spread between its runs."""

    relative_sd: float
    """Standard deviation of the values of the runs over their mean."""
    runs: int
    measured_at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunToRun:
    """The part of the uncertainty between runs, of a measurement that is not repeated."""

    relative: float
    """Relative standard uncertainty."""
    source: str | None = None
    """The measurements that a station has it from; None when it was declared."""

    def facts(self) -> dict[str, Any]:
        """What a row must hold of it."""
        return {DECLARED: self.relative} if self.source is None else {REMEMBERED: self.relative, SOURCE: self.source}


def run_to_run_in(facts: Mapping[str, Any]) -> float | None:
    """The relative standard uncertainty from run to run that a row was measured with; None when nobody knew one."""
    for name in (DECLARED, REMEMBERED):
        found = facts.get(name)
        if isinstance(found, int | float) and not isinstance(found, bool):
            return float(found)
    return None


def pooled(spreads: Sequence[Spread], between_runs: BetweenRuns) -> RunToRun | None:
    """What the newest of some spreads say together, the oldest first; None when they are too few.

    The root mean square of the relative standard deviations, weighted by their degrees of freedom (the pooled estimate
    of JCGM 100:2008, H.3.6), and as all parts of U from few values by Student's factor (JCGM 101:2008, 6.4.9.4).
    """
    newest = spreads[-NEWEST:]
    freedom = sum(spread.runs - 1 for spread in newest)
    if freedom < FEWEST_DEGREES:
        return None
    relative_sd = math.sqrt(math.fsum((each.runs - 1) * each.relative_sd**2 for each in newest) / freedom)
    fewest, most = min(each.runs for each in newest), max(each.runs for each in newest)
    runs = f"{most}" if fewest == most else f"{fewest} to {most}"
    measurements = "1 measurement" if len(newest) == 1 else f"{len(newest)} measurements"
    return RunToRun(
        relative=relative_sd * small_sample_factor(freedom + 1),
        source=f"station history: {measurements} of {runs} runs, the last on {newest[-1].measured_at[:10]}; "
        f"standard deviation {format_value(relative_sd, 'ratio', 2)} with {freedom} degrees of freedom, between two "
        f"runs {BETWEEN_RUNS[between_runs]}",
    )


def spreads_of(rows: Iterable[Row]) -> list[tuple[str, Spread]]:
    """What is worth remembering of some rows of one test: the name of its history, and the spread.

    Of each repeated measurement of at least 3 runs, of which every row was judged and whose throughput the tester did
    not limit.
    """
    measurements: dict[str, list[Row]] = {}
    for row in rows:
        if row.evidence.runs:
            measurements.setdefault(row.evidence.facts.get("raw_output_in", row.id), []).append(row)
    found = []
    for same in measurements.values():
        name, spread = same[0].evidence.facts.get(HISTORY), _spread(same)
        if isinstance(name, str) and spread is not None:
            found.append((name, spread))
    return found


def _spread(rows: Sequence[Row]) -> Spread | None:
    if any(row.verdict not in _JUDGED or _tester_limited(row) for row in rows):
        return None
    made = [run.throughput_bps for run in rows[0].evidence.runs]
    for row in rows:  # by a profile, the value of a run is that of its window
        made = row.evidence.facts.get("run_values_bps", made)
    values = [value for value in made if value is not None and 0 < value < math.inf]
    size, when = len(values), rows[0].started_at
    if size < FEWEST_RUNS or size < len(rows[0].evidence.runs) or when is None:
        return None
    mean = math.fsum(values) / size
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (size - 1))
    return Spread(relative_sd=sd / mean, runs=size, measured_at=when)


def _tester_limited(row: Row) -> bool:
    facts = row.evidence.facts
    too_slow = any(doubt.startswith(f"{known.name}: ") for doubt in row.evidence.doubts for known in TESTER_TOO_SLOW)
    return too_slow or ("tester_limited" in facts and facts.get("rate_explained") is not True)
