"""The PDF sheet: PDF/A-3b with the record inside, the same bytes each time, readable by people and phones."""

from __future__ import annotations

import datetime
import io
import os
import re
import shutil
import subprocess
import sys

import msgspec
import pikepdf
import pytest
import zxingcpp
from record_samples import RUN, make_row, plan_of

from pytest_netperf.errors import ConfigError, RecordError
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.canonical import sha256
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import Evidence, SeriesPoint
from pytest_netperf.record.sheet_file import parse_sheet
from pytest_netperf.report.form import SheetForm, check_form
from pytest_netperf.report.pdf import sheet_pdf
from pytest_netperf.report.sheet import sheet_json, write_sheet

pytestmark = pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no pdftotext; `./run test` installs it")

HOSTILE = '#panic("x") *_$ \\ <b>& 漢 \U0001f600 \u202e'


def sheet_of(*rows, run=RUN, **changes):
    (sheet,) = build_sheets(run, plan_of(rows), rows, complete=True, finished_at="2026-11-30T19:20:00+00:00")
    return parse_sheet(sheet_json(msgspec.structs.replace(sheet, **changes)))


@pytest.fixture(scope="module")
def sheet():
    rows = [make_row(f"p{number}", simulated=True) for number in range(25)]
    bad = make_row("bad", Verdict.FAIL, 1.897e9, simulated=True, uncertainty=3e6, reason=f"Below. {HOSTILE}")
    return sheet_of(*rows, bad, run=msgspec.structs.replace(RUN, customer="Example customer", operator=HOSTILE))


@pytest.fixture(scope="module")
def pdf(sheet):
    return sheet_pdf(sheet)


@pytest.fixture(scope="module")
def japanese(sheet):
    return sheet_pdf(sheet, form=SheetForm(language="ja"))


def text_of(data, *options):
    done = subprocess.run(["pdftotext", *options, "-", "-"], input=data, capture_output=True, check=True)
    return done.stdout.decode()


def opened(data):
    return pikepdf.open(io.BytesIO(data))


def words_of(data):
    return " ".join(text_of(data, "-layout").split())


# As PDF/A-3b wants it (ISO 19005-3); no validator is a package of Debian or PyPI


def test_it_says_that_it_is_pdf_a_3b(pdf):
    with opened(pdf) as document:
        with document.open_metadata() as metadata:
            assert (metadata["pdfaid:part"], metadata["pdfaid:conformance"]) == ("3", "B")
        (intent,) = document.Root.OutputIntents
        assert intent.S == "/GTS_PDFA1"
        assert bytes(intent.DestOutputProfile.read_bytes())[36:40] == b"acsp"  # an ICC profile
        assert not document.is_encrypted
        assert "/ID" in document.trailer
        assert pdf.startswith(b"%PDF-1.7")
        assert pdf.splitlines()[1][:1] == b"%"
        assert min(pdf.splitlines()[1][1:5]) > 127


def test_every_font_is_inside(pdf):
    with opened(pdf) as document:
        fonts = [each for each in document.objects if isinstance(each, pikepdf.Dictionary) and "/FontName" in each]
        assert len(fonts) >= 3
        assert all({"/FontFile", "/FontFile2", "/FontFile3"} & set(font.keys()) for font in fonts)


def test_nothing_in_it_acts_or_comes_from_elsewhere(pdf):
    with opened(pdf) as document:
        names = {str(key) for each in document.objects if isinstance(each, pikepdf.Dictionary) for key in each}
    assert not names & {"/JavaScript", "/JS", "/AA", "/OpenAction", "/Launch", "/URI", "/XFA"}


def test_the_record_is_attached(sheet, pdf):
    with opened(pdf) as document:
        (attached,) = document.Root.AF
        assert attached.AFRelationship == "/Data"
        assert (attached.F, attached.UF) == ("sheet.json", "sheet.json")
        assert attached.EF.F.Subtype == "/application/json"
        assert attached.EF.F.read_bytes() == sheet_json(sheet)
        assert list(document.attachments) == ["sheet.json"]


# The same record, the same bytes


MAKE = """
import sys
from pathlib import Path
from pytest_netperf.record.sheet_file import read_sheet
from pytest_netperf.report.pdf import sheet_pdf
sys.stdout.buffer.write(sheet_pdf(read_sheet(Path(sys.argv[1]))))
"""


def test_another_process_elsewhere_makes_the_same_bytes_from_the_record(sheet, pdf, tmp_path):
    record = tmp_path / "sheet.json"
    record.write_bytes(sheet_json(sheet))
    surroundings = {**os.environ, "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7", "LC_ALL": "C", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", MAKE, record], capture_output=True, check=True, cwd=tmp_path, env=surroundings
    )
    assert sha256(done.stdout) == sha256(pdf)


def test_its_date_is_that_of_the_record(pdf):
    with opened(pdf) as document, document.open_metadata() as metadata:
        made = datetime.datetime.fromisoformat(metadata["xmp:CreateDate"])
    assert made == datetime.datetime(2026, 11, 30, 19, 20, tzinfo=datetime.UTC)


# What people read


def test_each_page_says_what_it_belongs_to_and_where_it_stands(sheet, pdf):
    pages = text_of(pdf, "-layout").split("\f")[:-1]
    assert len(pages) > 3
    for number, page in enumerate(pages, start=1):
        words = " ".join(page.split())
        assert f"page {number} of {len(pages)}" in words
        assert f"{sheet.run_id}/R86S-U4-0008 · REJECTED" in words
        assert "SIMULATED" in page.replace(" ", "")


@pytest.mark.parametrize(
    "item",
    [
        "Unique identification 20261130T1912-7f3a/R86S-U4-0008",
        "Customer Example customer",
        "Item tested serial number R86S-U4-0008, model R86S-U4",
        "Where it was tested bench-1",
        "Date of the test 2026-11-30 19:12 UTC \u2013 2026-11-30 19:20 UTC",
        "Issued 2026-11-30 19:20 UTC",
        "Method throughput after RFC 6349",
        "Deviations from the method At least one row was measured on a simulated link.",
        "Decision rule",
        "Uncertainty ± U behind a value is the expanded uncertainty, k = 2, about 95 %.",
        "Statement of conformity The item does not meet the requirements: 25 of 26 required limits are met.",
        "The results relate only to the item named here",
        "Approved by: name, date, signature",
        "1.897 Gbit/s ± 0.003",
        "≥ 2.3 Gbit/s",
        "2.354 Gbit/s",
    ],
)
def test_every_item_of_iso_17025_is_there(pdf, item):
    assert item in words_of(pdf).replace("\u00a0", " ")


def test_texts_of_a_user_are_set_as_they_are(pdf, japanese):
    assert 'Below. #panic("x") *_$ \\ <b>&' in words_of(pdf)
    assert "漢 ?" in words_of(japanese)  # no font has the other one; a PDF/A must not have a character without a glyph


def test_the_code_leads_to_the_record(sheet, pdf):
    pages = len(text_of(pdf).split("\f")) - 1
    picture = subprocess.run(
        ["pdftoppm", "-gray", "-r", "110", "-f", str(pages), "-"], input=pdf, capture_output=True, check=True
    ).stdout
    header = re.match(rb"P5\s+(\d+)\s+(\d+)\s+255\s", picture)
    width, height = map(int, header.groups())
    image = memoryview(picture)[header.end() :].cast("B", (height, width))
    (code,) = zxingcpp.read_barcodes(image)
    assert code.text == f"20261130T1912-7f3a/R86S-U4-0008\nsha256:{sha256(sheet_json(sheet))}"


def test_japanese(japanese):
    words = words_of(japanese)
    for said in ("不合格", "適合性の表明", "1 / ", "測定不確かさ", "試験担当者: 氏名、日付、署名", "REJECTED"):
        assert said in words, said
    with opened(japanese) as document:
        assert document.Root.Lang == "ja"
        names = {str(each.FontName) for each in document.objects if "FontName" in _keys(each)}
    assert any("NotoSansCJKjp-Bold" in name for name in names)
    assert any("NotoSansCJKjp-Regular" in name for name in names)


def _keys(each):
    return {str(key).lstrip("/") for key in each} if isinstance(each, pikepdf.Dictionary) else set()


# What cannot be made


def test_a_language_without_its_font_is_refused_before_the_run(monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name.startswith("noto") else real(name))
    with pytest.raises(ConfigError) as error:
        check_form(SheetForm(formats=("pdf", "json"), language="ja"))
    assert "characters of language 'ja'" in str(error.value)
    assert "pip install 'pytest-netperf[cjk]'" in str(error.value)
    check_form(SheetForm(formats=("html", "json"), language="ja"))  # a browser has fonts of its own


def test_a_template_that_typst_refuses_says_where(tmp_path, sheet):
    (tmp_path / "sheet.typ").write_text("#let d = json(bytes(sys.inputs.data))\n#d.no-such-key\n")
    form = SheetForm(formats=("pdf", "json"), templates=tmp_path)
    with pytest.raises(RecordError, match=r"typst refused the template sheet.typ: error: .*no-such-key"):
        sheet_pdf(sheet, form=form)
    paths = write_sheet(sheet, tmp_path / "out", form=form)
    assert paths.main == paths.json
    assert "sheet.pdf of device R86S-U4-0008" in paths.problems[0]


def test_a_logo_of_each_kind_and_a_template_of_ones_own(tmp_path, sheet):
    (tmp_path / "sheet.typ").write_text(
        "#let d = json(bytes(sys.inputs.data))\nOwn #d.verdict\n#image(bytes(d.logo.bytes), format: d.logo.format)\n"
    )
    (tmp_path / "logo.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    made = sheet_pdf(sheet, form=SheetForm(templates=tmp_path, logo=tmp_path / "logo.svg"))
    assert "Own REJECTED" in words_of(made)


def test_an_empty_sheet_and_one_with_every_odd_number():
    assert "There is no row" in words_of(sheet_pdf(sheet_of(make_row(), rows=())))
    odd = make_row(value=float("nan"), margin=float("inf"), uncertainty=float("nan"), link=None, limit=None)
    assert "throughput" in words_of(sheet_pdf(sheet_of(odd)))


def test_a_long_serial_number_stays_on_the_page():
    serial = "S" * 190
    pages = text_of(sheet_pdf(sheet_of(make_row(serial=serial))), "-bbox")
    width = float(re.search(r'<page width="([\d.]+)"', pages)[1])
    ends = [float(end) for end in re.findall(r'xMax="([\d.]+)"', pages)]
    assert len(ends) > 100
    assert max(ends) < width


def test_a_path_is_not_taken_for_an_own_template(tmp_path):
    with pytest.raises(ConfigError, match="is not a folder with templates"):
        check_form(SheetForm(templates=tmp_path / "none"))


def test_a_long_run_is_drawn_over_its_time():
    rates = tuple(SeriesPoint(start_s=float(second), seconds=1.0, throughput_bps=2.3e9) for second in range(60))
    facts = {
        "course_at_s": [1.0, 60.0], "course_cpu": [0.4, 0.5], "course_errors": [0, 3],
        "course_carrier_changes": [0, 2], "course_temperature_c": [41.0, 61.0],
    }  # fmt: skip
    data = sheet_pdf(sheet_of(make_row("p1", evidence=Evidence(series=rates, facts=facts))))
    said = words_of(data)
    assert "Long runs over time" in said
    for panel in ("throughput (Gbit/s)", "temperature (°C)", "busiest CPU of the tester (%)", "errors 3, changes of"):
        assert panel in said
    assert "Long runs over time" not in words_of(sheet_pdf(sheet_of(make_row("p1"))))
