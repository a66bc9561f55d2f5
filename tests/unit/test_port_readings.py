"""Readings of real drivers (QEMU's cards, Linux 6.1), held against what ethtool and sysfs said of them, and the rules.

samples/ports/qemu.json has what `links.port_facts` read of each port, and the text of ethtool at the same moment.
"""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import msgspec
import pytest
from doubt_samples import REPLACE, fair, look, run, tcp_flow

from pytest_netperf.links import ethtool
from pytest_netperf.links.bus import bus_of
from pytest_netperf.links.netlink import attribute
from pytest_netperf.links.port_facts import driver_counters
from pytest_netperf.observe.observation import PortFacts
from pytest_netperf.physics import goodput_ceiling_bps

SAMPLE = json.loads((Path(__file__).parent / "samples/ports/qemu.json").read_text("utf-8"))
PORTS = SAMPLE["ports"]
E1000E, INSIDE, HALF, DOWN = (
    "e1000e below a root port",
    "e1000e inside the root",
    "e1000e, 100 Mbit/s half duplex",
    "e1000e, down",
)


def facts(name: str) -> PortFacts:
    return msgspec.convert(PORTS[name]["facts"], PortFacts)


def said(name: str, command: str) -> dict[str, str]:
    """``Speed`` -> ``1000Mb/s`` of what ethtool printed."""
    return dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in PORTS[name][command])


@pytest.mark.parametrize("name", PORTS)
def test_speed_duplex_and_autoneg_are_what_ethtool_says(name):
    link, port = said(name, "ethtool"), facts(name)
    if link["Link detected"] == "no":
        assert (port.speed_bps, port.duplex) == (None, None)
        assert link["Speed"] == "100Mb/s"  # the driver says what it was set to; that is no link
    elif "Speed" in link:
        assert link["Speed"] == f"{(port.speed_bps or 0) / 1e6:g}Mb/s"
        assert link["Duplex"].lower() == port.duplex
    else:
        assert (port.speed_bps, port.duplex, port.autoneg) == (None, None, None)
    if "Auto-negotiation" in link:
        assert link["Auto-negotiation"] == ("on" if port.autoneg else "off")


@pytest.mark.parametrize("name", [name for name in PORTS if "ethtool -i" in PORTS[name]])
def test_driver_version_and_bus_are_what_ethtool_says(name):
    port = facts(name)
    assert said(name, "ethtool -i") == {
        "driver": port.driver,
        "version": port.version or "",
        "firmware-version": port.firmware or "",
        "bus-info": port.bus_address or "",
    }


@pytest.mark.parametrize("name", [name for name in PORTS if "ethtool -k" in PORTS[name]])
def test_offloads_are_what_ethtool_says(name):
    found = facts(name).offloads
    for short, long in (
        ("tso", "tcp-segmentation-offload"),
        ("gso", "generic-segmentation-offload"),
        ("gro", "generic-receive-offload"),
        ("lro", "large-receive-offload"),
        ("tx-checksum", "tx-checksumming"),
        ("rx-checksum", "rx-checksumming"),
        ("scatter-gather", "scatter-gather"),
    ):
        state, _, why = said(name, "ethtool -k")[long].partition(" ")
        assert found[short] == ("on" if state == "on" else "cannot"), short
        # nobody switched anything off there; for checksums and scatter-gather ethtool sums up several features
        assert why in {"on": ("",), "off": ("[fixed]", "[requested on]", "")}[state]


@pytest.mark.parametrize("name", [name for name in PORTS if "ethtool -a" in PORTS[name]])
def test_pause_settings_are_what_ethtool_says(name):
    port, listed = facts(name), said(name, "ethtool -a")
    states = {"on": True, "off": False}
    expected = tuple(states.get(listed.get(what, "")) for what in ("Autonegotiate", "RX", "TX"))
    assert (port.pause_autoneg, port.pause_rx, port.pause_tx) == expected


def test_what_was_switched_off_is_off():
    port = facts(HALF)
    assert {name for name, state in port.offloads.items() if state == "off"} == {"tso", "gro"}
    assert (port.pause_rx, port.pause_tx) == (False, True)


@pytest.mark.parametrize("name", [name for name in PORTS if "ethtool -S" in PORTS[name]])
def test_counters_are_those_of_the_driver(name):
    port = facts(name)
    assert driver_counters(PORTS[name]["ethtool -S"]) == port.counters
    expected = {"rx_pause", "tx_pause", "rx_crc_errors", "rx_missed"} if port.driver == "e1000e" else set()
    assert set(port.counters) == expected


@pytest.mark.parametrize(
    ("statistics", "counters"),
    [
        ({}, {}),
        ({"rx_packets": 5}, {}),
        ({"rx_flow_control_xon": 2, "rx_flow_control_xoff": 3, "rx_missed_errors": 0}, {"rx_pause": 5, "rx_missed": 0}),
        ({"port.link_xoff_tx": 7, "port.link_xon_tx": 1}, {"tx_pause": 8}),
        (
            {"rx_pause_ctrl_phy": 9, "rx_global_pause": 9, "rx_global_pause_duration": 2_500_000},
            {"rx_pause": 9, "rx_pause_s": 2.5},
        ),
        ({"rx_missed": 4, "align_errors": 1}, {"rx_missed": 4}),
    ],
)
def test_counters_have_one_name_for_all_drivers(statistics, counters):
    assert driver_counters(statistics) == counters


def test_the_bus_is_what_sysfs_says(tmp_path):
    """The same tree again, from the values that were written down."""
    places = {port["sysfs"] for port in PORTS.values() if "sysfs" in port}
    for line in SAMPLE["pci"]:
        if (found := line.split(" ", 2))[0].count(":") == 2:
            address, attribute_name, value = found
            for place in {place.partition(address)[0] for place in places if f"/{address}/" in place}:
                file = tmp_path / f"{place.removeprefix('/sys/')}{address}/{attribute_name}"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"{value}\n")
    (tmp_path / "class/net").mkdir(parents=True)
    sysfs = os.open(tmp_path, os.O_RDONLY)
    try:
        for name, port in PORTS.items():
            if "sysfs" not in port:
                continue
            place = port["sysfs"].removeprefix("/sys/")
            (tmp_path / place).mkdir(parents=True)
            interface = Path(place).name
            (tmp_path / "class/net" / interface).symlink_to(f"../../{place}")
            read, written = bus_of(interface, sysfs), port["facts"]
            assert (read["pcie"], read["aspm"]) == (written["pcie"], written["aspm"]), name
    finally:
        os.close(sysfs)
    assert [len(port["facts"]["pcie"]) for port in PORTS.values()] == [1, 0, 1, 0, 0, 1, 1]


# ---- and the rules ---------------------------------------------------------------------------------------------------


def doubts(a: str, b: str, rated_bps: float, *, before: str | None = None, share: float = 0.999) -> dict[str, str]:
    """Name -> effect of the doubts about a forward run over two of these ports."""
    ceiling = goodput_ceiling_bps(rated_bps, 1500)
    result = run(tcp_flow(rate_bps=ceiling * share))
    observed = REPLACE(
        fair(result),
        a_port_before=facts(before or a),
        a_port_after=facts(a),
        b_port_before=facts(b),
        b_port_after=facts(b),
    )
    found = look(result, observed, simulated=False, speed_bps=rated_bps, ceiling_bps=ceiling)
    return {doubt.name: doubt.kind for doubt in found.named}


def test_two_good_ports_have_no_doubt():
    assert doubts(E1000E, INSIDE, 1e9) == {}
    assert doubts(E1000E, INSIDE, 1e9, share=0.5) == {}
    assert doubts("8139cp", "8139cp", 100e6, share=0.5) == {}


def test_a_port_that_runs_at_half_duplex_below_its_rating_with_its_offloads_off():
    assert doubts(HALF, HALF, 1e9, share=0.09) == {
        "Link speed below the rated one": "device",
        "Half duplex": "device",
        "Offload off at the tester": "note",
    }


def test_one_that_went_there_during_the_run():
    assert doubts(HALF, INSIDE, 1e9, before=E1000E, share=0.5) == {
        "Link changed during the run": "device",
        "Link speed below the rated one": "device",
        "Half duplex": "device",
    }


def test_a_bus_that_is_too_narrow_for_what_a_card_is_sold_for():
    assert doubts("vmxnet3", "vmxnet3", 10e9, share=0.19) == {
        "Link speed below the rated one": "device",
        "PCIe below need": "device",
    }
    assert "USB below need" in doubts("a port on USB", INSIDE, 100e6, share=0.09)


# ---- the kernel's own pause counters, which none of those drivers has ------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "counters"),
    [
        ([(2, 5), (3, 7)], {"tx_pause": 5, "rx_pause": 7}),  # ETHTOOL_A_PAUSE_STAT_TX_FRAMES and _RX_FRAMES
        ([(3, 2**40)], {"rx_pause": 2**40}),
        ([], {}),
    ],
)
def test_standard_pause_counters(monkeypatch, inside, counters):
    """An answer in the form of linux/ethtool_netlink.h."""
    nested = b"".join(attribute(kind, struct.pack("=Q", value)) for kind, value in inside)
    settings = b"".join(attribute(kind, b"\1") for kind in (2, 3, 4))
    answer = struct.pack("=BBxx", 22, 1) + attribute(1 | 0x8000, b"") + settings + attribute(5 | 0x8000, nested)
    asked = []

    def exchange(protocol, kind, body, *, dump=False):
        asked.append((protocol, kind))
        return [struct.pack("=BBxx", 1, 2) + attribute(1, struct.pack("=H", 33))] if kind == 16 else [answer]

    ethtool._ethtool_family.cache_clear()
    monkeypatch.setattr(ethtool, "exchange", exchange)
    try:
        assert ethtool.standard_pause("eth0") == counters
        assert asked == [(16, 16), (16, 33)]
    finally:
        ethtool._ethtool_family.cache_clear()


def test_a_kernel_without_them(monkeypatch):
    def exchange(*_, **__):
        raise OSError(2, "netlink")

    ethtool._ethtool_family.cache_clear()
    monkeypatch.setattr(ethtool, "exchange", exchange)
    assert ethtool.standard_pause("eth0") == {}
