"""Settings that a test asks of its ports, on real drivers: in force while it runs, refused by name, and put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab_guest import Guest
from lab_suite import Pair, Suite, bench

TESTS = """
import pytest

pytestmark = pytest.mark.netperf_limit(throughput=">= 10 kbps")

def seen(end, *command):
    return end.run([*command, end.interface], check=True).stdout

@pytest.mark.netperf_link(
    name="e1000e",
    offloads={"tso": False, "gro": False},
    ring={"rx": 512, "tx": 128},
    pause={"autoneg": False, "rx": False, "tx": False},
    irq_cpus="0",
)
def test_all(netperf_link, iperf3):
    for end in (netperf_link.a, netperf_link.b):
        offloads = seen(end, "ethtool", "-k")
        assert "tcp-segmentation-offload: off" in offloads
        assert "generic-receive-offload: off" in offloads
        rings = [line.split() for line in seen(end, "ethtool", "-g").split("Current")[1].splitlines()]
        assert ["RX:", "512"] in rings
        assert ["TX:", "128"] in rings
        assert seen(end, "ethtool", "-a").count("off") == 3
    iperf3.tcp(duration=1, omit=0, bitrate="5 Mbps")

@pytest.mark.netperf_link(name="e1000e", negotiation={"speed": "100M", "autoneg": False})
def test_forced(netperf_link, iperf3):
    assert "Speed: 100Mb/s" in seen(netperf_link.b, "ethtool")
    iperf3.tcp(duration=1, omit=0, bitrate="5 Mbps")

@pytest.mark.netperf_link(name="e1000e", ring={"rx": 5000})
def test_ring(iperf3):
    iperf3.tcp(duration=1)

@pytest.mark.netperf_link(name="e1000e", ring={"rx": 100})
def test_rounded(iperf3):
    iperf3.tcp(duration=1)

@pytest.mark.netperf_link(name="vmxnet3", pause={"rx": False})
def test_pause(iperf3):
    iperf3.tcp(duration=1)

@pytest.mark.netperf_link(name="vmxnet3", negotiation={"speed": "100M"})
def test_negotiation(iperf3):
    iperf3.tcp(duration=1)
"""
PLAIN = """
def test_plain(iperf3):
    iperf3.tcp(duration=1)
"""
REFUSED = {
    "test_ring": "ring rx 5000; driver e1000e: Invalid argument; it has at most 4096 rx and 4096 tx entries",
    "test_rounded": "ring rx 100; driver e1000e: read back it has rx 104",
    "test_pause": "pause rx off; driver vmxnet3: the driver does not know this setting",
    "test_negotiation": "negotiation 100M full duplex, negotiated; driver vmxnet3: it has no such link mode",
}


def rows(suite: Suite, serial: str) -> dict[str, dict[str, Any]]:
    """By the name of their test."""
    return {row["test"].split("::")[1].split("[")[0]: row for row in suite.sheet(serial)["rows"]}


def test_settings_of_a_test(lab: Guest, pair: Callable[[str], Pair], suite: Suite, survived: Callable[..., None]):
    ends = {model: pair(model) for model in ("e1000e", "vmxnet3")}
    before = {model: each.view() for model, each in ends.items()}
    suite.write({"test_it.py": TESTS, "bench.toml": bench("LAB-1", *ends.values())})
    done = suite.run("--netperf-bench=bench.toml")
    after = {model: each.view() for model, each in ends.items()}
    assert done.returncode == 1, done.stdout + done.stderr
    found = rows(suite, "LAB-1")
    forced = found.pop("test_forced")
    assert forced["verdict"] == "PASS", forced["reason"]
    assert forced["conditions"]["speed"] == 100e6
    assert forced["ceiling"] < 100e6
    row = found.pop("test_all")
    assert row["verdict"] == "PASS", row["reason"]
    assert row["conditions"]["ring"] == "rx 512, tx 128"
    assert "/ring-rx-512-tx-128/" in row["id"]
    assert "offloads tso off, gro off" in row["evidence"]["facts"]["link_settings"]["b"]
    assert {name: row["verdict"] for name, row in found.items()} == dict.fromkeys(REFUSED, "ERROR")
    for name, said in REFUSED.items():
        assert said in found[name]["reason"]
    for model in ends:
        survived(f"settings that tests asked for on {model}", before[model], after[model])


def test_a_link_below_its_speed_fails_before_any_traffic(
    pair: Callable[[str], Pair], suite: Suite, survived: Callable[..., None]
):
    """A bench file says 1G of a pair of Fast Ethernet cards."""
    ends = pair("rtl8139")
    before = ends.view()
    suite.write({"test_it.py": TESTS.split("@")[0] + PLAIN, "bench.toml": bench("LAB-1", ends)})
    done = suite.run("--netperf-bench=bench.toml")
    assert done.returncode == 1, done.stdout + done.stderr
    row = rows(suite, "LAB-1")["test_plain"]
    assert row["verdict"] == "FAIL", row["reason"]
    assert "port a negotiated 100M full duplex, and the link is one of 1G" in row["reason"]
    assert row["value"] is None
    survived("a link that trained below its speed", before, ends.view())
