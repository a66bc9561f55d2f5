"""States of a device in a run: side by side on one sheet, NOT APPLICABLE, and the hook that puts real devices there."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROUTED = """
[[device]]
serial = "BOX-1"

  [[device.link]]
  name = "lan-wan"
  topology = "routed"
  speed = "100M"
  simulated = true

  [[device.state]]
  name = "nat"
  nat = true

  [[device.state]]
  name = "dpi"
  rate_limit = "50 Mbps"
  not_applicable = { mtu_above = 1500, reason = "it copies packets into buffers of 2 kB" }
"""
STATES = """
@pytest.mark.netperf_link(device_state=["plain", "nat", "dpi"])
@pytest.mark.netperf_limit(throughput=">= 90 % of ceiling")
def test_rate(iperf3):
    iperf3.tcp()

@pytest.mark.netperf_link(device_state=["plain", "dpi"], mtu=9000)
@pytest.mark.netperf_limit(throughput=">= 90 % of ceiling")
@pytest.mark.netperf_limit(throughput=">= 1 Mbps", device_state="dpi")
def test_jumbo(iperf3):
    iperf3.tcp()
"""


def test_the_states_of_a_device_are_rows_of_one_sheet(project):
    project.write({"bench.toml": ROUTED}, test_states=STATES)
    run = project.run("--netperf-bench=bench.toml", "--junitxml=junit.xml", "-rs")
    run.is_clean()
    rows = {name.split("[")[1].split("]")[0].partition("/")[2]: row for name, row in run.rows.items()}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "lan-wan/plain": "PASS",
        "lan-wan/nat": "PASS",
        "lan-wan/dpi": "FAIL",  # the device, as the state says, and no fault of the tester
        "lan-wan/plain/mtu9000": "PASS",
        "lan-wan/dpi/mtu9000": "NOT APPLICABLE",
    }
    assert {row["conditions"]["device_state"] for row in rows.values()} == {"plain", "nat", "dpi"}
    assert 43e6 < rows["lan-wan/dpi"]["value"] < 49e6
    reason = "state 'dpi' does not exist at MTU 9000 (at most 1500): it copies packets into buffers of 2 kB"
    assert rows["lan-wan/dpi/mtu9000"]["reason"] == reason
    assert rows["lan-wan/dpi/mtu9000"]["value"] is None
    assert run.sheet["verdict"] == "REJECTED"
    assert run.sheet["sentence"].startswith("1 of 4 required rows failed: 100M port lan-wan (MTU 1500, forward, ")
    assert "1 row is not applicable." in run.sheet["sentence"]
    facts = rows["lan-wan/nat"]["evidence"]["facts"]
    assert "the device's own address" in facts["link_device_state"]["nat"]
    assert facts["link_proof"]["ttl_falls_by"] == 1
    assert facts["port_device_a_rx_bytes"] > facts["received_bytes"]
    assert facts["measured_forwarding_rate"] == pytest.approx(facts["measured_frame_rate"], rel=0.05)
    assert facts["forwarding_from"].endswith(" arrived at port b")
    assert "1 failed, 3 passed, 1 not applicable" in run.text
    cases = {case.get("name"): case for case in ET.parse("junit.xml").iter("testcase")}
    skipped = cases["test_jumbo[BOX-1/lan-wan/dpi/mtu9000]"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == f"NOT APPLICABLE: {reason}"


@pytest.mark.parametrize(
    ("marks", "code", "verdict"),
    [('device_state=["plain", "dpi"], mtu=9000', 0, "ACCEPTED"), ('device_state="dpi", mtu=9000', 1, "NOT PROVEN")],
)
@pytest.mark.parametrize("without", [(), ("-pno:skipping",)], ids=["", "without the plugin for marks like skip"])
def test_what_is_not_applicable_has_no_say_and_proves_nothing(project, marks, code, verdict, without):
    project.write(
        {"bench.toml": ROUTED},
        test_states=f"""
@pytest.mark.netperf_link({marks})
@pytest.mark.netperf_limit(power="<= 15 W")
def test_power(netperf_link, netperf_record):
    netperf_record("power", 5, "W")
""",
    )
    run = project.run("--netperf-bench=bench.toml", *without)
    run.is_clean()
    assert (run.code, run.sheet["verdict"]) == (code, verdict)
    assert run.sheet["counts"]["NOT APPLICABLE"] == 1


SURICATA = ROUTED.replace('name = "nat"\n  nat = true', 'name = "ips"\n  suricata = { side = "both" }')


def test_what_is_not_installed_is_skipped_with_the_reason(project, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")  # Debian 12 has no package of it
    project.write(
        {"bench.toml": SURICATA},
        test_states="""
@pytest.mark.netperf_link(device_state="ips")
@pytest.mark.netperf_limit(throughput=">= 90 % of ceiling")
def test_rate(iperf3):
    iperf3.tcp()
""",
    )
    run = project.run("--netperf-bench=bench.toml", "-rs")
    run.is_clean()
    (row,) = run.rows.values()
    assert row["verdict"] == "SKIPPED", row["reason"]
    assert "Suricata is not installed where this state needs it (`suricata -V`: " in row["reason"]
    assert (run.code, run.sheet["verdict"]) == (1, "NOT PROVEN")
    assert "1 skipped" in run.text


# The hook

REAL = """
[[device]]
serial = "BOX-1"

  [[device.link]]
  name = "p"
  speed = "100M"
  simulated = true

  [[device.state]]
  name = "ips"
"""
ASKS = """
pytestmark = pytest.mark.netperf_limit(power="<= 15 W")

def note(what):
    with open("log", "a") as log:
        log.write(what + "\\n")

@pytest.mark.netperf_link(device_state=["plain", "ips"])
def test_it(netperf_link, netperf_record):
    note("measure")
    netperf_record("power", 5, "W")

def test_whatever_the_state(netperf_link, netperf_record):
    note("measure")
    netperf_record("power", 5, "W")
"""
HOOK = """
def pytest_netperf_device_state(device, state):
    with open("log", "a") as log:
        log.write(f"{device.serial} {state}\\n")
    %s
"""


def test_a_real_device_is_put_into_each_state_and_back(project):
    project.write(
        {"bench.toml": REAL, "conftest.py": HOOK % 'return f"`ips status` says {state}"'}, test_it=ASKS
    )  # fmt: skip
    run = project.run("--netperf-bench=bench.toml")
    run.is_clean()
    assert (run.code, run.sheet["verdict"]) == (0, "ACCEPTED")
    log = Path("log").read_text().splitlines()
    assert log == ["BOX-1 plain", "measure", "BOX-1 ips", "measure", "BOX-1 plain", "measure"]


NOT_PROVED = {
    "raises": ("raise OSError('no route to host')", "of raises could not be entered: OSError: no route to host"),
    "not-mine": ("return None", "of not-mine: nobody puts this device into it. Implement the hook"),
    "yes": ("return True", "the hook pytest_netperf_device_state returned True; it must return a sentence"),
    "blank": ("return '  '", "returned '  '; it must return a sentence that says how the state was proved"),
}


def test_a_state_that_is_not_proved_is_an_error_of_the_bench(project):
    body = "\n    ".join(f"if device.serial == {serial!r}: {what}" for serial, (what, _) in NOT_PROVED.items())
    project.write(
        {"bench.toml": "".join(REAL.replace("BOX-1", serial) for serial in NOT_PROVED), "conftest.py": HOOK % body},
        test_it=ASKS.replace('["plain", "ips"]', '"ips"'),
    )
    run = project.run("--netperf-bench=bench.toml", "test_it.py::test_it")
    assert run.code == 1
    for serial, (_, says) in NOT_PROVED.items():
        row = run.rows[f"test_it[{serial}/p/ips]::power"]
        assert row["verdict"] == "ERROR"
        assert row["reason"].startswith("device state 'ips' ")
        assert says in row["reason"]
        assert run.sheets[serial]["verdict"] == "NOT PROVEN"
        assert f"ERROR: device state 'plain' of {serial}" in run.text  # nobody knows what it was left in
    assert "measure" not in Path("log").read_text()


def test_a_device_that_cannot_be_put_back_fails_the_run(project):
    body = "assert state != 'plain', 'the box does not answer'; return 'it says so'"
    project.write({"bench.toml": REAL, "conftest.py": HOOK % body}, test_it=ASKS.replace('["plain", "ips"]', '"ips"'))
    run = project.run("--netperf-bench=bench.toml", "test_it.py::test_it")
    assert run.sheet["verdict"] == "ACCEPTED"  # what was measured was measured
    assert run.code == 1
    assert (
        "ERROR: device state 'plain' of BOX-1 could not be entered: AssertionError: the box does not answer" in run.text
    )


@pytest.mark.needs_xdist
def test_two_workers_would_change_one_device_under_each_other(project):
    project.write({"bench.toml": REAL, "conftest.py": HOOK % "return 'it says so'"}, test_it=ASKS)
    run = project.run("-n1", "--netperf-bench=bench.toml", "test_it.py::test_it")
    row = run.rows["test_it[BOX-1/p/ips]::power"]
    assert (row["verdict"], run.code) == ("ERROR", 1)
    assert "with pytest-xdist, two workers would change one device" in row["reason"]


def test_wrong_use(project):
    mistakes = {
        'device_state="isp"': "device BOX-1 has no state 'isp' (did you mean 'ips'?); it has ips, plain",
        "device_state=5": "device_state must be the name of a state of the device, such as 'plain' or 'nat'",
        "device_state=[]": "the list is empty, so the test would not run at all",
    }
    tests = {
        f"test_{number}": ASKS.replace('device_state=["plain", "ips"]', mark) for number, mark in enumerate(mistakes)
    }
    project.write({"bench.toml": REAL}, **tests)
    run = project.run("--netperf-bench=bench.toml", "--collect-only")
    assert run.code == 2
    for says in mistakes.values():
        assert says in run.text
    assert "Traceback" not in run.text
