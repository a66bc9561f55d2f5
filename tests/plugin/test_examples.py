"""Every suite of conftest_examples, copied as a user would and run with one short command."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from pytest_netperf.bench.bench_file import load_bench
from pytest_netperf.judge.limits_file import parse_limits_file

EXAMPLES = Path(__file__).resolve().parents[2] / "conftest_examples"
SHORT = ("--netperf-duration=1", "--netperf-omit=0", "-onetperf_reference=off")
_ORDINARY_USER = 12345

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("iperf3") is None, reason="needs Linux and iperf3"),
]


@dataclass(frozen=True)
class Expected:
    """How a suite ends on a machine with time to spare."""

    verdicts: dict[str, str]
    rows: int
    """Rows that are required; some suites have rows of information besides."""
    failed: set[tuple[str, str]] = field(default_factory=set)
    """(device, part of the row's id) of each row that must FAIL; no other may."""
    arguments: tuple[str, ...] = ()


SUITES = {
    "first_test": Expected({"SIM-0001": "ACCEPTED"}, rows=1),
    "2g5_nic": Expected({"NIC-0042": "ACCEPTED"}, rows=10),
    "known_bad": Expected(
        {"GOOD-0001": "ACCEPTED", "SLOW-0002": "REJECTED", "LOSSY-0003": "REJECTED"},
        rows=12,
        failed={
            ("SLOW-0002", "test_line_rate[SLOW-0002/lan-forward]::throughput"),
            ("LOSSY-0003", "test_loss_at_low_load[LOSSY-0003/lan-reverse]::frame_loss_ratio"),
        },
    ),
    "power_and_temperature": Expected({"SIM-0001": "ACCEPTED"}, rows=5),
    "own_engine": Expected({"SIM-0001": "ACCEPTED"}, rows=2, arguments=("-k", "line_rate or forward")),
    "properties": Expected({"CABLE-0001": "ACCEPTED", "ROUTER-0001": "ACCEPTED"}, rows=8),
    "ci_without_root": Expected({"SIM-0001": "ACCEPTED"}, rows=3),
    "r86s_g2": Expected({"R86S-G2-0001": "ACCEPTED"}, rows=24, arguments=("--burn-in=3",)),
    "apu1c": Expected({"APU1-0001": "ACCEPTED"}, rows=16),
    "r86s_u4": Expected(
        {"R86S-U4-0007": "ACCEPTED", "R86S-U4-0008": "REJECTED"},
        rows=28,
        failed={
            ("R86S-U4-0008", f"test_line_rate[R86S-U4-0008/p2-{direction}]::throughput")
            for direction in ("forward", "reverse")
        },
    ),
}


@dataclass(frozen=True)
class Run:
    exit_code: int
    output: str
    sheets: dict[str, dict]


def run_suite(folder: Path, *arguments: str, user: int | None = None, python: str = sys.executable) -> Run:
    """Run pytest in a suite's folder, as the current or another user."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_XDIST", "COV_"))}
    identity = {}
    if user is not None:
        identity = {"user": user, "group": user, "extra_groups": []}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [python, "-B", "-m", "pytest", "-p", "no:cacheprovider", *SHORT, *arguments],
        cwd=folder,
        env={**environment, "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        **identity,
    )
    files = sorted(folder.glob("netperf-results/*/*/sheet.json"), key=lambda path: path.stat().st_mtime_ns)
    return Run(
        done.returncode,
        done.stdout + done.stderr,
        {path.parts[-3]: json.loads(path.read_text("utf-8")) for path in files},
    )


def too_busy(run: Run) -> bool:
    """Whether the only thing that went wrong is that this machine had no time: the sheet says so itself.

    In a run of one second a late start of the receiver's clock shows as well: 0.3 ms are more than the clocks' 200 ppm.
    """
    rows = [row for sheet in run.sheets.values() for row in sheet["rows"] if row["required"]]
    undecided = [row for row in rows if row["verdict"] in ("INCONCLUSIVE", "INVALID")]
    excuses = {"INCONCLUSIVE": "the tester may be the cause", "INVALID": "the most that physics allows here"}
    return bool(undecided) and all(excuses[row["verdict"]] in row["reason"] for row in undecided)


def run_until_decided(folder: Path, *arguments: str, user: int | None = None, python: str = sys.executable) -> Run:
    """A neighbour on this machine must not fail the test; a machine that is busy three times in a row may."""
    for _ in range(2):
        run = run_suite(folder, *arguments, user=user, python=python)
        if not too_busy(run):
            return run
    return run_suite(folder, *arguments, user=user, python=python)


def test_every_suite_is_executed_here() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - {"netperf-results"} == set(SUITES)


@pytest.mark.parametrize("name", SUITES)
def test_suite_is_complete(name: str) -> None:
    folder = EXAMPLES / name
    assert list(folder.glob("test_*.py"))
    readme = (folder / "README.md").read_text("utf-8")
    assert "```console\n$ pytest\n```" in readme, "the one command"
    for serial, verdict in SUITES[name].verdicts.items():
        assert serial in readme
        assert verdict in readme
    for bench in folder.glob("bench*.toml"):
        assert all(link.simulated for device in load_bench(bench).devices for link in device.links)
    for limits in folder.glob("limits*.toml"):
        assert parse_limits_file(limits.read_text("utf-8"), str(limits))


@pytest.mark.alone
@pytest.mark.parametrize("name", [name for name in SUITES if name != "ci_without_root"])
def test_suite(name: str, tmp_path: Path) -> None:
    expected = SUITES[name]
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder)
    check(run_until_decided(folder, *expected.arguments), expected)
    if name == "r86s_u4":  # its conftest.py
        summary = (folder / "netperf-results" / "summary.csv").read_text("utf-8")
        assert all(f",{serial},R86S-U4,2026-48,{verdict}," in summary for serial, verdict in expected.verdicts.items())


def check(run: Run, expected: Expected) -> None:
    assert {serial: sheet["verdict"] for serial, sheet in run.sheets.items()} == expected.verdicts, run.output
    rows = [(serial, row) for serial, sheet in run.sheets.items() for row in sheet["rows"] if row["required"]]
    assert len(rows) == expected.rows
    failed = {(serial, row["id"].split("::", 1)[1]) for serial, row in rows if row["verdict"] == "FAIL"}
    assert failed == expected.failed
    assert all(sheet["simulated"] for sheet in run.sheets.values())
    assert run.exit_code == (1 if expected.failed else 0), run.output
    for serial, verdict in expected.verdicts.items():
        assert f"{serial}   {verdict}" in run.output


@pytest.fixture
def folder_of_everyone() -> Iterator[Path]:
    """pytest's own tmp_path is closed to other users."""
    folder = Path(tempfile.mkdtemp(prefix="netperf-example-"))
    yield folder
    shutil.rmtree(folder)


def python_of_everyone(user: int) -> str:
    """A Python that another user can run with this environment's packages, and that can make a user namespace."""
    packages = os.pathsep.join(path for path in sys.path if path)
    answers = []
    for python in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        try:
            done = subprocess.run(
                ["unshare", "--user", "--net", python, "-B", "-c", "import pytest, msgspec, pyroute2"],
                cwd="/",
                env={"PYTHONPATH": packages, "PATH": os.environ["PATH"]},
                user=user,
                group=user,
                extra_groups=[],
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            answers.append(str(error))
            continue
        if done.returncode == 0:
            return python
        answers.append(done.stderr.strip().rpartition("\n")[2])
    pytest.skip(f"an ordinary user cannot make namespaces here, or not run Python: {'; '.join(answers)}")


@pytest.mark.alone
def test_ci_suite_as_an_ordinary_user(folder_of_everyone: Path) -> None:
    folder = folder_of_everyone / "ci_without_root"
    shutil.copytree(EXAMPLES / "ci_without_root", folder)
    user, python = None, sys.executable
    if os.getuid() == 0:
        user = _ORDINARY_USER
        python = python_of_everyone(user)
        for path in (folder_of_everyone, folder, *folder.rglob("*")):
            os.chown(path, user, user)
    check(run_until_decided(folder, user=user, python=python), SUITES["ci_without_root"])
    if user is not None:
        assert {path.stat().st_uid for path in (folder / "netperf-results").rglob("*")} == {user}


@pytest.mark.alone
def test_ci_suite_takes_its_durations_from_the_ini_file(tmp_path: Path) -> None:
    """The example's point: neither the tests nor the command line say how long."""
    folder = tmp_path / "ci"
    shutil.copytree(EXAMPLES / "ci_without_root", folder)
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-pno:cacheprovider", "-k", "100M and throughput", SHORT[-1]],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (path,) = folder.glob("netperf-results/*/*/sheet.json")
    sheet = json.loads(path.read_text("utf-8"))
    (row,) = (row for row in sheet["rows"] if row["verdict"] != "NOT RUN")
    assert row["evidence"]["facts"]["asked_duration_s"] == 2, done.stdout
    assert row["evidence"]["facts"].get("asked_omit_s", 0) == 0


# ---- the demo --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("netperf_demo", EXAMPLES / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("proven_bps", "cpus", "bench"),
    [
        (23.2e9, 2, "bench-10g.toml"),
        (12.0e9, 2, "bench-10g.toml"),
        (11.99e9, 2, "bench.toml"),
        (23.2e9, 1, "bench.toml"),
        (4.8e9, 1, "bench.toml"),
        (4.79e9, 8, None),
        (0.0, 8, None),
    ],
)
def test_demo_plans_only_what_the_machine_can_prove(
    demo: ModuleType, proven_bps: float, cpus: int, bench: str | None
) -> None:
    chosen, sentence = demo.choose_bench(proven_bps, cpus)
    assert (chosen.name if chosen else None) == bench
    if bench is not None:
        fastest = max(link.speed_bps for device in load_bench(chosen).devices for link in device.links)
        assert fastest * 1.2 <= proven_bps
    assert ("10G port is not" in sentence) == (bench == "bench.toml")


@pytest.mark.alone
def test_demo(tmp_path: Path) -> None:
    def once(folder: Path) -> subprocess.CompletedProcess[str]:
        folder.mkdir()
        return subprocess.run(
            [sys.executable, EXAMPLES / "demo.py", "--duration", "1"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )

    for attempt in range(3):
        folder = tmp_path / str(attempt)
        done = once(folder)
        lines = done.stdout.splitlines()
        assert lines[0].startswith("this machine can prove "), done.stdout + done.stderr
        sheets = {path.parts[-3]: json.loads(path.read_text("utf-8")) for path in folder.glob("*/*/*/sheet.json")}
        verdicts = {serial: sheet["verdict"] for serial, sheet in sheets.items()}
        for serial, verdict in verdicts.items():
            assert any(line.startswith(f"{serial} is {verdict}: ") for line in lines)
        as_planned = verdicts == {"R86S-U4-0007": "ACCEPTED", "R86S-U4-0008": "REJECTED"}
        assert done.returncode == (0 if as_planned else 1)
        if as_planned:
            break
        assert too_busy(Run(done.returncode, done.stdout, sheets)) or not sheets, done.stdout
        assert "busy" in done.stdout or "can be proven" in done.stdout
    else:
        pytest.fail(f"three times this machine was too busy for the demo:\n{done.stdout}")
    (reason,) = (line for line in lines if line.startswith("R86S-U4-0008 is REJECTED: "))
    assert "2.5G port p2" in reason
    assert "required >= 2.3 Gbit/s" in reason
    for serial in verdicts:
        (named,) = (line.strip() for line in lines if line.startswith("    ") and f"/{serial}/" in line)
        assert (folder / named).is_file()
    assert {path.name for path in folder.iterdir()} == {"netperf-results"}


def test_demo_without_iperf3_says_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "demo.py"],
        cwd=tmp_path,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "iperf3 is not installed" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
