"""The promise of the first minute: five lines are an acceptance sheet. And nothing happens to those who do not ask."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

pytest_plugins = ["pytester"]

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "sheet.schema.json"
FIVE_LINES = """
@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 50 Mbps")
def test_line_rate(iperf3):
    iperf3.tcp()
"""


def test_five_lines_are_an_acceptance_sheet(project, workers):
    project.write(test_five=FIVE_LINES)
    run = project.run(*workers, "-p", "no:cacheprovider")
    assert run.code == 0, run.text
    sheet = run.sheet
    jsonschema.validate(sheet, json.loads(SCHEMA.read_text()))
    (row,) = sheet["rows"]
    assert (sheet["verdict"], sheet["complete"], sheet["simulated"]) == ("ACCEPTED", True, True)
    assert sheet["device"]["serial"] == "SIM-0001"
    assert row["id"] == "test_five.py::test_line_rate[SIM-0001/sim-100M]::throughput"
    assert (row["quantity"], row["unit"], row["verdict"], row["limit"]) == (
        "throughput", "bit/s", "PASS", ">= 50 Mbit/s"
    )  # fmt: skip
    assert row["ceiling"] == pytest.approx(94.148e6, rel=1e-4)
    assert 80e6 < row["value"] < 96e6
    assert row["margin"] == pytest.approx(row["value"] / 50e6 - 1, rel=1e-6)
    assert row["conditions"]["mtu"] == 1500
    evidence = row["evidence"]
    assert len(evidence["series"]) >= 1
    assert evidence["series_from"] == "receiver"
    assert evidence["facts"]["received_bytes"] > 5e6
    assert json.loads(evidence["documents"]["client"])["end"]
    (page,) = run.output.glob("SIM-0001/*/sheet.html")
    assert "ACCEPTED" in page.read_text()
    assert page.parent.name == sheet["run_id"] == run.journal.stem
    # What people see: the device, its row in one line, and where everything is.
    run.has(f"SIM-0001 ACCEPTED 1 of 1 rows passed SIMULATED {page.relative_to(project.path)}")
    assert re.search(
        r"^  PASS  sim-100M  100M  1500  forward  throughput  9\d\.\d+ Mbit/s  >= 50 Mbit/s  "
        r"ceiling  94\.15 Mbit/s  margin +\+\d\d\.\d %$",
        run.text,
        re.MULTILINE,
    ), run.text
    run.has(f"journal: {run.journal.relative_to(project.path)}", "1 passed")
    # Nothing else was written, and no partial file was left.
    left = {path.relative_to(project.path).as_posix() for path in project.path.rglob("*") if path.is_file()}
    assert left == {
        "pytest.ini",
        "test_five.py",
        *(
            path.relative_to(project.path).as_posix()
            for path in (page, page.with_name("sheet.json"), page.with_name("SHA256SUMS"), run.journal)
        ),
        f"{run.output.name}/results.db",
    }


def test_a_second_run_leaves_the_first_sheet_alone(project):
    project.write(test_power="""
        @pytest.mark.netperf_limit(power="<= 15 W")
        def test_power(netperf_record):
            netperf_record("power", 13, "W")
    """.replace("\n        ", "\n"))  # fmt: skip
    first = project.run("--netperf-output=out")

    def files() -> dict[Path, bytes]:
        found = (path for path in (project.path / "out").rglob("*") if path.is_file() and path.name != "results.db")
        return {path: path.read_bytes() for path in found}

    before = files()
    second = project.run("--netperf-output=out")
    assert first.code == second.code == 0, first.text + second.text
    after = files()
    assert len(after) == 2 * len(before) == 8
    assert {path: after[path] for path in before} == before


def test_a_project_that_does_not_use_the_plugin_is_not_touched(project, workers):
    project.write(
        test_plain="""
def test_plain(tmp_path): pass

@pytest.mark.parametrize("x", [1, 2])
class TestPlain:
    def test_method(self, x): pass

@pytest.mark.skip
def test_skipped(): pass
"""
    )
    run = project.run(*workers, "-p", "no:cacheprovider", "-rA")
    assert run.code == 0, run.text
    run.has("3 passed, 1 skipped")
    run.has("PASSED test_plain.py::TestPlain::test_method[1]")
    assert not run.output.exists()
    assert "network acceptance" not in run.text
    assert sorted(path.name for path in project.path.iterdir()) == ["pytest.ini", "test_plain.py"]


def test_no_tests_are_no_success(project, workers):
    run = project.run(*workers, "-p", "no:cacheprovider")
    assert run.code == 5, run.text
    assert [path.name for path in project.path.iterdir()] == ["pytest.ini"]


def test_marks_of_a_class_do_not_change_its_tests_without_fixtures(project):
    project.write(
        test_mixed="""
@pytest.mark.netperf_limit(power="<= 15 W")
class TestDevice:
    def test_plain(self): pass
    def test_power(self, netperf_record):
        netperf_record("power", 13, "W")
"""
    )
    run = project.run("-rA")
    assert run.code == 0, run.text
    run.has("PASSED test_mixed.py::TestDevice::test_plain ", "PASSED test_mixed.py::TestDevice::test_power[SIM-0001]")
    assert list(run.rows) == ["TestDevice::test_power[SIM-0001]::power"]


def test_collect_only_shows_the_ids_and_writes_nothing(project, workers):
    project.write(test_five=FIVE_LINES)
    run = project.run(*workers, "--collect-only", "-q", "-p", "no:cacheprovider")
    assert run.code == 0, run.text
    run.has("test_five.py::test_line_rate[SIM-0001/sim-100M]")
    assert sorted(path.name for path in project.path.iterdir()) == ["pytest.ini", "test_five.py"]


def test_help_markers_and_fixtures_tell_what_there_is(project):
    run = project.run("--help")
    run.has("--netperf-bench=FILE", "--netperf-allow-inconclusive", "netperf_duration (string)")
    run = project.run("--markers")
    run.has("@pytest.mark.netperf_link(speed=", "@pytest.mark.netperf_limit(QUANTITY=")
    run = project.run("--fixtures")
    run.has("iperf3 [session scope]", "netperf_link [session scope]", "netperf_record --", "netperf_device --")


def test_strict_markers_know_our_marks(project):
    project.write(test_five=FIVE_LINES)
    run = project.run("--strict-markers", "--collect-only", "-q")
    assert run.code == 0, run.text


def test_a_project_that_measures_nothing_loads_next_to_nothing_of_ours(project):
    project.write(
        test_plain="""
import sys

def test_it():
    ours = [name for name in sys.modules if name.startswith("pytest_netperf.")]
    assert not [name for name in ours if name.startswith(("pytest_netperf.judge", "pytest_netperf.live."))]
    assert not {"msgspec", "pyroute2", "tomllib", "sqlalchemy", "rich"} & sys.modules.keys()
"""
    )
    run = project.run()
    assert run.code == 0, run.text
