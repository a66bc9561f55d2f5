"""The list of faults, what counts as come out right, what is printed, and wrong use of the command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.cli import main
from pytest_netperf.judge.doubts import KNOWN
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.marks import limits_from_marks
from pytest_netperf.selftest import report
from pytest_netperf.selftest.cases import CASES, Case, case_of
from pytest_netperf.selftest.disturb import DISTURBANCES
from pytest_netperf.selftest.outcome import Outcome
from pytest_netperf.selftest.runs import device_of
from pytest_netperf.selftest.tools import install

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference"
PAGE = (REFERENCE / "faults.md").read_text("utf-8")
BUSY = "10 Mbit/s is below 900, but the tester may be the cause: Another process busy: Other processes ..."


def outcome(name: str, verdict: str, reason: str = "", *doubts: str, time: int = 1, attempts: int = 1) -> Outcome:
    return Outcome(case=case_of(name), time=time, verdict=verdict, reason=reason, doubts=doubts, attempts=attempts)


def right(case: Case) -> Outcome:
    return outcome(case.name, case.verdict.split(" or ")[0], case.seen.split(" or ")[0])


# ---- the cases ----


def test_the_page_has_the_table_of_the_cases():
    assert report.markdown() in PAGE, "docs/reference/faults.md is not what `report.markdown()` makes of the cases"


def test_each_case_has_a_name_of_its_own_that_can_be_a_test():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_can_be_made(case, tmp_path):
    (device,) = parse_bench(device_of(case)).devices
    assert device.serial == case.name
    assert (device.links[0].fault is not None) is bool(case.fault)
    assert case.fault or case.disturbance or case.tool or case.call or case.good, "nothing is wrong with it"
    assert case.disturbance is None or case.disturbance in DISTURBANCES
    assert {Verdict(verdict) for verdict in case.verdict.split(" or ")}
    limits, warnings = limits_from_marks([(pytest.mark.netperf_limit(**case.limit).mark, 0)])
    assert len(limits) == 1
    assert warnings == ()
    if case.tool is not None:
        install(case.tool, tmp_path)
        assert (tmp_path / "iperf3").stat().st_mode & 0o111


def test_no_disturbance_is_left_over():
    assert set(DISTURBANCES) == {case.disturbance for case in CASES if case.disturbance}


def test_what_must_be_said_is_a_doubt_or_stands_for_a_reason():
    doubts = {known.name for known in KNOWN}
    capitals = {words for case in CASES for words in case.seen.split(" or ") if words[:1].isupper()}
    assert capitals <= doubts


def test_a_fault_is_never_expected_to_pass_unless_its_limit_is_met_in_spite_of_it():
    passing = {case.name for case in CASES if "PASS" in case.verdict and not case.good}
    assert passing == {"other-direction", "duplicate-tcp", "reorder", "clock-step"}


# ---- what counts as right ----


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_must_come_out_holds(case):
    assert right(case).holds


@pytest.mark.parametrize("case", [case for case in CASES if "PASS" not in case.verdict], ids=lambda case: case.name)
def test_a_fault_that_passes_never_holds(case):
    assert not outcome(case.name, "PASS", case.seen, BUSY).holds


@pytest.mark.parametrize(
    ("name", "verdict", "reason", "holds"),
    [
        ("stall", "FAIL", "Data stall: ...", True),
        ("stall", "FAIL", "too slow", False),
        ("stall", "INCONCLUSIVE", "Data stall: ...", False),
        ("stall", "INCONCLUSIVE", f"{BUSY} Data stall: ...", True),
        ("stall", "INCONCLUSIVE", BUSY, False),
        ("stall", "NOT RUN", "Data stall", False),
        ("good", "INCONCLUSIVE", BUSY, False),
        ("good", "FAIL", "", False),
        ("duplicate", "INCONCLUSIVE", BUSY, False),
        ("burst-loss", "ERROR", "loss fault on interface 3: this kernel cannot lose frames in bursts", True),
        ("good", "ERROR", "this kernel does not have ...", False),
        ("window", "INCONCLUSIVE", "Receive window limited: ...", True),
        ("cut-short", "ERROR", "Run shorter than asked: ...", True),
    ],
)
def test_what_holds_and_what_slips(name, verdict, reason, holds):
    assert outcome(name, verdict, reason).holds is holds


@pytest.mark.parametrize(
    ("name", "verdict", "words", "again"),
    [
        ("stall", "INCONCLUSIVE", BUSY, True),
        ("stall", "INVALID", BUSY, True),
        ("stall", "ERROR", "the iperf3 client did not end", True),
        ("stall", "INCONCLUSIVE", "Data stall: ...", False),
        ("stall", "FAIL", f"{BUSY} Data stall: ...", False),
        ("stall", "FAIL", BUSY, True),
        ("window", "INCONCLUSIVE", BUSY, True),
        ("stall", "PASS", BUSY, False),
        ("good", "INCONCLUSIVE", BUSY, False),
        ("burst-loss", "ERROR", "this kernel cannot lose frames in bursts", False),
        ("dead", "ERROR", "no traffic ever flowed", False),
    ],
)
def test_what_is_made_again(name, verdict, words, again):
    assert outcome(name, verdict, words).made_again is again


def test_a_doubt_that_is_not_in_the_reason_is_seen_too():
    assert outcome("stall", "INVALID", "it contradicts itself", BUSY.partition("cause: ")[2]).made_again


# ---- what is printed ----


def test_the_table_has_a_line_for_each_case_with_its_worst_measurement():
    lines = report.outcome_lines([
        *(outcome("good", "PASS", time=time) for time in range(1, 20)),
        outcome("good", "FAIL", time=20),
        outcome("stall", "INCONCLUSIVE", f"{BUSY} Data stall: ..."),
        outcome("burst-loss", "ERROR", "this kernel cannot"),
        outcome("rate", "FAIL"),
    ])  # fmt: skip
    assert len(lines) == 6
    assert re.search(r"^good x 20 .* PASS +FAIL  <-- SLIPPED", lines[2])
    assert re.search(r"^rate .* FAIL +FAIL$", lines[3])
    assert re.search(r"^burst-loss .* not possible here", lines[4])
    assert re.search(r"^stall .* FAIL +INCONCLUSIVE \(tester busy\) +Data stall +yes$", lines[5])


def test_what_slipped_is_told_with_its_reason_and_a_pass_above_all():
    text = "\n".join(report.summary([outcome("good", "PASS"), outcome("stall", "PASS", "fine", "a doubt")], 12.4))
    assert "stall: PASS instead of FAIL; nothing says 'Data stall': fine" in text
    assert "    doubt: a doubt" in text
    assert "PASS although the fault was there: stall" in text
    assert text.endswith("1 faults, a good link 1 times, 12 s: 1 SLIPPED")


def test_all_right_is_said_in_one_line():
    assert report.summary([right(case) for case in CASES], 150.0) == [
        f"{sum(not case.good for case in CASES)} faults, a good link 3 times, 150 s: all came out as they must"
    ]


def test_json_has_an_object_for_each_measurement():
    found = json.loads(
        report.as_json([outcome("stall", "FAIL", "Data stall: x", "d", attempts=2), outcome("good", "PASS")])
    )
    assert found[0] == {
        "case": "stall",
        "what": case_of("stall").what,
        "time": 1,
        "attempts": 2,
        "expected_verdict": ["FAIL"],
        "verdict": "FAIL",
        "expected_doubt": ["Data stall"],
        "seen": True,
        "possible": True,
        "tester_busy": False,
        "holds": True,
        "reason": "Data stall: x",
        "doubts": ["d"],
    }
    assert found[1]["expected_doubt"] == []
    section = (REFERENCE / "command-line.md").read_text("utf-8").split("## selftest --json")[1].split("##")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(found[0])


# ---- wrong use ----


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["stal"], "selftest stal: there is no such case (did you mean 'stall'?)"),
        (["nothing-like-it"], "known: good, "),
        (["stal", "flop"], "selftest flop: there is no such case (did you mean 'flap'?)"),
        (["--times", "0"], "selftest --times 0: expected a number from 1 to 1000"),
        (["--times", "-3"], "expected a number from 1 to 1000"),
        (["-n", "0"], "selftest -n 0: expected a number from 1 to 64"),
        (["-n", "1000"], "selftest -n 1000: expected"),
    ],
)
def test_wrong_use(arguments, words, capsys):
    assert main(["selftest", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--times", "many"], ["--fast"], ["-n"]])
def test_wrong_options(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["selftest", *arguments])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert arguments[0] in said
    assert "--help`" in said


def test_a_folder_that_exists_is_not_written_to(tmp_path, capsys):
    assert main(["selftest", "--keep", str(tmp_path), "good"]) == 2
    assert "give a folder that does not exist yet" in capsys.readouterr().err


def test_the_list_says_what_each_case_is(capsys):
    assert main(["selftest", "--list", "stall", "good"]) == 0
    good, stall = capsys.readouterr().out.splitlines()
    assert good.startswith("good ")
    assert stall.split("  ") == ["stall", case_of("stall").what]
