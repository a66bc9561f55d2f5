"""Devices against their lot, stations against each other, a golden device against its past; from scipy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_netperf.batch.facts import RowName, RunFacts
from pytest_netperf.batch.lot import Unit, moment
from pytest_netperf.batch.row_statistics import counted
from pytest_netperf.batch.summary import Golden, Outlier, StationRow
from pytest_netperf.quantities import format_value

__all__ = ["golden_trend", "outliers", "station_rows"]

_SCORE = 3.5
"""Iglewicz and Hoaglin (1993): what lies farther from the median, in scaled MADs, is an outlier."""
_FEWEST = 8
_SMALLEST_STEP = 0.002
"""Of the median: values that pile up have hardly any MAD, and what differs by less than this is not worth a look."""
_P = 0.01
_DAY = 86400.0


def outliers(name: RowName, units: Sequence[Unit]) -> list[Outlier]:
    """The devices whose value lies far from the median of the lot, the farthest first; none for a small lot."""
    import numpy
    from scipy.stats import median_abs_deviation

    rows = [(unit.serial, unit.last.rows[name.key]) for unit in units if name.key in unit.last.rows]
    good = [(serial, row) for serial, row in rows if counted([row])]
    if len(good) < _FEWEST:
        return []
    values = numpy.asarray([row.value for _, row in good], dtype=float)
    median = float(numpy.median(values))
    scale = float(median_abs_deviation(values, scale="normal"))
    if not scale:  # more than half of the values are equal
        scale = 1.253314 * float(numpy.mean(numpy.abs(values - median)))
    if not scale:
        return []
    found = [
        Outlier(
            serial=serial,
            label=name.label,
            unit=name.unit,
            value=row.value,
            median=median,
            score=(row.value - median) / scale,
            verdict=row.verdict.value,
        )
        for serial, row in good
        if row.value is not None
        and abs(row.value - median) > _SCORE * scale
        and abs(row.value - median) >= _SMALLEST_STEP * abs(median)
    ]
    return sorted(found, key=lambda outlier: -abs(outlier.score))


def station_rows(names: Mapping[str, RowName], units: Sequence[Unit]) -> list[StationRow]:
    """The rows whose values differ between the stations, by the first runs; those with the smallest p first."""
    import numpy
    from scipy.stats import kruskal

    compared = []
    for name in names.values():
        of_station: dict[str, list[float]] = {}
        for unit in units:
            row = unit.first.rows.get(name.key)
            if row is not None and counted([row]) and row.value is not None:
                of_station.setdefault(unit.first.station, []).append(row.value)
        groups = {station: values for station, values in sorted(of_station.items()) if len(values) >= 5}
        if len(groups) > 1 and len({value for values in groups.values() for value in values}) > 1:
            medians = {station: float(numpy.median(values)) for station, values in groups.items()}
            compared.append((name, medians, float(kruskal(*groups.values()).pvalue)))
    found = [
        StationRow(label=name.label, unit=name.unit, medians=medians, p=min(1.0, p * len(compared)))
        for name, medians, p in compared
        if p * len(compared) < _P
    ]
    return sorted(found, key=lambda row: row.p)


def golden_trend(serial: str, runs: Sequence[RunFacts], name: RowName) -> Golden | None:
    """One row of a golden device over its runs; None when it has no value that counts."""
    points = [(run, row) for run in runs if (row := run.rows.get(name.key)) is not None and counted([row])]
    if not points:
        return None
    values = tuple(row.value for _, row in points if row.value is not None)
    days = [moment(run.started_at) / _DAY for run, _ in points]
    slope = p = None
    text = f"{len(values)} run{'s' if len(values) > 1 else ''}: too few for a trend."
    if len(values) >= 4 and max(days) > min(days):
        from scipy.stats import kendalltau, theilslopes

        slope = float(theilslopes(values, days).slope)
        tau = kendalltau(days, values)
        p = None if tau.pvalue != tau.pvalue else float(tau.pvalue)  # NaN: all values are equal
        if p is not None and p < _P:
            sign = "-" if slope < 0 else "+"
            text = (
                f"{len(values)} runs: it drifts by {sign}{format_value(abs(slope), name.unit)} a day (Theil-Sen; "
                f"Kendall, p = {p:.1g}). Look at the station before you believe the lot."
            )
        else:
            text = f"{len(values)} runs: no trend."
    last = points[-1][1]
    return Golden(
        serial=serial,
        label=name.label,
        unit=name.unit,
        times=tuple(run.started_at for run, _ in points),
        values=values,
        limit_low=last.low,
        limit_high=last.high,
        slope_per_day=slope,
        p=p,
        text=text,
    )
