"""pytest-netperf doctor on this machine, and what an ERROR row keeps of it."""

from __future__ import annotations

import json
import sys

pytest_plugins = ["pytester"]


def test_it_tries_what_runs_need(project):
    done = project.command("doctor", "--no-traffic", "--json")
    found = {each["name"]: each for each in json.loads(done.stdout)}
    assert done.returncode == 0, done.stdout
    assert {each["state"] for each in found.values()} <= {"ok", "note"}
    for name in ("operating system", "namespaces", "simulated link, 1G", "fault: loss of single frames", "program"):
        assert found[name]["state"] == "ok", found[name]
    assert not list(project.path.glob("netperf-results*"))


def test_what_is_missing_makes_it_fail_in_words(project, tmp_path):
    done = project.process(
        "/usr/bin/env", f"PATH={tmp_path}", *_command("doctor", "--no-traffic", "--output=/proc/results")
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    flat = " ".join(done.stdout.split())
    assert "problem program: iperf3 is not installed" in flat
    assert "problem output folder: /proc/results" in flat
    assert "2 problems" in flat


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest_netperf.cli", *arguments]


def test_the_speeds_are_measured(project):
    done = project.command("doctor", "--json")
    speeds = {each["name"]: each["seen"] for each in json.loads(done.stdout) if each["area"] == "speeds"}
    assert set(speeds) == {"MTU 1500", "MTU 9000"}
    assert all("can be proven" in seen for seen in speeds.values())


def test_a_row_that_is_an_error_has_what_the_doctor_says(project):
    project.write(
        test_all="""
@pytest.mark.netperf_limit(power="<= 15 W")
def test_power(netperf_record):
    raise RuntimeError("no meter")

@pytest.mark.netperf_limit(power="<= 15 W")
def test_good(netperf_record):
    netperf_record("power", 3, "W")
"""
    )
    run = project.run()
    error, good = (run.rows[f"test_{name}[SIM-0001]::power"] for name in ("power", "good"))
    assert (run.code, error["verdict"], good["verdict"]) == (1, "ERROR", "PASS"), run.text
    assert isinstance(error["evidence"]["facts"]["doctor"], list)
    assert "doctor" not in good["evidence"]["facts"]
