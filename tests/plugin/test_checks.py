"""Tests that use a link or a device but measure nothing: pytest's own, and on the sheet only when they fail."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CHECKS = """
pytestmark = pytest.mark.netperf_limit(power="<= 15 W", throughput=">= 10 Mbps")

@pytest.mark.netperf_link(speed="100M")
def test_reaches(netperf_link):
    assert netperf_link.a.run(["true"]).returncode == 0

def test_has_a_serial(netperf_device):
    assert netperf_device.serial == "SIM-0001"

def test_skipped(netperf_device):
    pytest.skip("not today")
"""

MEASURED = """
def test_power(netperf_record):
    netperf_record("power", 12, "W")
"""


def test_checks_alone_leave_no_sheet_and_pass(project, workers):
    project.write(test_checks=CHECKS)
    run = project.run(*workers)
    assert run.code == 0, run.text
    run.has("2 passed, 1 skipped")
    assert run.sheets == {}


def test_checks_that_pass_add_no_row_and_accept_nothing(project, workers):
    """A limit of the module is expected of the tests that can measure it, and of no other."""
    project.write(test_checks=CHECKS + MEASURED)
    run = project.run(*workers)
    assert set(run.rows) == {"test_power[SIM-0001]::power", "test_power[SIM-0001]::throughput"}
    assert run.sheet["verdict"] == "NOT PROVEN"  # throughput of test_power, which stands under the module's limit


@pytest.mark.parametrize(
    ("body", "verdict"),
    [("assert False, 'no ping'", "FAIL"), ("raise OSError('no')", "ERROR"), ("pytest.fail('no')", "FAIL")],
)
def test_a_check_that_fails_is_a_row(project, workers, body, verdict):
    project.write(
        test_checks=f"""
@pytest.mark.netperf_limit(power="<= 15 W")
def test_power(netperf_record):
    netperf_record("power", 12, "W")

@pytest.mark.netperf_link(speed="100M")
def test_check(netperf_link):
    {body}
"""
    )
    run = project.run(*workers)
    assert run.code == 1
    row = run.rows["test_check[SIM-0001/sim-100M]::check"]
    assert (row["verdict"], row["required"], row["value"]) == (verdict, True, None)
    assert run.sheet["verdict"] == {"FAIL": "REJECTED", "ERROR": "NOT PROVEN"}[verdict]


def test_a_check_that_fails_alone_makes_a_complete_sheet(project, workers):
    project.write(test_checks="def test_check(netperf_device):\n    assert False, 'no label'\n")
    run = project.run(*workers)
    assert (run.code, run.sheet["verdict"], run.sheet["complete"]) == (1, "REJECTED", True)


def test_a_limit_of_its_own_makes_a_check_a_measurement(project, workers):
    project.write(
        test_checks="""
@pytest.mark.netperf_limit(throughput=">= 10 Mbps")
def test_forgets(netperf_link):
    pass
"""
    )
    run = project.run(*workers)
    assert run.code == 1
    row = run.rows["test_forgets[SIM-0001/sim-1G]::throughput"]
    assert (row["verdict"], "never measured" in row["reason"]) == ("INCONCLUSIVE", True)


LIMITS = """
[[limit]]
model = "X"
throughput = ">= 10 Mbps"
power = "<= 15 W"
source = "data sheet"

[[limit]]
model = "X"
speed = "10G"
retransmits = "<= 5"
source = "data sheet, SFP port"

[[limit]]
model = "Y"
temperature = "<= 80 degC"
source = "data sheet of another model"
"""

BENCH = """
[[device]]
serial = "X-1"
model = "X"
[[device.link]]
name = "p1"
speed = "100M"
simulated = true
"""


def test_what_a_limits_file_requires_and_no_test_measures_is_a_row(project, workers):
    """Only power: retransmits are required of a 10G port that this device does not have, temperature of model Y."""
    project.write({"limits.toml": LIMITS, "bench.toml": BENCH}, test_rate="def test_rate(iperf3):\n    iperf3.tcp()\n")
    run = project.run("--netperf-bench=bench.toml", "--netperf-limits=limits.toml", *workers)
    assert {name: row["verdict"] for name, row in run.rows.items()} == {
        "test_rate[X-1/p1]::throughput": "PASS",
        "X-1::power": "INCONCLUSIVE",
    }
    assert "no test of this run measures it" in run.rows["X-1::power"]["reason"]
    assert (run.code, run.sheet["verdict"], run.sheet["complete"]) == (1, "NOT PROVEN", True)


@pytest.mark.parametrize(("recorded", "verdict"), [("0.95", "PASS"), ("2", "INVALID")])
def test_a_throughput_recorded_by_hand_cannot_exceed_its_link(project, recorded, verdict):
    project.write(
        test_by_hand=f"""
@pytest.mark.netperf_link(speed="1G")
@pytest.mark.netperf_limit(throughput=">= 900 Mbps")
def test_by_hand(netperf_link, netperf_record):
    netperf_record("throughput", {recorded}, "Gbps")
"""
    )
    assert project.run().rows["test_by_hand[SIM-0001/sim-1G]::throughput"]["verdict"] == verdict
