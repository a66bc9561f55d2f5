"""Sheets in the forms of other tools, read back by those tools' own parsers where there is one."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from record_samples import DEVICE, RUN, make_row, plan_of

from pytest_netperf.cli import main
from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.report.markdown import sheets_markdown
from pytest_netperf.report.openhtf import openhtf_record
from pytest_netperf.report.prometheus import prometheus_text
from pytest_netperf.report.sheet import sheet_json, write_sheet

HOSTILE = 'a|b "c" \\d\n<img src=x> @team #1 `x` [y](z) {0}'


def sheet_of(*rows, run=RUN, complete=True, **changes):
    finished = "2026-11-30T19:20:00+00:00" if complete else None
    (sheet,) = build_sheets(run, plan_of(rows), rows, complete=complete, finished_at=finished)
    return msgspec.structs.replace(sheet, **changes)


def good(serial=DEVICE.serial, **changes):
    return sheet_of(make_row("p1", serial=serial), make_row("p2", serial=serial), **changes)


def bad(**changes):
    return sheet_of(make_row("p1"), make_row("p2", Verdict.FAIL, 1.897e9, reason=HOSTILE), **changes)


# Prometheus


def metrics_of(*sheets):
    return {family.name: family.samples for family in text_string_to_metric_families(prometheus_text(sheets).decode())}


def test_prometheus_reads_the_textfile():
    metrics = metrics_of(good("A"), bad())
    assert {(s.labels["serial"], s.labels["verdict"]) for s in metrics["netperf_device_verdict"] if s.value == 1} == {
        ("A", "ACCEPTED"),
        ("R86S-U4-0008", "REJECTED"),
    }
    assert len(metrics["netperf_device_verdict"]) == 2 * len(DeviceVerdict)
    values = {(s.labels["serial"], s.labels["link"]): s.value for s in metrics["netperf_row_value"]}
    assert values["R86S-U4-0008", "p2"] == 1.897e9
    assert all(s.labels["unit"] == "bit/s" for s in metrics["netperf_row_value"])
    (finished, _) = metrics["netperf_run_finished_timestamp_seconds"]
    assert finished.value == 1796066400
    assert "netperf_row_uncertainty" not in metrics  # nothing is known of it: no sample, and no 0


def test_no_series_of_the_textfile_appears_twice_and_the_newest_run_counts():
    old = good(run=msgspec.structs.replace(RUN, run_id="old", started_at="2026-01-01T00:00:00+00:00"))
    for order in ((old, bad()), (bad(), old), (bad(), bad())):
        text = prometheus_text(order).decode()
        series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
        assert len(series) == len(set(series))
        assert {s.labels["verdict"] for s in metrics_of(*order)["netperf_device_verdict"] if s.value} == {"REJECTED"}
        helps = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP")]
        assert len(helps) == len(set(helps))


def test_labels_survive_every_character():
    row = make_row(HOSTILE)
    (sample,) = metrics_of(sheet_of(row))["netperf_row_value"]
    assert sample.labels["link"] == HOSTILE


def test_nothing_to_tell_prometheus():
    assert prometheus_text([]) == b""
    row = make_row(value=float("nan"), margin=float("inf"))
    assert "netperf_row_value" not in metrics_of(sheet_of(row))


# OpenHTF; the keys are those that OpenHTF 1.6 itself wrote


def test_openhtf_has_a_phase_for_each_test_and_a_measurement_for_each_row():
    record = openhtf_record(bad())
    assert (record["dut_id"], record["station_id"], record["outcome"]) == ("R86S-U4-0008", "bench-1", "FAIL")
    assert record["start_time_millis"] == 1796065923000
    assert record["outcome_details"][0]["code"] == "REJECTED"
    phases = {phase["name"]: phase for phase in record["phases"]}
    assert [phase["outcome"] for phase in phases.values()] == ["FAIL", "PASS"]
    (measured,) = record["phases"][0]["measurements"].values()
    assert measured["measured_value"] == 1.897e9
    assert measured["validators"] == ["2300000000.0 <= x"]
    assert (measured["outcome"], measured["units"]["suffix"]) == ("FAIL", "bit/s")
    assert set(record) >= {"phases", "metadata", "marginal", "subtests", "branches", "diagnosers", "diagnoses"}
    json.dumps(record)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_nothing_passes_there_that_does_not_pass_here(verdict):
    record = openhtf_record(sheet_of(make_row("p1"), make_row("p2", verdict)))
    outcome = {"PASS": "PASS", "FAIL": "FAIL"}.get(verdict.value)
    (one, two) = (next(iter(phase["measurements"].values())) for phase in record["phases"])
    assert {one["outcome"], two["outcome"]} == {"PASS", outcome or "UNSET"}
    if verdict is not Verdict.NOT_APPLICABLE:
        assert (record["outcome"] == "PASS") is (verdict is Verdict.PASS)


@pytest.mark.parametrize(
    ("verdict", "complete", "outcome"),
    [
        (DeviceVerdict.ACCEPTED, True, "PASS"),
        (DeviceVerdict.ACCEPTED_WITH_WAIVER, True, "FAIL"),
        (DeviceVerdict.REJECTED, False, "FAIL"),
        (DeviceVerdict.NOT_PROVEN, True, "ERROR"),
        (DeviceVerdict.NOT_PROVEN, False, "ABORTED"),
    ],
)
def test_outcome_of_a_device(verdict, complete, outcome):
    assert openhtf_record(good(verdict=verdict, complete=complete))["outcome"] == outcome


# Markdown


def test_markdown_names_each_device_and_what_did_not_pass():
    text = sheets_markdown([good("A"), bad()]).decode()
    assert text.startswith("## Network acceptance: 1 ACCEPTED, 1 REJECTED\n")
    assert "| A | ✅ **ACCEPTED** | 2 of 2 |" in text
    assert "❌ **REJECTED**" in text
    assert text.count("<details>") == text.count("</details>") == 2
    assert "2 of 2 |" in text
    assert "1.897 Gbit/s" in text


def test_no_text_of_a_user_is_markup_in_markdown():
    text = sheets_markdown([bad()]).decode()
    for markup in ("<img", "@team", "`x`", "](z)"):
        assert markup not in text
    shown = re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), text)
    assert HOSTILE.replace("\n", " ") in shown
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {5, 8}


def test_markdown_of_a_large_batch_keeps_what_github_takes():
    many = [good(f"S{number}") for number in range(30)]
    wide = sheet_of(*(make_row(f"p{number}", reason="x" * 900) for number in range(250)))
    text = sheets_markdown([wide, *many])
    assert len(text) < 1_048_576
    assert b"50 further rows are on the sheet." in text
    devices = [msgspec.structs.replace(wide.device, serial=f"L{number}") for number in range(40)]
    large = [msgspec.structs.replace(wide, device=device) for device in devices]
    text = sheets_markdown(large)
    assert len(text) < 1_048_576
    assert re.search(rb"\d+ further devices are left out here", text)
    assert text.count(b"| L") == 40


def test_no_device_is_no_acceptance():
    assert sheets_markdown([]) == b"## Network acceptance: no device\n\n"


# The command


@pytest.fixture
def results(tmp_path):
    for sheet in (good("A"), bad()):
        write_sheet(sheet, tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize("form", ["csv", "markdown", "openhtf", "prometheus"])
def test_a_folder_of_sheets_in_each_form(results, capsysbinary, form):
    assert main(["export", "--format", form, str(results)]) == 0
    printed = capsysbinary.readouterr().out
    target = results / "export.txt"
    target.write_text("old")
    files = sorted(map(str, results.rglob("sheet.json")))
    assert main(["export", "--format", form, *files, "--output", str(target)]) == 0
    assert target.read_bytes() == printed
    assert [path for path in results.iterdir() if path.name.endswith(".partial")] == []
    text = printed.decode()
    assert "R86S-U4-0008" in text
    if form == "csv":
        assert len(list(csv.DictReader(io.StringIO(text, newline="")))) == 4
    elif form == "openhtf":
        assert [json.loads(line)["outcome"] for line in text.splitlines()] == ["PASS", "FAIL"]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (Path.mkdir, "there is no sheet.json in this folder"),
        (Path.exists, "there is no such sheet"),
        (lambda folder: folder.write_text("{}"), "sheet"),
    ],
)
def test_what_is_no_sheet_is_said(tmp_path, capsys, make, says):
    make(tmp_path / "x")
    assert main(["export", "--format", "csv", str(tmp_path / "x"), "--output", str(tmp_path / "y")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "y").exists()


def test_a_target_that_cannot_be_written_is_said(results, capsys):
    assert main(["export", "--format", "csv", str(results), "--output", str(results / "no" / "x")]) == 2
    assert "cannot write: No such file or directory" in capsys.readouterr().err


def test_a_sheet_read_back_and_exported_is_the_sheet(results):
    (path,) = results.glob("A/*/sheet.json")
    assert path.read_bytes() == sheet_json(good("A"))
