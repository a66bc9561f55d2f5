"""The lines at the end of a run."""

import msgspec
import pytest
from record_samples import RUN, make_row, plan_of

from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.report.terminal import _width, device_lines

PATH = "netperf-results/R86S-U4-0008/r/sheet.html"


def sheet_of(*rows, complete=True, planned=None):
    (sheet,) = build_sheets(RUN, plan_of(rows) if planned is None else planned, rows, complete=complete)
    return sheet


def texts(sheet, *args, **options):
    return [text for text, _ in device_lines(sheet, PATH, *args, **options)]


JUMBO = {"speed": 10e9, "mtu": 9000, "direction": "reverse", "protocol": "tcp"}
REJECTED = sheet_of(
    make_row("sfp1", value=9.885e9, limit=">= 9.8 Gbit/s", ceiling=9.90042e9, margin=0.0087, conditions=JUMBO),
    make_row("p2", Verdict.FAIL, 1.897e9, reason="Every interval was below the limit.", next_step="Swap the cable."),
)


def test_a_rejected_device():
    assert texts(REJECTED) == [
        "R86S-U4-0008   REJECTED   1 of 2 rows passed   netperf-results/R86S-U4-0008/r/sheet.html",
        "  1 of 2 required rows failed: 2.5G port p2 delivered 1.897 Gbit/s, required >= 2.3 Gbit/s.",
        "  FAIL  p2    2.5G  1500  forward  throughput  1.897 Gbit/s  >= 2.3 Gbit/s"
        "  ceiling  2.354 Gbit/s  margin  -17.5 %",
        "        Every interval was below the limit. Next: Swap the cable.",
        "  PASS  sfp1  10G   9000  reverse  throughput  9.885 Gbit/s  >= 9.8 Gbit/s"
        "  ceiling  9.9   Gbit/s  margin   +0.9 %",
    ]


def test_what_tells_rows_apart_is_shown_on_each_and_what_they_share_is_not():
    common = {"speed": 1e9, "mtu": 1500, "direction": "forward", "protocol": "tcp", "streams": 4}
    small, nat = ({**common, **more} for more in ({"mss": 600}, {"device_state": "nat"}))
    lines = texts(
        sheet_of(make_row("p1", conditions=common), make_row("p2", conditions=small), make_row("p3", conditions=nat))
    )
    assert [line.split("throughput")[0].split("forward")[1].strip() for line in lines[1:]] == [
        "",
        "MSS 600",
        "device state nat",
    ]


def test_an_accepted_device_needs_no_sentence():
    lines = texts(sheet_of(make_row("p1")))
    assert len(lines) == 2
    assert lines[0].startswith("R86S-U4-0008   ACCEPTED   1 of 1 rows passed   ")
    assert lines[1].startswith("  PASS  p1")


def test_quiet_shows_only_what_did_not_pass():
    lines = texts(REJECTED, -2)
    assert any("FAIL  p2" in line for line in lines)
    assert not any("PASS" in line for line in lines)
    assert len(texts(sheet_of(make_row("p1")), -2)) == 1


def test_verbose_adds_evidence_and_doubts():
    row = make_row("p1")
    row = msgspec.structs.replace(row, evidence=msgspec.structs.replace(row.evidence, doubts=("CPU 1 was busy.",)))
    assert "        received bytes 881250000, retransmits 0, CPU 1 was busy." in texts(sheet_of(row), 1)
    assert "        received bytes 881250000, retransmits 0, no doubts" in texts(sheet_of(make_row("p1")), 1)


def test_marks_and_a_missing_sheet():
    sheet = sheet_of(make_row("p1", simulated=True), complete=False)
    assert device_lines(sheet, None)[0][0] == "R86S-U4-0008   NOT PROVEN   1 of 1 rows passed   SIMULATED   INCOMPLETE"


@pytest.mark.parametrize("verdict", list(Verdict))
def test_colour_only_repeats_the_word(verdict):
    sheet = sheet_of(make_row(verdict=verdict))
    coloured = device_lines(sheet, PATH, color=True)
    assert [text for text, _ in coloured] == texts(sheet, color=False)
    assert all(markup == {} for _, markup in device_lines(sheet, PATH, color=False))
    (row,) = [(text, markup) for text, markup in coloured if text.startswith(f"  {verdict.value} ")]
    assert row[1].get("green", False) is (verdict is Verdict.PASS)
    assert row[1].get("red", False) is (verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.CRASHED))


def test_inconclusive_and_invalid_have_colours_of_their_own():
    colours = []
    for verdict in (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.INVALID):
        lines = device_lines(sheet_of(make_row(verdict=verdict)), PATH)
        colours.append(next(markup for text, markup in lines if text.startswith(f"  {verdict.value} ")))
    assert all(colours.count(colour) == 1 for colour in colours)


def test_columns_are_aligned_whatever_their_text():
    rows = [
        make_row("p1", value=944.1e6, ceiling=None),
        make_row("測試", value=2.35e9),
        make_row("very-long-name-" * 10, value=12.5e9),
        make_row("p4", Verdict.NOT_RUN, None),
        make_row("p5", quantity="frame_loss_ratio", unit="ratio", value=0.005, limit="<= 1 %", limit_low=None),
    ]
    lines = [line for line in texts(sheet_of(*rows)) if "  margin" in line or "NOT RUN  " in line]
    columns = {_width(line[: line.index("forward")]) for line in lines}
    assert len(columns) == 1
    with_value = [line for line in lines if "Gbit/s  >=" in line or "Mbit/s  >=" in line]
    points = {_width(line[: line.index(".", line.index("throughput"))]) for line in with_value}
    assert len(points) == 1


def test_reasons_are_wrapped_and_columns_dropped_to_the_width():
    sheet = sheet_of(make_row(verdict=Verdict.FAIL, value=1.9e9, reason="word " * 60), make_row("p1"))
    wide, narrow = texts(sheet, width=300), texts(sheet, width=100)
    assert all(len(line) <= 100 for line in narrow if not line.startswith(("  FAIL", "  PASS")))
    assert all("ceiling" in line for line in narrow if line.startswith(("  FAIL", "  PASS")))
    assert "ceiling" in " ".join(wide)
    assert sum(line.count("word") for line in narrow) == 60


def test_nothing_steers_the_terminal():
    sheet = sheet_of(make_row("p\x1b[2J", Verdict.FAIL, 1.9e9, reason="a\rb\nc\x07\u202e", serial="S\x1b]0;x\x07N"))
    lines = texts(sheet, 1)
    assert not any(character < " " or character == "\u202e" for line in lines for character in line)
    assert any("a b c\ufffd\ufffd" in line for line in lines)


def test_a_row_for_information_says_so():
    lines = texts(sheet_of(make_row("p1"), make_row("p2", required=False)))
    assert lines[0].startswith("R86S-U4-0008   ACCEPTED   1 of 1 rows passed")
    assert lines[2].endswith("information only")


def test_a_measurement_without_a_link_is_named_by_its_test():
    row = make_row(link=None, conditions={}, quantity="power", unit="W", value=14.2, limit="<= 15 W", limit_low=None)
    assert texts(sheet_of(row))[1].startswith("  PASS  test_line_rate  power  14.2 W  <= 15 W")


def test_a_device_without_rows():
    sheet = msgspec.structs.replace(sheet_of(make_row()), rows=())
    assert len(texts(sheet)) == 1


def test_what_is_not_applicable_is_none_of_the_rows_that_must_pass():
    rows = [make_row("p1"), make_row("p2", Verdict.NOT_APPLICABLE, value=None, reason="There is no such state.")]
    (sheet,) = build_sheets(RUN, [], rows, complete=True)
    assert "   1 of 1 rows passed" in device_lines(sheet, None)[0][0]
    assert any(text.startswith("  NOT APPLICABLE") for text, _ in device_lines(sheet, None))
