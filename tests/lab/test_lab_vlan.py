"""VLANs of a simulated switch, which the kernel of the guest has on its bridges."""

from __future__ import annotations

from collections.abc import Callable

from lab_guest import Guest
from lab_suite import Suite

BENCH = """
[[device]]
serial = "SWITCH-1"
[[device.link]]
name = "one-vlan"
topology = "switched"
speed = "100M"
simulated = true
a = { vlan = 10 }
b = { vlan = 10 }
[[device.link]]
name = "two-vlans"
topology = "switched"
speed = "100M"
simulated = true
a = { vlan = 10 }
b = { vlan = 20 }
"""
TESTS = """
import pytest

@pytest.mark.netperf_limit(throughput=">= 1 Mbps")
def test_rate(iperf3):
    iperf3.tcp(duration=2, omit=0)
"""


def test_ports_of_one_vlan_reach_each_other_and_those_of_two_do_not(
    suite: Suite, lab: Guest, survived: Callable[..., None]
):
    suite.write({"test_it.py": TESTS, "bench.toml": BENCH})
    done = suite.run("--netperf-bench=bench.toml")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "network acceptance" in done.stdout, done.stdout + done.stderr
    rows = {row["link"]: row for row in suite.sheet("SWITCH-1")["rows"]}
    assert rows["one-vlan"]["verdict"] == "PASS", rows["one-vlan"]["reason"]
    proof = rows["one-vlan"]["evidence"]["facts"]["link_proof"]
    assert proof["vlans_of_the_switch"] == {"a": 10, "b": 10}
    assert rows["two-vlans"]["verdict"] == "ERROR"
    assert "the ports of the switch are in the VLANs 10 and 20" in rows["two-vlans"]["reason"]
    survived(f"VLANs of a simulated switch on kernel {lab.release}: one passes, two do not")
