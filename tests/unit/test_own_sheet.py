"""Sheets of the user's own: templates, a logo, extra sections; nothing of them becomes markup that was not meant."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from record_samples import RUN, make_row, plan_of

from pytest_netperf.errors import ConfigError
from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import EarlierRun, Section, Waiver
from pytest_netperf.report.form import SheetForm, check_form
from pytest_netperf.report.html_page import sheet_html
from pytest_netperf.report.sheet import write_sheet

OUR_OWN = Path(__file__).parents[2] / "docs" / "how-to" / "own-sheets.md"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>'


def sheet_of(*rows, **changes):
    rows = rows or (make_row("p1"), make_row("p2", Verdict.FAIL, 1.897e9))
    (sheet,) = build_sheets(RUN, plan_of(rows), rows, complete=True)
    return msgspec.structs.replace(sheet, **changes)


def page_of(sheet, **form):
    return sheet_html(sheet, form=SheetForm(**form)).decode()


def plain(page):
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL).split())


def test_the_template_of_the_documentation_works(tmp_path):
    (template,) = re.findall(r"```text\n(.*?)```", OUR_OWN.read_text("utf-8"), flags=re.DOTALL)
    (tmp_path / "sheet.html.j2").write_text(template)
    page = page_of(sheet_of(operator="<i>me"), templates=tmp_path)
    assert "Checked by &lt;i&gt;me on behalf of Example Ltd." in page
    assert "Approved by" not in page
    assert "1 of 2 required rows failed" in plain(page)


def test_a_template_that_breaks_costs_no_record(tmp_path):
    (tmp_path / "sheet.html.j2").write_text("{{ sheet.no_such_field }}")
    paths = write_sheet(sheet_of(), tmp_path / "out", form=SheetForm(templates=tmp_path))
    assert paths.main == paths.json
    assert "sheet.html of device R86S-U4-0008: UndefinedError" in paths.problems[0]


def test_a_logo_is_part_of_the_page_and_runs_nothing(tmp_path):
    (tmp_path / "logo.svg").write_text(SVG)
    page = page_of(sheet_of(), logo=tmp_path / "logo.svg")
    assert re.search(r'<img class="logo" src="data:image/svg\+xml;base64,[\w+/=]+" alt="">', page)
    assert "<script" not in page


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot read the logo: No such file"),
        (b"GIF89a", "is no SVG, PNG or JPEG"),
        (b"<svg" * 300_000, "at most"),
    ],
)
def test_a_logo_that_is_none_is_refused_before_the_run(tmp_path, content, says):
    path = tmp_path / "logo"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        check_form(SheetForm(logo=path))
    assert says in str(error.value)


def test_extra_sections_are_text():
    section = Section(
        title="<b>Burn-in", text=("48 h & <i>",), header=("day", "degC"), table=(("1", "<script>"), ("2",))
    )
    page = page_of(sheet_of(sections=(section,)))
    for said in ("<h2>&lt;b&gt;Burn-in</h2>", "<p>48 h &amp; &lt;i&gt;</p>", "<td>&lt;script&gt;</td>"):
        assert said in page


def test_a_waiver_stands_beside_the_failure_and_in_the_report():
    row = make_row("p2", Verdict.FAIL, 1.897e9, waived=True)
    waiver = Waiver(
        who="Q <manager>", why="p2 is not used", until="2026-12-31", serial=row.device.serial, row="*p2*",
        where="waivers.toml: waiver 1", covers=(row.id,),
    )  # fmt: skip
    dead = msgspec.structs.replace(waiver, covers=(), problem="it expired.")
    sheet = sheet_of(make_row("p1"), row, waivers=(waiver, dead), verdict=DeviceVerdict.ACCEPTED_WITH_WAIVER)
    rows = tuple(msgspec.structs.replace(each, waived=each.id == row.id) for each in sheet.rows)
    sheet = msgspec.structs.replace(sheet, rows=rows)
    page = plain(page_of(sheet))
    assert page.count("Waived by Q &lt;manager&gt; until 2026-12-31: p2 is not used") == 1
    assert (
        "Row *p2*: taken by Q &lt;manager&gt; until 2026-12-31: p2 is not used. It does not cover that: it expired."
        in page
    )
    assert "The item does not meet all of the 2 required limits (1 met). Each one that it misses is waived." in page


def test_a_retest_names_the_earlier_runs():
    earlier = EarlierRun(
        run_id="R0", started_at="2026-11-01T10:00:00+00:00", verdict=DeviceVerdict.REJECTED, complete=True, sheet="x"
    )
    page = plain(page_of(sheet_of(earlier=(earlier,), first_pass=DeviceVerdict.REJECTED)))
    assert "R0 of 2026-11-01 10:00 UTC: REJECTED. Verdict of the first complete run: REJECTED." in page
