"""Rows of another statistic, of other rules and of runs without a loss: on the terminal, the sheet, in the sentence."""

from __future__ import annotations

import msgspec
from record_samples import RUN, make_row, plan_of

from pytest_netperf.judge.count_uncertainty import ZERO_LOSS
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import Attempt, Evidence, Procedure
from pytest_netperf.record.wording import differing_rules, quantity_text, uncertainty_text, zero_loss_text
from pytest_netperf.report.html_page import sheet_html
from pytest_netperf.report.terminal import device_lines

SIMPLE_RUN = msgspec.structs.replace(
    RUN, procedure=Procedure(decision_rule="simple: the value is compared. By chance.")
)


def of_statistic(statistic, key, verdict=Verdict.PASS, value=2.31e9, **more):
    row = make_row("p2", verdict, value, statistic=statistic, limit=f"{statistic} >= 2.3 Gbit/s", **more)
    return msgspec.structs.replace(row, id=f"{row.test}::throughput.{key}")


def sheet_of(*rows, arrived=None, run=SIMPLE_RUN):
    (sheet,) = build_sheets(run, plan_of(rows), rows if arrived is None else arrived, complete=True)
    return sheet


def terminal(sheet):
    return "\n".join(text for text, _ in device_lines(sheet, "sheet.html"))


def test_the_quantity_names_its_statistic():
    assert quantity_text(make_row()) == "throughput"
    assert quantity_text(of_statistic("p5 of intervals", "p5")) == "p5 throughput"
    assert quantity_text(of_statistic("min interval", "min")) == "min throughput"
    assert quantity_text(of_statistic("in 4 of 5 runs", "4-of-5-runs")) == "throughput in 4 of 5 runs"
    assert quantity_text(of_statistic("in every run", "every-run")) == "throughput in every run"
    assert quantity_text(make_row(quantity="frame_loss_ratio")) == "frame loss ratio"


def test_terminal_sheet_and_sentence_tell_the_statistics_of_one_run_apart():
    slow = of_statistic("min interval", "min", Verdict.FAIL, 1.1e9, margin=-0.5)
    sheet = sheet_of(make_row("p2"), of_statistic("p5 of intervals", "p5"), slow)
    assert sheet.sentence == (
        "1 of 3 required rows failed: 2.5G port p2 min throughput was 1.1 Gbit/s, required min interval >= 2.3 Gbit/s."
    )
    lines = terminal(sheet)
    assert "p5 throughput" in lines
    assert "min throughput" in lines
    page = sheet_html(sheet).decode()
    assert "<td>p5 throughput</td>" in page
    assert "<td>min throughput</td>" in page


def test_a_planned_statistic_that_never_arrived_keeps_its_name():
    planned = of_statistic("p5 of intervals", "p5")
    sheet = sheet_of(make_row("p2"), planned, arrived=[make_row("p2")])
    (missing,) = [row for row in sheet.rows if row.id == planned.id]
    assert (missing.verdict, missing.statistic) == (Verdict.NOT_RUN, "p5 of intervals")


VENDOR = {"rule": "guarded (vendor)", "risk": "A device at the limit is wrongly accepted in some runs."}
SIMPLE = {"rule": "simple", "risk": "By chance."}


def test_the_rule_stands_on_each_row_where_rules_differ_and_nowhere_else():
    alike = sheet_of(make_row("p1", **SIMPLE), make_row("p2", **SIMPLE))
    assert not differing_rules(alike)
    assert "rule simple" not in terminal(alike)
    page = sheet_html(alike).decode()
    assert "<small>rule" not in page
    assert page.count("<b>Rule simple:</b> By chance.") == 1
    for other in (VENDOR, {}):  # a row that was never judged has none
        mixed = sheet_of(make_row("p1", **SIMPLE), make_row("p2", **VENDOR), make_row("p3", **other))
        assert differing_rules(mixed)
        assert "rule simple" in terminal(mixed)
        assert "rule guarded (vendor)" in terminal(mixed)
        page = sheet_html(mixed).decode()
        assert "<small>rule simple</small>" in page
        assert page.count("<b>Rule guarded (vendor):</b>") == 1


def test_a_rule_of_the_limits_file_is_said_even_where_all_rows_share_it():
    sheet = sheet_of(make_row("p1", **VENDOR))
    assert differing_rules(sheet), "the conditions of the run say simple"
    assert "rule guarded (vendor)" in terminal(sheet)


def loss(value, facts):
    return make_row(
        "p1", value=value, quantity="frame_loss_ratio", unit="ratio", limit="<= 0.1 %", limit_low=None,
        limit_high=0.001, ceiling=None, uncertainty=4e-5, evidence=Evidence(facts=facts),
    )  # fmt: skip


def test_no_loss_says_what_it_leaves_possible():
    none = loss(0.0, {"packets": 100_000, ZERO_LOSS: 3e-5})
    assert zero_loss_text(none) == "<= 0.003 % (95 %)"
    assert "<= 0.003 % (95 %)" in terminal(sheet_of(none))
    assert "\u2264\u00a00.003\u00a0% (95\u00a0%)" in sheet_html(sheet_of(none)).decode()
    some = loss(0.0005, {"packets": 100_000})
    assert zero_loss_text(some) == ""
    assert uncertainty_text(some) == "\u00b1 0.004"


def test_where_u_comes_from_stands_beside_it():
    row = make_row("p1", quantity="power", unit="W", value=13.2, uncertainty=0.2, limit="<= 15 W", limit_low=None)
    attempt = Attempt(attempt=1, verdict=Verdict.PASS, reason="met", value=13.2)
    facts = {"uncertainty_from": "stated by the test"}
    row = msgspec.structs.replace(row, evidence=Evidence(facts=facts), attempts=(attempt,))
    assert "U 200 mW (k = 2), stated by the test" in sheet_html(sheet_of(row)).decode()
