"""The ledger: expected rows + rows that arrived -> one sheet per device. Pure.

What was planned decides what appears, and everything that is odd (a row that never came, an attempt that is missing, a
test that was deselected, a run that was cut short) can only make the verdict worse.

Attempts of the same row (reruns, crashes) become one row: the worst of them, with its own value and evidence. All of
them stay visible in ``attempts``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from pytest_netperf.judge.verdict import WORST_LAST, device_verdict, worst
from pytest_netperf.record.canonical import clean_row, encode
from pytest_netperf.record.schema import (
    LIMITS_FILE,
    Attempt,
    DeviceInfo,
    DeviceRecord,
    DeviceVerdict,
    Planned,
    Row,
    RunInfo,
    Sheet,
    State,
    Verdict,
    Waiver,
)
from pytest_netperf.record.together import together
from pytest_netperf.record.waivers import apply_waivers, waivers_sentence
from pytest_netperf.record.wording import conditions_text, measured_text, port_text, quantity_text

__all__ = ["build_sheets"]

_Key = tuple[str, str]  # serial, row id


class _End(msgspec.Struct, frozen=True, kw_only=True):
    """How the run ended."""

    complete: bool
    finished_at: str | None
    state: State
    remarks: tuple[str, ...]
    waivers: tuple[Waiver, ...]
    day: str


def build_sheets(
    run: RunInfo,
    planned: Iterable[Planned],
    rows: Iterable[Row],
    *,
    running: Collection[str] = (),
    complete: bool,
    finished_at: str | None = None,
    state: State = "complete",
    remarks: Sequence[str] = (),
    waivers: Sequence[Waiver] = (),
    day: str = "",
) -> list[Sheet]:
    """One sheet for each device that has a selected planned row or any row, in the order of the plan.

    ``running`` are the tests (node ids) that had started and not ended; ``complete`` says that the run came to its own
    end and that its journal is whole, ``remarks`` what is odd about that. ``waivers`` hold as of ``day`` (YYYY-MM-DD),
    by default that of the run. The order in which rows arrived has no influence.
    """
    plans: dict[str, dict[str, Planned]] = {}
    for plan in planned:
        of_device = plans.setdefault(plan.device.serial, {})
        known = of_device.setdefault(plan.id, plan)
        if not plan.selected and known.selected:
            of_device[plan.id] = plan
    arrived: dict[_Key, list[Row]] = {}
    for row in rows:
        arrived.setdefault((row.device.serial, row.id), []).append(_believable(clean_row(row)))
    attempts: dict[str, dict[str, list[Row]]] = {}
    for serial, row_id in sorted(arrived):
        attempts.setdefault(serial, {})[row_id] = arrived[serial, row_id]
    serials = [serial for serial, of_device in plans.items() if any(p.selected for p in of_device.values())]
    serials = list(dict.fromkeys([*serials, *(s for s in plans if s in attempts), *attempts]))
    end = _End(
        complete=complete,
        finished_at=finished_at,
        state=state,
        remarks=tuple(remarks),
        waivers=tuple(waivers),
        day=day or run.started_at[:10],
    )
    return [
        _build_sheet(run, plans.get(serial, {}), attempts.get(serial, {}), frozenset(running), end)
        for serial in serials
    ]


def _build_sheet(
    run: RunInfo,
    plans: dict[str, Planned],
    attempts: dict[str, list[Row]],
    running: frozenset[str],
    end: _End,
) -> Sheet:
    rows = [
        _combine(attempts[row_id]) if row_id in attempts else _never_arrived(plan, running)
        for row_id, plan in plans.items()
    ]
    rows += [_combine(group) for row_id, group in attempts.items() if row_id not in plans]
    rows = together(rows)
    missing = sum(
        plan.selected and plan.test != LIMITS_FILE and row_id not in attempts for row_id, plan in plans.items()
    )
    deselected = sum(not plan.selected for plan in plans.values())
    absent = sum(plan.test != LIMITS_FILE and row_id not in attempts for row_id, plan in plans.items())
    device = next(iter(plans.values())).device if plans else rows[0].device
    rows, waivers = apply_waivers(rows, end.waivers, device.serial, end.day)
    verdict = _device_verdict(rows)
    accepted = (DeviceVerdict.ACCEPTED, DeviceVerdict.ACCEPTED_WITH_WAIVER)
    if verdict in accepted and (not end.complete or missing or deselected or run.partial):
        verdict = DeviceVerdict.NOT_PROVEN
    rows.sort(key=lambda row: -WORST_LAST.index(row.verdict))  # stable: the order of the plan within a verdict
    complete = end.complete and not missing
    present = [row.verdict for row in rows]
    sentence = _sentence(verdict, rows, complete, missing, deselected, absent, run.partial, end.remarks)
    return Sheet(
        run_id=run.run_id,
        verdict=verdict,
        sentence=sentence + waivers_sentence(waivers, verdict),
        state="stopped" if missing and end.state == "complete" else end.state,
        complete=complete,
        remarks=end.remarks,
        simulated=any(row.simulated for row in rows),
        device=_device(run, device),
        customer=run.customer,
        station=run.station,
        software=run.software,
        procedure=run.procedure,
        conditions=run.conditions,
        reference=run.reference,
        operator=run.operator,
        authoriser=run.authoriser,
        started_at=run.started_at,
        finished_at=end.finished_at,
        waivers=waivers,
        files=run.files,
        counts={v.value: present.count(v) for v in reversed(WORST_LAST) if v in present},
        rows=tuple(rows),
    )


def _device_verdict(rows: Sequence[Row]) -> DeviceVerdict:
    """The verdict of a device; a FAIL that is waived leaves the others to decide, but is never forgotten."""
    if not any(row.waived for row in rows):
        return device_verdict(rows)
    others = [row for row in rows if not row.waived]
    if any(row.required and row.verdict is not Verdict.NOT_APPLICABLE for row in others):
        verdict = device_verdict(others)
        return DeviceVerdict.ACCEPTED_WITH_WAIVER if verdict is DeviceVerdict.ACCEPTED else verdict
    return DeviceVerdict.ACCEPTED_WITH_WAIVER


def _device(run: RunInfo, device: DeviceInfo) -> DeviceRecord:
    """What the bench file said of the device; a journal of an older version has only what its rows say."""
    known = DeviceRecord(serial=device.serial, model=device.model, batch=device.batch)
    record = next((each for each in run.devices if each.serial == device.serial), known)
    return msgspec.structs.replace(record, batch=run.batch or record.batch)


def _believable(row: Row) -> Row:
    """The last line of defence: a PASS without a number is no PASS, whoever says so."""
    if row.verdict is Verdict.PASS and row.value is None:
        return msgspec.structs.replace(
            row,
            verdict=Verdict.INVALID,
            reason="It was judged PASS without a number to judge.",
            next_step="Look for the measurement that gave no number, and report this to the maintainers.",
        )
    return row


def _combine(group: Sequence[Row]) -> Row:
    """The worst attempt; of equal ones the one with the smallest margin. An attempt that was lost counts against it."""
    if len(group) == 1 and group[0].attempt == 1:
        return group[0]
    # Attempts delivered twice (a journal copied together, a report repeated) are one attempt.
    distinct = {encode(row): row for row in group}
    in_order = sorted(distinct.items(), key=lambda item: (item[1].attempt, item[1].started_at or "", item[0]))
    history = [row for _, row in in_order]
    verdict = worst(row.verdict for row in history)
    row = min(
        (row for row in history if row.verdict is verdict),
        key=lambda row: (row.margin is not None, row.margin or 0.0, -row.attempt, encode(row)),
    )
    required = any(row.required for row in history)
    lost = sorted(set(range(1, max(row.attempt for row in history))) - {row.attempt for row in history})
    if lost:
        names = ", ".join(map(str, lost))
        change = worst((verdict, Verdict.INCONCLUSIVE))
        if change is not verdict:
            row = msgspec.structs.replace(
                row, next_step="Run the test again; a rerun without its first attempt proves nothing."
            )
        verdict = change
        reason = f"Attempt {names} never arrived, and an attempt is only repeated when it did not pass. {row.reason}"
    elif len(history) == 1:
        return row
    else:
        listed = ", ".join(attempt.verdict.value for attempt in history)
        # A test whose teardown failed after its call reports twice in one attempt.
        what = "attempts" if len({attempt.attempt for attempt in history}) > 1 else "reports of this row"
        reason = f"{len(history)} {what}: {listed}; the worst counts. {row.reason}"
    return msgspec.structs.replace(
        row,
        verdict=verdict,
        reason=reason.strip(),
        required=required,
        simulated=any(attempt.simulated for attempt in history),
        attempts=tuple(map(_attempt, history)),
    )


def _attempt(row: Row) -> Attempt:
    return Attempt(
        attempt=row.attempt,
        verdict=row.verdict,
        reason=row.reason,
        value=row.value,
        uncertainty=row.uncertainty,
        margin=row.margin,
        started_at=row.started_at,
        duration_s=row.duration_s,
        evidence=row.evidence,
    )


def _never_arrived(plan: Planned, running: frozenset[str]) -> Row:
    if plan.test == LIMITS_FILE:
        verdict = Verdict.INCONCLUSIVE
        reason = f"The limits file requires {quantity_text(plan)}, and no test of this run measures it."
        step = "Add a test that measures it, or remove the limit for this model."
    elif not plan.selected:
        verdict = Verdict.NOT_RUN
        reason = "Deselected on the command line; this sheet is of a partial run."
        step = "Run again without -k, -m, --lf or --deselect."
    elif plan.test in running:
        verdict = Verdict.ABORTED
        reason = "The run ended while this test was running."
        step = "Run it again and let it end by itself."
    else:
        verdict = Verdict.NOT_RUN
        reason = "The run ended before this row."
        step = "Run it again; a row that was never measured proves nothing."
    return Row(
        id=plan.id,
        test=plan.test,
        device=plan.device,
        link=plan.link,
        quantity=plan.quantity,
        unit=plan.unit,
        limit=plan.limit,
        statistic=plan.statistic,
        verdict=verdict,
        reason=reason,
        next_step=step,
        simulated=plan.simulated,
        conditions=plan.conditions,
    )


def _sentence(
    verdict: DeviceVerdict,
    rows: Sequence[Row],
    complete: bool,
    missing: int,
    deselected: int,
    absent: int,
    not_planned: str | None,
    remarks: Sequence[str],
) -> str:
    applicable = [row for row in rows if row.verdict is not Verdict.NOT_APPLICABLE]
    required = [row for row in applicable if row.required]
    others = len(rows) - len(applicable)
    not_applicable = f" {_count(others, 'row')} {_is(others)} not applicable." if others else ""
    total = _count(len(required), "required row")
    failed = [row for row in required if row.verdict is Verdict.FAIL]
    unproven = [row for row in required if row.verdict not in (Verdict.PASS, Verdict.FAIL)]
    incomplete = "" if complete else " The run is incomplete."
    partial = f" {_count(deselected, 'row')} {_were(deselected)} deselected." if deselected else ""
    partial += f" {not_planned}" if not_planned else ""
    tail = not_applicable + incomplete + partial
    if failed:
        first = _what_happened(failed[0], rows)
        return f"{len(failed)} of {total} failed{_first(failed)} {first}.{tail}"
    if not required:
        return f"No required row was measured, so nothing is proven.{tail}"
    if len(unproven) > absent:
        reason = f"{_where(unproven[0], rows)} is {unproven[0].verdict.value}: {_first_sentence(unproven[0].reason)}"
        return f"{len(unproven)} of {total} {_are(unproven)} not proven{_first(unproven)} {reason}.{tail}"
    passed = f"The {total} passed" if len(required) == 1 else f"All {total} passed"
    if unproven:
        passed = f"{len(required) - len(unproven)} of {total} passed"
    if missing:
        return f"{passed}; the run ended before {missing} of them {_were(missing)} measured.{partial}"
    if partial:
        return f"{passed}, but this is a partial run:{partial}{incomplete}"
    if verdict is DeviceVerdict.ACCEPTED:
        return f"{passed}.{not_applicable}"
    if remarks:
        return f"{passed}, but the record is not whole: {remarks[0]}"
    return f"{passed}, but the run did not come to its own end."


def _what_happened(row: Row, rows: Sequence[Row]) -> str:
    where, value, limit = _where(row, rows), measured_text(row), row.limit or "a limit"
    if row.value is None or (row.margin is not None and row.margin >= 0):  # the test's own check failed
        return f"{where}: {_first_sentence(row.reason)}"
    verb = "delivered" if quantity_text(row) == "throughput" and row.link else "was"
    return f"{where} {verb} {value}, required {limit}"


def _first_sentence(text: str) -> str:
    """What comes after it stands at the row; whoever opens a sheet shall find the verdict in seconds."""
    return text.partition(". ")[0].rstrip(". ")


def _where(row: Row, rows: Sequence[Row]) -> str:
    """The shortest name that tells the row apart: port, then its conditions, and the quantity unless throughput."""
    name = port_text(row)
    same = [other for other in rows if (other.link, quantity_text(other)) == (row.link, quantity_text(row))]
    if len(same) > 1 and (conditions := conditions_text(row)):
        name = f"{name} ({conditions})".strip()
    if quantity_text(row) != "throughput" or not name:
        name = f"{name} {quantity_text(row)}".strip()
    return name


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _first(rows: Sequence[Row]) -> str:
    return ":" if len(rows) == 1 else "; the first:"


def _are(rows: Sequence[Row]) -> str:
    return "is" if len(rows) == 1 else "are"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
