"""pytest's ways to run less, more often or elsewhere: what was not measured is never accepted, and never forgotten."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TWO_DEVICES = """
[[device]]
serial = "A-1"
[[device]]
serial = "B-2"
"""

THREE = """
LIMIT = pytest.mark.netperf_limit(power="<= 15 W")

@LIMIT
def test_one(netperf_record):
    netperf_record("power", 13, "W")

@LIMIT
def test_two(netperf_record):
    netperf_record("power", 16, "W")

@LIMIT
def test_three(netperf_record):
    netperf_record("power", 13, "W")

def test_plain(): pass
"""


def test_exit_first_leaves_the_rest_not_run(project):
    project.write(test_three=THREE)
    run = project.run("-x")
    assert run.verdicts == {"test_one::power": "PASS", "test_two::power": "FAIL", "test_three::power": "NOT RUN"}
    assert (run.code, run.sheet["verdict"], run.sheet["complete"]) == (1, "REJECTED", False)
    assert "The run ended before this row" in run.rows["test_three[SIM-0001]::power"]["reason"]


def test_exit_first_on_a_test_of_no_device_proves_nothing_of_any(project, workers):
    project.write(test_a="def test_plain():\n    assert 0\n", test_b=THREE.replace("16", "13"))
    run = project.run("-x", *workers)
    if not workers:  # a second worker is already at the next test
        assert set(run.verdicts.values()) == {"NOT RUN"}
    assert run.code != 0  # 2 of xdist, 1 of pytest
    assert run.sheet["verdict"] == "NOT PROVEN"


@pytest.mark.needs_xdist
def test_maxfail_with_workers_never_accepts(project):
    project.write(test_three=THREE + THREE.replace("def test_", "def test_more_").replace("16", "13"))
    run = project.run("-n2", "--maxfail=1")
    assert run.code != 0
    assert run.sheet["verdict"] == "REJECTED"
    assert len(run.rows) == 6


@pytest.mark.parametrize(
    "selection", [["-k", "one or plain"], ["--deselect", "test_some.py::test_two", "-k", "not three"]]
)
def test_deselected_rows_are_on_the_sheet_and_the_part_that_ran_exits_0(project, workers, selection):
    project.write(test_some=THREE)
    run = project.run(*workers, *selection)
    assert run.verdicts == {"test_one::power": "PASS", "test_two::power": "NOT RUN", "test_three::power": "NOT RUN"}
    assert (run.code, run.sheet["verdict"]) == (0, "NOT PROVEN"), run.text
    assert "Deselected" in run.rows["test_two[SIM-0001]::power"]["reason"]
    assert "partial run" in run.sheet["sentence"]
    run.has("NOT PROVEN 1 of 3 rows passed", "2 passed")


def test_by_mark_expression(project):
    project.write(test_three=THREE.replace("@LIMIT\ndef test_two", "@pytest.mark.netns\n@LIMIT\ndef test_two"))
    project.write({"pytest.ini": "[pytest]\nmarkers = netns: x\n"})
    run = project.run("-m", "not netns")
    assert run.verdicts == {"test_one::power": "PASS", "test_two::power": "NOT RUN", "test_three::power": "PASS"}
    assert (run.code, run.sheet["verdict"]) == (0, "NOT PROVEN")


def test_nothing_of_ours_selected_is_no_run_of_ours(project, workers):
    project.write(test_three=THREE)
    run = project.run(*workers, "-k", "plain")
    assert run.code == 0, run.text
    assert not run.output.exists()
    assert "network acceptance" not in run.text


def test_all_rows_of_one_device_are_a_whole_run_of_that_device(project, workers):
    project.write({"bench.toml": TWO_DEVICES}, test_three=THREE.replace("16", "13"))
    run = project.run(*workers, "--netperf-bench=bench.toml", "-k", "A-1")
    assert run.code == 0, run.text
    assert {serial: sheet["verdict"] for serial, sheet in run.sheets.items()} == {"A-1": "ACCEPTED"}


def test_device_option_runs_the_tests_of_that_device_only(project, workers):
    project.write({"bench.toml": TWO_DEVICES}, test_three=THREE.replace("16", "13"))
    run = project.run(
        *workers, "--netperf-bench=bench.toml", "--netperf-device=B-2", "--netperf-batch=2026-48",
        "--netperf-operator=Kim",
    )  # fmt: skip
    assert run.code == 0, run.text
    assert {serial: sheet["verdict"] for serial, sheet in run.sheets.items()} == {"B-2": "ACCEPTED"}
    assert run.sheet["device"]["batch"] == "2026-48"
    assert run.sheet["operator"] == "Kim"
    run.has("4 passed")


def test_a_device_that_was_asked_for_and_that_no_test_concerns_is_no_success(project, workers):
    bench = TWO_DEVICES.replace('"A-1"', '"A-1"\n[[device.link]]\nname="lan"\nspeed="100M"\nsimulated=true')
    project.write(
        {"bench.toml": bench},
        test_link="@pytest.mark.netperf_link(device='A-1')\ndef test_link(netperf_link): pass\n",
    )
    run = project.run(*workers, "--netperf-bench=bench.toml", "--netperf-device=B-2")
    run.has("--netperf-device B-2: no test of this run concerns this device; nothing is proven")
    assert run.code == 1
    assert not run.output.exists()


def test_last_failed_does_not_accept_a_device_by_what_failed_before(project, workers):
    """What passed before is not even collected by --lf: it is in no plan, and yet it counts."""
    project.write(test_some=THREE.replace("16", "13 if __import__('os').environ.get('MENDED') else 16"))
    assert project.run(*workers).sheet["verdict"] == "REJECTED"
    run = project.run(*workers, "--lf", env={"MENDED": "1"})
    assert run.verdicts == {"test_two::power": "PASS"}
    assert (run.code, run.sheet["verdict"]) == (0, "NOT PROVEN"), run.text
    assert "--lf" in run.sheet["sentence"]
    run = project.run(*workers, "--lf", env={"MENDED": "1"})  # nothing failed before: everything runs
    assert set(run.verdicts.values()) == {"PASS"}
    assert (run.code, len(run.rows), run.sheet["verdict"]) == (0, 3, "ACCEPTED"), run.text


def test_last_failed_with_a_file_that_it_leaves_out(project):
    project.write(
        test_a="""
@pytest.mark.netperf_limit(power="<= 15 W")
def test_power(netperf_record):
    netperf_record("power", 13 if __import__('os').environ.get('MENDED') else 16, "W")
""",
        test_b=THREE.replace("16", "13"),
    )
    first = project.run()
    assert first.sheet["verdict"] == "REJECTED"
    run = project.run("--lf", env={"MENDED": "1"})
    assert list(run.verdicts.values()) == ["PASS"]  # test_b.py is not there at all
    assert (run.code, run.sheet["verdict"]) == (0, "NOT PROVEN"), run.text
    assert "--lf" in run.sheet["sentence"]
    again = project.command("sheet", str(run.journal), "--output", str(project.path / "again"))
    assert "NOT PROVEN" in again.stdout


FLAKY = """
import pathlib

@pytest.mark.netperf_limit(power="<= 15 W")
def test_flaky(netperf_record):
    seen = pathlib.Path("seen")
    value = 13 if seen.exists() else 16
    seen.write_text("once")
    netperf_record("power", value, "W")

@pytest.mark.netperf_limit(power="<= 15 W")
def test_good(netperf_record):
    netperf_record("power", 13, "W")
"""


def test_a_rerun_never_turns_a_failure_into_an_acceptance(project, workers):
    project.write(test_flaky=FLAKY)
    run = project.run(*workers, "--reruns=2")
    run.has("2 passed", "1 rerun")  # pytest is content
    row = run.rows["test_flaky[SIM-0001]::power"]
    assert (row["verdict"], row["value"]) == ("FAIL", 16)
    attempts = row["attempts"]
    assert [(each["attempt"], each["verdict"], each["value"]) for each in attempts] == [
        (1, "FAIL", 16),
        (2, "PASS", 13),
    ]
    assert "2 attempts: FAIL, PASS; the worst counts" in row["reason"]
    assert run.verdicts["test_good::power"] == "PASS"
    assert (run.code, run.sheet["verdict"]) == (1, "REJECTED"), run.text


def test_a_rerun_of_an_inconclusive_test_keeps_both_attempts(project):
    project.write(test_flaky=FLAKY.replace("16", "float('nan')"))
    run = project.run("--reruns=1", "-k", "flaky")
    row = run.rows["test_flaky[SIM-0001]::power"]
    assert row["verdict"] == "INVALID"
    assert [each["verdict"] for each in row["attempts"]] == ["INVALID", "PASS"]
    assert run.code == 1


def test_repeated_by_count_of_parameters_is_not_a_rerun(project):
    project.write(test_flaky=FLAKY)
    first, second = project.run(), project.run()
    assert (first.sheet["verdict"], second.sheet["verdict"]) == ("REJECTED", "ACCEPTED")  # two runs, two sheets
    assert first.sheet["run_id"] != second.sheet["run_id"]


MIXED = """
@pytest.mark.netperf_link(speed="100M", mtu=[1500, 9000])
@pytest.mark.netperf_limit(throughput=">= 50 Mbps")
def test_rate(iperf3):
    iperf3.tcp(direction="reverse")

@pytest.mark.netperf_link(speed="100M", fault={"rate": "20 Mbps"})
@pytest.mark.netperf_limit(throughput=">= 50 Mbps")
def test_bad(iperf3):
    iperf3.tcp()

def test_no_limit(netperf_record):
    netperf_record("power", 13, "W")

@pytest.mark.skip
@pytest.mark.netperf_limit(power="<= 15 W")
def test_skipped(netperf_record): pass
"""


def essence(run) -> tuple:
    """What must not depend on how the run was made: everything but times, numbers and addresses."""
    sheet = run.sheet
    rows = [
        (row["id"], row["verdict"], row["limit"], row["unit"], row["required"], row["ceiling"], row["conditions"])
        for row in sheet["rows"]
    ]
    return sheet["verdict"], sheet["complete"], sheet["counts"], rows, run.code


@pytest.mark.needs_xdist
def test_equal_with_workers_and_without_other_plugins(project):
    project.write(test_mixed=MIXED)
    plain = project.run()
    assert plain.sheet["counts"] == {"FAIL": 1, "INCONCLUSIVE": 1, "SKIPPED": 1, "PASS": 2}
    assert plain.code == 1
    for arguments in (
        ["-n2", "--dist=loadfile"],
        ["-p", "no:xdist", "-p", "no:html", "-p", "no:rerunfailures", "-p", "no:timeout"],
    ):
        run = project.run(*arguments)
        assert essence(run) == essence(plain), arguments
        run.is_clean()
        assert run.text.count("sim-100M") >= 3


def test_a_stopped_run_has_its_started_test_aborted(project):
    project.write(test_stop=THREE.replace('16, "W")', '16, "W")\n    raise KeyboardInterrupt'))
    run = project.run()
    assert run.verdicts == {"test_one::power": "PASS", "test_two::power": "ABORTED", "test_three::power": "NOT RUN"}
    assert (run.code, run.sheet["verdict"], run.sheet["complete"]) == (2, "NOT PROVEN", False)
    run.has("INCOMPLETE")


def test_a_worker_that_crashes_leaves_crashed_rows_and_the_others_whole(project):
    project.write(
        test_crash="""
import os

@pytest.mark.netperf_limit(power="<= 15 W")
@pytest.mark.parametrize("number", range(6))
@pytest.mark.needs_xdist
def test_power(netperf_record, number):
    netperf_record("power", 13, "W")
    if number == 2:
        os._exit(7)
"""
    )
    run = project.run("-n2")
    verdicts = [row["verdict"] for _, row in sorted(run.rows.items())]
    assert verdicts == ["PASS", "PASS", "CRASHED", "PASS", "PASS", "PASS"], run.text
    assert (run.code, run.sheet["verdict"]) == (1, "NOT PROVEN")
    assert "the process that ran this test died" in run.rows["test_power[SIM-0001-2]::power"]["reason"]


def test_a_process_that_crashes_leaves_a_journal_that_says_where(project):
    project.write(
        test_crash="""
import os

@pytest.mark.netperf_limit(power="<= 15 W")
@pytest.mark.parametrize("number", range(3))
def test_power(netperf_record, number):
    netperf_record("power", 13, "W")
    if number == 1:
        os._exit(7)
"""
    )
    run = project.run()
    assert run.code == 7
    assert run.sheets == {}
    made = project.command("sheet", str(run.journal))
    assert made.returncode == 1
    assert sorted(run.verdicts.items()) == [
        ("test_power[0]::power", "PASS"),
        ("test_power[1]::power", "ABORTED"),
        ("test_power[2]::power", "NOT RUN"),
    ]
    assert (run.sheet["verdict"], run.sheet["complete"]) == ("NOT PROVEN", False)


def test_errors_of_the_collection_leave_no_sheets_of_a_run_that_never_began(project):
    project.write(test_a=THREE, test_b="raise RuntimeError('broken')\n")
    run = project.run()
    assert run.code == 2
    assert not run.output.exists()
    run = project.run("--continue-on-collection-errors", "-k", "one")
    assert run.code == 1
    assert run.verdicts["test_one::power"] == "PASS"


def test_a_wrong_expression_leaves_nothing(project):
    project.write(test_a=THREE)
    run = project.run("-k", "one and or")
    assert run.code == 4
    assert not run.output.exists()


def test_a_device_that_no_test_has_a_link_for_is_named(project, workers):
    bench = """
[[device]]
serial = "WITH-1G"
  [[device.link]]
  name = "lan"
  speed = "100M"
  simulated = true

[[device]]
serial = "WITHOUT"
  [[device.link]]
  name = "lan"
  speed = "1G"
  simulated = true
"""
    test = "@pytest.mark.netperf_link(speed='100M')\n@pytest.mark.netperf_limit(throughput='>= 80 Mbps')\n"
    project.write({"bench.toml": bench}, test_it=test + "def test_a(iperf3): iperf3.tcp()")
    run = project.run("--netperf-bench=bench.toml", *workers)
    assert run.code == 0, run.text
    run.has("WITHOUT NO SHEET no test of this run has a link or a row for this device")
    only = project.run("--netperf-bench=bench.toml", "--netperf-device=WITH-1G", *workers)
    assert "NO SHEET" not in only.text
