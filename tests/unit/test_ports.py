"""What a port is called, and which one a text means."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.errors import LinkError
from pytest_netperf.links.ports import HostPort, find_port

FIRST = HostPort(
    name="enp4s0",
    index=3,
    altnames=("eno7", "sfp-left"),
    mac="00:00:5e:00:53:01",
    permanent_mac="00:00:5e:00:53:01",
    pci="0000:04:00.0",
    driver="mlx4_en",
)
SECOND = replace(FIRST, name="enp4s0d1", index=4, altnames=(), mac="00:00:5e:00:53:02", permanent_mac=None, dev_port=1)
USB = HostPort(
    name="enx1", index=5, mac="02:00:00:00:00:09", permanent_mac="00:00:5e:00:53:09", driver="r8152", usb=True
)
VLAN = HostPort(name="enp4s0.7", index=6, mac="00:00:5e:00:53:01", kind="vlan", virtual=True)
PORTS = [VLAN, FIRST, SECOND, USB]


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("pci-0000:04:00.0", FIRST),
        ("pci-0000:04:00.0/0", FIRST),
        ("pci-0000:04:00.0/1", SECOND),
        ("mac-00:00:5e:00:53:01", FIRST),  # not the VLAN on it, which has the same
        ("mac-00:00:5E:00:53:02", SECOND),
        ("mac-00:00:5e:00:53:09", USB),
        ("mac-02:00:00:00:00:09", USB),
        ("altname-sfp-left", FIRST),
        ("altname-enp4s0d1", SECOND),
        ("eno7", FIRST),
        ("enx1", USB),
    ],
)
def test_a_text_means_one_port(text: str, port: HostPort):
    assert find_port(text, PORTS) is port


def test_a_name_of_the_kernel_comes_with_the_one_to_write_instead():
    assert f'({FIRST.label}); after a restart it may be another one, so write port = "pci-0000:04:00.0"' in str(
        FIRST.advice(FIRST.name)
    )
    assert 'write port = "pci-0000:04:00.0/1"' in str(SECOND.advice("enp4s0d1"))
    assert 'write port = "mac-00:00:5e:00:53:09"' in str(USB.advice("enx1"))
    for stable in ("eno7", "altname-sfp-left", "pci-0000:04:00.0", "mac-00:00:5e:00:53:01"):
        assert FIRST.advice(stable) is None


def test_the_only_port_of_a_card_that_counts_from_one():
    only = replace(FIRST, dev_port=1)
    assert find_port("pci-0000:04:00.0", [only, USB]) is only


@pytest.mark.parametrize(
    "text", ["pci-0000:04:00.0/2", "pci-0000:05:00.0", "altname-eth9", "mac-00:00:5e:00:53:77", "lo"]
)
def test_a_text_that_means_none_is_answered_with_all_there_are(text: str):
    with pytest.raises(LinkError) as refusal:
        find_port(text, PORTS)
    said = str(refusal.value)
    assert said.startswith(f"port {text!r}: there is no such port in the network namespace in which pytest runs")
    assert all(port.label in said for port in PORTS)


def test_a_machine_without_ports():
    with pytest.raises(LinkError, match="there is none at all"):
        find_port("eth0", [])


def test_two_ports_with_one_address():
    twin = replace(USB, name="enx2", index=9)
    with pytest.raises(LinkError) as refusal:
        find_port("mac-02:00:00:00:00:09", [FIRST, USB, twin])
    said = str(refusal.value)
    assert "2 ports are called that" in said
    assert USB.label in said
    assert twin.label in said
    assert FIRST.label not in said


@pytest.mark.parametrize(
    ("port", "port_id"),
    [
        (FIRST, "pci-0000:04:00.0"),
        (SECOND, "pci-0000:04:00.0/1"),
        (USB, "mac-00:00:5e:00:53:09"),
        (VLAN, "mac-00:00:5e:00:53:01"),
        (HostPort(name="tun0", index=8), "altname-tun0"),
    ],
)
def test_what_stays_the_same(port: HostPort, port_id: str):
    assert port.port_id == port_id
    assert replace(port, name="renamed", index=99, altnames=("x",)).port_id == port_id or port.mac is None


def test_all_names_on_one_line():
    assert FIRST.label == ("enp4s0, pci-0000:04:00.0, mac-00:00:5e:00:53:01, altname-eno7, altname-sfp-left (mlx4_en)")
    assert SECOND.label == "enp4s0d1, pci-0000:04:00.0/1, mac-00:00:5e:00:53:02 (mlx4_en)"


def test_again_from_what_was_written_down():
    import json

    for port in PORTS:
        record: dict[str, Any] = json.loads(json.dumps(asdict(port)))
        assert HostPort.of_record(record) == port


@given(st.text(max_size=40).filter(lambda text: not any(port.is_called(text) for port in PORTS)))
def test_any_other_text_is_a_clear_no(text: str):
    with pytest.raises(LinkError) as refusal:
        find_port(text, PORTS)
    assert repr(text) in str(refusal.value)
