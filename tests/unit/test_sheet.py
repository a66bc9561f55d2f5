"""The sheet as files: JSON after its schema, HTML that stands alone, nothing ever overwritten."""

import json
import math
import os
import re
import resource
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_samples import RUN, make_row, plan_of

from pytest_netperf.errors import RecordError
from pytest_netperf.judge.doubt_reference import reference_facts
from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import (
    Cable,
    DeviceInfo,
    DeviceRecord,
    Evidence,
    JournalSeal,
    Procedure,
    SeriesPoint,
    StationInfo,
)
from pytest_netperf.reference import Wanted
from pytest_netperf.report import sheet as sheet_module
from pytest_netperf.report.html_page import sheet_html
from pytest_netperf.report.language import load_words
from pytest_netperf.report.legend import device_legend, row_legend, verdict_class
from pytest_netperf.report.plots import bullet_graph, throughput_plot
from pytest_netperf.report.schema import sheet_schema, sheet_schema_text
from pytest_netperf.report.sheet import sheet_folder, sheet_json, write_sheet

PUBLISHED = Path(__file__).parents[2] / "docs" / "reference" / "sheet.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(sheet_schema())


def sheet_of(*rows, complete=True, run=RUN, planned=None):
    (sheet,) = build_sheets(run, plan_of(rows) if planned is None else planned, rows, complete=complete)
    return sheet


def good():
    return sheet_of(make_row("p1"), make_row("p2"))


def bad(**changes):
    return sheet_of(make_row("p1"), make_row("p2", Verdict.FAIL, **{"value": 1.897e9, **changes}))


class Page(HTMLParser):
    """The page as a list of elements with their attributes, and its text."""

    def __init__(self, data):
        super().__init__()
        self.elements, self.text, self._skip = [], "", False
        self.open = []
        self.feed(data.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "br", "path", "use", "circle", "rect", "line"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in self.open:
            assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
            self.open.pop()

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(sheet, **options):
    page = Page(sheet_html(sheet, **options))
    page.text = " ".join(page.text.split())
    assert page.open == []
    return page


# JSON and its schema


def test_the_published_schema_is_the_generated_one():
    assert PUBLISHED.read_text() == sheet_schema_text(), "python -m pytest_netperf.report.schema > " + str(
        PUBLISHED.name
    )
    jsonschema.Draft202012Validator.check_schema(json.loads(PUBLISHED.read_text()))


def test_every_property_is_described():
    for name, definition in sheet_schema()["$defs"].items():
        assert definition.get("description"), name
        for field, schema in definition.get("properties", {}).items():
            assert schema.get("description"), f"{name}.{field}"


@pytest.mark.parametrize(
    "sheet",
    [good(), bad(), sheet_of(planned=plan_of([make_row()]), complete=False), sheet_of(make_row(link=None, limit=None))],
    ids=["accepted", "rejected", "not proven", "no link"],
)
def test_real_sheets_keep_the_schema(sheet):
    VALIDATOR.validate(json.loads(sheet_json(sheet)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), "PASS"),
        (("rows", 0, "verdict"), "ACCEPTED"),
        (("rows", 0, "value"), "2.35 Gbit/s"),
        (("device",), {}),
        (("schema_version",), "3.0"),
        (("rows", 0, "evidence", "series", 0, "throughput_bps"), None),
    ],
)
def test_the_schema_refuses_what_is_no_sheet(path, value):
    document = json.loads(sheet_json(good()))
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(document)


@pytest.mark.parametrize("key", ["schema_version", "verdict", "device", "station", "software", "conditions", "rows"])
def test_the_schema_wants_every_key(key):
    document = json.loads(sheet_json(good()))
    del document[key]
    with pytest.raises(jsonschema.ValidationError, match=key):
        VALIDATOR.validate(document)


def test_the_keys_that_programs_read():
    document = json.loads(sheet_json(bad()))
    assert document["verdict"] == "REJECTED"
    assert document["device"]["serial"] == "R86S-U4-0008"
    assert {"station", "software", "conditions"} <= set(document)
    row = document["rows"][0]
    assert (row["quantity"], row["value"], row["ceiling"], row["unit"]) == ("throughput", 1.897e9, 2.35371e9, "bit/s")
    assert (row["limit"], row["verdict"]) == (">= 2.3 Gbit/s", "FAIL")
    assert math.isclose(row["margin"], (1.897 - 2.3) / 2.3)
    assert row["evidence"]["facts"]["retransmits"] == 0
    assert {"id", "reason"} <= set(row)


def test_not_proven_is_written_with_its_space():
    assert json.loads(sheet_json(sheet_of(make_row(), complete=False)))["verdict"] == "NOT PROVEN"


def test_no_number_is_null_and_never_nan():
    row = make_row(
        verdict=Verdict.INVALID,
        value=float("nan"),
        margin=float("-inf"),
        ceiling=float("inf"),
        evidence=Evidence(
            facts={"x": float("nan")}, series=(SeriesPoint(start_s=0, seconds=1, throughput_bps=float("nan")),)
        ),
    )
    sheet = msgspec.structs.replace(good(), rows=(row,))  # not through the ledger, which cleans too
    text = sheet_json(sheet).decode()
    assert not re.search(r"\b(NaN|Infinity)\b", text)
    document = json.loads(text)
    assert [document["rows"][0][key] for key in ("value", "margin", "ceiling")] == [None, None, None]
    VALIDATOR.validate(document)
    assert "nan" not in page_of(sheet).text.lower()


# HTML


def test_verdict_device_and_reason_come_first():
    page = page_of(bad())
    start = page.text.index("Acceptance sheet of a network device")
    first = page.text[start : start + 420]
    positions = [
        first.index(word)
        for word in ("REJECTED", "R86S-U4-0008", "1 of 2 required rows failed: 2.5G port p2 delivered 1.897")
    ]
    assert positions == sorted(positions)
    for word in ("R86S-U4", "2026-48", "bench-1", "night shift", "2026-11-30 19:12 UTC"):
        assert word in first
    assert page.all("html")[0]["lang"] == "en"
    assert "REJECTED: R86S-U4-0008" in page.text  # the title


def test_failing_rows_come_with_reason_and_way_out_before_the_table():
    page = page_of(bad(reason="Every interval was below the limit.", next_step="Move the cable to p1."))
    assert page.text.index("Every interval was below the limit.") < page.text.index("All rows Worst first")
    assert "Next: Move the cable to p1." in page.text
    assert re.search(r"1\.897 Gbit/s ?, required \u2265\s2\.3\sGbit/s", page.text)


def test_an_accepted_sheet_has_nothing_to_do():
    page = page_of(good())
    assert "What did not pass" not in page.text
    assert "All 2 required rows passed." in page.text


@pytest.mark.parametrize(("complete", "simulated"), [(True, True), (True, False), (False, True), (False, False)])
def test_marks_across_the_sheet(complete, simulated):
    html = sheet_html(sheet_of(make_row(simulated=simulated), complete=complete)).decode()
    assert ("<b>SIMULATED</b>" in html) is simulated
    assert ('class="watermark"' in html) is simulated
    assert ("<b>INCOMPLETE</b>" in html) is not complete
    marks = re.search(r'@top-center \{ content: "([A-Z ]*)"', html)
    assert (marks[1].split() if marks else []) == ["SIMULATED"] * simulated + ["INCOMPLETE"] * (not complete)


def test_the_page_stands_alone():
    html = sheet_html(bad()).decode()
    page = Page(html.encode())
    for tag in ("script", "link", "img", "iframe", "object", "embed", "base", "form"):
        assert page.all(tag) == [], tag
    addresses = [
        value for _, attributes in page.elements for key, value in attributes.items() if key in ("src", "href")
    ]
    assert all(address.startswith("#") or address == "sheet.json" for address in addresses)
    assert not re.search(r"@import|url\(|https?:", html)
    assert not any(key.startswith("on") for _, attributes in page.elements for key in attributes)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {address[1:] for address in addresses if address.startswith("#")} <= set(ids)


def test_tables_and_drawings_speak_to_screen_readers():
    page = page_of(bad())
    assert len(page.all("table")) == len(page.all("caption")) >= 5
    assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
    drawings = [svg for svg in page.all("svg") if svg.get("class", "").split(" ")[0] in ("bullet", "plot", "qr")]
    assert len(drawings) == 5
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in drawings)
    assert all(svg.get("aria-hidden") == "true" for svg in page.all("svg") if svg not in drawings)
    labels = [svg["aria-label"] for svg in drawings]
    assert "value 1.897 Gbit/s, at least 2.3 Gbit/s, ceiling 2.354 Gbit/s" in labels


def test_every_verdict_has_its_own_word_shape_and_meaning():
    assert {verdict for verdict, _, _ in row_legend(load_words("en"))} == set(Verdict)
    assert {verdict for verdict, _, _ in device_legend(load_words("en"))} == set(DeviceVerdict)
    assert {verdict for verdict in Verdict if verdict_class(verdict) == "pass"} == {Verdict.PASS}
    assert {verdict for verdict in DeviceVerdict if verdict_class(verdict) == "pass"} == {DeviceVerdict.ACCEPTED}
    html = sheet_html(good()).decode()
    shapes = re.findall(r'<symbol id="icon-(\w+)" viewBox="0 0 16 16">(.*?)</symbol>', html)
    assert [name for name, _ in shapes] == ["pass", "fail", "unproven"]
    assert len({shape for _, shape in shapes}) == 3
    for verdict, meaning, step in row_legend(load_words("en")):
        assert verdict.value in html
        assert meaning in html
        assert step in html


@pytest.mark.parametrize("verdict", list(Verdict))
def test_each_row_wears_its_verdict(verdict):
    page = page_of(sheet_of(make_row(verdict=verdict, reason="because of this")))
    assert f"{verdict.value} " in page.text
    assert ("because of this" in page.text) is (verdict is not Verdict.PASS)


NASTY = "<script>alert(1)</script>\"'&{{ 7*7 }}</style>"


def test_every_text_of_a_user_is_escaped():
    run = msgspec.structs.replace(
        RUN,
        operator=NASTY,
        customer=NASTY,
        station=StationInfo(name=NASTY, cables=(Cable(used_by=NASTY, media=NASTY),)),
        procedure=Procedure(suite=NASTY),
        software={NASTY: NASTY, "nested": {NASTY: [NASTY]}},
        run_id=NASTY,
    )
    row = make_row(
        NASTY,
        Verdict.FAIL,
        1.9e9,
        serial=NASTY,
        quantity=NASTY,
        limit=NASTY,
        reason=NASTY,
        next_step=NASTY,
        conditions={"speed": NASTY, "mtu": NASTY, "direction": NASTY, NASTY: NASTY},
        evidence=Evidence(
            facts={NASTY: NASTY}, doubts=(NASTY,), series=(SeriesPoint(start_s=0, seconds=1, throughput_bps=1e9),)
        ),
        device=DeviceInfo(serial=NASTY, model=NASTY, batch=NASTY),
    )
    seal = JournalSeal(run_id=NASTY, line=1, sha256=NASTY, path=NASTY)
    html = sheet_html(msgspec.structs.replace(sheet_of(row, run=run), journal=seal))
    page = Page(html)
    assert page.all("script") == []
    assert html.count(b"</style>") == 1
    assert page.text.count(NASTY) > 10


def test_steering_characters_are_taken_out():
    html = sheet_html(bad(reason="a\u202eb\x1b[31mc\x00d", link="p\u20662\ud800")).decode()
    assert "a\ufffdb\ufffd[31mc\ufffdd" in html
    assert not re.search("[\x00-\x08\x0b\x0e-\x1f\u202a-\u202e\u2066-\u2069]", html)


def test_rows_that_share_a_reason_share_a_note():
    rows = [make_row(f"p{i}") for i in range(40)]
    page = page_of(sheet_of(*rows[:1], planned=plan_of(rows)))
    assert page.text.count("The run ended before this row.") == 1
    assert "39 rows" in page.text
    assert "and 33 more, marked \u201cnote 1\u201d in the table" in page.text
    assert len([a for a in page.all("a") if a.get("href") == "#note-1"]) == 39


def test_one_check_of_a_test_is_one_note_also_with_a_row_that_is_information_only():
    reason = "the test's own check failed: AssertionError: my own check"
    rows = [make_row(f"p{i}", Verdict.FAIL, 1e9, reason=reason, required=not i) for i in range(2)]
    page = page_of(sheet_of(*rows))
    assert page.text.count(reason) == 1
    assert "(information only)" in page.text


def test_many_notes_continue_behind_the_table():
    page = page_of(sheet_of(*(make_row(f"p{i}", Verdict.FAIL, 1e9 + i, reason=f"reason {i}.") for i in range(30))))
    assert page.text.index("reason 11.") < page.text.index("All rows Worst first")
    assert page.text.index("Further notes") < page.text.index("reason 12.") < page.text.index("reason 29.")
    assert "18 further notes follow the table." in page.text


def test_two_hundred_rows_are_all_there():
    rows = [make_row(f"p{i}", value=2.3e9 + i) for i in range(200)]
    page = page_of(sheet_of(*rows))
    assert len([svg for svg in page.all("svg") if svg.get("class") == "plot"]) == 200
    for i in range(200):
        assert f"2.5G port p{i} " in page.text


def test_no_row_at_all():
    sheet = msgspec.structs.replace(good(), rows=(), counts={}, verdict=DeviceVerdict.NOT_PROVEN)
    assert "There is no row" in page_of(sheet).text


def test_the_attempts_of_a_row_are_listed():
    page = page_of(sheet_of(make_row("p1", Verdict.FAIL, 1.9e9), make_row("p1", attempt=2)))
    assert "attempt 1: FAIL, 1.9 Gbit/s" in page.text
    assert "attempt 2: PASS, 2.35 Gbit/s" in page.text


def test_rows_of_one_measurement_share_their_plot():
    throughput = make_row("p1")
    retransmits = msgspec.structs.replace(
        throughput, id="r", quantity="retransmits", unit="1", value=0.0, limit="<= 50", limit_low=None, limit_high=50.0
    )
    page = page_of(sheet_of(retransmits, throughput))
    (plot,) = (svg for svg in page.all("svg") if svg.get("class") == "plot")
    assert "limit 2.3 Gbit/s" in plot["aria-label"]


# Files


def test_writes_both_files_where_they_belong(tmp_path):
    seal = JournalSeal(run_id="r", line=1, sha256="ab" * 32, path="journals/r.jsonl")
    sheet = msgspec.structs.replace(bad(), journal=seal)
    paths = write_sheet(sheet, tmp_path)
    assert paths.html == tmp_path / "R86S-U4-0008" / RUN.run_id / "sheet.html"
    assert paths.html.parent == paths.json.parent == sheet_folder(tmp_path, "R86S-U4-0008", RUN.run_id)
    assert paths.json.read_bytes() == sheet_json(sheet)
    from pytest_netperf.record.canonical import sha256

    html = paths.html.read_text()
    assert sha256(paths.json.read_bytes()) in html
    assert "ab" * 32 in html
    names = sorted(path.name for path in paths.folder.parent.rglob("*"))
    assert names == [RUN.run_id, "SHA256SUMS", "sheet.html", "sheet.json"]
    assert paths.html.stat().st_mode & 0o444 == 0o444


def test_a_sheet_made_again_goes_beside_the_first(tmp_path):
    first = write_sheet(bad(), tmp_path)
    kept = first.html.read_bytes(), first.json.read_bytes()
    names = [write_sheet(good(), tmp_path).html.parent.name for _ in range(2)]
    assert names == [f"{RUN.run_id}-2", f"{RUN.run_id}-3"]
    assert (first.html.read_bytes(), first.json.read_bytes()) == kept


def test_a_file_in_the_way_is_left_alone(tmp_path):
    taken = tmp_path / "R86S-U4-0008" / RUN.run_id
    taken.parent.mkdir()
    taken.write_text("mine")
    assert write_sheet(good(), tmp_path).html.parent.name == f"{RUN.run_id}-2"
    assert taken.read_text() == "mine"


@pytest.mark.parametrize(
    "serial", ["../../etc", "/abs", "a/b", "..", ".hidden", "", "x" * 400, "a\0b", "Gerät 測試", "a\nb"]
)
def test_a_serial_number_never_leaves_the_output(tmp_path, serial):
    output = tmp_path / "out"
    sheet = msgspec.structs.replace(good(), device=DeviceRecord(serial=serial))
    paths = write_sheet(sheet, output)
    assert paths.html.resolve().parent.parent.parent == output.resolve()
    assert list(tmp_path.iterdir()) == [output]
    assert json.loads(paths.json.read_bytes())["device"]["serial"] == serial


@given(st.text(max_size=80), st.text(max_size=80))
def test_two_serial_numbers_never_share_a_folder(one, other):
    folders = [sheet_folder(Path("out"), serial, "r").parent for serial in (one, other)]
    assert (folders[0] == folders[1]) is (one == other)
    assert all(folder.parent == Path("out") and folder.name not in ("", ".", "..") for folder in folders)


def test_an_output_that_cannot_be_written_is_said_with_a_way_out(tmp_path):
    (tmp_path / "out").write_text("x")
    with pytest.raises(
        RecordError, match=r"cannot write the sheet of device R86S-U4-0008: .*pytest-netperf sheet JOURNAL"
    ):
        write_sheet(good(), tmp_path / "out")


def test_a_disk_that_fills_up_leaves_no_half_sheet(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    sheet_html(good())  # the template is compiled before the limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(sheet_json(good())) + 100, hard))
    try:
        with pytest.raises(RecordError, match="File too large"):
            write_sheet(good(), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert write_sheet(good(), tmp_path).html.parent.name == RUN.run_id


def test_files_are_synced_before_they_get_their_name(tmp_path, monkeypatch):
    events = []
    real_fsync, real_rename = os.fsync, Path.rename

    def fsync(descriptor):
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real_fsync(descriptor)

    def rename(self, target):
        events.append("rename")
        return real_rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(sheet_module.Path, "rename", rename)
    write_sheet(good(), tmp_path)
    at = events.index("rename")
    assert {"sheet.json", "sheet.html"} <= set(events[:at])
    assert "R86S-U4-0008" in events[at:]


# Drawings


def points(*rates, seconds=1.0):
    return tuple(SeriesPoint(start_s=i * seconds, seconds=seconds, throughput_bps=rate) for i, rate in enumerate(rates))


def coordinates(svg, pattern):
    return [float(found) for found in re.findall(pattern, svg)]


def test_the_bar_ends_at_the_value_and_the_tick_stands_at_the_limit():
    svg = bullet_graph(1e9, "bit/s", limit_low=1.5e9, ceiling=2e9, style="fail")
    (track,) = coordinates(svg, r'class="track" x="2" y="2.5" width="([\d.]+)"')
    (bar,) = coordinates(svg, r'class="bar fail" x="2" y="4.5" width="([\d.]+)"')
    (tick,) = coordinates(svg, r'class="tick" x1="([\d.]+)"')
    assert bar == pytest.approx(track / 2)
    assert tick - 2 == pytest.approx(track * 0.75)


def test_a_value_above_the_ceiling_overshoots_the_frame():
    svg = bullet_graph(3e9, "bit/s", ceiling=2e9)
    track = float(re.search(r'class="track"[^>]*width="([\d.]+)"', svg)[1])
    bar = float(re.search(r'class="bar [^>]*width="([\d.]+)"', svg)[1])
    assert bar == pytest.approx(track * 1.5, rel=1e-3)
    assert bar <= 116


def test_nothing_to_draw():
    assert bullet_graph(None, "W") == ""
    assert bullet_graph(float("nan"), "W") == ""
    assert throughput_plot(()) == ""
    assert throughput_plot(points(float("nan"))) == ""
    assert "<svg" in bullet_graph(0, "1", limit_high=0.0)


def test_a_dip_is_drawn_where_it_was():
    svg = throughput_plot(points(2e9, 2e9, 1e9, 2e9), limit_low=1.9e9, ceiling=2.1e9)
    path = re.search(r'class="series [^"]*" d="([^"]+)"', svg)[1]
    levels = [float(number) for number in re.findall(r"(?:M[\d.]+ |V)([\d.]+)", path)]
    assert len(levels) == 4
    assert levels[0] == levels[1] == levels[3] < levels[2]
    limit = float(re.search(r'class="limit"[^>]*y1="([\d.]+)"', svg)[1])
    ceiling = float(re.search(r'class="ceiling"[^>]*y1="([\d.]+)"', svg)[1])
    assert ceiling < levels[0] < limit < levels[2]
    assert "limit 1.9 Gbit/s" in svg
    assert "ceiling 2.1 Gbit/s" in svg


def test_omitted_seconds_are_on_grey_and_not_in_the_line():
    series = (msgspec.structs.replace(points(1e9)[0], omitted=True), *points(1e9, 2e9, 2e9)[1:])
    svg = throughput_plot(series)
    assert svg.count('class="omitted"') == 1
    assert svg.count('class="series unused"') == 1
    assert "1 s omitted" in svg
    assert "lowest 2 Gbit/s" in svg


def test_a_gap_stays_a_gap():
    series = (*points(2e9, 2e9), SeriesPoint(start_s=5, seconds=1, throughput_bps=2e9))
    assert re.search(r'd="([^"]+)"', throughput_plot(series))[1].count("M") == 2


def test_labels_never_cover_each_other():
    svg = throughput_plot(points(9.9e9), limit_low=9.8e9, limit_high=9.85e9, ceiling=9.9e9)
    levels = sorted(coordinates(svg, r'class="label" x="[\d.]+" y="([\d.]+)"'))
    assert len(levels) == 3
    assert all(after - before >= 10.9 for before, after in pairwise(levels))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(), st.floats(), st.floats(), st.booleans()), max_size=5),
    *[st.none() | st.floats()] * 4,
)
def test_drawings_take_any_number(series, value, low, high, ceiling):
    made = tuple(SeriesPoint(start_s=a, seconds=b, throughput_bps=c, omitted=d) for a, b, c, d in series)
    for svg in (
        throughput_plot(made, limit_low=low, limit_high=high, ceiling=ceiling),
        bullet_graph(value, "bit/s", limit_low=low, limit_high=high, ceiling=ceiling),
    ):
        assert svg == "" or svg.startswith("<svg")
        drawn = re.sub(r'aria-label="[^"]*"|<text.*?</text>', "", svg)
        assert not re.search("nan|inf", drawn)


# the tester reference

VETH = Wanted(link=None, mtu=1500)
MEASURED = VETH.reference(
    throughput_bps=23.4e9,
    measured_at="2026-11-30T08:15:00+00:00",
    host="bench-1",
    kernel="6.1.0-18",
    software="iperf 3.12",
    stored=True,
)


def with_reference(*references, **changes):
    row = make_row("p2", Verdict.FAIL, value=1.897e9, **changes)
    facts = {**row.evidence.facts, **reference_facts(references, row.conditions)}
    row = msgspec.structs.replace(row, evidence=msgspec.structs.replace(row.evidence, facts=facts))
    return sheet_of(row, run=msgspec.structs.replace(RUN, reference=references))


def test_the_reference_stands_beside_the_ceiling_with_its_origin():
    page = page_of(with_reference(MEASURED))
    assert "2.354 Gbit/stester 23.4 Gbit/s" in page.text.replace(" tester", "tester")
    origin = "measured 2026-11-30 08:15 UTC by an earlier run"
    assert f"tester reference 23.4 Gbit/s (veth pair, unshaped, MTU 1500); {origin}" in page.text
    assert "Conditions, station, software, tester reference" in page.text
    assert f"23.4 Gbit/s (TCP, 1 stream); {origin}; host bench-1, kernel 6.1.0-18, iperf 3.12" in page.text
    document = json.loads(sheet_json(with_reference(MEASURED)))
    VALIDATOR.validate(document)
    (reference,) = document["reference"]
    assert (reference["throughput_bps"], reference["mtu"], reference["stored"]) == (23.4e9, 1500, True)


def test_a_reference_that_this_run_measured_and_what_disturbed_it():
    fresh = msgspec.structs.replace(MEASURED, stored=False, note="Other processes used 90 % of a CPU.")
    page = page_of(with_reference(fresh))
    assert page.text.count("measured 2026-11-30 08:15 UTC by this run") == 2
    assert page.text.count("may be too low: Other processes used 90 % of a CPU.") == 2


def test_without_a_reference_the_sheet_says_why():
    page = page_of(with_reference(VETH.reference(missing="iperf3 is not installed")))
    assert "veth pair, unshaped, MTU 1500not measured: iperf3 is not installed" in page.text.replace("1500 ", "1500")
    assert "tester reference not measured: iperf3 is not installed" in page.text
    assert "<small>tester" not in page.text


def test_an_older_journal_has_no_reference_and_its_sheet_does_not_speak_of_one():
    page = page_of(good())
    assert "Conditions, station, software" in page.text
    assert "software, tester reference" not in page.text
    assert json.loads(sheet_json(good()))["reference"] == []
