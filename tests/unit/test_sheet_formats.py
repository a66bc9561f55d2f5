"""Which files of a sheet are written, what is refused before the run, and the rows as CSV."""

from __future__ import annotations

import csv
import importlib.util
import io

import msgspec
import pytest
from record_samples import RUN, make_row, plan_of

from pytest_netperf.errors import ConfigError
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.report import html_page
from pytest_netperf.report.csv_table import COLUMNS, sheets_csv
from pytest_netperf.report.form import FORMATS, SheetForm, check_form, read_formats
from pytest_netperf.report.sheet import write_sheet


def sheet_of(*rows):
    (sheet,) = build_sheets(RUN, plan_of(rows), rows, complete=True)
    return sheet


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        ("html", ("html", "json")),
        ("json", ("json",)),
        (" CSV , html ", ("html", "csv", "json")),
        ("json,csv,pdf,html,html", FORMATS),
    ],
)
def test_a_list_of_formats(text, formats):
    assert read_formats(text) == formats


@pytest.mark.parametrize(
    ("text", "named"),
    [("docx", "'docx'"), ("html;pdf", "'html;pdf'"), ("html,,pdf", "''"), ("pfd,htm", "'pfd', 'htm'")],
)
def test_an_unknown_format_is_refused_with_the_list(text, named):
    with pytest.raises(ConfigError) as error:
        read_formats(text)
    assert f"there is no format {named}; write a list with commas of html, pdf, csv, json" in str(error.value)


def test_pdf_without_its_extra_is_refused(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "typst" else real(name))
    with pytest.raises(
        ConfigError, match=r"pdf needs typst, which is not installed here: pip install 'pytest-netperf\["
    ):
        check_form(SheetForm(formats=("pdf", "json")))
    check_form(SheetForm(formats=("html", "csv", "json")))


@pytest.mark.parametrize(
    ("formats", "main"),
    [(("json",), "sheet.json"), (("csv", "json"), "sheet.csv"), (("html", "csv", "json"), "sheet.html")],
)
def test_only_what_was_asked_for_is_written(tmp_path, formats, main):
    paths = write_sheet(sheet_of(make_row()), tmp_path, form=SheetForm(formats=formats))
    assert sorted(path.name for path in paths.folder.glob("sheet.*")) == sorted(f"sheet.{kind}" for kind in formats)
    assert paths.main.name == main
    assert paths.problems == ()


def test_a_form_that_breaks_costs_no_record(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("no ink")

    monkeypatch.setattr(html_page, "sheet_html", broken)
    paths = write_sheet(sheet_of(make_row()), tmp_path)
    assert paths.problems == ("sheet.html of device R86S-U4-0008: ZeroDivisionError: no ink",)
    assert [path.name for path in paths.folder.glob("sheet.*")] == ["sheet.json"]
    assert (paths.main, paths.html) == (paths.json, None)


def test_csv_has_a_line_for_each_row_that_a_reader_understands():
    conditions = {"speed": 2.5e9, "mtu": 1500, "direction": "reverse", "mss": 536}
    bad = make_row("p2", Verdict.FAIL, 1.897e9, reason='It said "no",\nthen died.', conditions=conditions)
    lines = list(csv.DictReader(io.StringIO(sheets_csv([sheet_of(make_row("p1"), bad)]).decode(), newline="")))
    assert len(lines) == 2
    assert tuple(lines[0]) == COLUMNS
    worst = lines[0]
    assert float(worst["value"]) == 1.897e9
    assert (worst["unit"], worst["verdict"], worst["device_verdict"]) == ("bit/s", "FAIL", "REJECTED")
    assert worst["reason"] == bad.reason
    assert (worst["direction"], worst["conditions"], worst["simulated"]) == ("reverse", '{"mss": 536}', "false")
    assert worst["uncertainty"] == ""


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx"])
def test_no_text_is_a_formula_to_a_spreadsheet(text):
    row = make_row(text, value=None, verdict=Verdict.ERROR, reason=text)
    (line,) = csv.DictReader(io.StringIO(sheets_csv([sheet_of(row)]).decode(), newline=""))
    assert (line["link"], line["reason"]) == (f"'{text}", f"'{text}")


def test_numbers_that_are_none_are_empty():
    row = msgspec.structs.replace(make_row(), value=float("nan"), margin=-0.0175)
    (line,) = csv.DictReader(io.StringIO(sheets_csv([sheet_of(row)]).decode(), newline=""))
    assert (line["value"], line["margin"]) == ("", "-0.0175")
