"""The verdict lattice as users meet it: each way a test can end, its verdict, its reason, and the exit code."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

RECORDED = """
LIMIT = pytest.mark.netperf_limit(power="<= 15 W")

@LIMIT
def test_pass(netperf_record):
    netperf_record("power", 13.2, "W", note="meter 7")

@LIMIT
def test_at_the_limit(netperf_record):
    netperf_record("power", 15, "W")

@LIMIT
def test_in_another_unit(netperf_record):
    netperf_record("power", 14_000, "mW")

@LIMIT
def test_fail(netperf_record):
    netperf_record("power", 16, "W")

def test_no_limit(netperf_record):
    netperf_record("power", 13, "W")

@LIMIT
def test_measures_nothing(netperf_record):
    pass

@LIMIT
def test_measures_something_else(netperf_record):
    netperf_record("temperature", 40, "degC")

@pytest.mark.netperf_limit(power="<= 15 W", temperature="<= 60 degC")
def test_one_of_two(netperf_record):
    netperf_record("power", 13, "W")

@LIMIT
def test_twice(netperf_record):
    netperf_record("power", 13, "W")
    netperf_record("power", 16, "W")

@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -1.0, 1e300 * 1e300])
@LIMIT
def test_no_number(netperf_record, value):
    netperf_record("power", value, "W")

@pytest.mark.netperf_limit(temperature="<= 60 degC")
def test_below_zero_is_a_temperature(netperf_record):
    netperf_record("temperature", -5, "degC")

@LIMIT
def test_information_beside_a_limit(netperf_record):
    netperf_record("power", 13, "W")
    netperf_record("temperature", 90, "degC")

@LIMIT
def test_not_required(netperf_record):
    netperf_record("power", 16, "W", required=False)

@LIMIT
def test_own_check(netperf_record):
    netperf_record("power", 13, "W")
    assert 1 + 1 == 3, "the lamp is red"

@LIMIT
def test_own_fail(netperf_record):
    netperf_record("power", 13, "W")
    pytest.fail("the fan is loud")

@LIMIT
def test_exception(netperf_record):
    netperf_record("power", 13, "W")
    raise RuntimeError("no such meter")

@pytest.fixture
def broken_meter():
    raise OSError("the meter does not answer")

@LIMIT
def test_setup_error(netperf_record, broken_meter):
    netperf_record("power", 13, "W")

@pytest.fixture
def meter_that_stays_busy():
    yield
    raise OSError("the meter cannot be closed")

@LIMIT
def test_teardown_error(netperf_record, meter_that_stays_busy):
    netperf_record("power", 13, "W")

@pytest.mark.skip(reason="no meter here")
@LIMIT
def test_skip_mark(netperf_record): pass

@LIMIT
def test_skip_inside(netperf_record):
    netperf_record("power", 13, "W")
    pytest.skip("meter taken away")

@pytest.mark.xfail(reason="known to be hot")
@LIMIT
def test_xfail_by_exception(netperf_record):
    netperf_record("power", 13, "W")
    raise RuntimeError("hot")

@pytest.mark.xfail(reason="known to be hot")
@LIMIT
def test_xfail_by_limit(netperf_record):
    netperf_record("power", 16, "W")

@pytest.mark.xfail(reason="known to be hot", strict=True)
@LIMIT
def test_strict_xfail_by_limit(netperf_record):
    netperf_record("power", 16, "W")

@pytest.mark.xfail(reason="known to be hot", strict=True)
@LIMIT
def test_strict_xfail_that_passes(netperf_record):
    netperf_record("power", 13, "W")

@pytest.mark.xfail(run=False, reason="it burns")
@LIMIT
def test_xfail_not_run(netperf_record): pass

@LIMIT
def test_wrong_unit(netperf_record):
    netperf_record("power", 13, "V")

@LIMIT
def test_no_value(netperf_record):
    netperf_record("power", "13", "W")

@LIMIT
def test_unknown_quantity(netperf_record):
    netperf_record("pover", 13, "W")

@pytest.fixture
def at_the_end(netperf_record):
    yield
    netperf_record("power", 13, "W")

@LIMIT
def test_recorded_too_late(at_the_end): pass

"""

# The fixture `subtests` is a part of pytest since 9.0.
SUBTESTS = """
@LIMIT
def test_subtests(netperf_record, subtests):
    with subtests.test("reads"):
        netperf_record("power", 13, "W")
    with subtests.test("looks"):
        assert "lamp" == "green"

@LIMIT
def test_good_subtests(netperf_record, subtests):
    with subtests.test("first, nothing is measured here"):
        pass
    with subtests.test("reads"):
        netperf_record("power", 13, "W")
"""

# test -> verdict, and what the reason says
EXPECTED = {
    "test_pass::power": ("PASS", "13.2 W is within the allowed 15 W"),
    "test_at_the_limit::power": ("PASS", "15 W is within the allowed 15 W"),
    "test_in_another_unit::power": ("PASS", "14 W is within"),
    "test_fail::power": ("FAIL", "16 W is above the allowed 15 W"),
    "test_no_limit::measurement": ("INCONCLUSIVE", "13 W was measured, but no limit applies to it"),
    "test_measures_nothing::power": ("INCONCLUSIVE", "power was never measured"),
    "test_measures_something_else::power": ("INCONCLUSIVE", "power was never measured"),
    "test_measures_something_else::temperature": ("INCONCLUSIVE", "no limit applies"),
    "test_one_of_two::power": ("PASS", "13 W is within"),
    "test_one_of_two::temperature": ("INCONCLUSIVE", "temperature was never measured"),
    "test_twice::power": ("PASS", "13 W is within"),
    "test_twice::power#2": ("FAIL", "16 W is above"),
    "test_no_number[nan]::power": ("INVALID", "nan is not a finite number"),
    "test_no_number[inf0]::power": ("INVALID", "inf is not a finite number"),
    "test_no_number[-inf]::power": ("INVALID", "-inf is not a finite number"),
    "test_no_number[-1.0]::power": ("INVALID", "is below zero, which power cannot be"),
    "test_no_number[inf1]::power": ("INVALID", "inf is not a finite number"),
    "test_below_zero_is_a_temperature::temperature": ("PASS", "within the allowed"),
    "test_information_beside_a_limit::power": ("PASS", "13 W is within"),
    "test_information_beside_a_limit::temperature": ("INCONCLUSIVE", "no limit applies"),
    "test_not_required::power": ("FAIL", "16 W is above"),
    "test_own_check::power": ("FAIL", "the test's own check failed: AssertionError: the lamp is red"),
    "test_own_fail::power": ("FAIL", "the test's own check failed: Failed: the fan is loud"),
    "test_exception::power": ("ERROR", "the test broke in its call phase: RuntimeError: no such meter"),
    "test_setup_error::power": ("ERROR", "broke in its setup phase: OSError: the meter does not answer"),
    "test_teardown_error::power": ("ERROR", "teardown failed: OSError: the meter cannot be closed"),
    "test_skip_mark::power": ("SKIPPED", "skipped: no meter here"),
    "test_skip_inside::power": ("SKIPPED", "skipped: meter taken away"),
    "test_xfail_by_exception::power": ("SKIPPED", "expected failure (xfail): RuntimeError: hot"),
    "test_xfail_by_limit::power": ("FAIL", "16 W is above"),
    "test_strict_xfail_by_limit::power": ("FAIL", "16 W is above"),
    "test_strict_xfail_that_passes::power": ("ERROR", "marked as xfail(strict=True): known to be hot"),
    "test_xfail_not_run::power": ("SKIPPED", "it burns"),
    "test_wrong_unit::power": ("ERROR", "'V' is a unit of voltage, expected a power"),
    "test_no_value::power": ("ERROR", "the value must be a number, not a str"),
    "test_unknown_quantity::power": ("ERROR", "unknown quantity 'pover' (did you mean 'power'"),
    "test_recorded_too_late::power": ("ERROR", "record it in the test itself"),
}
EXPECTED_OF_SUBTESTS = {
    "test_subtests::power": ("FAIL", "the test's own check failed: AssertionError"),
    "test_good_subtests::power": ("PASS", "13 W is within"),
}
if pytest.version_tuple >= (9, 0):
    RECORDED += SUBTESTS
    EXPECTED |= EXPECTED_OF_SUBTESTS
INFORMATION = {
    "test_measures_something_else::temperature",
    "test_information_beside_a_limit::temperature",
    "test_not_required::power",
}


def test_every_ending_of_a_test_has_its_verdict_and_reason(project, workers):
    project.write(test_all=RECORDED)
    run = project.run(*workers, "-rA", "-p", "no:cacheprovider")
    run.is_clean()
    assert run.verdicts == {name: verdict for name, (verdict, _) in EXPECTED.items()}
    rows = dict(zip(run.verdicts, run.rows.values(), strict=True))
    wrong = {name: rows[name]["reason"] for name, (_, says) in EXPECTED.items() if says not in rows[name]["reason"]}
    assert wrong == {}
    assert {name for name, row in rows.items() if not row["required"]} == INFORMATION
    # Who fails has a reason and a next step; nothing that did not pass has none.
    assert [name for name, row in rows.items() if row["verdict"] != "PASS" and not row["next_step"]] == []
    assert run.sheet["verdict"] == "REJECTED"
    assert run.code == 1
    # The failed subtest counts beside its test; a test whose teardown broke had passed, or measured nothing, before.
    failed_and_passed = (
        "11 failed, 8 passed" if EXPECTED_OF_SUBTESTS.keys() <= EXPECTED.keys() else "9 failed, 7 passed"
    )
    run.has(f"{failed_and_passed}, 2 skipped, 4 xfailed, 3 errors, ", "5 inconclusive", "5 invalid")


def test_each_verdict_alone_decides_exit_code_and_device(project):
    """One by one, each ending gives the same row as among the others: nothing leaks from test to test."""
    project.write(test_all=RECORDED)
    for name, code, device in (
        ("test_pass", 0, "ACCEPTED"),
        ("test_fail", 1, "REJECTED"),
        ("test_no_limit", 1, "NOT PROVEN"),
        ("test_skip_mark", 1, "NOT PROVEN"),
        ("test_not_required", 1, "NOT PROVEN"),  # there is no required row at all
        ("test_xfail_by_exception", 1, "NOT PROVEN"),
        ("test_xfail_by_limit", 1, "REJECTED"),
        ("test_teardown_error", 1, "NOT PROVEN"),
    ):
        run = project.run(f"test_all.py::{name}[SIM-0001]")
        assert (run.code, run.sheet["verdict"]) == (code, device), run.text


@pytest.mark.parametrize(
    ("test", "code"),
    [
        ("test_no_limit", 0),
        ("test_measures_nothing", 0),
        ("test_one_of_two", 0),
        ("test_pass", 0),
        ("test_fail", 1),
        ("test_exception", 1),
        ("test_skip_mark", 1),
        ("test_no_number", 1),
    ],
)
def test_allow_inconclusive_allows_that_and_nothing_else(project, test, code):
    project.write(test_all=RECORDED)
    run = project.run("--netperf-allow-inconclusive", f"test_all.py::{test}")
    assert run.code == code, run.text
    if test != "test_pass":
        assert run.sheet["verdict"] != "ACCEPTED"


def test_allow_inconclusive_with_workers(project, workers):
    project.write(test_all=RECORDED)
    good = project.run(*workers, "--netperf-allow-inconclusive", "-k", "test_no_limit or test_pass")
    bad = project.run(*workers, "--netperf-allow-inconclusive", "-k", "test_no_limit or test_exception")
    assert (good.code, bad.code) == (0, 1), good.text + bad.text
    good.has("1 inconclusive")


TRAFFIC = """
FAST = pytest.mark.netperf_link(speed="100M")
LIMIT = pytest.mark.netperf_limit(throughput=">= 50 Mbps")

@FAST
@LIMIT
def test_good(iperf3):
    iperf3.tcp()

@pytest.mark.netperf_link(speed="100M", fault={"rate": "20 Mbps"})
@LIMIT
def test_bad(iperf3):
    iperf3.tcp()

@FAST
def test_no_limit(iperf3):
    iperf3.tcp()

@FAST
@LIMIT
def test_no_traffic(iperf3):
    pass

@FAST
@pytest.mark.netperf_limit(throughput=">= 50 Mbps", direction="reverse")
def test_limit_for_another_direction(iperf3):
    iperf3.tcp()

@FAST
@pytest.mark.netperf_limit(power="<= 15 W")
def test_power_under_load(iperf3, netperf_record):
    iperf3.tcp()
    netperf_record("power", 13, "W")

@FAST
@pytest.mark.netperf_limit(throughput=">= 50 Mbps", retransmits="<= 100000", frame_loss_ratio="<= 50 %")
def test_both_protocols(iperf3):
    iperf3.tcp()
    iperf3.udp(bitrate="80 Mbps")

@FAST
@LIMIT
def test_wrong_argument(iperf3):
    iperf3.tcp(streams=0)
"""


def test_traffic(project, workers):
    project.write(test_traffic=TRAFFIC)
    run = project.run(*workers)
    run.is_clean()
    rows = {name.replace("[SIM-0001/sim-100M", "[").replace("[]", ""): row for name, row in run.rows.items()}
    found = {name: (row["verdict"], row["required"]) for name, row in rows.items()}
    assert found == {
        "test_good::throughput": ("PASS", True),
        "test_bad[/fault-rate20M]::throughput": ("FAIL", True),
        "test_no_limit::throughput": ("INCONCLUSIVE", True),
        "test_no_traffic::throughput": ("INCONCLUSIVE", True),
        "test_limit_for_another_direction::throughput": ("INCONCLUSIVE", True),
        "test_power_under_load::power": ("PASS", True),
        "test_power_under_load::throughput": ("INCONCLUSIVE", False),
        "test_both_protocols::throughput": ("PASS", True),
        "test_both_protocols::throughput#2": ("PASS", True),
        "test_both_protocols::retransmits": ("PASS", True),
        "test_both_protocols::frame_loss_ratio": ("PASS", True),
        "test_wrong_argument::throughput": ("ERROR", True),
    }
    assert run.code == 1
    bad = rows["test_bad[/fault-rate20M]::throughput"]
    assert bad["value"] < 20e6
    assert "below the required 50 Mbit/s" in bad["reason"]
    assert "no limit applies" in rows["test_no_limit::throughput"]["reason"]
    assert "was never measured" in rows["test_no_traffic::throughput"]["reason"]
    for says in ("direction reverse", "None of the limits applies"):
        assert says in rows["test_limit_for_another_direction::throughput"]["reason"]
    assert "iperf3.tcp(streams=0): expected a number of streams" in rows["test_wrong_argument::throughput"]["reason"]
    # The raw output of each run is on the sheet exactly once, and every other row of the run says where.
    for name, row in rows.items():
        if row["value"] is not None and row["quantity"] != "power":
            elsewhere = row["evidence"]["facts"].get("raw_output_in")
            home = run.rows[elsewhere.split("::", 1)[1]] if elsewhere else row
            assert '"end"' in home["evidence"]["documents"]["client"], name
            assert bool(elsewhere) != bool(row["evidence"].get("documents")), name
            assert home["conditions"]["protocol"] == row["conditions"]["protocol"], name
    run.has("1 failed" if "2 failed" not in run.text else "2 failed", "3 inconclusive")


ENGINE = """
import msgspec
from pytest_netperf.traffic import engine
from pytest_netperf.traffic.iperf3 import Iperf3Engine

class Lying(Iperf3Engine):
    factor = {factor}

    def run(self, link, workload, watch=None):
        result = super().run(link, workload, watch)
        flows = tuple(
            msgspec.structs.replace(
                flow,
                received_bytes=int(flow.received_bytes * self.factor),
                received_bps=flow.received_bps * {rate_factor},
            )
            for flow in result.flows
        )
        return msgspec.structs.replace(result, flows=flows, trusted={trusted}, reason={reason!r})

engine.make_engine = lambda name: Lying()
"""


@pytest.mark.parametrize(
    ("lie", "says"),
    [
        ({"factor": 1.5, "rate_factor": 1.5}, "did not all cross this link"),
        ({"factor": 0, "rate_factor": 1}, "No payload byte reached the receiver"),
        ({"factor": 1, "rate_factor": 1, "trusted": False, "reason": "the client was killed"}, "the client was killed"),
        ({"factor": 1, "rate_factor": float("nan")}, "not a finite number"),
    ],
    ids=["above the ceiling", "zero bytes", "not trusted", "not a number"],
)
def test_a_number_that_cannot_be_true_is_invalid_whatever_it_is(project, lie, says):
    text = ENGINE.format(**{"trusted": True, "reason": "whole", **lie}).replace(" nan,", " float('nan'),")
    project.write({"conftest.py": text}, test_lie=TRAFFIC.split("@pytest.mark.netperf_link")[0])
    run = project.run("-rA")
    (row,) = run.sheet["rows"]
    assert row["verdict"] == "INVALID", run.text
    assert says in row["reason"]
    assert (run.code, run.sheet["verdict"]) == (1, "NOT PROVEN")
    run.has("1 invalid")


def test_bytes_that_the_ports_did_not_see_are_invalid(project):
    """Fewer than the receiver claims went through the port: less than the ceiling, so only the counters can tell."""
    text = ENGINE.format(factor=4, rate_factor=4, trusted=True, reason="whole")
    project.write(
        {"conftest.py": text},
        test_lie="""
@pytest.mark.netperf_link(speed="100M", fault={"rate": "20 Mbps"})
@pytest.mark.netperf_limit(throughput=">= 50 Mbps")
def test_lie(iperf3):
    iperf3.tcp()
""",
    )
    run = project.run()
    (row,) = run.sheet["rows"]
    assert 60e6 < row["value"] < 94e6
    assert row["verdict"] == "INVALID", row["reason"]
    assert "port" in row["reason"]


@pytest.fixture
def path_without_iperf3(tmp_path: Path) -> str:
    """A PATH with everything that is in the usual one but iperf3."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for place in ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if program.name != "iperf3" and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    assert shutil.which("iperf3", path=os.fspath(folder)) is None
    return os.fspath(folder)


def test_without_iperf3_the_bench_is_at_fault_and_the_way_out_is_named(project, workers, path_without_iperf3):
    project.write(test_traffic=TRAFFIC)
    run = project.run(*workers, "-k", "test_good", env={"PATH": path_without_iperf3})
    run.is_clean()
    row = run.rows["test_good[SIM-0001/sim-100M]::throughput"]
    assert row["verdict"] == "ERROR"
    for says in ("iperf3 is not installed", "apt-get install iperf3", "--netperf-engine libiperf"):
        assert says in row["reason"]
    assert (run.code, run.sheet["verdict"]) == (1, "NOT PROVEN")


def test_a_fault_of_our_own_judging_costs_one_test_and_not_the_run(project, workers):
    project.write(
        {
            "conftest.py": """
from pytest_netperf import rows
original = rows.rows_of
def broken(plan, *args, **kwargs):
    if "test_fail" in plan.nodeid:
        raise ZeroDivisionError("a bug")
    return original(plan, *args, **kwargs)
rows.rows_of = broken
"""
        },
        test_all=RECORDED,
    )
    run = project.run(*workers, "-k", "test_pass or test_fail or test_at_the_limit")
    assert "INTERNALERROR" not in run.text
    ran = {name: verdict for name, verdict in run.verdicts.items() if verdict != "NOT RUN"}
    assert ran == {"test_pass::power": "PASS", "test_fail::power": "ERROR", "test_at_the_limit::power": "PASS"}
    assert "a fault of its own (ZeroDivisionError: a bug)" in run.rows["test_fail[SIM-0001]::power"]["reason"]
    assert (run.code, run.sheet["verdict"]) == (1, "NOT PROVEN")
