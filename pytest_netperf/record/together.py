"""The rows of one device looked at together, when its sheet is made: doubts between rows, and Holm's test. Pure.

The journal keeps each row as it was judged by itself; this is done anew each time a sheet is made of it, because only
then all rows are there. It never makes a verdict better: a FAIL that many limits let appear by chance becomes
INCONCLUSIVE, which accepts no device either. What the row said by itself stays in its facts (``holm_...``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from pytest_netperf.judge.doubt_runs import compare_rows
from pytest_netperf.judge.holm import FAMILY_ALPHA, Step, is_statistical, p_value, step_down
from pytest_netperf.judge.verdict import WORST_LAST, Verdict
from pytest_netperf.quantities import format_value
from pytest_netperf.record.schema import Row

__all__ = ["OWN_CHECK", "family_of", "together"]

_THEN = ": a device that does not meet the limit then fails clearly."
_COUNTED = frozenset({Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE})
_HOLM = "holm_verdict"
OWN_CHECK = "own_check"
"""Fact of a row whose test failed by a check of its own as well: why."""


def together(rows: Sequence[Row]) -> list[Row]:
    """The rows of one device, in the same order, with what they say of one another.

    A row that came this way already stays as it is.
    """
    steps = family_of(rows)
    looked_at = [_held(row, steps.get(row.id)) for row in rows]
    doubts = compare_rows(rows)
    return [_doubted(row, [doubt.text for doubt in doubts.get(row.id, ())]) for row in looked_at]


def family_of(rows: Iterable[Row]) -> dict[str, Step]:
    """Row id -> what Holm's test says of it, for the required rows of a device that statistics could have failed.

    Nothing where there is only one: its FAIL already has the risk that its rule states. Of several attempts of a row
    the one that is worst counts.
    """
    counted: dict[str, Row] = {}
    for row in rows:
        if row.required and row.statistic is None and row.verdict in _COUNTED:
            counted[row.id] = min(row, counted.get(row.id, row), key=_worst_first)
    p_values = {
        row_id: p
        for row_id, row in counted.items()
        if is_statistical(row.rule, row.evidence.facts) and (p := _p_value(row)) is not None
    }
    return step_down(p_values) if len(p_values) > 1 else {}


def _worst_first(row: Row) -> tuple[int, bool, float, int]:
    """As the ledger chooses among attempts."""
    return -WORST_LAST.index(row.verdict), row.margin is not None, row.margin or 0.0, -row.attempt


def _p_value(row: Row) -> float | None:
    if row.value is None or not row.uncertainty:  # what is exact fails by no chance
        return None
    return p_value(row.value, row.uncertainty, row.limit_low, row.limit_high, row.evidence.facts)


def _unproven(row: Row, step: Step) -> tuple[str, str]:
    """Reason and next step of a FAIL that does not stand among all limits of its device."""
    how = "(repeat=5), or measure for longer" if row.quantity == "throughput" else "and make its uncertainty smaller"
    return (
        f"{row.reason.rstrip('. ')}; but it is one of {step.limits} limits of this device, and so many let one fail by "
        f"chance: a device that meets this limit shows such a value with a probability of {_percent(step.p)}, which "
        f"counts as {_percent(step.adjusted)} among them (Holm), more than {_percent(FAMILY_ALPHA)}.",
        f"Repeat this measurement {how}{_THEN}",
    )


def _held(row: Row, step: Step | None) -> Row:
    if step is None or not _failed_by_value(row) or _HOLM in row.evidence.facts:
        return row
    facts = {
        **row.evidence.facts,
        _HOLM: row.verdict.value,
        "holm_p": step.p,
        "holm_adjusted_p": step.adjusted,
        "holm_limits": step.limits,
    }
    row = msgspec.structs.replace(row, evidence=msgspec.structs.replace(row.evidence, facts=facts))
    if step.stands:
        return row
    reason, next_step = _unproven(row, step)
    return msgspec.structs.replace(row, verdict=Verdict.INCONCLUSIVE, reason=reason, next_step=next_step)


def _failed_by_value(row: Row) -> bool:
    """Whether a row is FAIL because of its value alone: no statistics excuse a check of the test's own."""
    if row.verdict is not Verdict.FAIL or row.value is None or OWN_CHECK in row.evidence.facts:
        return False
    low, high = row.limit_low, row.limit_high
    return (low is not None and row.value < low) or (high is not None and row.value > high)


def _doubted(row: Row, texts: Sequence[str]) -> Row:
    new = [text for text in texts if text not in row.evidence.doubts]
    if not new:
        return row
    evidence = msgspec.structs.replace(row.evidence, doubts=(*row.evidence.doubts, *new))
    return msgspec.structs.replace(row, evidence=evidence)


def _percent(share: float) -> str:
    return format_value(share, "ratio", 2)
