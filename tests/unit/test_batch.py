"""The batch page: what is read, what counts as accepted, its figures against published ones, and its files."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest
from record_samples import DEVICE, RUN, make_row, plan_of

from pytest_netperf import cli
from pytest_netperf.batch.comparison import outliers
from pytest_netperf.batch.facts import RowFacts, RowName, RunFacts
from pytest_netperf.batch.lot import Unit
from pytest_netperf.batch.row_statistics import cpk, cpk_lower_bound, row_statistics
from pytest_netperf.batch.sampling import Inspected, c0_sample_size, check_c0, check_iso2859, iso2859_plan
from pytest_netperf.batch.schema import batch_schema, batch_schema_text
from pytest_netperf.batch.summarise import proportion
from pytest_netperf.batch.summary import Batch, RowStatistics, SamplingCheck
from pytest_netperf.batch.switching import severity_of_next, standing_after
from pytest_netperf.errors import ConfigError
from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.record.journal import Journal
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.report.sheet import write_sheet

NAME = RowName("k", "2.5G port p2, throughput", "throughput", "bit/s")


def sheet_of(folder, serial="SN-1", *, run="r1", day=1, values=(2.35e9,), complete=True, **changes):
    """A sheet of one device with a row p0, p1 ... for each value; below 2.3 Gbit/s it is FAIL, None INCONCLUSIVE."""
    row_changes = {name: changes.pop(name) for name in ("simulated",) if name in changes}
    rows = [
        make_row(
            f"p{number}",
            Verdict.INCONCLUSIVE if value is None else Verdict.PASS if value >= 2.3e9 else Verdict.FAIL,
            value,
            serial=serial,
            **row_changes,
        )
        for number, value in enumerate(values)
    ]
    info = msgspec.structs.replace(
        RUN, run_id=run, started_at=f"2026-11-{day:02d}T10:00:00+00:00", batch=changes.pop("batch", "2026-48")
    )
    (sheet,) = build_sheets(info, plan_of(rows), rows, complete=complete)
    sheet = msgspec.structs.replace(sheet, **changes)
    write_sheet(sheet, folder)
    return sheet


def batch(folder, *arguments, capsys=None) -> dict:
    """The page of a folder, as data."""
    code = cli.main(["batch", str(folder), *arguments])
    assert code in (0, 1)
    newest = max(folder.glob("batch-*/batch.json"), key=lambda path: path.stat().st_mtime_ns)
    page = json.loads(newest.read_text())
    assert code == bool(page["problems"])
    return page


def counts(page) -> dict[str, tuple[int, int]]:
    return {line["verdict"]: (line["first"], line["last"]) for line in page["counts"] if line["first"] or line["last"]}


def refused(capsys, *arguments) -> str:
    assert cli.main(["batch", *map(str, arguments)]) == 2
    return capsys.readouterr().err


# ---- what counts -----------------------------------------------------------------------------------------------------


def test_first_and_last_run_count_apart_and_the_page_agrees_with_the_sheets(tmp_path):
    sheet_of(tmp_path, "SN-1")
    sheet_of(tmp_path, "SN-2", values=(1.9e9,))
    sheet_of(tmp_path, "SN-2", run="r2", day=2)
    sheet_of(tmp_path, "SN-3", values=(2.35e9, 1.8e9))
    sheet_of(tmp_path, "SN-4", values=(None,))
    page = batch(tmp_path)
    assert (page["devices"], page["runs"], page["accepted_units"]) == (4, 5, 2)
    assert counts(page) == {"ACCEPTED": (1, 2), "REJECTED": (2, 1), "NOT PROVEN": (1, 1)}
    assert (page["first_pass"]["k"], page["final"]["k"], page["retested"]["k"]) == (1, 2, 1)
    assert [(line["label"].split(",")[0], line["devices"], line["still"]) for line in page["pareto"]] == [
        ("2.5G port p0", 1, 0),
        ("2.5G port p1", 1, 1),
    ]
    row = next(row for row in page["rows"] if "port p0" in row["label"])
    assert (row["n"], row["not_counted"], row["failed"], row["sd"]) == (3, 1, 0, 0.0)
    assert page["problems"] == []
    text = (tmp_path / "batch-2026-48/batch.html").read_text()
    assert "<script" not in text
    assert "2 of 4" in text
    lines = (tmp_path / "batch-2026-48/devices.csv").read_text().splitlines()
    assert len(lines) == 5
    assert lines[2].startswith("SN-2,2,REJECTED,ACCEPTED,true")


def test_a_later_worse_run_replaces_an_acceptance(tmp_path):
    sheet_of(tmp_path, "SN-1")
    sheet_of(tmp_path, "SN-1", run="r2", day=2, complete=False)
    page = batch(tmp_path)
    assert counts(page) == {"ACCEPTED": (1, 0), "NOT PROVEN": (0, 1)}
    assert (page["accepted_units"], page["incomplete"]) == (0, 1)


def test_simulated_sheets_never_make_an_accepted_device(tmp_path):
    sheet_of(tmp_path / "all", "SN-1", simulated=True)
    page = batch(tmp_path / "all", "--lot-size", "9", "--aql", "6.5", "--inspection-level", "S-1")
    assert page["sampling"][0]["decision"] == "undecided"
    assert page["simulated"]
    assert page["accepted_units"] == 0
    assert counts(page) == {"ACCEPTED (SIMULATED)": (1, 1)}
    assert page["units"][0]["last"] == "ACCEPTED (SIMULATED)"
    assert "No device is accepted by it" in (tmp_path / "all/batch-2026-48/batch.html").read_text()
    # Beside real ones: left out, and named; also when the real run of the same device failed before.
    sheet_of(tmp_path / "some", "SN-1", values=(1.9e9,))
    sheet_of(tmp_path / "some", "SN-1", run="r2", day=2, simulated=True)
    sheet_of(tmp_path / "some", "SN-2", simulated=True)
    page = batch(tmp_path / "some")
    assert (page["devices"], page["accepted_units"], page["simulated"]) == (1, 0, False)
    assert "2 SIMULATED sheets are left out" in page["remarks"][0]


@pytest.mark.parametrize(
    ("change", "says", "counted_as"),
    [
        ({"verdict": "ACCEPTED"}, "its rows make it REJECTED", "REJECTED"),
        ({"verdict": "ACCEPTED", "rows": []}, "its rows make it NOT PROVEN", "NOT PROVEN"),
        ({"verdict": "ACCEPTED WITH WAIVER"}, "its rows make it REJECTED", "REJECTED"),
        ({"verdict": "NOT PROVEN"}, "a required row is FAIL", "REJECTED"),
        ({"verdict": "ACCEPTED", "complete": False}, "its run is incomplete", "REJECTED"),
    ],
)
def test_a_sheet_is_believed_no_further_than_its_rows(tmp_path, change, says, counted_as):
    sheet_of(tmp_path, values=(1.9e9,))
    (path,) = tmp_path.glob("*/*/sheet.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    page = batch(tmp_path)
    assert says in page["problems"][0]
    assert counts(page) == {counted_as: (1, 1)}
    assert page["accepted_units"] == 0


def test_a_waiver_is_no_plain_acceptance(tmp_path):
    sheet_of(tmp_path, values=(2.35e9, 1.9e9))
    (path,) = tmp_path.glob("*/*/sheet.json")
    sheet = json.loads(path.read_text())
    for row in sheet["rows"]:
        row["waived"] = row["verdict"] == "FAIL"
    path.write_text(json.dumps(sheet | {"verdict": "ACCEPTED WITH WAIVER"}))
    page = batch(tmp_path, "--lot-size", "20", "--aql", "6.5", "--inspection-level", "S-1")
    assert counts(page) == {"ACCEPTED WITH WAIVER": (1, 1)}
    assert (page["problems"], page["accepted_units"], page["final"]["k"]) == ([], 0, 0)
    assert page["sampling"][0]["nonconforming"] == 1


def test_of_sheets_made_with_other_waivers_the_last_one_counts(tmp_path):
    """Whichever way it changed; a sheet elsewhere does not say which was first, and the worse one counts."""
    sheet = sheet_of(tmp_path, values=(2.35e9, 1.9e9))

    def with_waiver(folder: Path) -> None:
        document = json.loads((folder / "sheet.json").read_text())
        for row in document["rows"]:
            row["waived"] = row["verdict"] == "FAIL"
        (folder / "sheet.json").write_text(json.dumps(document | {"verdict": "ACCEPTED WITH WAIVER"}))

    write_sheet(sheet, tmp_path)
    with_waiver(tmp_path / "SN-1/r1-2")
    page = batch(tmp_path)
    assert (counts(page), page["problems"]) == ({"ACCEPTED WITH WAIVER": (1, 1)}, [])
    assert "the last one (SN-1/r1-2/sheet.json: ACCEPTED WITH WAIVER) counts" in " ".join(page["remarks"])
    write_sheet(sheet, tmp_path)
    assert counts(batch(tmp_path)) == {"REJECTED": (1, 1)}
    (tmp_path / "SN-1/r1-3").rename(tmp_path / "SN-1/copy")
    page = batch(tmp_path)
    assert counts(page) == {"REJECTED": (1, 1)}
    assert "the two differ" in page["problems"][0]


def test_what_cannot_be_read_is_named_and_what_is_there_twice_counts_once(tmp_path):
    sheet_of(tmp_path, "SN-1")
    write_again = sheet_of(tmp_path, "SN-2")
    write_sheet(write_again, tmp_path)  # the same run again: r1-2
    worse = sheet_of(tmp_path, "SN-3")
    write_sheet(msgspec.structs.replace(worse, complete=False, verdict=DeviceVerdict.NOT_PROVEN), tmp_path)
    for name, text in {"cut": '{"run_id": "r', "list": "[]", "newer": '{"schema_version": "99.0"}'}.items():
        (tmp_path / "SN-9" / name).mkdir(parents=True)
        (tmp_path / "SN-9" / name / "sheet.json").write_text(text)
    (tmp_path / "SN-9/newest").mkdir()
    good = json.loads(next(tmp_path.glob("SN-1/*/sheet.json")).read_text())
    (tmp_path / "SN-9/newest/sheet.json").write_text(json.dumps(good | {"schema_version": "99.0"}))
    (tmp_path / "SN-9/.r7.abcd.partial").mkdir()
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("hello")
    page = batch(tmp_path)
    problems = "\n".join(page["problems"])
    for name in ("cut", "list", "newer", "newest"):
        assert f"SN-9/{name}/sheet.json is no sheet that can be read, and its device may be missing here" in problems
    assert "'99.0' is newer than this pytest-netperf" in problems
    assert ".r7.abcd.partial is a sheet that was half written" in problems
    assert "Run r1 of SN-3 is there twice, and the two differ" in problems
    assert len(page["problems"]) == 6
    assert "Run r1 of SN-2 is there twice" in " ".join(page["remarks"])
    assert "2 other files are no sheet: notes.json, notes.txt." in page["remarks"]
    assert counts(page) == {"ACCEPTED": (2, 2), "NOT PROVEN": (1, 1)}
    shown = (tmp_path / "batch-2026-48/batch.html").read_text()
    assert "SN-9/cut/sheet.json is no sheet" in shown
    assert "NOT WHOLE" in shown


def test_a_killed_run_counts_from_its_journal(tmp_path):
    rows = [make_row("p0", serial="SN-7"), make_row("p1", serial="SN-7")]
    with Journal.create(tmp_path, "killed") as journal:
        journal.run(msgspec.structs.replace(RUN, run_id="killed", batch="2026-48"))
        journal.plan(plan_of(rows))
        journal.row(rows[0], "passed")
    with Journal.create(tmp_path, "whole") as journal:
        journal.run(msgspec.structs.replace(RUN, run_id="whole", batch="2026-48"))
        journal.plan(plan_of([make_row("p0", serial="SN-1")]))
    sheet_of(tmp_path, "SN-1", run="whole")
    page = batch(tmp_path)
    assert counts(page) == {"ACCEPTED": (1, 1), "NOT PROVEN": (1, 1)}
    (problem,) = page["problems"]
    assert "Run killed has a journal and no sheet of SN-7" in problem
    assert next(row for row in page["rows"] if "p0" in row["label"])["n"] == 2


def test_earlier_runs_that_were_left_out_of_a_delivery_still_count(tmp_path):
    """Whoever removes the sheet of the first, failed run makes no first pass of it."""
    sheet_of(tmp_path, "SN-1")
    sheet_of(tmp_path, "SN-2", run="r2", day=2)
    path = tmp_path / "SN-2/r2/sheet.json"
    earlier = {"run_id": "r1", "started_at": "2026-11-01T00:00:00+00:00", "verdict": "REJECTED", "complete": True}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"earlier": [earlier | {"sheet": "x"}]}))
    page = batch(tmp_path)
    assert counts(page) == {"ACCEPTED": (1, 2), "REJECTED": (1, 0)}
    assert "SN-2: a sheet names earlier runs whose own sheets are not here" in page["problems"][0]


# ---- wrong use -------------------------------------------------------------------------------------------------------


def test_wrong_use_says_what_there_is(tmp_path, capsys):
    lot = tmp_path / "lot"
    sheet_of(lot, "SN-1")
    sheet_of(lot, "SN-2", batch="2026-49")
    mixed = tmp_path / "mixed"
    sheet_of(mixed, "SN-1")
    sheet_of(mixed, "SN-2", device=msgspec.structs.replace(DEVICE, serial="SN-2", model="APU1"))
    (tmp_path / "empty").mkdir()
    assert "no-such: No such file or directory" in refused(capsys, tmp_path / "no-such")
    assert "there is no sheet to make a batch page of" in refused(capsys, tmp_path / "empty")
    assert "name the folder" in refused(capsys)
    text = refused(capsys, lot)
    assert "sheets of several batches: 2026-48 (1 sheet), 2026-49 (1 sheet); say which one with --batch" in text
    text = refused(capsys, lot, "--batch", "2026-47")
    assert "no such batch (did you mean '2026-4" in text
    assert "it has: 2026-48 (1 sheet), 2026-49" in text
    text = refused(capsys, mixed)
    assert "several models, whose rows cannot be compared: APU1 (1 sheet), R86S-U4 (1 sheet)" in text
    assert "no device of this batch" in refused(capsys, mixed, "--model", "APU2")
    assert batch(mixed, "--model", "APU1")["devices"] == 1
    one = (lot, "--batch", "2026-48")
    assert "--golden SN-8" in refused(capsys, *one, "--golden", "SN-8")
    assert "--aql needs --lot-size" in refused(capsys, *one, "--aql", "1.0")
    assert "has the limits 0.010" in refused(capsys, *one, "--aql", "1.1", "--lot-size", "9")
    assert "has the levels S-1" in refused(capsys, *one, "--aql", "1.0", "--lot-size", "9", "--inspection-level", "IV")
    assert "give its --aql" in refused(capsys, *one, "--inspection-level", "II")
    assert "give --aql or --limiting-quality" in refused(capsys, *one, "--lot-size", "9")
    assert "at least the 1 devices" in refused(capsys, *one, "--lot-size", "0", "--aql", "1.0")
    for share in ("2", "0 %", "200 %"):
        assert f"--limiting-quality {share}" in refused(capsys, *one, "--lot-size", "9", "--limiting-quality", share)


def test_without_scipy_it_says_what_to_install(tmp_path, capsys, monkeypatch):
    sheet_of(tmp_path)
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    assert "pip install 'pytest-netperf[batch]'" in refused(capsys, tmp_path)


def test_only_the_command_loads_scipy():
    script = "import sys, pytest_netperf.cli, pytest_netperf.plugin; print({'scipy', 'numpy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "set()"


# ---- figures ---------------------------------------------------------------------------------------------------------


def test_clopper_pearson_bounds():
    """0 of n has the upper bound 1 - 0.025 ** (1 / n); 9 of 10 is 0.555 to 0.9975 (Clopper and Pearson's own chart)."""
    none = proportion(0, 20)
    assert (none.low, none.high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 20)))
    nine = proportion(9, 10)
    assert (nine.low, nine.high) == (pytest.approx(0.5550, abs=1e-4), pytest.approx(0.9975, abs=1e-4))
    assert proportion(0, 0).share is None


def test_cpk_bound_of_one_limit_is_owens_tolerance_factor():
    """A one-sided tolerance factor k (95 % confidence, share p) is the estimate whose bound is z(p) / 3.

    For n = 10 and p = 0.95 tables of Owen have k = 2.911, for n = 30 and p = 0.99 k = 3.064.
    """
    for n, k, z in ((10, 2.911, 1.64485), (30, 3.064, 2.32635)):
        bound = cpk_lower_bound(k, 1.0, n, 0.0, None)
        assert bound == pytest.approx(z / 3, abs=5e-4)
    assert cpk(5.0, 1.0, 0.0, 8.0) == pytest.approx(1.0)
    both = cpk_lower_bound(5.0, 1.0, 25, 0.0, 8.0)
    assert both == pytest.approx(cpk_lower_bound(5.0, 1.0, 25, None, 8.0))
    assert cpk_lower_bound(-1.0, 1.0, 25, 0.0, None) < cpk(-1.0, 1.0, 0.0, None) < 0
    huge = cpk_lower_bound(1e6, 1.0, 5000, 0.0, None)
    assert 0 < huge < cpk(1e6, 1.0, 0.0, None)


def facts(value, verdict=Verdict.PASS, **changes):
    bounds = {"limit": ">= 2.3 Gbit/s", "low": 2.3e9, "high": None, "ceiling": 2.354e9} | changes
    return RowFacts(value, verdict, True, **bounds)


def test_statistics_of_a_row():
    values = [2.31e9, 2.32e9, 2.33e9, 2.30e9]
    row = row_statistics(NAME, [*map(facts, values), facts(9e9, Verdict.INVALID), facts(None, Verdict.ERROR)], 7)
    assert (row.n, row.not_counted, row.failed) == (4, 3, 0)
    assert (row.mean, row.smallest, row.largest, row.median) == (2.315e9, 2.30e9, 2.33e9, 2.315e9)
    assert row.sd == pytest.approx(math.sqrt(sum((v - 2.315e9) ** 2 for v in values) / 3))
    assert row.cpk == pytest.approx(0.015e9 / (3 * row.sd))
    assert row.cpk_low < row.cpk
    assert sum(row.histogram.counts) == 4
    assert row.histogram.edges[0] <= 2.3e9
    assert row.histogram.edges[-1] >= 2.33e9
    assert row_statistics(NAME, [], 3).n == 0
    assert row_statistics(NAME, [facts(2.31e9)], 1).cpk is None


def test_values_at_the_ceiling_equal_values_and_other_limits_have_a_note():
    piled = row_statistics(NAME, [facts(2.353e9 + 1e5 * (i % 3)) for i in range(20)], 20)
    assert piled.near_ceiling == 20
    assert "pile up there and are not normal" in piled.notes[0]
    equal = row_statistics(NAME, [facts(2.31e9)] * 5, 5)
    assert equal.cpk is None
    assert "no scatter" in equal.notes[0]
    mixed = row_statistics(NAME, [facts(2.31e9), facts(2.32e9), facts(2.33e9, low=2.0e9)], 3)
    assert mixed.limit_low == 2.3e9
    assert "different limits" in mixed.notes[0]
    skewed = row_statistics(NAME, [facts(2.30e9 + 1e5 * 1.5**i, ceiling=None) for i in range(20)], 20)
    assert any("Shapiro" in note for note in skewed.notes)


def unit(serial, value, verdict=Verdict.PASS):
    run = RunFacts(
        serial=serial, model="M", batch="B", run_id=serial, started_at="2026-11-01T00:00:00+00:00", station="b",
        operator=None, verdict=DeviceVerdict.ACCEPTED, sentence="", complete=True, simulated=False,
        rows={"k": facts(value, verdict)}, source="",
    )  # fmt: skip
    return Unit(serial, (run,))


def test_outliers_are_robust_and_small_differences_are_none():
    units = [unit(f"SN-{i}", 2.34e9 + 1e6 * (i % 5)) for i in range(20)]
    assert outliers(NAME, units) == []
    odd = [*units, unit("LOW", 2.30e9), unit("BAD", 1.9e9, Verdict.FAIL), unit("NONE", 9e9, Verdict.INVALID)]
    assert [found.serial for found in outliers(NAME, odd)] == ["BAD", "LOW"]
    assert outliers(NAME, odd)[0].score < -3.5
    same = [unit(f"SN-{i}", 2.34e9) for i in range(20)]
    assert outliers(NAME, same) == []
    assert [found.serial for found in outliers(NAME, [*same, unit("LOW", 2.30e9)])] == ["LOW"]
    assert outliers(NAME, [*same, unit("NEAR", 2.3401e9)]) == []
    assert outliers(NAME, odd[-8:]) == []


@pytest.mark.parametrize(
    ("lot", "aql", "level", "letter", "size", "acceptance"),
    [
        # Of MIL-STD-105E, table II-A with its arrows followed.
        (500, "1.0", "II", "H", 50, 1),
        (500, "0.65", "II", "J", 80, 1),  # H: arrow down
        (280, "0.65", "II", "F", 20, 0),  # G: arrow up
        (1200, "2.5", "II", "J", 80, 5),
        (3200, "1.0", "II", "K", 125, 3),
        (8, "10", "II", "C", 5, 1),  # A: arrow down
        (8, "6.5", "II", "A", 2, 0),
        (150, "0.010", "II", "Q", 1250, 0),
        (600000, "0.010", "III", "Q", 1250, 0),  # R: arrow up
        (600000, "0.015", "III", "P", 800, 0),  # R: up to Q, and up again
        (600000, "0.025", "III", "R", 2000, 1),
        (600000, "0.65", "III", "R", 2000, 21),
        (600000, "10", "III", "K", 125, 21),
        (90, "4.0", "S-3", "B", 3, 0),  # C: arrow up
    ],
)
def test_plans_of_iso_2859_1(lot, aql, level, letter, size, acceptance):
    assert iso2859_plan(lot, aql, level) == (letter, size, acceptance, acceptance + 1)


@pytest.mark.parametrize(
    ("severity", "lot", "aql", "level", "plan"),
    [
        ("tightened", 500, "1.0", "II", ("J", 80, 1, 2)),  # H: arrow down
        ("tightened", 150, "1.0", "II", ("F", 20, 0, 1)),
        ("tightened", 280, "1.0", "II", ("J", 80, 1, 2)),  # G: arrows down, not up
        ("tightened", 1200, "1.5", "II", ("J", 80, 2, 3)),
        ("tightened", 1200, "6.5", "II", ("J", 80, 8, 9)),
        ("tightened", 600000, "0.65", "III", ("R", 2000, 18, 19)),
        ("tightened", 600000, "1.0", "III", ("Q", 1250, 18, 19)),  # arrow up
        ("tightened", 600000, "0.010", "III", ("R", 2000, 0, 1)),
        ("tightened", 600000, "0.015", "III", ("Q", 1250, 0, 1)),
        ("tightened", 600000, "0.025", "II", ("S", 3150, 1, 2)),  # the only one below R
        ("tightened", 8, "6.5", "II", ("B", 3, 0, 1)),
        ("tightened", 8, "10", "II", ("D", 8, 1, 2)),
        ("reduced", 500, "1.0", "II", ("H", 20, 0, 2)),
        ("reduced", 150, "1.0", "II", ("E", 5, 0, 1)),  # F: arrow up
        ("reduced", 280, "1.0", "II", ("H", 20, 0, 2)),
        ("reduced", 1200, "1.0", "II", ("J", 32, 1, 3)),
        ("reduced", 3200, "1.0", "II", ("K", 50, 1, 4)),
        ("reduced", 600000, "0.65", "III", ("R", 800, 10, 13)),
        ("reduced", 8, "10", "II", ("C", 2, 0, 2)),
        ("reduced", 8, "6.5", "II", ("A", 2, 0, 1)),
    ],
)
def test_tightened_and_reduced_plans(severity, lot, aql, level, plan):
    """By the master tables II-B and II-C of MIL-STD-105E."""
    assert iso2859_plan(lot, aql, level, severity) == plan


def lots(severity: str, decisions: str, *, aql="1.0") -> list[SamplingCheck]:
    """Lots of 500 with this inspection; a: accepted, r: rejected, g: accepted in the gap of reduced inspection, u:
    undecided."""
    found = {"a": Inspected(500, 80, 0, 0), "r": Inspected(500, 80, 9, 0), "g": Inspected(500, 80, 1, 0)}
    return [check_iso2859(found.get(each, Inspected(500, 1, 0, 0)), aql, "II", severity) for each in decisions]


@pytest.mark.parametrize(
    ("before", "severity", "says"),
    [
        ([], "normal", "inspection begins normal"),
        (lots("normal", "aaaraaaa"), "normal", "switching score 8 of 30"),
        (lots("normal", "araar"), "tightened", "2 of the last 5 lots were rejected"),
        (lots("normal", "raaaar"), "normal", "switching score 0 of 30"),
        (lots("normal", "rr") + lots("tightened", "aaaa"), "tightened", "fewer than 5 lots"),
        (lots("normal", "rr") + lots("tightened", "aaraauaaa"), "normal", "5 lots were accepted one after another"),
        (lots("normal", "a" * 14), "normal", "switching score 28 of 30"),
        (lots("normal", "a" * 15), "normal", "It may be reduced, where production is steady"),
        (lots("normal", "a" * 10, aql="2.5"), "normal", "switching score 30 of 30"),  # 3 for each: also at 1.5
        (lots("normal", "a" * 15) + lots("reduced", "aa"), "reduced", "the last lot was accepted"),
        (lots("normal", "a" * 15) + lots("reduced", "ag"), "normal", "more nonconforming than its acceptance number"),
        (lots("normal", "a" * 15) + lots("reduced", "r"), "normal", "a lot was rejected"),
    ],
)
def test_switching_rules(before, severity, says):
    standing = standing_after(before)
    assert standing.severity == severity == severity_of_next(before)
    assert says in standing.sentence


def test_five_rejected_lots_on_tightened_inspection_end_it_and_other_plans_are_no_series():
    before = lots("normal", "rr") + lots("tightened", "rarararar")
    assert "No further lot is accepted by inspection" in standing_after(before).sentence
    with pytest.raises(ConfigError, match="5 lots were rejected on tightened inspection"):
        severity_of_next(before)
    with pytest.raises(ConfigError, match=r"no series, because their plans differ: AQL 1.0 %, level II and AQL 2.5 %"):
        standing_after(lots("normal", "a") + lots("normal", "a", aql="2.5"))


def test_the_next_lot_follows_from_the_pages_of_those_before(tmp_path, capsys):
    plan = ("--lot-size", "9", "--aql", "4.0")
    previous: list[str] = []
    for lot in range(3):
        folder = tmp_path / f"lot-{lot}"
        for number in range(5):
            sheet_of(folder, f"SN-{number}", values=(1.9e9,))
        (check,) = batch(folder, *plan, *previous)["sampling"]
        previous += ["--previous", str(folder / "batch-2026-48")]
        expected = ("tightened", "C", 5) if lot == 2 else ("normal", "B", 3)
        assert (check["inspection"], check["plan"][-1], check["sample_size"]) == expected
        assert check["decision"] == "reject"
    assert "The next lot has tightened inspection: fewer than 5 lots were accepted" in capsys.readouterr().out
    (check,) = batch(folder, *plan, *previous, "--inspection", "reduced")["sampling"]
    assert (check["inspection"], check["acceptance_number"], check["rejection_number"]) == ("reduced", 0, 1)
    assert "The next lot has" in (folder / "batch-2026-48-2/batch.html").read_text()
    assert "--previous is of ISO 2859-1: give its --aql" in refused(capsys, folder, *previous)
    assert "is no batch.json that can be read: No such file" in refused(capsys, folder, *plan, "--previous", tmp_path)
    batch(folder, "--output", str(folder))
    newest = max(folder.glob("batch-*"), key=lambda path: path.stat().st_mtime_ns)
    assert "was not held against ISO 2859-1" in refused(capsys, folder, *plan, "--previous", newest)


@pytest.mark.parametrize(
    ("found", "decision"),
    [
        (Inspected(500, 50, 1, 0), "accept"),
        (Inspected(500, 50, 2, 0), "reject"),
        (Inspected(500, 30, 2, 0), "reject"),
        (Inspected(500, 49, 0, 0), "undecided"),
        (Inspected(500, 50, 1, 1), "undecided"),
        (Inspected(500, 50, 0, 1), "accept"),
    ],
)
def test_decisions_of_a_plan(found, decision):
    assert check_iso2859(found, "1.0", "II").decision == decision


def test_a_plan_that_asks_for_all_means_screening():
    check = check_iso2859(Inspected(10, 4, 2, 0), "0.65", "II")
    assert (check.decision, check.sample_size) == ("screen", None)
    assert "Test the other 6" in check.next_step


def test_c0_sample_is_the_fewest_that_find_the_bad_ones():
    size = c0_sample_size(500, 0.02, 0.95)

    def missed(n):  # no bad one among n, of 10 bad in 500
        return math.comb(490, n) / math.comb(500, n)

    assert missed(size) <= 0.05 < missed(size - 1)
    assert c0_sample_size(20, 0.01, 0.95) == 19
    assert check_c0(Inspected(500, size, 0, 0), 0.02).decision == "accept"
    assert check_c0(Inspected(500, size, 1, 0), 0.02).decision == "reject"
    assert check_c0(Inspected(500, size - 1, 0, 0), 0.02).decision == "undecided"


def test_no_lot_is_accepted_on_a_record_that_is_not_whole(tmp_path):
    for number in range(3):
        sheet_of(tmp_path, f"SN-{number}")
    plan = ("--lot-size", "9", "--aql", "4.0")
    (check,) = batch(tmp_path, *plan)["sampling"]
    assert (check["decision"], check["sample_size"]) == ("accept", 3)
    (tmp_path / "SN-9/r1").mkdir(parents=True)
    (tmp_path / "SN-9/r1/sheet.json").write_text("{")
    (check,) = batch(tmp_path, *plan)["sampling"]
    assert check["decision"] == "undecided"
    assert "1 of what was read is not as it should be" in check["reason"]


def test_stations_and_a_golden_device(tmp_path):
    for number in range(16):
        sheet_of(
            tmp_path, f"SN-{number:02d}", values=(2.34e9 + number * 1e5 - (number % 2) * 3e7,),
            station=type(RUN.station)(name=f"bench-{number % 2 + 1}") if not isinstance(RUN.station, dict)
            else {"name": f"bench-{number % 2 + 1}"},
        )  # fmt: skip
    for day in range(1, 9):
        sheet_of(tmp_path, "GOLD", run=f"g{day}", day=day, values=(2.35e9 - day * 1e6,), batch=None)
    page = batch(tmp_path, "--golden", "GOLD")
    assert page["devices"] == 16
    assert [(line["name"], line["devices"]) for line in page["stations"]] == [("bench-1", 8), ("bench-2", 8)]
    (row,) = page["station_rows"]
    assert row["medians"]["bench-1"] > row["medians"]["bench-2"]
    (golden,) = page["golden"]
    assert golden["slope_per_day"] == pytest.approx(-1e6)
    assert "it drifts by -1 Mbit/s a day" in golden["text"]


def test_the_published_schema_fits_what_is_written(tmp_path):
    published = Path(__file__).parents[2] / "docs/reference/batch.schema.json"
    assert published.read_text("utf-8") == batch_schema_text()
    jsonschema.Draft202012Validator.check_schema(batch_schema())
    validator = jsonschema.Draft202012Validator(batch_schema())
    for number in range(9):
        sheet_of(tmp_path, f"SN-{number}", values=(2.35e9 - number * 1e5, 1.9e9 if number == 3 else 2.34e9))
    sheet_of(tmp_path, "SN-G", batch="golden")
    sheet_of(tmp_path, "SN-3", run="r2", day=2, values=(2.35e9, 2.34e9))
    plans = ("--lot-size", "500", "--aql", "1.0", "--limiting-quality", "5 %")
    page = batch(tmp_path, "--batch", "2026-48", "--golden", "SN-G", *plans)
    for key in ("rows", "sampling", "pareto", "golden", "stations", "units"):
        assert page[key], key
    validator.validate(page)
    for change in ({"batch_version": "2.0"}, {"devices": "9"}, {"sampling": [{}]}):
        assert not validator.is_valid(page | change), change
    assert not validator.is_valid({key: value for key, value in page.items() if key != "units"})


def test_documented_keys():
    text = (Path(__file__).parents[2] / "docs/reference/batch.md").read_text()
    for heading, struct in (("batch.json", Batch), ("Rows", RowStatistics)):
        section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
        cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        keys = [key for cell in cells for key in re.findall(r"`(\w+)`", cell)]
        assert keys == [field.name for field in msgspec.structs.fields(struct)]
