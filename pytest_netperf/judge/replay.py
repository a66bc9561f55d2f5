"""Recorded data judged again: a series exactly as if it were live, and the rows of a journal. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from pytest_netperf.errors import LimitError, QuantityError, RecordError
from pytest_netperf.judge.assessment import assess_limits
from pytest_netperf.judge.baselines import Baselines
from pytest_netperf.judge.decision import DecisionRule
from pytest_netperf.judge.judgement import Measured
from pytest_netperf.judge.limits import Limit, applies
from pytest_netperf.judge.statistic import MEAN, Statistic, read_statistic, statistic_of
from pytest_netperf.judge.statistics import Sample
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import format_value, get_quantity
from pytest_netperf.record.schema import Row

__all__ = ["Rejudged", "judge_row", "judge_rows", "parse_series"]

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
    id: str
    """The id of the row; of a statistic that nobody asked for in that run, the id that its row would have had."""
    statistic: str | None
    old: Verdict | None
    """None for a statistic that nobody asked for in that run."""
    new: Verdict
    value: float | None
    reason: str
    limit: str | None
    margin: float | None
    rule: str | None
    """The decision rule; None for a row that is not judged again."""
    again: Row
    """The row as it would have been judged; itself when it is not judged again."""


def judge_rows(
    rows: Sequence[Row],
    limits: Sequence[Limit],
    rule: DecisionRule,
    *,
    source: str,
    baselines: Baselines | None = None,
) -> list[Rejudged]:
    """Judge recorded rows again, from their recorded data alone. ``source`` names the limits in reasons.

    A limit on a statistic that a measurement was not judged by at the time is judged too, from the intervals or runs of
    the measurement's own row. ``rule`` is for limits that name none.
    """
    known = {(row.id, row.attempt) for row in rows}
    judged = []
    for row in rows:
        judged.append(judge_row(row, limits, rule, source=source, baselines=baselines))
        if row.statistic is None and row.quantity == "throughput" and "source" not in row.evidence.facts:
            for key in dict.fromkeys(limit.key for limit in limits if limit.key.startswith("throughput.")):
                name = re.sub(r"::throughput(#[0-9]+)?$", rf"::{key}\1", row.id)
                if (name, row.attempt) not in known and _applies(limits, key, row):
                    judged.append(_judged(row, limits, rule, statistic_of(key), source, baselines, id=name, old=None))
    return judged


def judge_row(
    row: Row, limits: Sequence[Limit], rule: DecisionRule, *, source: str, baselines: Baselines | None = None
) -> Rejudged:
    """Judge one recorded row again."""
    try:
        statistic = MEAN if row.statistic is None else _statistic(row)
    except LimitError as error:
        return _kept(row, Verdict.INCONCLUSIVE, str(error))
    return _judged(row, limits, rule, statistic, source, baselines, id=row.id, old=row.verdict)


def _kept(row: Row, verdict: Verdict, reason: str) -> Rejudged:
    return Rejudged(
        row=row, id=row.id, statistic=row.statistic, old=row.verdict, new=verdict, value=row.value, reason=reason,
        limit=row.limit, margin=row.margin, rule=None, again=row,
    )  # fmt: skip


def _judged(
    row: Row,
    limits: Sequence[Limit],
    rule: DecisionRule,
    statistic: Statistic,
    source: str,
    baselines: Baselines | None,
    *,
    id: str,
    old: Verdict | None,
) -> Rejudged:
    text = None if statistic == MEAN else statistic.text
    if row.verdict not in _JUDGED:
        limit = None if old is None else row.limit
        return replace(_kept(row, row.verdict, row.reason), id=id, statistic=text, old=old, limit=limit)
    try:
        measured = _measured(row)
    except QuantityError as error:
        return replace(_kept(row, Verdict.INCONCLUSIVE, str(error)), limit=None, margin=None)
    what = row.quantity if text is None else f"{row.quantity} {text}"
    found = assess_limits(
        measured,
        limits,
        row.evidence,
        _conditions(row),
        rule,
        statistic=statistic,
        link_speed_bps=_link_speed(row),
        no_limit=f"No limit of {source} applies to this {what}.",
        baselines=baselines,
    )
    resolved, facts = found.resolved, {**row.evidence.facts, **found.facts}
    again = msgspec.structs.replace(
        row,
        id=id,
        statistic=text,
        value=found.value,
        uncertainty=found.uncertainty.expanded,
        limit=None if resolved is None else resolved.text,
        limit_low=None if resolved is None else resolved.low,
        limit_high=None if resolved is None else resolved.high,
        rule=None if resolved is None else found.rule.name_and_role,
        margin=found.judgement.margin,
        verdict=found.judgement.verdict,
        reason=found.judgement.reason,
        next_step=found.judgement.next_step,
        evidence=msgspec.structs.replace(row.evidence, facts=facts),
    )
    return Rejudged(
        row=row,
        again=again,
        id=id,
        statistic=text,
        old=old,
        new=again.verdict,
        value=again.value,
        reason=again.reason,
        limit=again.limit,
        margin=again.margin,
        rule=again.rule,
    )


def _applies(limits: Sequence[Limit], key: str, row: Row) -> bool:
    return any(limit.key == key and applies(limit, _conditions(row)) for limit in limits)


def _statistic(row: Row) -> Statistic:
    """The statistic of a recorded row. Raises LimitError for one that this version does not know."""
    words = f">= {row.statistic}" if str(row.statistic).startswith("in ") else f"{row.statistic} >="
    found, rest = read_statistic(words)
    if found != MEAN and rest == ">=":
        return found
    raise LimitError(f"the statistic {row.statistic!r} of this row is not known to this version.")


def _measured(row: Row) -> Measured:
    known = get_quantity(row.quantity)
    return Measured(
        quantity=known.name,
        unit=known.unit,
        better=known.better,
        value=row.value if row.statistic is None else _mean(row),
        trusted=True,  # a row that was not is INVALID, and stays so
        ceiling=row.ceiling,
        received_bytes=_count(row.evidence.facts.get("received_bytes")),
        tester_limited=_tester_limited(row),
    )


def _mean(row: Row) -> float | None:
    """The throughput behind a row of another statistic: of a bidirectional run that of the slower direction."""
    runs = [run.throughput_bps for run in row.evidence.runs if run.throughput_bps is not None]
    if runs:
        return math.fsum(runs) / len(runs)
    facts = row.evidence.facts
    rates = [facts.get(f"{prefix}received_bps") for prefix in ("", "forward_", "reverse_")]
    return min((float(rate) for rate in rates if isinstance(rate, int | float)), default=row.value)


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
