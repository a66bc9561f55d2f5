"""The console command, on what real runs leave behind; and a disk that takes nothing."""

from __future__ import annotations

import json
import os
import shutil

import jsonschema
import pytest
from test_five_lines import SCHEMA

import pytest_netperf
from pytest_netperf.record.journal_reader import read_journal
from pytest_netperf.record.verify import verify_sheet

pytest_plugins = ["pytester"]

TESTS = """
@pytest.mark.netperf_limit(power="<= 15 W")
@pytest.mark.parametrize("watts", [13, 14])
def test_power(netperf_record, watts):
    netperf_record("power", watts, "W")

@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 50 Mbps")
def test_rate(iperf3):
    iperf3.tcp()
"""


def test_the_sheet_of_a_journal_is_that_of_the_run(project, workers):
    project.write(test_all=TESTS)
    run = project.run(*workers, "--netperf-sheet=html,pdf,csv")
    assert run.code == 0, run.text
    done = project.command("sheet", str(run.journal), "--output", "again", "--format", "html,pdf,csv")
    assert done.returncode == 0, done.stdout
    assert "SIM-0001   ACCEPTED   3 of 3 rows passed" in done.stdout
    files = {path.name: path.read_bytes() for path in run.output.glob("SIM-0001/*/*")}
    assert files == {path.name: path.read_bytes() for path in (project.path / "again").glob("SIM-0001/*/*")}
    assert sorted(files) == ["SHA256SUMS", "sheet.csv", "sheet.html", "sheet.json", "sheet.pdf"]
    jsonschema.validate(run.sheet, json.loads(SCHEMA.read_text()))
    # Made again where it stands, beside the first one and not over it.
    done = project.command("sheet", str(run.journal))
    assert done.returncode == 0
    folders = sorted(path.name for path in (run.output / "SIM-0001").iterdir())
    assert folders == [run.journal.stem, f"{run.journal.stem}-2"]


@pytest.mark.parametrize(
    ("line", "verdicts"),
    [
        ("finished", ["PASS", "PASS"]),
        ("second row", ["ABORTED", "PASS"]),
        ("second start", ["NOT RUN", "PASS"]),
        ("first row", ["ABORTED", "NOT RUN"]),
    ],
)
def test_a_truncated_journal_is_never_an_acceptance(project, line, verdicts):
    project.write(test_all=TESTS.split("@pytest.mark.netperf_link")[0])
    run = project.run()
    lines = run.journal.read_bytes().splitlines(keepends=True)
    number = ["run", "plan", "first start", "first row", "second start", "second row", "finished"].index(line)
    cut = project.path / "cut.jsonl"
    cut.write_bytes(b"".join(lines[:number]) + lines[number][: len(lines[number]) // 2])
    done = project.command("sheet", str(cut), "--output", "again")
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stdout
    assert "note: The last line" in done.stdout
    (again,) = (project.path / "again").glob("SIM-0001/*/sheet.json")
    sheet = json.loads(again.read_text())
    assert (sheet["verdict"], sheet["complete"]) == ("NOT PROVEN", False)
    assert sorted(row["verdict"] for row in sheet["rows"]) == sorted(verdicts)
    assert {row["id"] for row in sheet["rows"]} == {row["id"] for row in run.sheet["rows"]}  # expected is expected


def test_a_journal_cut_before_its_plan_says_that_nobody_knows_what_was_expected(project):
    project.write(test_all=TESTS.split("@pytest.mark.netperf_link")[0])
    run = project.run()
    cut = project.path / "cut.jsonl"
    cut.write_bytes(run.journal.read_bytes().splitlines(keepends=True)[0])
    done = project.command("sheet", str(cut), "--output", "again")
    assert done.returncode == 1
    assert "The list of expected rows is not in the journal" in done.stdout
    assert "there is nothing to write" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "usage: pytest-netperf"),
        (["shet", "x"], 2, "there is no command 'shet': did you mean sheet?"),
        (["sheet"], 2, "the following arguments are required: JOURNAL"),
        (["sheet", "none.jsonl"], 2, "none.jsonl: there is no such journal"),
        (["sheet", "."], 2, ".: cannot read this journal: Is a directory"),
        (["sheet", "empty"], 2, "this journal is empty"),
        (["sheet", "text"], 2, "not a journal of pytest-netperf"),
        (["import"], 2, "the following arguments are required: FILE"),
        (["import", "none.json"], 2, "give the path of a file with iperf3 output"),
        (["import", "text"], 1, "text"),
        (["--version"], 0, f"pytest-netperf {pytest_netperf.__version__}"),
        (["--help"], 0, "sheet"),
        (["clean", "--dry-run"], 0, ""),
    ],
)
def test_the_command_and_its_wrong_use(project, arguments, code, says):
    project.write({"empty": "", "text": "hello\n"})
    done = project.command_in_process(*arguments)
    assert done.returncode == code, done.stdout
    assert says in done.stdout
    assert "Traceback" not in done.stdout


def test_import_reads_what_a_sheet_keeps(project):
    """The raw outputs on a sheet are whole: read again, they say what the row says."""
    project.write(test_all=TESTS)
    run = project.run("-k", "rate")
    (row,) = [row for row in run.sheet["rows"] if row["value"] is not None]
    (project.path / "client.json").write_text(row["evidence"]["documents"]["client"])
    done = project.command("import", "--json", "client.json", "client.json")
    first, second = json.loads(done.stdout)
    assert first == second
    assert first["trusted"] is True
    assert first["throughput_bps"] == [pytest.approx(row["value"], rel=1e-6)]
    assert done.returncode == 0


def test_an_output_folder_that_cannot_be_made(project, workers):
    """The parent became a file after the options were read: the measurement goes on, the run fails, all is said."""
    project.write(
        {
            "conftest.py": """
import os, pathlib, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart():
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pathlib.Path("parent").touch()
"""
        },
        test_all=TESTS.split("@pytest.mark.netperf_link")[0],
    )
    run = project.run(*workers, "--netperf-output=parent/results", env={"XDG_STATE_HOME": str(project.path / "state")})
    run.is_clean()
    run.has("ERROR: the journal is broken", "parent/results/journals", "Not a directory", "2 passed")
    assert run.text.count("PASS  test_power") == 2
    assert run.code == 1
    all_is_in_another_place(run, project.path / "state" / "pytest-netperf" / "rescued", 2)


def all_is_in_another_place(run, rescued, rows):
    """Nothing is lost: journal, sheet and copies are where there was room, and agree."""
    run.has(f"the run went on with all of its record in {rescued}")
    (sheet,) = rescued.glob("SIM-0001/*/sheet.json")
    assert len(json.loads(sheet.read_text())["rows"]) == rows
    assert {finding.result for finding in verify_sheet(sheet)} <= {"proven", "open"}
    (journal,) = rescued.glob("journals/*.jsonl")
    assert read_journal(journal).closed


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("unshare") is None, reason="mounts a full disk: needs root")
@pytest.mark.parametrize("room", ["nothing", "half the journal", "the journal only"])
def test_a_full_disk_is_a_failed_run_with_its_rows_shown(project, workers, room):
    project.write(test_all=TESTS.split("@pytest.mark.netperf_link")[0].replace("[13, 14]", "range(1, 15)"))
    journal_bytes = project.run().journal.stat().st_size
    size = {"nothing": 4096, "half the journal": journal_bytes // 2, "the journal only": journal_bytes + 4096}[room]
    (project.path / "full").mkdir()
    mount = f'mount -t tmpfs -o size={size} none full && exec "$@"'
    wrap = ("unshare", "--mount", "sh", "-c", mount, "sh")
    rescued = project.path / "state" / "pytest-netperf" / "rescued"
    run = project.run(*workers, "--netperf-output=full", wrap=wrap, env={"XDG_STATE_HOME": str(project.path / "state")})
    run.is_clean()
    run.has("No space left on device", "ERROR: ", "14 passed", "SIM-0001   ACCEPTED")
    assert len([line for line in run.text.splitlines() if line.startswith("  PASS  ")]) == 14, run.text
    assert run.code == 1
    if room == "the journal only":
        (sheet,) = rescued.glob("SIM-0001/*/sheet.json")
        run.has(f"this sheet is in {sheet.parent}")
        assert len(json.loads(sheet.read_text())["rows"]) == 14
    else:
        all_is_in_another_place(run, rescued, 14)
