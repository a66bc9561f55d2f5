"""What the plugin reads of real drivers, against ethtool and sysfs of the same moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from lab_guest import PAIRS, Guest
from lab_suite import PYTHON, Pair

FACTS = """
import json, socket, sys
from pytest_netperf.links.port_facts import read_port_facts
print(json.dumps({name: read_port_facts(name, socket.if_nametoindex(name)) for name in sys.argv[1:]}))
"""


@pytest.fixture(scope="session")
def facts(lab: Guest) -> dict[str, dict[str, Any]]:
    """Of the first end of each pair, read in one process while all of them are up; by model."""
    names = {}
    for model, cards in PAIRS.items():
        listed = lab.run(["sh", "-c", f"grep -l {cards.a.mac} /sys/class/net/*/address"]).check()
        names[model] = listed.split("/")[4]
    read = json.loads(lab.run([PYTHON, "-c", FACTS, *names.values()], warm=True).check())
    return {model: read[name] for model, name in names.items()}


@pytest.mark.parametrize("model", PAIRS)
def test_driver_firmware_and_bus_are_those_of_ethtool(
    facts: dict[str, dict[str, Any]], pair: Callable[[str], Pair], model: str
):
    ends = pair(model)
    said = ends.guest.run(["ethtool", "-i", ends.a]).check()
    theirs = {key: value.strip() for key, _, value in (line.partition(":") for line in said.splitlines())}
    ours = facts[model]
    assert ours["driver"] == theirs["driver"]
    assert (ours["firmware"] or "") == theirs["firmware-version"]
    assert ours["bus_address"] in (theirs["bus-info"], None)


def test_link_pause_and_bus_of_a_gigabit_card(lab: Guest, pair: Callable[[str], Pair]):
    ends = pair("e1000e")
    ends.up()
    port = json.loads(lab.run([PYTHON, "-c", FACTS, ends.a], warm=True).check())[ends.a]
    said = lab.run(["ethtool", ends.a]).check()
    assert "Speed: 1000Mb/s" in said
    assert "Duplex: Full" in said
    assert "Auto-negotiation: on" in said
    assert (port["speed_bps"], port["duplex"], port["autoneg"]) == (1e9, "full", True)
    said = dict(
        line.replace("\t", "").split(":") for line in lab.run(["ethtool", "-a", ends.a]).check().splitlines()[1:4]
    )
    for ours, theirs in (("pause_autoneg", "Autonegotiate"), ("pause_rx", "RX"), ("pause_tx", "TX")):
        assert port[ours] == (said[theirs] == "on")
    (hop,) = port["pcie"]
    assert f"{hop['speed_gtps']:.1f} GT/s PCIe" == ends.read(ends.a, "device/current_link_speed")
    assert str(hop["width"]) == ends.read(ends.a, "device/current_link_width")
    assert ends.read(ends.a, "device/max_link_speed").startswith(f"{hop['lower_max_speed_gtps']:.1f} GT/s")
    assert lab.run(["readlink", "-f", f"/sys/class/net/{ends.a}/device"]).check().split("/")[-2] == hop["upper"]
    counters = lab.run(["ethtool", "-S", ends.a]).check()
    assert f"rx_missed_errors: {port['counters']['rx_missed']:g}\n" in counters
    ends.down()
