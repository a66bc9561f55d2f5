"""From rows to sheets: everything planned appears, and only whole evidence makes a device ACCEPTED."""

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_samples import DEVICE, RUN, make_row, plan_of

from pytest_netperf.judge.verdict import WORST_LAST, DeviceVerdict, Verdict
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import RunInfo
from pytest_netperf.strategies import runs

PORTS = [make_row(f"p{i}") for i in range(1, 7)]


def sheet_of(rows, planned=None, *, complete=True, running=(), run=RUN):
    (sheet,) = build_sheets(
        run, plan_of(rows) if planned is None else planned, rows, running=running, complete=complete
    )
    return sheet


def failing(name="p2", **changes):
    return make_row(name, Verdict.FAIL, **{"value": 1.897e9, **changes})


# Verdict and sentence


def test_all_passed():
    sheet = sheet_of(PORTS)
    assert sheet.verdict is DeviceVerdict.ACCEPTED
    assert sheet.sentence == "All 6 required rows passed."
    assert sheet.counts == {"PASS": 6}
    assert (sheet.complete, sheet.simulated) == (True, False)


def test_one_failed():
    sheet = sheet_of([*PORTS[:1], failing(), *PORTS[2:]])
    assert sheet.verdict is DeviceVerdict.REJECTED
    assert sheet.sentence == (
        "1 of 6 required rows failed: 2.5G port p2 delivered 1.897 Gbit/s, required >= 2.3 Gbit/s."
    )
    assert [row.link for row in sheet.rows] == ["p2", "p1", "p3", "p4", "p5", "p6"]
    assert sheet.counts == {"FAIL": 1, "PASS": 5}


def test_a_value_just_below_the_limit_is_told_apart_from_it():
    row = make_row("p2", Verdict.FAIL, 2.29999e9)
    assert "delivered 2.29999 Gbit/s, required >= 2.3 Gbit/s" in sheet_of([row]).sentence


def test_rows_of_one_port_are_told_apart():
    jumbo = failing(id="jumbo", conditions={"speed": 2.5e9, "mtu": 9000, "direction": "reverse"})
    assert "2.5G port p2 (MTU 9000, reverse) delivered" in sheet_of([jumbo, make_row("p2")]).sentence


def test_a_quantity_without_a_link():
    row = failing(link=None, conditions={}, quantity="power", unit="W", value=17.2, limit="<= 15 W", limit_low=None)
    assert sheet_of([row]).sentence == "1 of 1 required row failed: power was 17.2 W, required <= 15 W."


def test_the_sentence_takes_the_first_sentence_of_a_reason():
    row = make_row("p2", Verdict.INCONCLUSIVE, reason="1.9 Gbit/s is low, but the tester was busy. Stop it. Again.")
    assert sheet_of([row]).sentence == (
        "1 of 1 required row is not proven: 2.5G port p2 is INCONCLUSIVE: 1.9 Gbit/s is low, but the tester was busy."
    )


SETTLED = (Verdict.PASS, Verdict.FAIL, Verdict.NOT_APPLICABLE)


@pytest.mark.parametrize("verdict", [v for v in Verdict if v not in SETTLED])
def test_everything_else_is_not_proven(verdict):
    odd = make_row("p2", verdict, reason="CPU 1 of the tester was 99 % busy.")
    sheet = sheet_of([*PORTS[:1], odd, *PORTS[2:]])
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN
    assert sheet.sentence == (
        f"1 of 6 required rows is not proven: 2.5G port p2 is {verdict.value}: CPU 1 of the tester was 99 % busy."
    )


def test_what_is_not_applicable_keeps_nobody_from_being_accepted():
    jumbo = make_row("p2", Verdict.NOT_APPLICABLE, reason="There is no such state.", value=None)
    sheet = sheet_of([*PORTS[:1], jumbo, *PORTS[2:]])
    assert sheet.verdict is DeviceVerdict.ACCEPTED
    assert sheet.sentence == "All 5 required rows passed. 1 row is not applicable."
    assert sheet.counts == {"NOT APPLICABLE": 1, "PASS": 5}


def test_a_device_to_which_nothing_applies_is_not_accepted():
    sheet = sheet_of([make_row("p2", Verdict.NOT_APPLICABLE, reason="There is no such state.", value=None)])
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN
    assert sheet.sentence == "No required row was measured, so nothing is proven. 1 row is not applicable."


@pytest.mark.parametrize("rows", [[], [make_row("p1", required=False)]])
def test_no_required_row_proves_nothing(rows):
    planned = plan_of(rows) if rows else plan_of([], selected=True)
    sheets = build_sheets(RUN, planned, rows, complete=True)
    assert [sheet.verdict for sheet in sheets] == [DeviceVerdict.NOT_PROVEN] * len(rows)
    for sheet in sheets:
        assert sheet.sentence == "No required row was measured, so nothing is proven."


def test_a_failing_row_for_information_does_not_count():
    sheet = sheet_of([make_row("p1"), failing(required=False)])
    assert sheet.verdict is DeviceVerdict.ACCEPTED
    assert sheet.sentence == "The 1 required row passed."


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_pass_without_a_number_is_invalid(value):
    sheet = sheet_of([make_row("p1", value=value, margin=None)])
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN
    assert sheet.rows[0].verdict is Verdict.INVALID
    assert sheet.rows[0].value is None
    assert "without a number" in sheet.rows[0].reason


# Rows that did not arrive


def test_a_row_that_never_arrived():
    planned = plan_of(PORTS)
    sheet = sheet_of(PORTS[:4], planned, complete=False, running=[PORTS[4].test])
    assert [(row.link, row.verdict) for row in sheet.rows[:2]] == [("p5", Verdict.ABORTED), ("p6", Verdict.NOT_RUN)]
    assert sheet.rows[0].reason == "The run ended while this test was running."
    assert sheet.rows[1].reason == "The run ended before this row."
    assert all(row.next_step for row in sheet.rows[:2])
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN
    assert sheet.sentence == "4 of 6 required rows passed; the run ended before 2 of them were measured."
    assert not sheet.complete


def test_a_missing_row_makes_a_run_that_ended_incomplete():
    sheet = sheet_of(PORTS[:5], plan_of(PORTS))
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN
    assert not sheet.complete


def test_an_incomplete_run_is_never_accepted():
    sheet = sheet_of(PORTS, complete=False)
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN
    assert sheet.sentence == "All 6 required rows passed, but the run did not come to its own end."


def test_an_incomplete_run_still_rejects():
    sheet = sheet_of([failing()], plan_of(PORTS), complete=False)
    assert sheet.verdict is DeviceVerdict.REJECTED
    assert sheet.sentence.endswith("required >= 2.3 Gbit/s. The run is incomplete.")


def test_a_deselected_row_makes_a_partial_run():
    planned = plan_of(PORTS[:4]) + plan_of(PORTS[4:], selected=False)
    sheet = sheet_of(PORTS[:4], planned)
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN
    assert sheet.complete
    assert sheet.rows[0].reason == "Deselected on the command line; this sheet is of a partial run."
    assert sheet.sentence == "4 of 6 required rows passed, but this is a partial run: 2 rows were deselected."


def test_a_deselected_row_that_arrived_is_still_a_partial_run():
    sheet = sheet_of(PORTS, plan_of(PORTS[:5]) + plan_of(PORTS[5:], selected=False))
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN
    assert sheet.sentence == "All 6 required rows passed, but this is a partial run: 1 row was deselected."


def test_a_failure_of_a_partial_run_rejects():
    sheet = sheet_of([failing()], plan_of(PORTS[:2]) + plan_of(PORTS[2:], selected=False))
    assert sheet.verdict is DeviceVerdict.REJECTED
    assert "4 rows were deselected" in sheet.sentence


def test_a_row_planned_twice_counts_once_and_as_deselected_if_either_says_so():
    planned = plan_of(PORTS) + plan_of(PORTS[:1], selected=False)
    sheet = sheet_of(PORTS, planned)
    assert len(sheet.rows) == 6
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN


def test_a_row_without_a_plan_is_kept():
    sheet = sheet_of([*PORTS[:2], failing("extra")], plan_of(PORTS[:2]))
    assert sheet.verdict is DeviceVerdict.REJECTED
    assert [row.link for row in sheet.rows] == ["extra", "p1", "p2"]


def test_a_row_that_arrived_for_another_device_does_not_fill_the_gap():
    planned = plan_of([make_row("p1")])
    stray = msgspec.structs.replace(make_row("p1"), device=msgspec.structs.replace(DEVICE, serial="other"))
    sheets = build_sheets(RUN, planned, [stray], complete=True)
    assert [(s.device.serial, s.verdict) for s in sheets] == [
        (DEVICE.serial, DeviceVerdict.NOT_PROVEN),
        ("other", DeviceVerdict.ACCEPTED),
    ]


# Devices


def test_a_sheet_for_each_device_in_the_order_of_the_plan():
    rows = [make_row("p1", serial=serial) for serial in ("Z", "A", "M")]
    unselected = plan_of([make_row("p1", serial="none")], selected=False)
    sheets = build_sheets(RUN, unselected + plan_of(rows[:2]), [rows[2], rows[0]], complete=True)
    assert [sheet.device.serial for sheet in sheets] == ["Z", "A", "M"]
    assert [sheet.verdict.value for sheet in sheets] == ["ACCEPTED", "NOT PROVEN", "ACCEPTED"]


def test_what_is_common_to_the_run_is_on_the_sheet():
    run = msgspec.structs.replace(RUN, batch="2026-49")
    (sheet,) = build_sheets(run, [], PORTS, complete=True, finished_at="2026-11-30T19:20:00+00:00")
    assert (sheet.station, sheet.software, sheet.conditions) == (RUN.station, RUN.software, RUN.conditions)
    assert (sheet.operator, sheet.run_id) == ("night shift", RUN.run_id)
    assert (sheet.device.batch, sheet.finished_at) == ("2026-49", "2026-11-30T19:20:00+00:00")


def test_one_simulated_row_marks_the_sheet():
    assert sheet_of([*PORTS, make_row("sim", simulated=True)]).simulated
    assert sheet_of([], plan_of([make_row("sim", simulated=True)])).simulated


# Attempts


def test_the_worst_attempt_counts_and_all_stay_visible():
    first, second = failing("p1"), make_row("p1", attempt=2, started_at="2026-11-30T19:13:00+00:00")
    sheet = sheet_of([first, second])
    (row,) = sheet.rows
    assert sheet.verdict is DeviceVerdict.REJECTED
    assert (row.verdict, row.value) == (Verdict.FAIL, 1.897e9)
    assert row.reason == "2 attempts: FAIL, PASS; the worst counts. The device delivered less than required."
    assert [(a.attempt, a.verdict, a.value) for a in row.attempts] == [
        (1, Verdict.FAIL, 1.897e9),
        (2, Verdict.PASS, 2.35e9),
    ]
    assert row.attempts[1].evidence == second.evidence
    assert row.evidence.facts["retransmits"] == 0


def test_of_equal_attempts_the_smallest_margin_is_shown():
    rows = [make_row("p1", value=2.35e9), make_row("p1", value=2.31e9, attempt=2), make_row("p1", attempt=3)]
    (row,) = sheet_of(rows).rows
    assert (row.verdict, row.value) == (Verdict.PASS, 2.31e9)


def test_a_row_delivered_twice_is_one_attempt():
    (row,) = sheet_of([PORTS[0], PORTS[0]]).rows
    assert row == PORTS[0]


def test_a_second_attempt_without_the_first_proves_nothing():
    sheet = sheet_of([make_row("p1", attempt=2)])
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN
    assert sheet.rows[0].verdict is Verdict.INCONCLUSIVE
    assert sheet.rows[0].reason.startswith("Attempt 1 never arrived")
    assert sheet.rows[0].next_step


def test_a_required_attempt_keeps_the_row_required():
    rows = [make_row("p1", required=False), failing("p1", attempt=2)]
    assert sheet_of(rows).verdict is DeviceVerdict.REJECTED
    assert sheet_of([failing("p1", required=False), make_row("p1", attempt=2)]).verdict is DeviceVerdict.REJECTED


# Whatever comes


@settings(max_examples=50)
@given(runs(), st.randoms(use_true_random=False))
def test_order_of_arrival_has_no_influence(run, rng: random.Random):
    planned, rows, running, complete = run
    shuffled = rng.sample(rows, len(rows))
    first = build_sheets(RUN, planned, rows, running=running, complete=complete)
    assert build_sheets(RUN, planned, shuffled, running=running, complete=complete) == first


@settings(max_examples=50)
@given(runs())
def test_accepted_means_everything_planned_was_selected_arrived_and_passed(run):
    everything_planned, everything_arrived, running, complete = run
    for sheet in build_sheets(RUN, everything_planned, everything_arrived, running=running, complete=complete):
        planned = [plan for plan in everything_planned if plan.device.serial == sheet.device.serial]
        rows = [row for row in everything_arrived if row.device.serial == sheet.device.serial]
        everything = (
            complete
            and any(row.required for row in sheet.rows)
            and all(row.verdict is Verdict.PASS for row in rows if row.required)
            and all(plan.selected for plan in planned)
            and {plan.id for plan in planned} <= {row.id for row in rows}
        )
        assert (sheet.verdict is DeviceVerdict.ACCEPTED) is everything
        assert (sheet.verdict is DeviceVerdict.REJECTED) is any(
            row.verdict is Verdict.FAIL and row.required for row in rows
        )
        assert {plan.id for plan in planned} | {row.id for row in rows} == {row.id for row in sheet.rows}
        ranks = [WORST_LAST.index(row.verdict) for row in sheet.rows]
        assert ranks == sorted(ranks, reverse=True)
        assert sum(sheet.counts.values()) == len(sheet.rows)
        assert sheet.sentence.endswith(".")


@given(st.lists(st.sampled_from(Verdict), min_size=1, max_size=4), st.sampled_from(Verdict))
def test_one_more_attempt_never_improves(verdicts, more):
    def judged(attempts):
        rows = [make_row("p1", verdict, attempt=n) for n, verdict in enumerate(attempts, start=1)]
        sheet = sheet_of(rows)
        badness = [DeviceVerdict.ACCEPTED, DeviceVerdict.NOT_PROVEN, DeviceVerdict.REJECTED]
        return WORST_LAST.index(sheet.rows[0].verdict), badness.index(sheet.verdict)

    before, after = judged(verdicts), judged([*verdicts, more])
    assert after[0] >= before[0]
    assert after[1] >= before[1]


def test_the_smallest_run_info_is_enough():
    run = RunInfo(run_id="r", started_at="2026-11-30T19:12:03+00:00")
    assert sheet_of(PORTS, run=run).verdict is DeviceVerdict.ACCEPTED


def test_a_failed_teardown_is_a_second_report_not_a_second_attempt():
    teardown = make_row("p1", Verdict.ERROR, None, reason="the test's teardown failed: OSError")
    (row,) = sheet_of([make_row("p1"), teardown]).rows
    assert row.verdict is Verdict.ERROR
    assert row.reason.endswith(
        "reports of this row: PASS, ERROR; the worst counts. the test's teardown failed: OSError"
    )
