"""The tester reference in real runs: measured once a day, said at the start, on the sheet, and never in the way."""

from __future__ import annotations

import concurrent.futures
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pytest_netperf.record.reference_store import ReferenceStore
from pytest_netperf.reference import Wanted, reference_key
from pytest_netperf.traffic.engine import make_engine

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.netns

AUTO = "-onetperf_reference=auto"
TWO_ROWS = """
@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 50 Mbps")
@pytest.mark.parametrize("time", ["first", "second"])
def test_a(iperf3, time):
    iperf3.tcp()
"""
ABOVE = """
@pytest.mark.netperf_link(speed="400G", shaped=False)
@pytest.mark.netperf_limit(throughput=">= 390 Gbps")
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_far(iperf3, direction):
    iperf3.tcp(direction=direction)


@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 80 Mbps")
def test_met(iperf3):
    iperf3.tcp()


@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 20 Mbps")
def test_below(iperf3):
    iperf3.tcp()
"""
NO_TRAFFIC = """
@pytest.mark.netperf_limit(power="<= 15 W")
def test_power(netperf_record):
    netperf_record("power", 5, "W")
"""


@pytest.fixture
def state(project, monkeypatch) -> Path:
    """A state folder of this test's own."""
    folder = project.path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


def seed(state: Path, rate_bps: float, note: str | None = None) -> None:
    """What an earlier run of today would have stored."""
    want, engine = Wanted(link=None, mtu=1500), make_engine("iperf3")
    reference = want.reference(
        throughput_bps=rate_bps,
        measured_at=datetime.now(UTC).isoformat(),
        host="here",
        software=engine.version,
        note=note,
    )
    store = ReferenceStore(state / "pytest-netperf")
    store.write(reference_key(want, engine), reference)
    assert store.problem is None


def facts_of(run) -> list[dict]:
    return [row["evidence"]["facts"] for row in run.sheet["rows"]]


def test_one_process_measures_it_once_a_day(project, state, workers):
    project.write(test_it=TWO_ROWS)
    first = project.run(AUTO, *workers)
    assert first.code == 0
    first.has("tester reference: measuring what this machine can do without the device (3 s of traffic)")
    assert first.text.count("tester reference:") == 2
    (measured,) = first.sheet["reference"]
    assert (measured["link"], measured["mtu"], measured["stored"]) == ("veth pair, unshaped", 1500, False)
    assert measured["missing"] is None
    assert measured["software"] == make_engine("iperf3").version
    assert measured["throughput_bps"] > 100e6, "more than the link of the tests carries"
    for facts in facts_of(first):
        assert facts["reference_bps"] == measured["throughput_bps"]
        assert facts["reference_stored"] is False

    second = project.run(AUTO, *workers)
    assert second.code == 0
    assert "tester reference" not in second.text
    assert second.sheet["reference"] == [{**measured, "stored": True}]
    assert all(facts["reference_stored"] is True for facts in facts_of(second))

    third = project.run("--netperf-reference", *workers)
    assert third.code == 0
    third.has("tester reference: measuring")
    (again,) = third.sheet["reference"]
    assert again["stored"] is False
    assert again["measured_at"] > measured["measured_at"]


def test_two_runs_at_the_same_time_measure_it_once(project, state):
    project.write(test_it=TWO_ROWS)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = list(pool.map(lambda _: project.run(AUTO, "-pno:cacheprovider", "-kfirst"), range(2)))
    references = [run.sheet["reference"][0] for run in runs]
    assert sorted(reference["stored"] for reference in references) == [False, True]
    assert len({reference["throughput_bps"] for reference in references}) == 1


@pytest.fixture
def slow_tester(project, state):
    seed(state, 50e6)
    project.write(test_it=ABOVE)
    return project


def test_a_limit_above_it_is_said_before_the_first_test(slow_tester, workers):
    run = slow_tester.run(AUTO, *workers)
    lines = run.text.splitlines()
    (start,) = (number for number, line in enumerate(lines) if line.startswith("WARNING: this tester cannot show"))
    over = "tester reference 50 Mbit/s at MTU 1500 (veth pair, unshaped)"
    assert sorted(lines[start + 1 : start + 3]) == [
        f"  test_it.py::test_far: 390 Gbit/s required, {over}, 2 rows",
        f"  test_it.py::test_met: 80 Mbit/s required, {over}",
    ]
    assert "--netperf-reference" in lines[start + 3]
    assert not any("%]" in line for line in lines[:start]), "no test has run yet"
    assert "measuring" not in run.text


def test_a_fail_by_such_a_limit_becomes_inconclusive_and_a_pass_stays(slow_tester, workers):
    run = slow_tester.run(AUTO, *workers)
    assert run.code == 1
    assert run.verdicts == {
        "test_far[400G/unshaped-forward]::throughput": "INCONCLUSIVE",
        "test_far[400G/unshaped-reverse]::throughput": "INCONCLUSIVE",
        "test_met[100M]::throughput": "PASS",
        "test_below[100M]::throughput": "PASS",
    }
    for name, row in run.rows.items():
        doubted = any(doubt.startswith("Limit above the tester reference: ") for doubt in row["evidence"]["doubts"])
        assert doubted == name.startswith("test_far"), name
        if doubted:
            assert "390 Gbit/s are required; without the device this tester delivered 50 Mbit/s" in row["reason"]
    (html,) = run.output.glob("*/*/sheet.html")
    page = html.read_text()
    assert page.count("<small>tester 50 Mbit/s</small>") == 4
    assert "tester reference 50 Mbit/s (veth pair, unshaped, MTU 1500); measured" in page


@pytest.mark.parametrize(("required", "measured"), [(">= 80 Mbps", True), (">= 20 Mbps", False)])
def test_one_that_was_disturbed_is_measured_anew_before_it_speaks_against_a_limit(project, state, required, measured):
    seed(state, 50e6, note="Other processes of this machine used 90 % of a CPU.")
    project.write(test_it=TWO_ROWS.replace(">= 50 Mbps", required))
    run = project.run(AUTO, "-kfirst")
    assert ("tester reference: measuring" in run.text) == measured
    assert "WARNING: this tester" not in run.text
    (reference,) = run.sheet["reference"]
    assert reference["stored"] == (not measured)
    assert (reference["throughput_bps"] == 50e6) == (not measured)


def test_off_measures_nothing_and_the_sheet_says_so(project, state):
    project.write(test_it=TWO_ROWS)
    run = project.run("-kfirst")
    assert "tester reference" not in run.text
    assert not state.exists()
    (reference,) = run.sheet["reference"]
    assert reference["throughput_bps"] is None
    assert reference["missing"] == "switched off by netperf_reference = off"
    (row,) = (row for row in run.sheet["rows"] if row["verdict"] == "PASS")
    assert row["evidence"]["facts"]["reference_not_measured"] == reference["missing"]
    (html,) = run.output.glob("*/*/sheet.html")
    assert "not measured: switched off by netperf_reference = off" in html.read_text()


@pytest.mark.parametrize(
    ("arguments", "tests"),
    [
        ((AUTO,), NO_TRAFFIC),
        ((AUTO, "-k", "not test_a"), TWO_ROWS + NO_TRAFFIC),
        ((AUTO, "--collect-only"), TWO_ROWS),
        ((AUTO,), "def test_nothing_of_ours(): pass"),
    ],
    ids=["no link", "deselected", "collect-only", "no test of ours"],
)
def test_without_traffic_on_a_link_it_costs_nothing(project, state, arguments, tests):
    project.write(test_it=tests)
    run = project.run(*arguments)
    assert "tester reference" not in run.text
    assert not state.exists()


def test_asked_for_without_a_link_it_says_why_there_is_none(project, state):
    project.write(test_it=NO_TRAFFIC)
    run = project.run("--netperf-reference")
    assert run.code == 0, run.text
    run.has("tester reference: not measured, because no test of this run has traffic on a link")
    assert run.sheet["reference"] == []


def test_a_state_folder_that_cannot_be_costs_a_measurement_and_a_line(project, state, workers):
    state.touch()
    project.write(test_it=TWO_ROWS)
    run = project.run(AUTO, *workers)
    assert run.code == 0, run.text
    run.has("Not a directory", "each run measures it anew until XDG_STATE_HOME")
    assert run.text.count("Not a directory") == 1
    (reference,) = run.sheet["reference"]
    assert reference["throughput_bps"] > 100e6
    assert all(facts["reference_bps"] == reference["throughput_bps"] for facts in facts_of(run))
    run.is_clean()


def test_a_broken_file_is_measured_anew_and_replaced(project, state):
    seed(state, 50e6)
    (path,) = (state / "pytest-netperf").glob("*.json")
    path.write_text("{")
    project.write(test_it=TWO_ROWS)
    run = project.run(AUTO, "-kfirst")
    run.has("tester reference: the stored one is broken, and is measured anew (")
    assert run.sheet["reference"][0]["throughput_bps"] > 100e6
    assert "tester reference" not in project.run(AUTO, "-kfirst").text


@pytest.mark.parametrize("engine", ["iperf3", "libiperf"])
def test_without_the_tool_the_run_goes_on_without_a_reference(project, state, engine):
    tools = project.path / "tools"
    tools.mkdir()
    hidden = {"PATH": str(tools)}
    if engine == "libiperf":
        (project.path / "iperf3.py").write_text("raise ImportError('not here')\n")
        hidden = {"PYTHONPATH": str(project.path)}
    project.write(test_it=TWO_ROWS)
    run = project.run(AUTO, f"--netperf-engine={engine}", env=hidden)
    missing = run.sheet["reference"][0]["missing"]
    run.has(f"tester reference: not measured: {missing}")
    assert {"iperf3": "iperf3 is not installed", "libiperf": "cannot load the Python package iperf3"}[engine] in missing
    assert {row["verdict"] for row in run.sheet["rows"]} == {"ERROR"}
    assert run.text.count("tester reference:") == 1


BENCH = """
[[station.reference]]
name = "loop"
speed = "100M"
simulated = true

[[station.reference]]
name = "plug"
speed = "100M"
a = { port = "pci-0000:04:00.0" }
b = { port = "pci-0000:04:00.1" }

[[station.reference]]
name = "elsewhere"
speed = "10G"
simulated = true

[[device]]
serial = "A"
link = [{ name = "p1", speed = "100M", simulated = true }]
"""


def test_a_cable_of_the_bench_is_measured_for_links_of_its_speed(project, state, workers):
    seed(state, 20e9)
    project.write({"bench.toml": BENCH}, test_it=TWO_ROWS)
    run = project.run(AUTO, "--netperf-bench=bench.toml", *workers)
    assert run.code == 0, run.text
    veth, loop, plug = run.sheet["reference"]
    assert (veth["throughput_bps"], veth["stored"]) == (20e9, True)
    assert (loop["link"], loop["speed_bps"]) == ("cable-only link loop, 100M", 100e6)
    assert 50e6 < loop["throughput_bps"] < 96e6, "the goodput of a 100M link"
    assert plug["throughput_bps"] is None
    assert plug["missing"].startswith("port 'pci-0000:04:00.0': there is no such port in the network namespace")
    run.has("cable-only link plug, 100M): port 'pci-0000:04:00.0'", "can do without the device (6 s of traffic)")
    for facts in facts_of(run):
        assert (facts["reference_bps"], facts["reference_link"]) == (loop["throughput_bps"], loop["link"])


def test_a_wrong_value_of_the_ini_key(project):
    project.write(test_it=TWO_ROWS)
    run = project.run("-onetperf_reference=daily")
    assert run.code == 4
    run.has("netperf_reference = daily (ini file): must be auto or off; to measure it now, use --netperf-reference")
    run.is_clean()
