"""What sysfs says of the bus of a port: trees as the kernel makes them, and as it makes them rarely."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_netperf.links.bus import bus_of

ROOT_PORT = "pci0000:00/0000:00:1c.0"
CARD = f"{ROOT_PORT}/0000:01:00.0"


class Tree:
    """A sysfs of our own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "class/net").mkdir(parents=True)

    def function(self, path: str, current: str | None, width: str, most: str, most_width: str) -> None:
        folder = self.folder / "devices" / path
        folder.mkdir(parents=True, exist_ok=True)
        values = {"current_link_speed": current, "current_link_width": width}
        values |= {"max_link_speed": most, "max_link_width": most_width}
        for name, value in values.items():
            if value is not None:
                (folder / name).write_text(f"{value}\n")

    def port(self, path: str, name: str = "eth0") -> None:
        (self.folder / f"devices/{path}/net/{name}").mkdir(parents=True)
        (self.folder / f"class/net/{name}").symlink_to(f"../../devices/{path}/net/{name}")

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(f"{text}\n")

    def read(self, name: str = "eth0") -> dict:
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            return bus_of(name, fd)
        finally:
            os.close(fd)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_card_below_a_root_port(tree):
    tree.function(ROOT_PORT, "5.0 GT/s PCIe", "1", "8.0 GT/s PCIe", "4")
    tree.function(CARD, "5.0 GT/s PCIe", "1", "5.0 GT/s PCIe", "1")
    tree.port(CARD)
    for state, value in (("l1_aspm", 1), ("l0s_aspm", 0), ("l1_2_aspm", 1), ("clkpm", 1)):
        tree.write(f"devices/{CARD}/link/{state}", str(value))
    tree.write("module/pcie_aspm/parameters/policy", "default performance [powersave] powersupersave")
    assert tree.read() == {
        "pcie": [
            {
                "upper": "0000:00:1c.0",
                "lower": "0000:01:00.0",
                "speed_gtps": 5.0,
                "width": 1,
                "upper_max_speed_gtps": 8.0,
                "upper_max_width": 4,
                "lower_max_speed_gtps": 5.0,
                "lower_max_width": 1,
            }
        ],
        "aspm": ["l1_aspm", "l1_2_aspm"],
        "aspm_policy": "powersave",
        "usb_bps": None,
    }


def test_through_a_switch_there_are_two_links(tree):
    """Root port, the switch's port up, its port down, the card: the two ports of the switch are no link."""
    path = ROOT_PORT
    tree.function(path, "8.0 GT/s PCIe", "4", "8.0 GT/s PCIe", "4")
    for address, speed in (("0000:01:00.0", "8.0"), ("0000:02:01.0", "2.5"), ("0000:03:00.0", "2.5")):
        path += f"/{address}"
        tree.function(path, f"{speed} GT/s PCIe", "4", "8.0 GT/s PCIe", "4")
    tree.port(path)
    hops = tree.read()["pcie"]
    assert [(hop["upper"], hop["lower"], hop["speed_gtps"]) for hop in hops] == [
        ("0000:00:1c.0", "0000:01:00.0", 8.0),
        ("0000:02:01.0", "0000:03:00.0", 2.5),
    ]


def test_a_virtual_function_leaves_it_to_its_root_port(tree):
    tree.function(ROOT_PORT, "8.0 GT/s PCIe", "8", "16.0 GT/s PCIe", "16")
    tree.function(CARD, "Unknown", "0", "Unknown", "255")
    tree.port(CARD)
    (hop,) = tree.read()["pcie"]
    assert (hop["speed_gtps"], hop["width"]) == (8.0, 8)
    assert (hop["lower_max_speed_gtps"], hop["lower_max_width"]) == (None, None)


def test_a_card_inside_the_root_and_one_that_is_not_pci_express_have_no_link(tree):
    tree.function("pci0000:00/0000:00:1f.6", None, None, None, None)
    tree.port("pci0000:00/0000:00:1f.6")
    tree.function("pci0000:00/0000:00:1e.0/0000:05:00.0", None, None, None, None)
    tree.port("pci0000:00/0000:00:1e.0/0000:05:00.0", "eth1")
    for name in ("eth0", "eth1"):
        assert tree.read(name) == {"pcie": [], "aspm": None, "aspm_policy": None, "usb_bps": None}


def test_a_root_below_a_root_begins_anew(tree):
    path = "pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0"
    tree.function(path, "8.0 GT/s PCIe", "4", "8.0 GT/s PCIe", "4")
    path += "/10000:e1:00.0"
    tree.function(path, "8.0 GT/s PCIe", "4", "8.0 GT/s PCIe", "4")
    tree.port(path)
    assert [hop["upper"] for hop in tree.read()["pcie"]] == ["10000:e0:06.0"]


def test_nothing_enabled_is_another_thing_than_not_known(tree):
    tree.function(ROOT_PORT, "5.0 GT/s PCIe", "1", "5.0 GT/s PCIe", "1")
    tree.function(CARD, "5.0 GT/s PCIe", "1", "5.0 GT/s PCIe", "1")
    tree.port(CARD)
    assert tree.read()["aspm"] is None
    tree.write(f"devices/{CARD}/link/l1_aspm", "0")
    assert tree.read()["aspm"] == []


@pytest.mark.parametrize(
    ("device", "speed", "bps"),
    [("2-1", "480", 480e6), ("2-1.4.2", "5000", 5e9), ("2-1", "1.5", 1.5e6), ("2-1", None, None), ("2-1", "?", None)],
)
def test_a_port_on_usb(tree, device, speed, bps):
    path = f"pci0000:00/0000:00:14.0/usb2/{device}"
    tree.function("pci0000:00/0000:00:14.0", None, None, None, None)
    tree.write("devices/pci0000:00/0000:00:14.0/usb2/speed", "10000")
    tree.write("devices/pci0000:00/0000:00:14.0/link/l1_aspm", "1")
    tree.port(f"{path}/{device}:1.0")
    if speed is not None:
        tree.write(f"devices/{path}/speed", speed)
    assert tree.read() == {"pcie": [], "aspm": None, "aspm_policy": None, "usb_bps": bps}


def test_a_virtio_port_has_the_bus_of_its_function(tree):
    tree.function(ROOT_PORT, "2.5 GT/s PCIe", "1", "16.0 GT/s PCIe", "1")
    tree.function(CARD, "2.5 GT/s PCIe", "1", "2.5 GT/s PCIe", "1")
    tree.port(f"{CARD}/virtio3")
    assert [hop["lower"] for hop in tree.read()["pcie"]] == ["0000:01:00.0"]


def test_no_bus_and_no_such_port(tree):
    tree.port("virtual")
    assert tree.read() == {"pcie": [], "aspm": None, "aspm_policy": None, "usb_bps": None}
    assert tree.read("gone")["pcie"] is None
