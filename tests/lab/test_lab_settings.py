"""Settings that a test asks of its ports, on real drivers: in force while it runs, refused by name, and put back."""

from __future__ import annotations

from collections.abc import Callable

from lab_guest import Guest
from lab_suite import Pair, Suite, bench, views

TESTS = """
import pytest

pytestmark = pytest.mark.netperf_limit(throughput=">= 10 kbps")
COUNTED = dict.fromkeys(("crc_errors", "missed", "drops", "pause_forward", "pause_reverse"), "<= 100")

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
@pytest.mark.netperf_limit(**COUNTED)
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

@pytest.mark.netperf_link(name="rtl8139", negotiation={"speed": "10M"})
def test_less_is_offered(netperf_link, iperf3):
    said = seen(netperf_link.a, "ethtool")
    assert "Advertised link modes:  10baseT/Full" in said
    assert "Speed: 10Mb/s" in said
    assert "Auto-negotiation: on" in said
    iperf3.tcp(duration=1, omit=0, bitrate="1 Mbps")

@pytest.mark.netperf_link(name="rtl8139")
@pytest.mark.netperf_limit(link_speed=">= 100 Mbps")
def test_less_was_agreed(netperf_link, iperf3):
    a = netperf_link.a  # once it is up: to take it up resets the card
    a.run(["ethtool", "-s", a.interface, "autoneg", "on", "advertise", "0x002"], check=True)
    assert "Speed: 10Mb/s" in seen(a, "ethtool")
    iperf3.tcp(duration=1, omit=0, bitrate="1 Mbps")

@pytest.mark.netperf_link(name="e1000e", eee=False)
def test_eee(iperf3):
    iperf3.tcp(duration=1)

@pytest.mark.netperf_link(name="vmxnet3", governor="performance")
def test_governor(iperf3):
    iperf3.tcp(duration=1)

@pytest.mark.netperf_link(name="e1000e", ring={"rx": 5000})
def test_ring(iperf3):
    iperf3.tcp(duration=1)

@pytest.mark.netperf_link(name="vmxnet3", pause={"rx": False})
def test_pause(iperf3):
    iperf3.tcp(duration=1)
"""
COUNTED = ("crc_errors", "missed", "drops", "pause_forward", "pause_reverse")
REFUSED = {
    "test_ring": "ring rx 5000; driver e1000e: Invalid argument; it has at most 4096 rx and 4096 tx entries",
    "test_pause": "pause rx off; driver vmxnet3: the driver does not know this setting",
    "test_eee": "eee off; driver e1000e: the driver does not know this setting",
    "test_governor": "governor performance; driver vmxnet3: this machine sets no frequencies",
}


def test_settings_of_a_test(lab: Guest, pair: Callable[[str], Pair], suite: Suite, survived: Callable[..., None]):
    ends = {model: pair(model) for model in ("e1000e", "vmxnet3", "rtl8139")}
    before = views(lab, ends)
    suite.write({"test_it.py": TESTS, "bench.toml": bench("LAB-1", *ends.values())})
    done = suite.run("--netperf-bench=bench.toml", timeout_s=500)
    after = views(lab, ends)
    assert done.returncode == 1, done.stdout + done.stderr
    rows = suite.sheet("LAB-1")["rows"]
    (agreed,) = [row for row in rows if row["quantity"] == "link_speed"]
    assert (agreed["verdict"], agreed["value"]) == ("FAIL", 10e6), agreed["reason"]
    assert "Port a ran at 10" in str(agreed["evidence"]["doubts"])
    rows = [row for row in rows if "test_less_was_agreed" not in row["test"]]
    counted = {row["quantity"]: row["verdict"] for row in rows if row["quantity"] != "throughput"}
    assert counted == dict.fromkeys(COUNTED, "PASS")
    rows = {row["test"].split("::")[1].split("[")[0]: row for row in rows if row["quantity"] == "throughput"}
    row = rows.pop("test_less_is_offered")
    assert row["verdict"] == "PASS", row["reason"]
    assert row["conditions"]["speed"] == 10e6
    assert row["ceiling"] < 10e6
    row = rows.pop("test_all")
    assert row["verdict"] == "PASS", row["reason"]
    assert (row["conditions"]["ring"], row["conditions"]["speed"]) == ("rx 512, tx 128", 100e6)
    assert row["ceiling"] < 100e6
    assert "/ring-rx-512-tx-128/" in row["id"]
    facts = row["evidence"]["facts"]
    assert "offloads tso off, gro off" in facts["link_settings"]["b"]
    inventory = facts["link_inventory"]["b"]
    assert inventory["rings"] == {"rx": "512 of 4096", "tx": "128 of 4096"}
    assert set(inventory["interrupts"].values()) == {"0"}
    assert inventory["connector"] == "twisted pair"
    assert {"100baseT/Full", "1000baseT/Full"} <= set(inventory["modes_supported"])
    assert {name: row["verdict"] for name, row in rows.items()} == dict.fromkeys(REFUSED, "ERROR")
    for name, said in REFUSED.items():
        assert said in rows[name]["reason"]
    for model, what in (
        ("e1000e", "settings that tests asked for"),
        ("rtl8139", "10M negotiated: as a test asked; because a port offers no more: FAIL by link_speed"),
        ("vmxnet3", "settings that its driver refuses"),
    ):
        survived(what, before[model], after[model])
