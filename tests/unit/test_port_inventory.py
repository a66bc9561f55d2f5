"""What the EEPROM of a module says: SFF-8472 for SFP, SFF-8636 for QSFP."""

from __future__ import annotations

import struct

import pytest

from pytest_netperf.bench.port_wishes import OFFLOADS, cpu_set
from pytest_netperf.links import ethtool
from pytest_netperf.links.port_inventory import module_facts
from pytest_netperf.links.port_reading import link_modes

SFP = {"vendor": "FINISAR CORP.", "part": "FTLX8571D3BCL", "serial": "AB12"}


def eeprom(length: int, *fields: tuple[int, bytes]) -> bytes:
    data = bytearray(b"\xff" * 20 + b" " * (length - 20))
    for at, value in fields:
        data[at : at + len(value)] = value
    return bytes(data)


def sfp(length: int = 512, diagnostics: int = 0x68, degrees: float = 31.5) -> bytes:
    texts = [
        (20, b"FINISAR CORP.   "),
        (40, b"FTLX8571D3BCL   "),
        (68, b"AB12            "),
        (92, bytes([diagnostics])),
    ]
    temperature = [(352, struct.pack(">h", round(degrees * 256)))] if length > 352 else []
    return eeprom(length, *texts, *temperature)


def test_an_sfp_with_diagnostics():
    assert module_facts(2, sfp()) == {**SFP, "temperature_c": 31.5}
    assert module_facts(2, sfp(degrees=-4.25))["temperature_c"] == -4.25


@pytest.mark.parametrize(("kind", "data"), [(1, sfp()), (2, sfp(diagnostics=0)), (2, sfp(256))])
def test_an_sfp_without_diagnostics(kind: int, data: bytes):
    assert module_facts(kind, data) == SFP


def test_a_qsfp():
    data = eeprom(
        256, (22, struct.pack(">h", 40 * 256)), (148, b"Mellanox"), (168, b"MC2206130-001\0\0"), (196, b"X\x01Y")
    )
    expected = {"vendor": "Mellanox", "part": "MC2206130-001", "serial": "XY", "temperature_c": 40.0}
    assert module_facts(3, data) == module_facts(4, data) == expected


@pytest.mark.parametrize(("kind", "data"), [(2, b""), (2, bytes(95)), (3, bytes(211)), (0, sfp()), (9, sfp())])
def test_what_is_no_module_says_nothing(kind: int, data: bytes):
    assert module_facts(kind, data) == {}


def test_names_that_two_rooms_share():
    assert set(OFFLOADS) == set(ethtool.OFFLOADS)


def test_link_modes_of_a_speed_and_a_duplex():
    assert link_modes(100, "half") == 1 << 2
    assert link_modes(100, "full") & 1 << 3
    assert not link_modes(100, "full") & 1 << 2
    assert link_modes(1000, "half") == 1 << 4
    assert link_modes(7, "full") == 0
    everything = link_modes(None, None)
    assert link_modes(10_000, None) & everything == link_modes(10_000, "full")
    for pause_or_autoneg in (6, 7, 13, 14):
        assert not everything >> pause_or_autoneg & 1, "they are no speeds, and stay as they are advertised"


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", {0}), ("0-2,5\n", {0, 1, 2, 5}), ("", set()), ("10-11,3", {3, 10, 11})]
)
def test_lists_of_cpus(text: str, cpus: set[int]):
    assert cpu_set(text) == cpus
