"""The decision rule of a run: what it does to rows that are clear, to rows it cannot decide, and where it is said."""

from __future__ import annotations

import json

import pytest

pytest_plugins = ["pytester"]

BENCH = """
[[device]]
serial = "ONE-WAY-1"

  [[device.link]]
  name = "lan"
  speed = "100M"
  simulated = true
  fault = { rate = "50 Mbps", direction = "b-to-a" }
"""

# Both values are off their limits by more than 40 %: no busy machine brings them near a guard band.
TESTS = """
@pytest.mark.netperf_limit(throughput=">= 10 Mbps")
def test_fast(iperf3):
    iperf3.tcp()

@pytest.mark.netperf_limit(throughput=">= 90 Mbps")
def test_slow(iperf3):
    iperf3.tcp(direction="reverse")

@pytest.mark.netperf_limit(power="<= 15 W")
def test_power(netperf_record):
    netperf_record("power", 13.2, "W")
"""


def outcome(run):
    return {name.split("[")[0].split("::")[0]: row["verdict"] for name, row in run.rows.items()}


@pytest.fixture
def rule_project(project):
    project.write({"bench.toml": BENCH}, test_rule=TESTS)
    return project


def test_a_guarded_run_says_its_rule_and_decides_what_is_clear(rule_project):
    run = rule_project.run(
        "--netperf-bench=bench.toml", "--netperf-duration=5", "--netperf-rule=guarded", "--netperf-role=vendor"
    )
    assert outcome(run) == {"test_fast": "PASS", "test_slow": "FAIL", "test_power": "INCONCLUSIVE"}, run.text
    rule = run.sheet["procedure"]["decision_rule"]
    assert rule.startswith("guarded (vendor): PASS needs the value better than the limit by U (k = 2)")
    assert "A device at the limit is wrongly accepted in at most 2.5 % of the runs" in rule
    (page,) = run.output.glob("*/*/sheet.html")
    assert rule in page.read_text()
    for row in run.sheet["rows"]:
        facts = row["evidence"]["facts"]
        if row["quantity"] == "throughput":
            assert 0 < row["uncertainty"] < 0.5 * row["value"]
            assert 1 <= facts["n_eff"] <= facts["intervals"] <= 5
            assert facts["uncertainty_between"] == "not known"
            bound = row["limit_low"]
            expected = (row["value"] - bound) / row["uncertainty"]
            assert facts["margin_over_uncertainty"] == pytest.approx(expected, abs=1e-3)
        else:
            assert row["uncertainty"] is None
            assert "its uncertainty is not known (the test states none: netperf_record(" in row["reason"]

    rule_project.write(
        {"again.toml": '[[limit]]\nsource = "the same"\ntest = "test_fast"\nthroughput = ">= 10 Mbps"\n'}
    )
    arguments = (str(run.journal), "--limits", "again.toml", "--json", "--rule", "guarded", "--role", "vendor")
    again = json.loads(rule_project.command("judge", *arguments).stdout)
    (fast,) = [each for each in again if "test_fast" in each["id"]]
    (row,) = [row for row in run.sheet["rows"] if "test_fast" in row["id"]]
    assert (fast["verdict"], fast["reason"]) == (row["verdict"], row["reason"])


@pytest.mark.needs_xdist
def test_one_second_has_no_uncertainty_which_matters_under_guarded_alone(rule_project):
    simple = rule_project.run("--netperf-bench=bench.toml")
    assert outcome(simple) == {"test_fast": "PASS", "test_slow": "FAIL", "test_power": "PASS"}, simple.text
    assert simple.sheet["procedure"]["decision_rule"].startswith("simple: the value is compared with the limit")
    ini = (rule_project.path / "pytest.ini").read_text().strip()
    rule_project.write({"pytest.ini": f"{ini}\nnetperf_rule = guarded\nnetperf_role = buyer\n"})
    guarded = rule_project.run("--netperf-bench=bench.toml", "-n2")
    assert set(outcome(guarded).values()) == {"INCONCLUSIVE"}, guarded.text
    assert guarded.sheet["procedure"]["decision_rule"].startswith("guarded (buyer): FAIL needs the value worse")
    assert guarded.code != 0
    for run in (simple, guarded):
        for row in run.sheet["rows"]:
            if row["quantity"] == "throughput":
                assert row["uncertainty"] is None
                assert row["evidence"]["facts"]["uncertainty_not_known"].startswith("1 interval, and it takes 2")
    guarded.has("its uncertainty is not known (1 interval", "so rule guarded (buyer) decides nothing")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--netperf-role=vendor",), "--netperf-role vendor: role 'vendor' has no meaning under the simple rule"),
        (("--netperf-rule=guarded",), "--netperf-rule guarded: the guarded rule needs a role"),
        (("--netperf-rule=strict",), "--netperf-rule strict: unknown decision rule 'strict'"),
    ],
)
def test_a_rule_that_is_none_ends_the_run_before_it_begins(rule_project, arguments, says):
    run = rule_project.run(*arguments)
    assert run.code == 4
    run.has(says)
    run.is_clean()
    assert run.sheets == {}
