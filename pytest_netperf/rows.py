"""From what a test measured to the rows of the sheet: each measurement against each limit that names its quantity.

Nothing that happened is left out: a traffic call that failed, a limit whose quantity was never measured and a test that
ended early all become rows, and none of them can be a PASS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_netperf.collection import CHECK, UNSTATED, ItemPlan, best_case_bps
from pytest_netperf.errors import DeviceError, NetperfError
from pytest_netperf.judge.assessment import assess_limits
from pytest_netperf.judge.baselines import expected_text
from pytest_netperf.judge.conditions import describe
from pytest_netperf.judge.count_uncertainty import STATED
from pytest_netperf.judge.decision import DecisionRule
from pytest_netperf.judge.judgement import Measured
from pytest_netperf.judge.limits import LEVEL_FILE, Limit, applies
from pytest_netperf.judge.statistic import MEAN, Statistic, quantity_of, statistic_of
from pytest_netperf.judge.values import TRAFFIC_QUANTITIES
from pytest_netperf.judge.verdict import Verdict, worst
from pytest_netperf.quantities import get_quantity
from pytest_netperf.record.schema import DeviceInfo, Evidence, Row
from pytest_netperf.record.together import OWN_CHECK
from pytest_netperf.session import Recorded, TestRun
from pytest_netperf.trials import Trial, trials_of

if TYPE_CHECKING:
    from pytest_netperf.bench.baseline import Baseline
    from pytest_netperf.bench.model import Device
    from pytest_netperf.traffic.result import Workload

__all__ = ["NOT_AS_SOLD", "Ending", "never_planned", "rows_of", "summary", "unjudged"]


NOT_AS_SOLD = "Look at the cable with both ends, at what the ports advertise, and at the slot; or mend the bench file."


_SAYS_NOTHING = (Verdict.PASS, Verdict.SKIPPED, Verdict.NOT_APPLICABLE)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a test ended. ``verdict`` is the best that any of its rows can still be; PASS when it ended by itself."""

    verdict: Verdict = Verdict.PASS
    reason: str = ""
    next_step: str | None = None


def rows_of(
    plan: ItemPlan,
    run: TestRun,
    ending: Ending,
    *,
    rule: DecisionRule,
    link_facts: dict[str, Any],
    burst_bits: float = 0.0,
    faulted: bool = False,
    attempt: int = 1,
    started_at: str | None = None,
    duration_s: float | None = None,
) -> list[Row]:
    """The rows of one attempt of one test: every planned one, and one more for each further measurement.

    ``link_facts`` go into the evidence of every traffic row. ``burst_bits`` is what the shaper of a simulated link may
    let through above its rate, once.
    """
    if plan.is_check and not run.measured and ending.verdict in _SAYS_NOTHING:
        return []
    trials = trials_of(plan, run.calls, link_facts, burst_bits, faulted)
    rows: list[Row] = []
    for key in plan.keys:
        numbered = 0
        for row in _rows_of_key(plan, run, trials, key, rule):
            rows.append(msgspec.structs.replace(row, id=plan.row_id(key, numbered)))
            numbered += 1
        if not numbered and ending.verdict is not Verdict.PASS:  # that is why
            row = _empty(plan, key, ending.verdict, ending.reason, ending.next_step)
            rows.append(msgspec.structs.replace(row, id=plan.row_id(key)))
        elif not numbered:
            rows.append(_never_measured(plan, trials, key))
    if UNSTATED not in plan.keys:
        rows += _information(plan, run, trials, rule)
    return [
        msgspec.structs.replace(
            _worsened(_with_files(row, run), ending), attempt=attempt, started_at=started_at, duration_s=duration_s
        )
        for row in rows
    ]


def _with_files(row: Row, run: TestRun) -> Row:
    """With the files that its test attached."""
    if not run.attached:
        return row
    evidence = msgspec.structs.replace(row.evidence, files=tuple(run.attached))
    return msgspec.structs.replace(row, evidence=evidence)


def unjudged(plan: ItemPlan, reason: str, attempt: int) -> list[Row]:
    """The planned rows of a test that could not be judged."""
    rows = [(key, _empty(plan, key, Verdict.ERROR, reason, "Report this fault.")) for key in plan.keys]
    return [msgspec.structs.replace(row, id=plan.row_id(key), attempt=attempt) for key, row in rows]


def never_planned(test: str, devices: Iterable[Device], reason: str) -> list[Row]:
    """A row for each device of a test whose rows nobody could plan."""
    return [
        Row(
            id=f"{test}::{UNSTATED}[{device.serial}]",
            test=test,
            device=DeviceInfo(serial=device.serial, model=device.model, batch=device.batch),
            quantity=UNSTATED,
            unit="",
            verdict=Verdict.ERROR,
            reason=reason,
            next_step="Correct the test and run it again.",
        )
        for device in devices
    ]


def _rows_of_key(plan: ItemPlan, run: TestRun, trials: list[Trial], key: str, rule: DecisionRule) -> Iterator[Row]:
    quantity = quantity_of(key)
    for number, trial in enumerate(trials):
        if quantity in trial.values:
            yield _judged_trial(plan, trial, key, rule, documents_in=_home(plan, trials, number))
    for recorded in run.recorded:
        if key in (recorded.quantity, UNSTATED):
            yield _judged_record(plan, recorded, rule)
    for workload, error in run.failures:
        if plan.measures_traffic and (key == UNSTATED or _is_traffic(quantity, workload.protocol)):
            yield _failed(plan, key, workload, error)


def _is_traffic(quantity: str, protocol: str) -> bool:
    """Whether traffic of a protocol measures this quantity."""
    only = {"frame_loss_ratio": "udp", "jitter": "udp", "retransmits": "tcp"}.get(quantity)
    return quantity in TRAFFIC_QUANTITIES and only in (None, protocol)


def _home(plan: ItemPlan, trials: list[Trial], number: int) -> tuple[str, str]:
    """The one key of a trial whose row holds the raw output, and the id of that row."""
    key = next((each for each in plan.keys if quantity_of(each) in trials[number].values), "throughput")
    earlier = sum(quantity_of(key) in trial.values for trial in trials[:number])
    return key, plan.row_id(key, earlier)


def _judged_trial(plan: ItemPlan, trial: Trial, key: str, rule: DecisionRule, *, documents_in: tuple[str, str]) -> Row:
    quantity = quantity_of(key)
    known = get_quantity(quantity)
    measured = Measured(
        quantity=quantity,
        unit=known.unit,
        better=known.better,
        value=trial.values[quantity],
        ceiling=trial.ceilings.get(quantity),
        bound=trial.bounds.get(quantity),
        bound_tolerance=trial.bound_tolerance,
        received_bytes=trial.received_bytes,
        trusted=trial.trusted,
        trust_reason=trial.trust_reason,
        invalid=trial.findings.invalid,
        tester_limited=trial.findings.tester_limited_for(quantity),
        error=trial.errors.get(quantity),
    )
    evidence = trial.evidence
    if key != documents_in[0]:
        facts = {**evidence.facts, "raw_output_in": documents_in[1]}
        evidence = msgspec.structs.replace(_without_documents(evidence), facts=facts)
    return _judged(plan, measured, trial.conditions, evidence, rule, statistic_of(key))


def _without_documents(evidence: Evidence) -> Evidence:
    runs = tuple(msgspec.structs.replace(run, evidence=_without_documents(run.evidence)) for run in evidence.runs)
    return msgspec.structs.replace(evidence, documents={}, runs=runs)


def _judged_record(plan: ItemPlan, recorded: Recorded, rule: DecisionRule) -> Row:
    known = get_quantity(recorded.quantity)
    measured = Measured(
        quantity=known.name,
        unit=known.unit,
        better=known.better,
        value=recorded.value,
        bound=_bound_of_record(plan, known.name),
        trusted=True,
        trust_reason="recorded by the test",
    )
    facts = {
        "source": "recorded by the test",
        **({"note": recorded.note} if recorded.note else {}),
        **({STATED: recorded.uncertainty} if recorded.uncertainty is not None else {}),
    }
    row = _judged(plan, measured, plan.conditions, Evidence(facts=facts), rule)
    return msgspec.structs.replace(row, required=recorded.required)


def _bound_of_record(plan: ItemPlan, quantity: str) -> float | None:
    """A throughput that a test records by hand cannot exceed its link either."""
    speed_bps = plan.link.link.line_rate_bps if plan.link else None
    if quantity != "throughput" or plan.link is None or speed_bps is None:
        return None
    return best_case_bps(speed_bps, plan.link.settings.mtu)


def _judged(
    plan: ItemPlan,
    measured: Measured,
    conditions: dict[str, Any],
    evidence: Evidence,
    rule: DecisionRule,
    statistic: Statistic = MEAN,
) -> Row:
    limits = [limit for limit in plan.limits if limit.key == statistic.key_of(measured.quantity)]
    found = assess_limits(
        measured,
        limits,
        evidence,
        conditions,
        rule,
        statistic=statistic,
        own_rule=plan.method.rule,
        link_speed_bps=plan.link.link.speed_bps if plan.link else None,
        no_limit=_no_limit(limits),
        baselines=plan.baselines,
    )
    limit, resolved, judgement = found.limit, found.resolved, found.judgement
    expected = _expected(plan, measured.quantity, statistic, conditions, evidence)
    return Row(
        id="",
        test=plan.nodeid,
        device=plan.device_info(),
        link=plan.link.link.name if plan.link else None,
        quantity=measured.quantity,
        statistic=statistic.text if statistic != MEAN else None,
        unit=measured.unit,
        value=found.value,
        uncertainty=found.uncertainty.expanded,
        limit=resolved.text if resolved else (limit.text if limit else None),
        limit_low=resolved.low if resolved else None,
        limit_high=resolved.high if resolved else None,
        limit_source=limit.source if limit else None,
        expected=expected.value if expected else None,
        expected_source=expected_text(expected) if expected else None,
        rule=found.rule.name_and_role if resolved else None,
        risk=found.risk if resolved else None,
        ceiling=measured.ceiling,
        margin=judgement.margin,
        verdict=judgement.verdict,
        reason=judgement.reason,
        next_step=judgement.next_step,
        simulated=bool(plan.link and plan.link.link.without_hardware),
        conditions=conditions,
        evidence=msgspec.structs.replace(
            evidence, facts={**evidence.facts, **found.facts}, doubts=(*evidence.doubts, *found.doubts)
        ),
    )


def _expected(
    plan: ItemPlan, quantity: str, statistic: Statistic, conditions: dict[str, Any], evidence: Evidence
) -> Baseline | None:
    """What the model is known to do. Of TCP that was offered at a rate of its own nobody knows."""
    if plan.baselines is None or (conditions.get("protocol") == "tcp" and "offered_bps" in evidence.facts):
        return None
    return plan.baselines.expected(quantity, statistic.text if statistic != MEAN else None, conditions)


def _no_limit(limits: list[Limit]) -> str | None:
    if not limits:
        return None
    offered = "; ".join(f"{each.text} when {describe(each.conditions)}" for each in limits)
    return f"None of the limits applies under the conditions of this measurement: {offered}."


def _empty(plan: ItemPlan, key: str, verdict: Verdict, reason: str, next_step: str | None) -> Row:
    quantity, statistic = quantity_of(key), statistic_of(key)
    texts = [limit.text for limit in plan.limits if limit.key == key]
    return Row(
        id="",
        test=plan.nodeid,
        device=plan.device_info(),
        link=plan.link.link.name if plan.link else None,
        quantity=quantity,
        statistic=statistic.text if statistic != MEAN else None,
        unit="" if quantity in (CHECK, UNSTATED) else get_quantity(quantity).unit,
        limit=texts[0] if len(texts) == 1 else None,
        verdict=verdict,
        reason=reason,
        next_step=next_step,
        simulated=bool(plan.link and plan.link.link.without_hardware),
        conditions=plan.conditions,
    )


def _never_measured(plan: ItemPlan, trials: list[Trial], key: str) -> Row:
    quantity = quantity_of(key)
    limits = [limit for limit in plan.limits if limit.key == key]
    if limits and all(limit.level == LEVEL_FILE for limit in limits):
        if trials and not any(
            applies(limit, trial.conditions) and _is_traffic(quantity, trial.conditions["protocol"])
            for limit in limits
            for trial in trials
        ):
            row = _empty(plan, key, Verdict.SKIPPED, f"no traffic of this test concerns {quantity}", None)
            return msgspec.structs.replace(row, id=plan.row_id(key), required=False)
        way_out = "or say in the limits file which tests measure it (test = ...)."
    else:
        way_out = "or remove the limit."
    row = _empty(
        plan,
        key,
        Verdict.INCONCLUSIVE,
        "The test ended without measuring anything." if key == UNSTATED else f"{quantity} was never measured.",
        f"Measure it in the test (iperf3.tcp(), iperf3.udp() or netperf_record()), {way_out}",
    )
    return msgspec.structs.replace(row, id=plan.row_id(key))


def _failed(plan: ItemPlan, key: str, workload: Workload, error: NetperfError) -> Row:
    if isinstance(error, DeviceError):
        row = _empty(plan, key, Verdict.FAIL, str(error), NOT_AS_SOLD)
    else:
        row = _empty(plan, key, Verdict.ERROR, str(error), "This is the bench, not the device: mend it and run again.")
    documents: dict[str, str] = getattr(error, "documents", {})
    conditions = {**plan.conditions, "protocol": workload.protocol, "direction": workload.direction}
    return msgspec.structs.replace(row, conditions=conditions, evidence=Evidence(documents=documents))


def _information(plan: ItemPlan, run: TestRun, trials: list[Trial], rule: DecisionRule) -> Iterator[Row]:
    """What no limit names, beside something that is limited: on the sheet, without a say.

    Of a traffic run that has a row already, the other quantities are in the evidence of that row.
    """
    rows = [_judged_record(plan, recorded, rule) for recorded in run.recorded if recorded.quantity not in plan.keys]
    rows += [
        _judged_trial(plan, trial, "throughput", rule, documents_in=_home(plan, trials, number))
        for number, trial in enumerate(trials)
        if not any(quantity_of(key) in trial.values for key in plan.keys)
    ]
    counts: dict[str, int] = {}
    for row in rows:
        number = counts.get(row.quantity, 0)
        counts[row.quantity] = number + 1
        yield msgspec.structs.replace(row, id=plan.row_id(row.quantity, number), required=False)


def _worsened(row: Row, ending: Ending) -> Row:
    verdict = worst((row.verdict, ending.verdict))
    if verdict is row.verdict and row.reason == ending.reason:  # there is nothing but the ending
        return row
    if verdict is row.verdict and ending.verdict is Verdict.FAIL:
        evidence = msgspec.structs.replace(row.evidence, facts={**row.evidence.facts, OWN_CHECK: ending.reason})
        return msgspec.structs.replace(row, reason=f"{row.reason} {ending.reason}", evidence=evidence)
    if verdict is row.verdict:
        return row
    reason = ending.reason
    if row.verdict in (Verdict.INVALID, Verdict.ERROR):
        reason += f"; and {row.verdict.value}: {row.reason}"
    return msgspec.structs.replace(row, verdict=verdict, reason=reason, next_step=ending.next_step)


def summary(rows: list[Row]) -> str:
    """What a failing test prints: each row that is not PASS, with its reason and what to do next."""
    lines = []
    for row in rows:
        if row.required and row.verdict not in (Verdict.PASS, Verdict.NOT_APPLICABLE):
            lines.append(f"{row.verdict.value}: {row.device.serial}/{row.link or '-'} {row.quantity}: {row.reason}")
            lines += [f"    {row.next_step}"] if row.next_step else []
            lines += [f"    doubt: {doubt}" for doubt in row.evidence.doubts]
    return "\n".join(lines)
