"""The uncertainty of a row: what goes into it, when it is not known, how it is shown, and what a guard band does."""

from __future__ import annotations

import json
import math
import re

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_samples import RUN, make_row, plan_of

from pytest_netperf.judge.decision import get_rule
from pytest_netperf.judge.judgement import Measured, judge
from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.row_uncertainty import RowUncertainty, guard, uncertainty_of_series
from pytest_netperf.judge.statistics import Sample, noise_of, uncertainty_of
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.journal import Journal
from pytest_netperf.record.journal_reader import read_journal
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import Evidence, Row, SeriesPoint
from pytest_netperf.record.wording import measured_text, uncertainty_text
from pytest_netperf.report.html_page import sheet_html
from pytest_netperf.report.plots import bullet_graph
from pytest_netperf.report.schema import sheet_schema
from pytest_netperf.report.sheet import sheet_json
from pytest_netperf.report.terminal import device_lines

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
RATES = [1.000e9, 1.004e9, 0.998e9, 1.001e9, 0.997e9, 1.003e9, 0.999e9, 1.002e9, 0.996e9, 1.000e9]
SIMPLE, VENDOR, BUYER = get_rule(), get_rule("guarded", "vendor"), get_rule("guarded", "buyer")


def points(rates, omitted=0, seconds=1.0):
    return [
        SeriesPoint(start_s=index * seconds, seconds=seconds, throughput_bps=rate, omitted=index < omitted)
        for index, rate in enumerate(rates)
    ]


def known_of(rates, **more):
    return uncertainty_of_series(points(rates, **more), "receiver", "tcp")


def at_least(low):
    return ResolvedLimit("throughput", low, None, f">= {low}")


def judged(value, limit, rule, known):
    measured = Measured(quantity="throughput", unit="bit/s", better="higher", value=value, trusted=True)
    return guard(judge(measured, limit), value, known, limit, rule)


# ---- from the intervals ----------------------------------------------------------------------------------------------


def test_u_is_that_of_the_statistics_over_the_kept_intervals():
    samples = [Sample(1.0, rate) for rate in RATES]
    noise = noise_of(samples)
    found = known_of(RATES)
    assert found.parts == uncertainty_of(samples, noise)
    assert found.expanded == 2 * math.hypot(found.parts.within_bps, found.parts.resolution_bps)
    assert found.facts(1.0e9, at_least(0.9e9)) == {
        "intervals": 10,
        "n_eff": round(10 / noise.tau, 3),
        "correlation_time_s": round(noise.tau, 3),
        "uncertainty_within_bps": found.parts.within_bps,
        "uncertainty_between": "not known",
        "uncertainty_resolution_bps": found.parts.resolution_bps,
        "margin_over_uncertainty": round(0.1e9 / found.expanded, 3),
    }


def test_omitted_intervals_change_nothing():
    assert known_of([1e6, 5e9, *RATES], omitted=2) == known_of(RATES)
    assert known_of([1e6, 5e9, *RATES]).expanded > 10 * known_of(RATES).expanded


def test_short_intervals_are_joined_before_they_are_counted():
    tenths = [rate for rate in RATES for _ in range(10)]
    found = known_of(tenths, seconds=0.1)
    assert found.noise.intervals == 10
    assert found.expanded == pytest.approx(known_of(RATES).expanded)


@pytest.mark.parametrize("rates", [[], [1e9]])
def test_fewer_than_two_intervals_have_no_uncertainty(rates):
    found = known_of(rates)
    assert found.expanded is None
    (fact,) = found.facts(1e9, at_least(1e8)).items()
    assert fact[0] == "uncertainty_not_known"
    assert "it takes 2 to see a scatter" in fact[1]


def test_two_or_three_intervals_give_a_number_that_says_it_is_a_lower_estimate():
    for few in (2, 3):
        assert "lower estimate" in known_of(RATES[:few]).facts(1e9, None)["uncertainty_note"]
    assert "uncertainty_note" not in known_of(RATES[:4]).facts(1e9, None)


def test_what_a_udp_sender_counted_says_nothing_of_what_arrived():
    series = points(RATES)
    assert uncertainty_of_series(series, "sender", "udp").expanded is None
    assert uncertainty_of_series(series, "sender", None).expanded is None
    expected = known_of(RATES)
    assert uncertainty_of_series(series, "receiver", "udp") == expected
    assert uncertainty_of_series(series, "sender", "tcp") == expected


def test_numbers_that_are_none_give_no_uncertainty():
    for broken in (math.inf, math.nan):
        found = known_of([*RATES, broken])
        assert found.expanded is None
        assert "not finite" in found.missing
    assert uncertainty_of_series([SeriesPoint(start_s=0, seconds=0, throughput_bps=1e9)] * 5, None, "tcp").missing


def test_margin_in_u_is_to_the_nearer_bound_and_negative_on_the_wrong_side():
    found = known_of(RATES)
    u = found.expanded
    assert found.facts(1e9 - u, at_least(1e9))["margin_over_uncertainty"] == -1
    within = ResolvedLimit("throughput", 1e9 - 5 * u, 1e9 + 2 * u, "between")
    assert found.facts(1e9, within)["margin_over_uncertainty"] == 2
    assert "margin_over_uncertainty" not in found.facts(1e9, None)
    assert "margin_over_uncertainty" not in found.facts(None, within)


# ---- the guard band --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "distance_in_u", "verdict"),
    [
        (SIMPLE, 0.0, PASS),
        (SIMPLE, -0.01, FAIL),
        (VENDOR, 1.01, PASS),
        (VENDOR, 0.99, OPEN),
        (VENDOR, 0.0, OPEN),
        (VENDOR, -0.01, FAIL),
        (BUYER, 0.0, PASS),
        (BUYER, -0.01, OPEN),
        (BUYER, -0.99, OPEN),
        (BUYER, -1.01, FAIL),
    ],
)
def test_around_the_limit(rule, distance_in_u, verdict):
    known = known_of(RATES)
    limit = at_least(1e9)
    value = 1e9 + distance_in_u * known.expanded
    found = judged(value, limit, rule, known)
    assert found.verdict is verdict
    alone = judged(value, limit, SIMPLE, known)
    assert found.margin == alone.margin
    if verdict is OPEN:
        assert found.reason.startswith(alone.reason.rstrip("."))
        assert "within the guard band of" in found.reason
        assert f"role {rule.role}" in found.reason
        assert found.next_step
    else:
        assert found == alone


@pytest.mark.parametrize("value", [0.5e9, 2e9])
@pytest.mark.parametrize(
    ("known", "why", "step"),
    [
        (RowUncertainty(missing="none is determined for power"), "none is determined for power", "simple rule"),
        (known_of([]), "no intervals", "--netperf-duration"),
        (known_of(RATES[:1]), "1 interval,", "--netperf-duration"),
        (known_of(RATES[:3]), "3 intervals give a lower estimate only", "--netperf-duration"),
    ],
)
def test_a_band_that_is_not_known_decides_nothing(value, known, why, step):
    for rule in (VENDOR, BUYER):
        found = judged(value, at_least(1e9), rule, known)
        assert found.verdict is OPEN
        assert f"its uncertainty is not known ({why}" in found.reason
        assert f"rule guarded ({rule.role}) decides nothing" in found.reason
        assert step in found.next_step
    alone = judged(value, at_least(1e9), SIMPLE, known)
    assert alone.verdict is (PASS if value > 1e9 else FAIL)


def test_no_rule_touches_what_is_neither_pass_nor_fail():
    known = known_of(RATES)
    for more in ({"trusted": False}, {"error": "the bench"}, {"tester_limited": "a CPU was busy."}):
        measured = Measured(
            **{"quantity": "throughput", "unit": "bit/s", "better": "higher", "value": 0.9e9, "trusted": True, **more}
        )
        judgement = judge(measured, at_least(1e9))
        assert judgement.verdict not in (PASS, FAIL)
        assert guard(judgement, 0.9e9, known, at_least(1e9), BUYER) is judgement
    measured = Measured(quantity="throughput", unit="bit/s", better="higher", value=1e9, trusted=True)
    judgement = judge(measured, None)
    assert guard(judgement, 1e9, known, None, VENDOR) is judgement


@given(value=st.floats(0.9e9, 1.1e9), low=st.floats(0.9e9, 1.1e9), rates=st.lists(st.floats(0.9e9, 1.1e9), max_size=12))
def test_a_guarded_rule_only_ever_takes_a_verdict_away(value, low, rates):
    known = known_of(rates)
    alone = judged(value, at_least(low), SIMPLE, known).verdict
    for rule in (VENDOR, BUYER):
        assert judged(value, at_least(low), rule, known).verdict in (alone, OPEN)


# ---- on paper --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "uncertainty", "text"),
    [
        (1.897e9, 2.51e6, "± 0.0026"),
        (1.897e9, 3e6, "± 0.003"),
        (1.897e9, 3.1e6, "± 0.004"),
        (1.897e9, 31e6, "± 0.031"),
        (1.897e9, 4.5e5, "± 0.0005"),
        (1.897e9, 1.1e5, "± 0.00011"),
        (2.2e9, 1.77e8, "± 0.18"),
        (94.14e6, 2.6e4, "± 0.026"),
        (94.14e6, 5e6, "± 5.00"),
        (100.0, 2.0, "± 2.0"),
        (1.897e9, 0.0, ""),
        (1.897e9, None, ""),
        (1.897e9, math.nan, ""),
        (1.897e9, math.inf, ""),
        (0.0, 1.0, ""),
        (None, 1.0, ""),
    ],
)
def test_u_in_the_unit_of_the_value_rounded_up(value, uncertainty, text):
    assert uncertainty_text(make_row(value=value, limit_low=None, uncertainty=uncertainty)) == text


@pytest.mark.parametrize(
    ("value", "unit", "uncertainty", "text"),
    [
        (0.0005, "ratio", 0.00002, "\u00b1 0.0020"),
        (0.2, "W", 0.01, "\u00b1 10"),
        (13.2, "W", 0.2, "\u00b1 0.20"),
        (0.0012, "s", 0.0001, "\u00b1 0.10"),
        (-5.0, "degC", 0.5, "\u00b1 0.5"),
        (12.0, "1", 0.0, ""),  # exact
    ],
)
def test_u_is_shown_in_the_unit_of_other_quantities_too(value, unit, uncertainty, text):
    row = make_row(value=value, unit=unit, limit_low=None, uncertainty=uncertainty)
    assert uncertainty_text(row) == text, measured_text(row)


@given(value=st.floats(1.0, 1e13), share=st.floats(1e-9, 2.0))
def test_what_is_shown_is_never_less_than_u(value, share):
    row = make_row(value=value, limit_low=None, ceiling=None, uncertainty=value * share)
    shown = float(uncertainty_text(row).removeprefix("± "))
    factor = 10.0 ** (3 * int(math.log10(value * 1.0005) // 3))  # kbit/s, Mbit/s ...
    assert value * share * (1 - 1e-6) <= shown * min(factor, 1e12)


def test_the_whisker_reaches_as_far_as_u_to_scale():
    found = bullet_graph(1e9, "bit/s", limit_low=0.8e9, ceiling=2e9, uncertainty=0.25e9)
    left, right = 2 + 116 * 0.375, 2 + 116 * 0.625
    assert re.findall(r'class="whisker" d="M([\d.]+) 3V11M\1 7H([\d.]+)M\2 3V11"', found) == [
        (f"{left:g}", f"{right:g}")
    ]
    assert 'aria-label="value 1 Gbit/s, plus or minus 250 Mbit/s, at least 800 Mbit/s' in found
    without = bullet_graph(1e9, "bit/s", limit_low=0.8e9, ceiling=2e9)
    assert "whisker" not in without
    assert "plus or minus" not in without


@given(value=st.floats(0, 1e10), uncertainty=st.floats(0, 1e11), ceiling=st.none() | st.floats(1, 1e10))
def test_the_whisker_stays_inside_the_drawing(value, uncertainty, ceiling):
    found = bullet_graph(value, "bit/s", ceiling=ceiling, uncertainty=uncertainty)
    for left, right in re.findall(r'class="whisker" d="M([-\d.]+) 3V11M[-\d.]+ 7H([-\d.]+)M', found):
        assert 2 <= float(left) <= float(right) <= 118.01


def row_with_u(verdict=PASS, value=1.897e9, **changes):
    known = known_of([rate * value / 1e9 for rate in RATES])
    evidence = Evidence(series=tuple(points(RATES)), series_from="receiver", facts=known.facts(value, at_least(2.3e9)))
    return make_row("p2", verdict, value, uncertainty=known.expanded, evidence=evidence, **changes)


def sheet_with(*rows):
    (sheet,) = build_sheets(RUN, plan_of(rows), rows, complete=True)
    return sheet


def test_u_stands_beside_the_value_its_parts_at_the_plot_and_all_of_it_in_the_json():
    row = row_with_u(FAIL)
    sheet = sheet_with(row)
    page = " ".join(re.sub("<[^>]+>", " ", sheet_html(sheet).decode().partition("<body")[2]).split())
    shown = uncertainty_text(row)
    assert re.fullmatch(r"± 0\.00\d", shown)
    assert page.count(f"1.897 Gbit/s {shown}") == 2, "in the note, and in the table"
    assert "between runs not known" in page
    assert "10 intervals count as" in page
    assert "uncertainty between" not in page, "facts of U are told once, in words"
    (found,) = json.loads(sheet_json(sheet))["rows"]
    assert found["uncertainty"] == row.uncertainty
    jsonschema.Draft202012Validator(sheet_schema()).validate(json.loads(sheet_json(sheet)))


def test_a_row_without_u_says_why_and_shows_none():
    row = make_row(evidence=Evidence(series=tuple(points(RATES[:1])), facts=known_of(RATES[:1]).facts(1e9, None)))
    page = sheet_html(sheet_with(row)).decode()
    assert "uncertainty not known: 1 interval, and it takes 2" in page
    assert 'class="whisker"' not in page


def test_facts_of_u_that_are_no_numbers_break_no_sheet():
    for broken in ("many", None, [1]):
        facts = {**row_with_u().evidence.facts, "n_eff": broken, "uncertainty_between": broken}
        row = msgspec.structs.replace(row_with_u(), evidence=Evidence(series=tuple(points(RATES)), facts=facts))
        assert sheet_html(sheet_with(row))


def test_the_lines_on_the_terminal_are_the_same_with_and_without_u():
    row = row_with_u(FAIL)
    without = msgspec.structs.replace(row, uncertainty=None)
    assert device_lines(sheet_with(row), "x") == device_lines(sheet_with(without), "x")


def test_rows_written_before_there_was_an_uncertainty_stay_readable(tmp_path):
    old = msgspec.json.decode(msgspec.json.encode(make_row()))
    del old["uncertainty"]
    assert msgspec.convert(old, Row) == make_row()
    row = row_with_u()
    journal = Journal.create(tmp_path, RUN.run_id)
    journal.run(RUN)
    journal.row(row)
    journal.close()
    (path,) = tmp_path.rglob("*.jsonl")
    assert read_journal(path).rows == (row,)
