"""From a lot to everything that its page says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_netperf import __version__
from pytest_netperf.batch.comparison import golden_trend, outliers, station_rows
from pytest_netperf.batch.facts import RowName, RunFacts
from pytest_netperf.batch.lot import Lot, Unit
from pytest_netperf.batch.row_statistics import row_statistics
from pytest_netperf.batch.sampling import Inspected
from pytest_netperf.batch.summary import (
    SIMULATED,
    Batch,
    Counts,
    Outlier,
    ParetoRow,
    Proportion,
    SamplingCheck,
    Station,
    UnitLine,
)
from pytest_netperf.errors import ConfigError
from pytest_netperf.judge.verdict import DeviceVerdict, Verdict

__all__ = ["inspected", "proportion", "require_scipy", "summarise"]

_MOST_OUTLIERS = 60


def require_scipy() -> None:
    """Raise ConfigError, with the way out, when scipy is not installed."""
    try:
        import scipy.stats  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise ConfigError(
            f"a batch page needs scipy ({error}): install it with pip install 'pytest-netperf[batch]'"
        ) from None


def proportion(k: int, n: int) -> Proportion:
    """k of n with the exact bounds of Clopper and Pearson (1934), two-sided at 95 %."""
    if n == 0:
        return Proportion(0, 0, None, None, None)
    from scipy.stats import binomtest

    bounds = binomtest(k, n).proportion_ci(0.95, method="exact")
    return Proportion(k, n, k / n, float(bounds.low), float(bounds.high))


def inspected(lot: Lot, lot_size: int) -> Inspected:
    """The lot as a sampling plan sees it: each device by its first run that proved anything.

    A retest that passes does not undo what inspection found.
    """
    found = [_found(unit) for unit in lot.units]
    return Inspected(
        lot_size=lot_size,
        inspected=len(found),
        nonconforming=sum(v not in (DeviceVerdict.ACCEPTED, DeviceVerdict.NOT_PROVEN) for v in found),
        undecided=sum(v is DeviceVerdict.NOT_PROVEN for v in found),
    )


def _found(unit: Unit) -> DeviceVerdict:
    proven = (run.verdict for run in unit.runs if run.verdict is not DeviceVerdict.NOT_PROVEN)
    return next(proven, DeviceVerdict.NOT_PROVEN)


def summarise(
    lot: Lot,
    names: dict[str, RowName],
    *,
    source: str,
    made_at: str,
    sampling: Sequence[SamplingCheck],
    problems: Sequence[str],
    remarks: Sequence[str],
) -> Batch:
    """All figures of the page. ``names`` may hold rows of other lots; those that this one lacks are left out."""
    units = lot.units
    mark = SIMULATED if lot.simulated else ""
    first, last = (
        Counter(run.verdict.value for run in runs) for runs in ([u.first for u in units], [u.last for u in units])
    )
    present = {key for unit in units for run in unit.runs for key in run.rows}
    known = {key: name for key, name in names.items() if key in present}
    rows = [
        row_statistics(name, [u.last.rows[key] for u in units if key in u.last.rows], len(units))
        for key, name in known.items()
    ]
    found: list[Outlier] = [outlier for name in known.values() for outlier in outliers(name, units)]
    found.sort(key=lambda outlier: -abs(outlier.score))
    said = list(remarks)
    if lot.left_out:
        serials = sorted({run.serial for run in lot.left_out})
        said.append(
            f"{len(lot.left_out)} SIMULATED sheets are left out, because they say nothing about a device: "
            f"{', '.join(serials[:8])}{' ...' if len(serials) > 8 else ''}."
        )
    if len(found) > _MOST_OUTLIERS:
        said.append(f"{len(found)} outliers were found; the {_MOST_OUTLIERS} farthest are listed.")
    passed = DeviceVerdict.ACCEPTED
    return Batch(
        batch=lot.batch,
        model=lot.model,
        source=source,
        made_at=made_at,
        software=f"pytest-netperf {__version__}",
        simulated=lot.simulated,
        devices=len(units),
        runs=sum(len(unit.runs) for unit in units),
        accepted_units=0 if lot.simulated else sum(unit.last.verdict is passed for unit in units),
        incomplete=sum(not unit.last.complete for unit in units),
        counts=tuple(Counts(v.value + mark, first[v.value], last[v.value]) for v in DeviceVerdict),
        first_pass=proportion(sum(unit.first.verdict is passed for unit in units), len(units)),
        final=proportion(sum(unit.last.verdict is passed for unit in units), len(units)),
        retested=proportion(sum(len(unit.runs) > 1 for unit in units), len(units)),
        pareto=tuple(_pareto(units, known)),
        rows=tuple(rows),
        outliers=tuple(found[:_MOST_OUTLIERS]),
        sampling=tuple(sampling),
        stations=tuple(_stations(units)),
        station_rows=tuple(station_rows(known, units)),
        golden=tuple(
            trend
            for serial, runs in lot.golden.items()
            for name in names.values()
            if (trend := golden_trend(serial, runs, name)) is not None
        ),
        units=tuple(_line(unit, unit.last) for unit in units),
        problems=tuple(problems),
        remarks=tuple(said),
    )


def _pareto(units: Sequence[Unit], names: dict[str, RowName]) -> list[ParetoRow]:
    ever: Counter[str] = Counter()
    still: Counter[str] = Counter()
    for unit in units:
        failed = {key for run in unit.runs for key, row in run.rows.items() if row.verdict is Verdict.FAIL}
        ever.update(failed)
        still.update(key for key, row in unit.last.rows.items() if row.verdict is Verdict.FAIL)
    total, reached, lines = sum(ever.values()), 0, []
    for key, count in sorted(ever.items(), key=lambda item: (-item[1], names[item[0]].label)):
        reached += count
        lines.append(ParetoRow(label=names[key].label, devices=count, still=still[key], cumulative=reached / total))
    return lines


def _stations(units: Sequence[Unit]) -> list[Station]:
    of_station: dict[str, list[RunFacts]] = {}
    for unit in units:
        of_station.setdefault(unit.first.station, []).append(unit.first)
    return [
        Station(
            name=name,
            devices=len(runs),
            first_pass=proportion(sum(run.verdict is DeviceVerdict.ACCEPTED for run in runs), len(runs)),
            not_proven=sum(run.verdict is DeviceVerdict.NOT_PROVEN for run in runs),
        )
        for name, runs in sorted(of_station.items())
    ]


def _line(unit: Unit, last: RunFacts) -> UnitLine:
    mark = SIMULATED if last.simulated else ""
    return UnitLine(
        serial=unit.serial,
        runs=len(unit.runs),
        first=unit.first.verdict.value + mark,
        last=last.verdict.value + mark,
        complete=last.complete,
        simulated=last.simulated,
        run_id=last.run_id,
        started_at=last.started_at,
        station=last.station,
        operator=last.operator,
        sentence=last.sentence,
    )
