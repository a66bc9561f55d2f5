"""A burn-in, shortened to 10 s: its limits, its course on the sheet, and what is left of one that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
import itertools
from pytest_netperf.probes import Probe
heat = itertools.count(40)
def pytest_netperf_probes():
    return [Probe(quantity="temperature", unit="degC", read=lambda: next(heat), during=True, every_s=1)]
"""
TEST = """
@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(
    throughput=[">= 50 % of ceiling", "min interval >= 10 % of ceiling"],
    temperature="<= 70 degC", drift="<= 30 %", carrier_changes="<= 0", errors="<= 0",
)
@pytest.mark.netperf_method(profile="soak")
def test_burn_in(iperf3):
    iperf3.tcp(duration=10, omit=0)
"""


def rows_of(sheet):
    return {row["id"].rpartition("::")[2]: row for row in sheet["rows"]}


def test_a_soak_and_one_that_is_killed(project):
    project.write({"conftest.py": CONFTEST}, test_soak=TEST)
    output, whole_output = project.path / "killed", project.path / "whole"
    whole, process = (
        subprocess.Popen(
            [sys.executable, "-m", "pytest", f"--netperf-output={folder}"],
            cwd=project.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for folder in (whole_output, output)
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        journal = None
        while time.monotonic() < deadline:
            journal = next(output.glob("journals/*.jsonl"), None)
            if journal is not None and journal.read_text().count('"kind":"stretch"') >= 2:
                break
            time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait(10)
        whole.wait(100)
    done = project.process(sys.executable, "-m", "pytest_netperf.cli", "sheet", str(journal))
    assert done.returncode == 1, done.stdout
    (path,) = output.glob("*/*/sheet.json")
    rows = rows_of(json.loads(path.read_text()))
    assert {row["verdict"] for row in rows.values()} == {"ABORTED"}
    kept = rows["throughput"]
    assert kept["value"] > 50e6
    assert len(kept["evidence"]["series"]) >= 3
    assert "s of traffic that count: about" in kept["reason"]
    assert rows["temperature"]["value"] >= 42
    assert len(kept["evidence"]["facts"]["temperature_samples"]) >= 3
    assert rows["carrier_changes"]["value"] == 0
    assert "Long runs over time" in path.with_name("sheet.html").read_text()

    (path,) = whole_output.glob("*/*/sheet.json")
    rows = rows_of(json.loads(path.read_text()))
    assert set(rows) == {"throughput", "throughput.min", "temperature", "drift", "carrier_changes", "errors"}
    assert {row["verdict"] for row in rows.values()} <= {"PASS", "INCONCLUSIVE"}
    facts = rows["throughput"]["evidence"]["facts"]
    assert len(facts["course_at_s"]) >= 8
    assert set(facts["course_errors"]) == {0}
    assert rows["temperature"]["value"] == max(facts["temperature_samples"])
    assert 0 <= rows["drift"]["value"] < 0.3
    assert '"kind":"stretch"' in next(whole_output.glob("journals/*.jsonl")).read_text()


BESIDE = """
import os
import pathlib

@pytest.fixture(autouse=True)
def pid(request):
    folder = pathlib.Path(request.config.getoption("--netperf-output"))
    folder.mkdir(exist_ok=True)
    (folder / f"{request.node.originalname}.pid").write_text(str(os.getpid()))
"""
SHORT = """
@pytest.mark.netperf_limit(power="<= 15 W")
def test_beside(netperf_record):
    netperf_record("power", 5, "W")
"""


@pytest.mark.needs_xdist
def test_a_soak_in_a_worker_is_in_the_journal_while_it_runs(project):
    """Two runs with two workers: of one the worker is killed, of the other the controller."""
    project.write({"conftest.py": CONFTEST}, test_soak=BESIDE + TEST, test_beside=SHORT)
    outputs = {who: project.path / who for who in ("worker", "controller")}
    runs = {
        who: subprocess.Popen(
            [sys.executable, "-m", "pytest", "-n2", "--netperf-slots=4", f"--netperf-output={folder}"],
            cwd=project.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for who, folder in outputs.items()
    }  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and min(map(stretches, outputs.values())) < 2:
            time.sleep(0.2)
        assert runs["worker"].poll() is runs["controller"].poll() is None
        os.kill(int((outputs["worker"] / "test_burn_in.pid").read_text()), signal.SIGKILL)
        runs["controller"].send_signal(signal.SIGKILL)
        said = {who: process.communicate(timeout=60)[0] for who, process in runs.items()}
    finally:
        for process in runs.values():
            process.kill()
            process.wait(10)
    (journal,) = outputs["controller"].glob("journals/*.jsonl")
    done = project.process(sys.executable, "-m", "pytest_netperf.cli", "sheet", str(journal))
    assert done.returncode == 1, done.stdout
    for who, verdict in (("controller", "ABORTED"), ("worker", "CRASHED")):
        (path,) = outputs[who].glob("*/*/sheet.json")
        sheet = json.loads(path.read_text())
        rows = rows_of(sheet)
        assert rows["throughput"]["verdict"] == verdict, said[who]
        assert rows["throughput"]["value"] > 50e6
        assert len(rows["throughput"]["evidence"]["series"]) >= 3
        assert "s of traffic that count: about" in rows["throughput"]["reason"]
        assert rows["temperature"]["value"] >= 41
        assert sheet["verdict"] == "NOT PROVEN"
        assert "Long runs over time" in path.with_name("sheet.html").read_text()


def stretches(output: Path) -> int:
    """How many are in its journal."""
    return sum(journal.read_text().count('"kind":"stretch"') for journal in output.glob("journals/*.jsonl"))
