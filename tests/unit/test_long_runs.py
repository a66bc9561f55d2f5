"""Long runs: their drift, what is kept of them while they run, and their drawing."""

from __future__ import annotations

import math
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_samples import RUN, make_row, plan_of

from pytest_netperf.judge.soak import course_facts, drift_of
from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.observe.observation import Moment
from pytest_netperf.record.journal import Journal
from pytest_netperf.record.journal_reader import read_journal
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import Evidence, SeriesPoint
from pytest_netperf.record.stretch import Stretch, rows_of_stretches
from pytest_netperf.report.html_page import sheet_html
from pytest_netperf.report.language import load_words
from pytest_netperf.report.soak_plot import soak_plot, soak_sections


def points(rates, first=0):
    return tuple(
        SeriesPoint(start_s=float(place + first), seconds=1.0, throughput_bps=rate, omitted=place + first < 0)
        for place, rate in enumerate(rates)
    )


# ---- drift -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rates", "soak", "drift"),
    [
        ([1e9] * 30 + [9e8] * 30, False, 0.1),
        ([9e8] * 30 + [1e9] * 30, False, 0.0),  # a rise is no fall
        ([1e9] * 59, False, None),
        ([1e9, 1e9, 9e8, 9e8, 8e8, 8e8], True, 0.2),
        ([1e9, 1e9], True, None),
        ([], True, None),
    ],
)
def test_the_fall_from_the_first_third_to_the_last(rates, soak, drift):
    found = drift_of(points(rates), soak=soak)
    assert found == ({} if drift is None else {"drift": pytest.approx(drift)})


def test_the_course_as_facts():
    moments = [
        Moment(at_s=1.0, cpu_busy=0.5, errors=0, carrier_changes=0, temperature_c=None),
        Moment(at_s=2.0, cpu_busy=0.6, errors=2, carrier_changes=1, temperature_c=61.0),
    ]
    assert course_facts(moments) == {
        "course_at_s": [1.0, 2.0],
        "course_cpu": [0.5, 0.6],
        "course_errors": [0, 2],
        "course_carrier_changes": [0, 1],
        "course_temperature_c": [None, 61.0],
    }
    assert "course_temperature_c" not in course_facts(moments[:1])
    assert course_facts([]) == {}


# ---- what is kept while it runs --------------------------------------------------------------------------------------

ROW = make_row("p2", value=2.3e9, simulated=True)
TEST = ROW.test
OTHERS = [
    msgspec.structs.replace(ROW, id=f"{TEST}::temperature", quantity="temperature", unit="degC", limit="<= 70 degC"),
    msgspec.structs.replace(ROW, id=f"{TEST}::throughput.min", statistic="min interval"),
    msgspec.structs.replace(ROW, id=f"{TEST}::jitter", quantity="jitter", unit="s"),
]


def stretch(*rates, first=0, traffic=0, **changes):
    worst = changes.pop("worst", {"temperature": 40.0 + first})
    return Stretch(test=TEST, traffic=traffic, points=points(rates, first), worst=worst, **changes)


def written(tmp_path, *stretches, rows=(), finish=None):
    with Journal.create(tmp_path, "R1") as journal:
        journal.run(RUN)
        journal.plan(plan_of([ROW, *OTHERS]))
        journal.running(TEST)
        for each in stretches:
            journal.stretch(each)
        for row in rows:
            journal.row(row, "passed")
        if finish is not None:
            journal.finished(finish)
    return read_journal(journal.path)


def test_a_killed_soak_keeps_everything_until_then(tmp_path):
    contents = written(
        tmp_path,
        stretch(2e9, 2.4e9, 2.3e9, first=-1, moments={"course_at_s": [1.0, 2.0, 3.0], "course_cpu": [0.5, 0.5, 0.5]}),
        stretch(1.2e9, first=2, moments={"course_at_s": [4.0], "course_cpu": [0.9]}),
    )
    assert contents.state == "killed"
    assert not contents.notes
    (sheet,) = build_sheets(
        contents.run, contents.planned, contents.rows, running=contents.running, complete=contents.complete
    )
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN
    rows = {row.id.rpartition("::")[2]: row for row in sheet.rows}
    assert {row.verdict for row in rows.values()} == {Verdict.ABORTED}
    mean = rows["throughput"]
    assert mean.value == pytest.approx((2.4e9 + 2.3e9 + 1.2e9) / 3), "without the omitted second"
    assert "In 3 s of traffic that count: about 1.967 Gbit/s on average, 1.2 Gbit/s at worst" in mean.reason
    assert len(mean.evidence.series) == 4
    assert mean.evidence.facts["course_cpu"] == [0.5, 0.5, 0.5, 0.9]
    assert "never heard" in mean.evidence.facts["series_estimated_by"]
    assert rows["throughput.min"].value == 1.2e9
    assert rows["temperature"].value == 42.0
    assert rows["jitter"].value is None
    assert b"Long runs over time" in sheet_html(sheet)


def test_a_row_that_arrived_takes_the_place_of_what_was_kept(tmp_path):
    contents = written(tmp_path, stretch(1e9), rows=[ROW, *OTHERS], finish=0)
    assert [row.id for row in contents.rows] == [ROW.id, *(row.id for row in OTHERS)]
    assert contents.complete
    contents = written(tmp_path / "half", stretch(1e9), rows=[ROW])
    assert [(row.id, row.verdict) for row in contents.rows if row.quantity == "throughput"] == [
        (ROW.id, Verdict.PASS),
        (f"{TEST}::throughput.min", Verdict.ABORTED),
    ]


def test_only_the_last_traffic_of_a_test_counts():
    """What an earlier call or run brought is in no row yet; nothing of it is mixed into the last one."""
    plan = plan_of([ROW])
    (row,) = rows_of_stretches(
        [stretch(9e9), stretch(1e9, traffic=1), stretch(1.2e9, first=1, traffic=1)], plan, [TEST], []
    )
    assert row.value == pytest.approx(1.1e9)
    assert rows_of_stretches([stretch(1e9)], plan, ["another"], []) == []
    assert rows_of_stretches([stretch(1e9)], plan, [TEST], [ROW.id]) == []
    assert rows_of_stretches([], plan, [TEST], []) == []
    (silent,) = [rows_of_stretches([stretch(first=0)], plan, [TEST], [])]
    assert silent == []


# ---- the drawing -----------------------------------------------------------------------------------------------------


def long_row(**facts):
    known = {
        "course_at_s": [float(second) for second in range(1, 101)],
        "course_cpu": [0.4] * 100,
        "course_errors": [0] * 50 + [3] * 50,
        "course_carrier_changes": [0] * 20 + [2] * 80,
        "temperature_at_s": [0.0, 50.0, 100.0],
        "temperature_samples": [28.0, 55.0, 61.0],
    }
    evidence = Evidence(series=points([2.3e9] * 100, first=-5), facts={**known, **facts})
    return make_row("p2", evidence=evidence)


def test_everything_over_one_time():
    drawn = soak_plot(long_row(), heat_limit=70.0, title="burn-in", words=load_words("en"))
    assert drawn.count('class="series"') == 3
    assert (drawn.count('class="error"'), drawn.count('class="carrier"')) == (1, 1)
    assert (drawn.count('class="limit"'), drawn.count('class="ceiling"')) == (2, 1)
    assert drawn.count('class="omitted"') == 1
    said = re.search(r'aria-label="([^"]*)"', drawn)[1]
    for words in ("burn-in, 95 s", "temperature 28 °C - 61 °C", "errors 3", "changes of the carrier 2"):
        assert words in said


def test_a_panel_less_where_nothing_was_read():
    drawn = soak_plot(long_row(temperature_at_s=[], course_cpu=None), title="")
    assert drawn.count('class="series"') == 1
    assert soak_plot(make_row("p2", evidence=Evidence(facts={"course_at_s": [1.0]}))) == ""


def test_each_run_is_drawn_once():
    row = long_row()
    heat = msgspec.structs.replace(row, id="x", quantity="temperature", unit="degC", limit_high=66.0, limit_low=None)
    (section,) = soak_sections([heat, row], load_words("ja"))
    assert "2.5G port p2, throughput" in section["title"]
    assert "66 °C" in section["drawing"]
    assert soak_sections([make_row("p1")], load_words("en")) == []


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.floats(), st.integers(-3, 3), st.text(max_size=2)), max_size=6),
    st.lists(st.one_of(st.none(), st.floats(), st.booleans()), max_size=6),
)
def test_nothing_that_a_record_may_hold_breaks_it(times, values):
    row = long_row(course_at_s=times, course_cpu=values, temperature_samples=values, course_errors=values)
    assert "nan" not in soak_plot(row, heat_limit=math.nan)
