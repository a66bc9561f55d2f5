"""Statistics of one row over the devices of a lot, from scipy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from pytest_netperf.batch.facts import RowFacts, RowName
from pytest_netperf.batch.summary import Histogram, RowStatistics
from pytest_netperf.judge.verdict import Verdict

__all__ = ["counted", "cpk", "cpk_lower_bound", "row_statistics"]

NEAR_CEILING = 0.005
"""Values within this share of the ceiling lie at it: the wire cut them off, not the device."""
_MOST_BINS = 24
_CONFIDENCE = 0.95
_FAR = 3000.0
_NORMAL_FROM, _NORMAL_TO = 8, 5000
"""Numbers of values for which Shapiro and Wilk's test is used."""


def counted(rows: Sequence[RowFacts]) -> list[RowFacts]:
    """The rows whose value counts: judged PASS or FAIL, so that nothing else speaks against it."""
    return [row for row in rows if row.value is not None and row.verdict in (Verdict.PASS, Verdict.FAIL)]


def row_statistics(name: RowName, rows: Sequence[RowFacts], devices: int) -> RowStatistics:
    """``rows`` are those of the devices' last runs; a device of the ``devices`` that has none is not counted."""
    import numpy

    good = counted(rows)
    values = [row.value for row in good if row.value is not None]
    notes: list[str] = []
    low, high = (_common(good, field, notes) for field in ("low", "high"))
    ceiling = _common(good, "ceiling", notes)
    failed = sum(row.verdict is Verdict.FAIL for row in good)
    if not values:
        return RowStatistics(
            key=name.key, label=name.label, unit=name.unit, n=0, not_counted=devices, failed=0, limit_low=low,
            limit_high=high, ceiling=ceiling,
        )  # fmt: skip
    array = numpy.asarray(values)
    mean = float(array.mean())
    sd = float(array.std(ddof=1)) if len(values) > 1 else None
    near = sum(value >= ceiling * (1 - NEAR_CEILING) for value in values) if ceiling else 0
    if ceiling and near >= max(3, len(values) / 2):
        notes.append(
            f"{near} of {len(values)} values lie within {100 * NEAR_CEILING:g} % of the ceiling: they pile up there "
            "and are not normal, so Cpk says nothing about the share that would fail."
        )
    elif sd and _NORMAL_FROM <= len(values) <= _NORMAL_TO and (p := _p_of_normal(values)) < 0.01:
        notes.append(f"The values are not normal (Shapiro-Wilk, p = {p:.1g}): read Cpk with care.")
    index = bound = None
    if sd is not None and (low is not None or high is not None):
        if sd <= 1e-12 * max(abs(mean), 1e-300):
            notes.append("All values are equal: there is no scatter to make a Cpk of.")
        else:
            index = cpk(mean, sd, low, high)
            bound = cpk_lower_bound(mean, sd, len(values), low, high)
    return RowStatistics(
        key=name.key,
        label=name.label,
        unit=name.unit,
        n=len(values),
        not_counted=devices - len(values),
        failed=failed,
        mean=mean,
        sd=sd,
        smallest=min(values),
        largest=max(values),
        median=float(numpy.median(array)),
        limit_low=low,
        limit_high=high,
        ceiling=ceiling,
        cpk=index,
        cpk_low=bound,
        near_ceiling=near,
        notes=tuple(dict.fromkeys(notes)),
        histogram=_histogram(values, [bound for bound in (low, high, ceiling) if bound is not None]),
    )


def cpk(mean: float, sd: float, low: float | None, high: float | None) -> float:
    """min((mean - low) / 3 sd, (high - mean) / 3 sd) (ISO 22514-2); of one limit the one side."""
    sides = [(mean - low) / (3 * sd)] if low is not None else []
    sides += [(high - mean) / (3 * sd)] if high is not None else []
    return min(sides)


def cpk_lower_bound(mean: float, sd: float, n: int, low: float | None, high: float | None) -> float | None:
    """The value that Cpk exceeds with 95 % confidence, for normal values; None for fewer than 2.

    For one limit this is exact: 3 sqrt(n) times the estimate is noncentral t with n - 1 degrees of freedom and
    noncentrality 3 sqrt(n) Cpk (Owen 1968; Kushler and Hurley 1992). With two limits the smaller of the two bounds
    holds with at least that confidence, because Cpk is one of the two sides.
    """
    if n < 2:
        return None
    sides = [_one_sided((mean - low) / (3 * sd), n)] if low is not None else []
    sides += [_one_sided((high - mean) / (3 * sd), n)] if high is not None else []
    return min(sides)


def _one_sided(estimate: float, n: int) -> float:
    from scipy.optimize import brentq
    from scipy.stats import chi2, nct, norm

    scale = 3 * math.sqrt(n)
    t = scale * estimate
    # The bound's usual approximation (Bissell 1990) says where to look.
    spread = float(norm.ppf(_CONFIDENCE)) * math.sqrt(1 / scale**2 + estimate**2 / (2 * (n - 1)))
    if abs(t) > _FAR:  # nct gives up there, and the scatter of the mean no longer matters beside that of sd
        share = 1 - _CONFIDENCE if t > 0 else _CONFIDENCE
        return estimate * math.sqrt(float(chi2.ppf(share, n - 1)) / (n - 1))

    def excess(candidate: float) -> float:
        return float(nct.sf(t, n - 1, scale * candidate)) - (1 - _CONFIDENCE)

    below, above = estimate - 3 * spread - 1e-9, estimate
    while excess(below) >= 0:
        below -= 2 * spread
    return float(brentq(excess, below, above, xtol=1e-9))


def _p_of_normal(values: Sequence[float]) -> float:
    from scipy.stats import shapiro

    middle = sum(values) / len(values)
    largest = max(abs(value - middle) for value in values)
    return float(shapiro([(value - middle) / largest for value in values]).pvalue)


def _common(rows: Sequence[RowFacts], field: str, notes: list[str]) -> float | None:
    """The bound that all rows have; the commonest, with a note, when they have different ones."""
    found = Counter(getattr(row, field) for row in rows)
    if len(found) > 1:
        what = "ceilings" if field == "ceiling" else "limits"
        notes.append(f"The devices were measured with different {what}; the commonest is shown.")
    return found.most_common(1)[0][0] if found else None


def _histogram(values: Sequence[float], bounds: Sequence[float]) -> Histogram:
    """Equal bins over the values, and out to the bounds that are near enough to leave the values some bins."""
    import numpy

    first, last = min(values), max(values)
    room = max(last - first, 1e-3 * max(abs(first), abs(last)), 1e-12)
    edges = [first, last] + [bound for bound in bounds if first - 6 * room <= bound <= last + 6 * room]
    begin, end = min(edges), max(edges)
    if end - begin <= 1e-9 * max(abs(begin), abs(end)):
        begin, end = begin - room / 2, end + room / 2
    bins = min(_MOST_BINS, max(8, math.ceil(2 * math.sqrt(len(values)))))
    counts, limits = numpy.histogram(values, bins=bins, range=(begin, end))
    return Histogram(tuple(map(float, limits)), tuple(map(int, counts)))
