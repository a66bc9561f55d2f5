"""Many limits on one device: a FAIL that one of them shows by chance is not proven, and everything says the same."""

from __future__ import annotations

import json

import pytest

from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.journal_reader import read_journal

pytest_plugins = ["pytester"]

LIMITS = 20
TESTS = """
@pytest.mark.netperf_limit(power="<= 15 W")
@pytest.mark.parametrize("load", range(NUMBER))
def test_power(netperf_record, load):
    netperf_record("power", WORST if load == 3 else 14.0, "W", uncertainty=0.1)
"""
BUYER = ("--netperf-rule=guarded", "--netperf-role=buyer")
BY_CHANCE = 15.11  # 1.1 U over the limit: 1.4 % of the values of a device that meets it
CLEARLY = 15.5


def suite(worst: float, number: int) -> str:
    return TESTS.replace("WORST", str(worst)).replace("NUMBER", str(number))


def failing(run) -> dict:
    (row,) = [row for row in run.sheet["rows"] if row["verdict"] != "PASS"]
    return row


def test_a_narrow_failure_among_many_limits_does_not_reject(project):
    project.write(test_power=suite(BY_CHANCE, LIMITS))
    run = project.run(*BUYER)
    row = failing(run)
    assert (row["verdict"], run.sheet["verdict"], run.code) == ("INCONCLUSIVE", "NOT PROVEN", 1), run.text
    assert "is above the allowed 15 W" in row["reason"]
    assert "it is one of 20 limits of this device" in row["reason"]
    assert row["next_step"].startswith("Repeat this measurement and make its uncertainty smaller: ")
    facts = row["evidence"]["facts"]
    assert (facts["holm_verdict"], facts["holm_limits"]) == ("FAIL", LIMITS)
    assert facts["holm_p"] == pytest.approx(0.0139, abs=1e-4)
    assert facts["holm_adjusted_p"] == pytest.approx(LIMITS * facts["holm_p"])
    run.has("NOT PROVEN", "it is one of 20 limits of this device", "1 failed, 19 passed")
    (page,) = run.output.glob("*/*/sheet.html")
    assert "it is one of 20 limits of this device" in page.read_text().replace("\u00a0", " ")

    kept = [each.verdict for each in read_journal(run.journal).rows if each.id == row["id"]]
    assert kept == [Verdict.FAIL]
    again = project.command("sheet", str(run.journal), "--output", str(project.path / "again"))
    assert again.returncode == 1, again.stdout
    (made,) = (project.path / "again").glob("*/*/sheet.json")
    assert json.loads(made.read_text()) == run.sheet

    project.write({"same.toml": '[[limit]]\nsource = "the same"\npower = "<= 15 W"\n'})
    judged = project.command(
        "judge", str(run.journal), "--limits", "same.toml", "--rule", "guarded", "--role", "buyer", "--json"
    )
    assert judged.returncode == 1
    (said,) = [each for each in json.loads(judged.stdout) if each["verdict"] != "PASS"]
    assert (said["id"], said["old_verdict"], said["verdict"]) == (row["id"], "FAIL", "INCONCLUSIVE")
    assert said["reason"] == row["reason"]


@pytest.mark.parametrize(
    ("worst", "number", "arguments", "verdict"),
    [
        (CLEARLY, LIMITS, BUYER, "REJECTED"),
        (BY_CHANCE, LIMITS, (), "REJECTED"),
        (BY_CHANCE, LIMITS, ("--netperf-rule=guarded", "--netperf-role=vendor"), "REJECTED"),
        (BY_CHANCE, 4, BUYER, "NOT PROVEN"),
        (BY_CHANCE, 4, (*BUYER, "-k", "SIM-0001-3"), "REJECTED"),  # one limit alone keeps the risk of its rule
        (14.0, LIMITS, BUYER, "ACCEPTED"),
    ],
    ids=["clear", "simple", "vendor", "four limits", "one of them alone", "all good"],
)
def test_what_a_device_is_then(project, worst, number, arguments, verdict):
    project.write(test_power=suite(worst, number))
    run = project.run(*arguments)
    assert run.sheet["verdict"] == verdict, run.text
    assert (run.code == 0) is (verdict == "ACCEPTED")


def test_allowing_what_is_inconclusive_does_not_allow_it(project):
    """pytest itself counted a failure, which nobody allowed."""
    project.write(test_power=suite(BY_CHANCE, LIMITS))
    run = project.run(*BUYER, "--netperf-allow-inconclusive")
    assert (failing(run)["verdict"], run.code) == ("INCONCLUSIVE", 1), run.text


@pytest.mark.needs_xdist
def test_workers_see_one_device_together(project):
    project.write(test_power=suite(BY_CHANCE, LIMITS))
    run = project.run(*BUYER, "-n2")
    assert (failing(run)["verdict"], run.sheet["verdict"]) == ("INCONCLUSIVE", "NOT PROVEN"), run.text


def test_a_check_of_the_tests_own_still_rejects(project):
    project.write(test_power=suite(BY_CHANCE, LIMITS).rstrip() + "\n    assert load != 3, 'the fan stood still'\n")
    run = project.run(*BUYER)
    row = failing(run)
    assert (row["verdict"], run.sheet["verdict"]) == ("FAIL", "REJECTED"), run.text
    assert "the fan stood still" in row["evidence"]["facts"]["own_check"]
    assert "the fan stood still" in row["reason"]
