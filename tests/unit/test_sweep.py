"""Sweeps on the sheet: which rows belong together, and what the plot and the table beside it show."""

from __future__ import annotations

import math
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_samples import RUN, make_row, plan_of

from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import Evidence
from pytest_netperf.report.drawing import log_ticks, scale_for
from pytest_netperf.report.html_page import sheet_html
from pytest_netperf.report.language import load_words
from pytest_netperf.report.sweep import sweeps_of
from pytest_netperf.report.sweep_plot import sweep_plot
from pytest_netperf.report.sweep_section import sweep_sections

WORDS = load_words("en")
SIZES = (88, 216, 472, 984, 1460)


def swept(key="mss", values=SIZES, *, test="test_sweep", others=None, facts=None, **changes):
    """A row for each value of one condition (of a fact for ``offered``)."""
    rows = []
    for number, value in enumerate(values):
        conditions = {"speed": 1e9, "mtu": 1500, "direction": "forward", "protocol": "tcp", **(others or {})}
        known = dict(facts(number) if facts else {})
        if key == "offered":
            known["offered_bps"] = value
        else:
            conditions[key] = value
        name = f"t.py::{test}[p1/{sorted((others or {}).items())}{key}{value}]"
        row = make_row(
            "p1", value=5e8 + number * 1e7, id=f"{name}::throughput", test=name, conditions=conditions,
            limit_low=4e8, ceiling=9.4e8, evidence=Evidence(facts=known),
        )  # fmt: skip
        rows.append(msgspec.structs.replace(row, **changes))
    return rows


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("mss", SIZES),
        ("mtu", (576, 1500, 9000)),
        ("streams", (1, 2, 10)),
        ("offered", (1e8, 5e8, 9e8)),
    ],
)
def test_what_is_a_sweep(key, values):
    (sweep,) = sweeps_of(reversed(swept(key, values)))
    assert (sweep.swept, sweep.quantity, [point.x for point in sweep.points]) == (key, "throughput", list(values))
    assert {(point.limit_low, point.ceiling) for point in sweep.points} == {(4e8, 9.4e8)}


@pytest.mark.parametrize(
    "rows",
    [
        swept(values=(88, 216)),
        swept(values=(88, 88, 216)),
        [*swept(values=(88, 216)), *swept(values=(472,), others={"direction": "reverse"})],
        [*swept(values=(88, 216)), *swept(values=(472,), test="test_other")],
        swept(value=math.nan),
        swept(value=None),
        [],
    ],
)
def test_what_is_none(rows):
    assert sweeps_of(rows) == []


def test_a_row_is_in_one_sweep_only():
    """MSS sweeps at three MTUs are three sweeps of the MSS, not five of the MTU besides."""
    rows = [row for mtu in (1500, 4000, 9000) for row in swept(others={"mtu": mtu})]
    found = sweeps_of(rows)
    assert [(sweep.swept, len(sweep.points)) for sweep in found] == [("mss", 5)] * 3
    ids = [point.row.id for sweep in found for point in sweep.points]
    assert len(ids) == len(set(ids)) == 15


def test_the_plot_shows_every_number_and_tells_verdicts_apart_by_shape():
    rows = swept()
    rows[1] = msgspec.structs.replace(rows[1], verdict=Verdict.FAIL)
    rows[2] = msgspec.structs.replace(rows[2], verdict=Verdict.INCONCLUSIVE, uncertainty=1e7)
    rows[3] = msgspec.structs.replace(rows[3], expected=6e8, expected_source="Somewhere.")
    drawn = sweep_plot(sweeps_of(rows)[0], title="a title", words=WORDS)
    assert (drawn.count('class="dot pass"'), drawn.count('class="cross fail"')) == (3, 1)
    assert drawn.count('class="dot unproven"') == 1
    assert (drawn.count('class="expected"'), drawn.count('class="whisker"')) == (1, 1)
    assert [drawn.count(f'class="{name} course"') for name in ("ceiling", "limit", "swept")] == [1, 1, 1]
    said = re.search(r'aria-label="([^"]*)"', drawn)[1]
    assert said.startswith("a title: 88 500 Mbit/s PASS, 216 510 Mbit/s FAIL, 472 520 Mbit/s INCONCLUSIVE")
    assert said.endswith("expected 984 600 Mbit/s")


def test_a_logarithmic_axis():
    """Equal ratios are equal distances."""
    drawn = sweep_plot(sweeps_of(swept(values=(100, 1000, 10000)))[0], title="")
    at = [float(x) for x in re.findall(r'<circle class="dot pass" cx="([\d.]+)"', drawn)]
    assert at[1] - at[0] == pytest.approx(at[2] - at[1], abs=0.02)
    assert log_ticks(88, 9176) == [100, 200, 500, 1000, 2000, 5000]


@pytest.mark.parametrize(
    ("largest", "unit", "scale"),
    [
        (9.9e9, "bit/s", (1e9, "Gbit/s")),
        (0.7, "ratio", (0.01, "%")),
        (0.002, "s", (1e-3, "ms")),
        (85e3, "frame/s", (1e3, "kframe/s")),
        (61, "degC", (1.0, "\u00b0C")),
        (3, "1", (1.0, "")),
    ],
)
def test_units_at_an_axis(largest, unit, scale):
    assert scale_for(largest, unit) == scale


def test_the_table_beside_it():
    rows = swept(facts=lambda number: {"measured_frame_rate": 85e3 - number, "measured_tester_cpu": 0.5})
    rows[0] = msgspec.structs.replace(rows[0], expected=5.1e8, expected_source="A review.")
    (section,) = sweep_sections(rows, WORDS)
    assert section["title"] == "1G port p1, throughput"
    assert section["conditions"] == "MTU 1500, forward, TCP"
    assert [name for name, _ in section["beside"]] == ["frame rate", "tester cpu"]
    assert [unit for _, unit in section["beside"]] == ["kframe/s", "%"]
    assert len(section["plots"]) == 3
    first, second = section["points"][:2]
    assert (first["at"], first["value"], first["limit"], first["expected"]) == ("88", "500", ">= 400", "510")
    assert first["beside"] == ["85", "50"]
    assert second["expected"] == "-"
    assert section["sources"] == ["A review."]


def test_sources_that_share_most_are_said_once():
    rows = [
        msgspec.structs.replace(
            row, expected=5e8, expected_source=f"BOX/pair: Table: {place} at {place}; Ubuntu 22.04; read as Gibit/s."
        )
        for place, row in enumerate(swept())
    ]
    rows[4] = msgspec.structs.replace(rows[4], expected_source="BOX/golden: Sheet of GOLD-1, row x.")
    (section,) = sweep_sections(rows, WORDS)
    assert section["sources"] == [
        "BOX/pair: Table: 0 at 0 (and 3 like it); Ubuntu 22.04; read as Gibit/s.",
        "BOX/golden: Sheet of GOLD-1, row x.",
    ]


def test_on_the_sheet():
    rows = swept(others={"note": "<b>"})
    (sheet,) = build_sheets(RUN, plan_of(rows), rows, complete=True)
    page = sheet_html(sheet).decode()
    assert page.count('<h2 id="sweeps">') == 1
    assert page.count('class="plot sweep"') == 1
    assert "<b>note" not in page
    (sheet,) = build_sheets(RUN, plan_of(rows[:2]), rows[:2], complete=True)
    assert 'id="sweeps"' not in sheet_html(sheet).decode()


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["mss", "mtu", "offered"]),
            st.one_of(st.integers(-5, 10**6), st.floats(allow_nan=True), st.none(), st.booleans()),
            st.one_of(st.floats(), st.none()),
        ),
        max_size=8,
    )
)
def test_nothing_that_a_record_may_hold_breaks_it(points):
    rows = [
        msgspec.structs.replace(row, value=value, uncertainty=value, limit_high=value, expected=value)
        for key, at, value in points
        for row in swept(key, (at,))
    ]
    for sweep in sweeps_of(rows):
        assert "nan" not in sweep_plot(sweep, title="x")
    sweep_sections(rows, WORDS)
