"""Settings that a test asks of its ports, on real drivers: in force while it runs, refused by name, and put back."""

from __future__ import annotations

from collections.abc import Callable

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
    negotiation={"speed": "100M", "autoneg": False},
    irq_cpus="0",
)
def test_all(netperf_link, iperf3):
    b = netperf_link.b
    offloads = seen(b, "ethtool", "-k")
    assert "tcp-segmentation-offload: off" in offloads
    assert "generic-receive-offload: off" in offloads
    rings = [line.split() for line in seen(b, "ethtool", "-g").split("Current")[1].splitlines()]
    assert ["RX:", "512"] in rings
    assert ["TX:", "128"] in rings
    assert seen(b, "ethtool", "-a").count("off") == 3
    assert "Speed: 100Mb/s" in seen(b, "ethtool")
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

@pytest.mark.netperf_link(name="rtl8139")
def test_below_its_speed(iperf3):
    iperf3.tcp(duration=1)
"""
REFUSED = {
    "test_ring": "ring rx 5000; driver e1000e: Invalid argument; it has at most 4096 rx and 4096 tx entries",
    "test_rounded": "ring rx 100; driver e1000e: read back it has rx 104",
    "test_pause": "pause rx off; driver vmxnet3: the driver does not know this setting",
}


def test_settings_of_a_test(lab: Guest, pair: Callable[[str], Pair], suite: Suite, survived: Callable[..., None]):
    """And a link of 1G, by its bench file, between two cards of Fast Ethernet."""
    ends = {model: pair(model) for model in ("e1000e", "vmxnet3", "rtl8139")}
    before = {model: each.view() for model, each in ends.items()}
    suite.write({"test_it.py": TESTS, "bench.toml": bench("LAB-1", *ends.values())})
    done = suite.run("--netperf-bench=bench.toml")
    after = {model: each.view() for model, each in ends.items()}
    assert done.returncode == 1, done.stdout + done.stderr
    rows = {row["test"].split("::")[1].split("[")[0]: row for row in suite.sheet("LAB-1")["rows"]}
    row = rows.pop("test_all")
    assert row["verdict"] == "PASS", row["reason"]
    assert (row["conditions"]["ring"], row["conditions"]["speed"]) == ("rx 512, tx 128", 100e6)
    assert row["ceiling"] < 100e6
    assert "/ring-rx-512-tx-128/" in row["id"]
    assert "offloads tso off, gro off" in row["evidence"]["facts"]["link_settings"]["b"]
    row = rows.pop("test_below_its_speed")
    assert (row["verdict"], row.get("value")) == ("FAIL", None), row["reason"]
    assert "port a negotiated 100M full duplex, and the link is one of 1G" in row["reason"]
    assert {name: row["verdict"] for name, row in rows.items()} == dict.fromkeys(REFUSED, "ERROR")
    for name, said in REFUSED.items():
        assert said in rows[name]["reason"]
    for model, what in zip(
        ends, ("settings that tests asked for", "a setting refused", "a link below its speed"), strict=True
    ):
        survived(f"{what} on {model}", before[model], after[model])
