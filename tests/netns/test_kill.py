"""Whoever is killed, whenever: nothing of the run is left on the machine, and its journal tells the truth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aftermath import Seen, Traces, keeper_of, wait_until

pytestmark = pytest.mark.netns

WORKERS = pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["one process", "two workers"])

TRAFFIC = """
import pytest

@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 1 Mbps")
@pytest.mark.parametrize("n", range(4))
def test_traffic(iperf3, n):
    iperf3.tcp(duration=DURATION, omit=0)
"""
BRING_UP = """
import pytest

@pytest.mark.netperf_link(speed="1G", scope="function")
@pytest.mark.parametrize("n", range(5000))
def test_cold_link(netperf_link, netperf_record, n):
    netperf_record("power", 5.0, "W")
"""
BETWEEN = """
import pathlib, time

def pytest_runtest_logfinish(nodeid, location):
    pathlib.Path("between").touch()
    time.sleep(30)

"""

HANGS = """
import pathlib, time

def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        pathlib.Path("between").touch()
    time.sleep(60)

"""


@dataclass
class Project:
    """A folder with a test file, the real pytest process that runs in it, and the traces of both."""

    path: Path
    traces: Traces
    process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        temporary = self.path / "tmp"
        temporary.mkdir(exist_ok=True)
        return {**os.environ, **self.traces.environment, "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self, *arguments: str) -> None:
        with (self.path / "output.txt").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-pno:cacheprovider", "-onetperf_reference=off", "-q", *arguments],
                cwd=self.path,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return (self.path / "output.txt").read_text()

    def kill(self, number: signal.Signals) -> None:
        """As people do it: Ctrl-C reaches the whole foreground group, kill the one process."""
        assert self.process is not None
        assert self.process.poll() is None, self.output
        self.traces.take()
        if number is signal.SIGINT:
            os.killpg(self.process.pid, number)
        else:
            os.kill(self.process.pid, number)
        self.process.wait(30)

    def finish(self) -> int:
        assert self.process is not None
        return self.process.wait(90)

    def wait_for_traffic(self) -> list[Seen]:
        """The iperf3 processes, as soon as a client sends."""
        return wait_until(self._both_ends, "traffic runs")  # type: ignore[return-value]

    def _both_ends(self) -> list[Seen]:
        assert self.process is not None
        assert self.process.poll() is None, self.output
        found = [seen for seen in self.traces.processes() if seen.is_iperf3]
        return found if any(" -c " in seen.command for seen in found) else []

    def assert_clean(self) -> None:
        """Nothing of the run is left, in the machine or in files, but its output."""
        self.traces.assert_gone()
        assert {path.name.split("-of-")[0] for path in (self.path / "tmp").iterdir()} <= {"pytest"}  # xdist's own
        allowed = {"tmp", "output.txt", "netperf-results", "between", "again"}
        assert {path.name for path in self.path.iterdir() if path.suffix != ".py"} <= allowed

    def journal(self) -> bytes:
        return b"".join(path.read_bytes() for path in (self.path / "netperf-results" / "journals").glob("*"))

    def sheets(self) -> list[dict[str, Any]]:
        """The sheets that ``pytest-netperf sheet`` makes of the newest journal."""
        journals = sorted((self.path / "netperf-results" / "journals").iterdir(), key=lambda path: path.stat().st_mtime)
        again = self.path / "again"
        done = subprocess.run(
            [sys.executable, "-m", "pytest_netperf.cli", "sheet", str(journals[-1]), "--output", str(again)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr
        assert done.returncode == 1, done.stdout + done.stderr
        return [json.loads(path.read_text()) for path in again.glob("*/*/sheet.json")]

    def assert_not_proven(self) -> None:
        """The journal is readable, and gives a sheet that claims nothing."""
        (sheet,) = self.sheets()
        assert sheet["verdict"] == "NOT PROVEN"
        assert sheet["complete"] is False
        assert {row["verdict"] for row in sheet["rows"]} & {"ABORTED", "NOT RUN", "CRASHED"}


@pytest.fixture
def project(tmp_path: Path, owner: object) -> Iterator[Project]:  # owner: skips where there can be no namespaces
    project = Project(tmp_path, Traces())
    yield project
    for seen in project.traces.processes():  # of a test that failed
        os.kill(seen.pid, signal.SIGKILL)
    if project.process is not None:
        project.process.kill()
        project.process.wait()


def write(project: Project, text: str, duration: int = 30) -> None:
    (project.path / "test_it.py").write_text(text.replace("DURATION", str(duration)))


def run_again(project: Project) -> None:
    """The next run works at once."""
    project.traces = Traces()
    write(project, TRAFFIC.replace("range(4)", "range(1)"), duration=1)
    project.start()
    assert project.finish() == 0, project.output
    assert "ACCEPTED" in project.output
    project.assert_clean()


# pytest itself


@WORKERS
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_pytest_is_killed_during_traffic(project: Project, number: signal.Signals, workers: tuple[str, ...]):
    write(project, TRAFFIC)
    project.start(*workers)
    project.wait_for_traffic()
    project.kill(number)
    project.assert_clean()
    project.assert_not_proven()
    if number is signal.SIGINT:  # Ctrl-C lets pytest end by itself
        (sheet,) = (project.path / "netperf-results").glob("*/*/sheet.json")
        assert json.loads(sheet.read_text())["verdict"] == "NOT PROVEN"
        assert project.process is not None
        assert project.process.returncode == 2, project.output
        assert "Interrupted again" not in project.output
    if number is signal.SIGKILL:
        run_again(project)


@WORKERS
def test_a_second_ctrl_c_leaves_at_once_and_says_what_is_left(project: Project, workers: tuple[str, ...]):
    """Something of the user's hangs after the first one."""
    write(project, TRAFFIC)
    (project.path / "conftest.py").write_text(HANGS)
    project.start(*workers)
    project.wait_for_traffic()
    assert project.process is not None
    os.killpg(project.process.pid, signal.SIGINT)
    wait_until((project.path / "between").exists, "pytest is at the end of its session")
    project.kill(signal.SIGINT)
    assert project.process.returncode == -signal.SIGINT, project.output
    (journal,) = (project.path / "netperf-results" / "journals").iterdir()
    last_words = project.output.partition("Interrupted again: leaving now")[2]
    assert f"pytest-netperf sheet {journal.relative_to(project.path)}\n" in last_words
    assert "pytest-netperf clean\n" in last_words
    assert "Traceback" not in project.output
    project.assert_clean()
    project.assert_not_proven()


@WORKERS
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_pytest_is_killed_while_links_come_and_go(project: Project, number: signal.Signals, workers: tuple[str, ...]):
    write(project, BRING_UP)
    project.start(*workers)

    wait_until(lambda: b'"kind":"row"' in project.journal(), "a test is over")  # and the next link is being made
    project.kill(number)
    project.assert_clean()
    project.assert_not_proven()


@WORKERS
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_pytest_is_killed_between_tests(project: Project, number: signal.Signals, workers: tuple[str, ...]):
    write(project, TRAFFIC, duration=1)
    (project.path / "conftest.py").write_text(BETWEEN)
    project.start(*workers)
    wait_until((project.path / "between").exists, "the first test is over")
    project.kill(number)
    project.assert_clean()
    project.assert_not_proven()


@pytest.mark.parametrize("delay", range(4))
@pytest.mark.needs_xdist
def test_pytest_is_killed_at_any_moment(project: Project, delay: int):
    """Also before there is a journal."""
    write(project, TRAFFIC)
    project.start("-n2" if delay % 2 else "-v")
    if delay:
        wait_until(lambda: len(project.traces.processes()) > delay, "more processes start")
    project.kill(signal.SIGKILL)
    project.assert_clean()
    if project.journal():
        project.assert_not_proven()


# Others than pytest


@pytest.mark.needs_xdist
def test_a_worker_is_killed(project: Project):
    """Its test is CRASHED, and all others run."""
    write(project, TRAFFIC, duration=1)
    project.start("-n2")
    client = next(seen for seen in project.wait_for_traffic() if " -c " in seen.command)
    everything = {seen.pid: seen for seen in project.traces.processes()}
    keeper = everything[client.parent]
    worker = everything[everything[keeper.parent].parent]
    assert project.process is not None
    assert worker.parent == project.process.pid
    project.traces.take()
    os.kill(worker.pid, signal.SIGKILL)
    assert project.finish() == 1, project.output
    project.assert_clean()
    (sheet,) = project.sheets()
    verdicts = sorted(row["verdict"] for row in sheet["rows"])
    assert verdicts == ["CRASHED", "PASS", "PASS", "PASS"]
    assert sheet["verdict"] == "NOT PROVEN"


def keeper(project: Project, _: list[Seen]) -> int:
    return keeper_of(project.traces)[1].pid


def guard(project: Project, _: list[Seen]) -> int:
    return keeper_of(project.traces)[0].pid


def server(_: Project, iperf3: list[Seen]) -> int:
    return next(seen.pid for seen in iperf3 if " -s " in seen.command)


def client(_: Project, iperf3: list[Seen]) -> int:
    return next(seen.pid for seen in iperf3 if " -c " in seen.command)


@pytest.mark.parametrize(
    ("victim", "number", "said"),
    [
        (keeper, signal.SIGKILL, "the keeper process, which owns the links of this run, is gone (killed by SIGKILL)"),
        (guard, signal.SIGKILL, "the keeper process, which owns the links of this run, is gone (killed by SIGKILL)"),
        (server, signal.SIGKILL, "iperf3"),
        (client, signal.SIGKILL, "the iperf3 client was killed by SIGKILL"),
        (server, signal.SIGSTOP, "frozen"),
    ],
    ids=["keeper", "guard", "server", "client", "server frozen"],
)
def test_a_helper_is_killed(
    project: Project, victim: Callable[[Project, list[Seen]], int], number: signal.Signals, said: str
):
    """The test is ERROR and says why; the tests after it run on a link that works."""
    write(project, TRAFFIC.replace("range(4)", "range(2)"), duration=2)
    project.start()
    iperf3 = project.wait_for_traffic()
    project.traces.take()
    os.kill(victim(project, iperf3), number)
    assert project.finish() == 1, project.output
    project.assert_clean()
    (sheet,) = project.sheets()
    rows = sorted(sheet["rows"], key=lambda row: row["id"])
    assert [row["verdict"] for row in rows] == ["ERROR", "PASS"], project.output
    assert said in rows[0]["reason"], rows[0]["reason"]
    assert sheet["verdict"] == "NOT PROVEN"
    assert "Traceback" not in project.output
