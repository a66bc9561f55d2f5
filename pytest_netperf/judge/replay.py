"""Recorded data judged again: a series exactly as if it were live, and the rows of a journal. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pytest_netperf.errors import LimitError, QuantityError, RecordError
from pytest_netperf.judge.decision import DecisionRule
from pytest_netperf.judge.doubt_reference import doubt_limit, limited_by
from pytest_netperf.judge.judgement import Judgement, Measured, judge
from pytest_netperf.judge.limits import Limit, ResolvedLimit, resolve, select_limit
from pytest_netperf.judge.row_uncertainty import RowUncertainty, guard, uncertainty_of_series
from pytest_netperf.judge.statistics import Sample
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import format_value, get_quantity
from pytest_netperf.record.schema import Row

__all__ = ["Rejudged", "judge_row", "parse_series"]

_NUMBER: Final = re.compile(r"\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_SHORTEST_S, _LONGEST_S, _MOST_BITS = 1e-6, 1e6, 1e18
_HEADER: Final = ("seconds", "bits")


# ---- series ----------------------------------------------------------------------------------------------------------


def parse_series(text: str, where: str) -> list[Sample]:
    """The intervals of a CSV text: header ``seconds,bits``, then one interval a line.

    Spaces, CRLF, a byte order mark, comment lines that start with # and empty lines at the end are fine. Everything
    else is a RecordError with file, line, what was found and what is expected.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    samples: list[Sample] = []
    headed = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("#"):
            continue
        at = f"{where}, line {number}"
        fields = [field.strip() for field in line.split(",")]
        if not headed:
            if tuple(fields) != _HEADER:
                raise RecordError(f"{at}: found {_shown(line)}; expected the header seconds,bits.")
            headed = True
            continue
        if len(fields) != 2:
            raise RecordError(f"{at}: found {_shown(line)}; expected two numbers: seconds,bits.")
        seconds, bits = (_number(field, name, at) for field, name in zip(fields, _HEADER, strict=True))
        if not _SHORTEST_S <= seconds <= _LONGEST_S:
            raise RecordError(f"{at}: seconds is {fields[0]}; expected the length of the interval, above zero.")
        if bits > _MOST_BITS:
            raise RecordError(f"{at}: bits is {fields[1]}, more than any link carries in one interval.")
        samples.append(Sample(seconds, bits))
    if not headed:
        raise RecordError(f"{where}: the file is empty; expected the header seconds,bits and one interval a line.")
    if not samples:
        raise RecordError(f"{where}: no interval follows the header; expected lines such as 1.0,2353000000.")
    return samples


def _number(field: str, name: str, at: str) -> float:
    if not field:
        raise RecordError(f"{at}: {name} is empty; expected a number.")
    if re.fullmatch(r"[+-]?(nan|inf|infinity)", field, re.IGNORECASE):
        raise RecordError(f"{at}: {name} is {field}; expected a finite number.")
    if re.fullmatch(r"-\s*[0-9.].*", field):
        raise RecordError(f"{at}: {name} is {_shown(field)}, below zero; expected zero or more.")
    if not _NUMBER.fullmatch(field):
        raise RecordError(f"{at}: {name} is {_shown(field)}; expected a plain number such as 2353000000 or 1.0.")
    return float(field)


def _shown(text: str) -> str:
    stripped = text.strip()
    return repr(stripped if len(stripped) <= 40 else stripped[:37] + "...") if stripped else "an empty line"


# ---- journals --------------------------------------------------------------------------------------------------------

_JUDGED: Final = frozenset({Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE})
"""Verdicts that a limit can change. The others say that the measurement failed or is not true: no limit mends that."""
_TESTER: Final = "Tester-limited: "
_BY_TESTER: Final = "the tester may be the cause: "
_BUSY, _STEAL = 0.95, 0.05  # as judge.doubt_tester
_RATES: Final = frozenset({"throughput", "frame_rate", "wire_rate"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudged:
    """A row, what it said, and what it says under other limits."""

    row: Row
    old: Verdict
    new: Verdict
    reason: str
    limit: str | None
    margin: float | None


def judge_row(row: Row, limits: Sequence[Limit], rule: DecisionRule, *, source: str) -> Rejudged:
    """Judge a recorded row again, from its recorded data alone. ``source`` names the limits in reasons."""
    if row.verdict not in _JUDGED:
        return Rejudged(
            row=row, old=row.verdict, new=row.verdict, reason=row.reason, limit=row.limit, margin=row.margin
        )
    resolved: ResolvedLimit | None = None
    try:
        measured = _measured(row)
        limit = select_limit([each for each in limits if each.quantity == measured.quantity], _conditions(row))
        if limit is not None:
            resolved = resolve(limit, ceiling=row.ceiling, link_speed=_link_speed(row))
        doubt = doubt_limit(row.quantity, resolved, row.conditions, row.evidence.facts)
        measured = limited_by(measured, doubt)
        judgement = judge(measured, resolved, no_limit=f"No limit of {source} applies to this {row.quantity}.")
    except (LimitError, QuantityError) as error:
        judgement = Judgement(Verdict.INCONCLUSIVE, str(error), None)
    judgement = guard(judgement, row.value, _uncertainty(row), resolved, rule)
    return Rejudged(
        row=row,
        old=row.verdict,
        new=judgement.verdict,
        reason=judgement.reason,
        limit=None if resolved is None else resolved.text,
        margin=judgement.margin,
    )


def _measured(row: Row) -> Measured:
    known = get_quantity(row.quantity)
    return Measured(
        quantity=known.name,
        unit=known.unit,
        better=known.better,
        value=row.value,
        trusted=True,  # a row that was not is INVALID, and stays so
        ceiling=row.ceiling,
        received_bytes=_count(row.evidence.facts.get("received_bytes")),
        tester_limited=_tester_limited(row),
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _tester_limited(row: Row) -> str | None:
    """What the row says of its tester: as a fact; in older journals as a doubt, in its reason, or in the load."""
    facts = row.evidence.facts
    if "rate_explained" in facts:
        limited, spared = facts.get("tester_limited"), facts["rate_explained"] is True and row.quantity in _RATES
        return limited if isinstance(limited, str) and not spared else None
    for doubt in row.evidence.doubts:
        if doubt.startswith(_TESTER):
            return doubt.removeprefix(_TESTER)
    _, found, why = row.reason.partition(_BY_TESTER)
    if found:
        return why
    if row.quantity in _RATES:
        return None  # a limited tester is always among the doubts of these
    busy, steal = facts.get("cpu_busy"), facts.get("cpu_steal")
    if isinstance(busy, list) and any(isinstance(each, int | float) and each >= _BUSY for each in busy):
        return f"A CPU of the tester was {format_value(max(busy), 'ratio', 3)} busy."
    if isinstance(steal, int | float) and steal >= _STEAL:
        return f"A hypervisor took {format_value(steal, 'ratio', 3)} of a CPU away from the tester."
    return None


def _conditions(row: Row) -> dict[str, Any]:
    known = {
        "device": row.device.serial,
        "model": row.device.model,
        "batch": row.device.batch,
        "link": row.link,
        "test": row.test.split("::", 1)[-1].split("[")[0],
        "simulated": row.simulated,
    }
    return {key: value for key, value in {**known, **row.conditions}.items() if value is not None}


def _link_speed(row: Row) -> float | None:
    speed = row.conditions.get("speed")
    return float(speed) if isinstance(speed, int | float) and not isinstance(speed, bool) else None


def _uncertainty(row: Row) -> RowUncertainty:
    if row.quantity != "throughput":
        return RowUncertainty(missing=f"none is determined for {row.quantity}")
    return uncertainty_of_series(row.evidence.series, row.evidence.series_from, row.conditions.get("protocol"))
