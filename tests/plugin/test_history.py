"""The station's history in real runs: what a repeated measurement leaves, and what a later one makes of it."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

import pytest

from pytest_netperf.judge.decision import get_rule
from pytest_netperf.judge.limits_file import parse_limits_file
from pytest_netperf.judge.replay import judge_rows
from pytest_netperf.judge.run_to_run import Spread
from pytest_netperf.record.history_store import HistoryKey, HistoryStore
from pytest_netperf.record.journal_reader import read_journal
from pytest_netperf.traffic.engine import make_engine
from pytest_netperf.traffic.result import Workload

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.netns

ON = "-onetperf_history=on"
VENDOR = ("--netperf-rule=guarded", "--netperf-role=vendor")
MARKS = """
pytestmark = [pytest.mark.netperf_link(speed="100M"), pytest.mark.netperf_limit(throughput=">= 80 Mbps")]
"""
ONE = MARKS + "def test_one(iperf3): iperf3.tcp(duration=4)"
MANY = MARKS + "def test_many(iperf3): iperf3.tcp(duration=4, repeat=5)"
FROM = (
    "station history: 2 measurements of 5 runs, the last on 2026-11-30; standard deviation {} with 8 degrees of "
    "freedom, between two runs a new connection"
)


@pytest.fixture
def state(project, monkeypatch) -> Path:
    """A state folder of this test's own."""
    folder = project.path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


def remembered(state: Path) -> list[Path]:
    return sorted((state / "pytest-netperf").glob("history-*.json"))


def seed(state: Path, relative_sd: float, *, between_runs="connection", **asked) -> HistoryKey:
    """Two measurements of this kind, as earlier runs would have left them."""
    key = HistoryKey(
        host=platform.node(),
        kernel=platform.release(),
        cpus=len(os.sched_getaffinity(0)),
        software=make_engine("iperf3").version,
        slots=8,
        device="simulated",
        link="sim-100M",
        topology="pair",
        speed_bps=100e6,
        media=None,
        simulated=True,
        fault=None,
        mtu=1500,
        workload=Workload(**{"duration_s": 4.0, "omit_s": 0.0, **asked}),
        between_runs=between_runs,
    )
    store = HistoryStore(state / "pytest-netperf")
    for _ in range(2):
        store.add(key, Spread(relative_sd=relative_sd, runs=5, measured_at="2026-11-30T12:00:00+00:00"))
    assert store.problem is None
    return key


def only_row(run) -> dict:
    (row,) = run.sheet["rows"]
    return row


def run_of(project, text, *arguments):
    project.write(test_it=text)
    return project.run(ON, *arguments)


def limited(row: dict) -> bool:
    """Whether something else on this machine disturbed the row, which is then rightly not remembered."""
    facts = row["evidence"]["facts"]
    return "tester_limited" in facts and facts["rate_explained"] is not True


# ---- from a repeated measurement to a later one ----------------------------------------------------------------------


def test_a_single_run_has_the_spread_of_earlier_repetitions_and_says_so(project, state, workers):
    for _ in range(4):
        many = only_row(run_of(project, MANY, *workers))
        assert many["verdict"] == "PASS", many
        assert bool(remembered(state)) != limited(many)
        if remembered(state):
            break
    facts = many["evidence"]["facts"]
    assert "station_run_to_run" not in facts, "it sees for itself"
    relative_sd = facts["run_to_run_sd_bps"] / many["value"]

    run = run_of(project, ONE, *workers)
    row = only_row(run)
    facts = row["evidence"]["facts"]
    assert (run.code, row["verdict"]) == (0, "PASS"), run.text
    assert facts["station_history"] == many["evidence"]["facts"]["station_history"]
    assert facts["station_run_to_run"] == pytest.approx(relative_sd * math.sqrt(4 / 2))
    assert facts["uncertainty_between"] == pytest.approx(facts["station_run_to_run"] * row["value"], rel=0.01)
    assert facts["run_to_run_from"].startswith("station history: 1 measurement of 5 runs, the last on 20")
    parts = (facts["uncertainty_within_bps"], facts["uncertainty_between"], facts["uncertainty_resolution_bps"])
    assert row["uncertainty"] == pytest.approx(2 * math.hypot(*parts))
    html = next(run.output.rglob("sheet.html")).read_text()
    assert f"({facts['run_to_run_from']})" in html
    assert len(remembered(state)) == 1, "a single run leaves nothing"
    assert "station history" not in run.text


def test_a_journal_is_judged_again_to_the_bit_where_the_station_is_not(project, state, monkeypatch):
    seed(state, 0.001)
    run = run_of(project, ONE, *VENDOR)
    row = only_row(run)
    assert row["verdict"] == "PASS", row
    assert row["evidence"]["facts"]["run_to_run_from"] == FROM.format("0.1 %")
    monkeypatch.setenv("XDG_STATE_HOME", str(project.path / "elsewhere"))
    limits = parse_limits_file("[[limit]]\nsource='x'\nthroughput='>= 80 Mbps'\n", "limits.toml")
    (again,) = judge_rows(read_journal(run.journal).rows, limits, get_rule("guarded", "vendor"), source="limits.toml")
    assert again.new.value == "PASS"
    assert again.again.uncertainty == row["uncertainty"]
    assert again.again.evidence.facts["uncertainty_between"] == row["evidence"]["facts"]["uncertainty_between"]


def test_under_guarded_a_wide_one_leaves_the_row_open_and_under_simple_it_changes_nothing(project, state):
    seed(state, 0.2)
    guarded = only_row(run_of(project, ONE, *VENDOR))
    assert guarded["verdict"] == "INCONCLUSIVE"
    assert "within the guard band" in guarded["reason"]
    simple = only_row(run_of(project, ONE))
    assert simple["verdict"] == "PASS"
    assert simple["uncertainty"] == pytest.approx(guarded["uncertainty"], rel=0.05)


def test_a_run_that_may_stop_early_goes_by_the_same_number(project, state):
    text = MARKS + (
        "@pytest.mark.netperf_method(profile='screening')\ndef test_one(iperf3): iperf3.tcp(duration=13, omit=0)"
    )
    seed(state, 0.2, duration_s=13.0)
    row = only_row(run_of(project, text, *VENDOR))
    facts = row["evidence"]["facts"]
    assert "stopped_after_s" not in facts, "what is not decided is not stopped for"
    assert row["verdict"] == "INCONCLUSIVE"
    assert facts["uncertainty_between"] == pytest.approx(facts["station_run_to_run"] * row["value"])
    without = only_row(run_of(project, text, *VENDOR, "--netperf-history=off"))
    assert without["verdict"] == "PASS"
    assert 10 <= without["evidence"]["facts"]["stopped_after_s"] < 13


# ---- which one wins, and which one counts ----------------------------------------------------------------------------


def test_a_declared_value_wins(project, state):
    seed(state, 0.2)
    row = only_row(run_of(project, ONE, "--netperf-run-to-run=0.1%"))
    facts = row["evidence"]["facts"]
    assert facts["declared_run_to_run"] == 0.001
    assert not {"station_run_to_run", "run_to_run_from"} & facts.keys()
    assert facts["uncertainty_between"] == pytest.approx(0.001 * row["value"], rel=0.01)


def test_repetitions_here_win_over_both(project, state):
    seed(state, 0.2)
    row = only_row(run_of(project, MANY.replace("repeat=5", "repeat=2"), "--netperf-run-to-run=30%"))
    facts = row["evidence"]["facts"]
    assert "station_run_to_run" not in facts
    assert facts["uncertainty_between"] < 0.05 * row["value"]
    assert len(remembered(state)) == 1, "two runs are not remembered"
    assert len(HistoryStore(state / "pytest-netperf").read(seed(state, 0.2))) == 4


@pytest.mark.parametrize(
    ("call", "known"),
    [
        ("duration=4", True),
        ("duration=4, between_runs='cold'", False),
        ("duration=4, direction='reverse'", False),
        ("duration=4, streams=2", False),
        ("duration=3", False),
    ],
)
def test_only_what_is_comparable_counts(project, state, call, known):
    seed(state, 0.01)
    row = only_row(run_of(project, MARKS + f"def test_one(iperf3): iperf3.tcp({call})"))
    facts = row["evidence"]["facts"]
    assert ("station_run_to_run" in facts) == known
    assert (facts["uncertainty_between"] == "not known") != known


def test_what_lies_between_the_runs_may_be_named_by_a_mark(project, state):
    seed(state, 0.01, between_runs="cold")
    text = MARKS + "@pytest.mark.netperf_method(between_runs='cold')\ndef test_one(iperf3): iperf3.tcp(duration=4)"
    facts = only_row(run_of(project, text))["evidence"]["facts"]
    assert facts["run_to_run_from"].endswith("between two runs another link, made anew")


def test_switched_off_it_is_neither_read_nor_written(project, state):
    seed(state, 0.2)
    before = {path: path.read_bytes() for path in remembered(state)}
    facts = only_row(run_of(project, ONE, "--netperf-history=off"))["evidence"]["facts"]
    assert facts["uncertainty_between"] == "not known"
    assert "station_history" not in facts
    run = run_of(project, MANY, "--netperf-history=off")
    assert only_row(run)["verdict"] == "PASS", run.text
    assert {path: path.read_bytes() for path in remembered(state)} == before


# ---- what is not remembered ------------------------------------------------------------------------------------------

REPEATED = "iperf3.tcp(duration=1, repeat=3)"


@pytest.mark.parametrize(
    ("body", "verdict", "count"),
    [
        (f"{REPEATED}; assert False", "FAIL", 1),  # judged, by the test's own check
        (f"{REPEATED}; 1 / 0", "ERROR", 0),
        (f"{REPEATED}; pytest.skip()", "SKIPPED", 0),
        ("iperf3.tcp(duration=1, repeat=2)", "PASS", 0),
    ],
)
def test_what_was_not_judged_leaves_nothing(project, state, body, verdict, count):
    run = run_of(project, MARKS + f"def test_many(iperf3): {body}")
    assert {row["verdict"] for row in run.sheet["rows"]} == {verdict}, run.text
    assert len(remembered(state)) == (0 if any(map(limited, run.sheet["rows"])) else count)


def test_a_teardown_that_fails_takes_the_measurement_back(project, state):
    text = f"""
@pytest.fixture
def bench():
    yield
    raise RuntimeError("the fan stopped")

def test_many(bench, iperf3): {REPEATED}
"""
    run = run_of(project, MARKS + text)
    assert only_row(run)["verdict"] == "ERROR", run.text
    assert remembered(state) == []


# ---- a folder that cannot be used ------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_is_said_once_and_the_run_goes_on(project, state, workers):
    state.write_text("a file in the place of the folder")
    text = MARKS + f"@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_many(iperf3, n): {REPEATED}"
    run = run_of(project, text, *workers)
    assert run.code == 0
    assert {row["verdict"] for row in run.sheet["rows"]} == {"PASS"}
    run.has("station history: it cannot be written (", "Not a directory", "--netperf-history off does without")
    assert run.text.count("station history:") == 1
    run.is_clean()


def test_a_broken_file_is_said_once_and_the_row_is_as_without_it(project, state):
    seed(state, 0.2)
    (path,) = remembered(state)
    path.write_bytes(b"{")
    run = run_of(project, ONE + "\ndef test_two(iperf3): iperf3.tcp(duration=4)")
    assert run.code == 0
    assert {row["evidence"]["facts"]["uncertainty_between"] for row in run.sheet["rows"]} == {"not known"}
    assert run.text.count("station history: a file is broken") == 1


def test_a_wrong_word_is_refused(project):
    run = project.run("--netperf-history=auto")
    assert run.code == 4
    run.has("--netperf-history auto: must be on or off")
    run.is_clean()
