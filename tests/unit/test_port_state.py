"""What differs between two states of a port, in words."""

from __future__ import annotations

import copy
import socket
import struct
from typing import Any

import pytest

from pytest_netperf.links import port_records
from pytest_netperf.links.netlink import attribute, attributes
from pytest_netperf.links.port_refusal import _address
from pytest_netperf.links.port_state import differences


def state() -> dict[str, Any]:
    return {
        "name": "enp4s0",
        "index": 3,
        "altnames": ["eno7"],
        "mtu": 1500,
        "txqueuelen": 1000,
        "mac": "00:00:5e:00:53:01",
        "group": 0,
        "alias": None,
        "gso_max_bytes": 65536,
        "gso_max_segments": 65535,
        "gro_max_bytes": 65536,
        "flags": {"up": True, "no_arp": False, "promisc": False, "allmulti": False, "multicast": True},
        "qdisc": "mq",
        "settings": {
            "rings": {"rx": 256, "rx_mini": 0, "rx_jumbo": 0, "tx": 256},
            "pause": None,
            "link": {"autoneg": 0, "mdix": 0, "advertised": "00", "mbps": 1000, "duplex": 1, "port": 0},
            "offloads": {"wanted": ["rx-gro", "tx-tcp-segmentation"], "on": ["rx-gro", "tx-tcp-segmentation"]},
        },
        "sysctls": {"ipv4/conf/rp_filter": "0", "ipv6/conf/accept_ra": "1"},
        "addresses": [{"is": "198.51.100.7/24", "key": "aa", "raw": "00", "read_at": 1.0}],
        "routes": [{"is": "default via 198.51.100.1", "key": "bb", "raw": "00"}],
        "neighbours": [],
    }


def test_nothing_differs():
    after = state()
    after["index"] = 99  # the kernel's, not ours
    after["addresses"][0]["read_at"] = 500.0
    assert differences(state(), after) == []


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("name",), "dev3", "name: was enp4s0, is dev3"),
        (("altnames",), [], "altnames: was ['eno7'], is []"),
        (("mtu",), 9000, "mtu: was 1500, is 9000"),
        (("txqueuelen",), 5, "txqueuelen: was 1000, is 5"),
        (("mac",), "02:00:00:00:00:01", "mac: was 00:00:5e:00:53:01, is 02:00:00:00:00:01"),
        (("alias",), "x", "alias: was not there, is x"),
        (("flags", "promisc"), True, "promisc: was False, is True"),
        (("qdisc",), "fq_codel", "qdisc: was mq, is fq_codel"),
        (("settings", "rings", "rx"), 4096, "rings rx: was 256, is 4096"),
        (("settings", "rings"), None, "rings: was {'rx': 256, 'rx_mini': 0, 'rx_jumbo': 0, 'tx': 256}, is not there"),
        (("settings", "pause"), {"rx": 1}, "pause: was not there, is {'rx': 1}"),
        (("settings", "link", "mbps"), 100, "link mbps: was 1000, is 100"),
        (("settings", "link", "advertised"), "01", "link advertised: was 00, is 01"),
        (("settings", "offloads", "on"), ["rx-gro"], "offload tx-tcp-segmentation: was on, is not"),
        (("settings", "offloads", "wanted"), ["rx-gro", "rx-lro", "tx-tcp-segmentation"],
         "offload rx-lro: was not wanted, is"),
        (("sysctls", "ipv4/conf/rp_filter"), "2", "sysctl ipv4/conf/rp_filter: was 0, is 2"),
        (("sysctls",), {"ipv4/conf/rp_filter": "0"}, "sysctl ipv6/conf/accept_ra: was 1, is not there"),
        (("addresses",), [], "addresses: 198.51.100.7/24 is missing"),
        (("routes",), [], "routes: default via 198.51.100.1 is missing"),
        (("neighbours",), [{"is": "198.51.100.9 at 02", "key": "cc"}], "neighbours: 198.51.100.9 at 02 was not there"),
    ],
)  # fmt: skip
def test_each_field_is_compared(path: tuple[str, ...], value: object, said: str):
    after = state()
    inside = after
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    assert differences(state(), after) == [said]


def test_what_the_carrier_decides_is_no_difference():
    """A speed without a carrier, and the link-local address that comes with one."""
    after = state()
    after["settings"]["link"] |= {"mbps": None, "duplex": None}
    after["addresses"].append({"is": "fe80::1/64", "key": "dd"})
    assert differences(state(), after) == []


def test_a_link_local_address_that_was_there_must_be_there_again():
    before = state()
    before["addresses"].append({"is": "fe80::1/64", "key": "dd"})
    assert differences(before, state()) == ["addresses: fe80::1/64 is missing"]


def test_a_port_that_was_down_need_not_have_the_queue_of_one_that_is_up():
    before, after = state(), copy.deepcopy(state())
    before["flags"]["up"] = after["flags"]["up"] = False
    before["qdisc"], after["qdisc"] = "mq", "noop"
    assert differences(before, after) == []


def address_message(valid: int, preferred: int, flags: int = 0x80) -> bytes:
    head = port_records._ADDRESS.pack(socket.AF_INET, 24, flags, 0, 3)
    return (
        head
        + attribute(2, socket.inet_aton("198.51.100.7"))
        + attribute(8, struct.pack("=I", flags))
        + attribute(6, struct.pack("=IIII", preferred, valid, 1, 2))
    )


def lifetimes(message: bytes) -> tuple[int, int]:
    cache = dict(attributes(message[8:]))[6]
    preferred, valid, *_ = struct.unpack("=IIII", cache)
    return valid, preferred


def test_a_lifetime_goes_on_while_the_port_is_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(port_records.time, "monotonic", lambda: 1300.0)
    now = port_records._address_now(address_message(5000, 200), 9, read_at=1000.0)
    assert lifetimes(now) == (4700, 0)
    assert struct.unpack_from("=I", now, 4)[0] == 9
    assert port_records._address_now(address_message(300, 200), 9, read_at=1000.0) == b"", "it has run out"
    forever = 0xFFFFFFFF
    assert lifetimes(port_records._address_now(address_message(forever, forever), 9, read_at=0.0)) == (forever, forever)


def test_an_address_that_has_run_out_is_not_missed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(port_records.time, "monotonic", lambda: 1300.0)
    assert port_records.has_run_out({"raw": address_message(300, 200).hex(), "read_at": 1000.0})
    assert not port_records.has_run_out({"raw": address_message(301, 200).hex(), "read_at": 1000.0})


def test_an_address_is_not_given_back_as_a_tentative_one():
    now = port_records._address_now(address_message(0xFFFFFFFF, 0xFFFFFFFF, flags=0x80 | 0x40 | 0x08), 9, read_at=0.0)
    assert struct.unpack("=I", dict(attributes(now[8:]))[8])[0] == 0x80
    assert now[2] == 0x80


def test_the_interfaces_of_a_multipath_route():
    hops = struct.pack("=HBBi", 16, 0, 0, 4) + attribute(5, b"\x0a\0\0\1") + struct.pack("=HBBi", 8, 0, 0, 7)
    assert port_records._hops(hops) == [4, 7]
    assert port_records._hops(b"") == []


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (struct.unpack("=I", socket.inet_aton("198.51.100.7"))[0].to_bytes(4, "big").hex(), "198.51.100.7"),
        (
            b"".join(
                struct.unpack("=I", socket.inet_pton(socket.AF_INET6, "2001:db8::7")[at : at + 4])[0].to_bytes(4, "big")
                for at in range(0, 16, 4)
            ).hex(),
            "2001:db8::7",
        ),
        (
            b"".join(
                struct.unpack("=I", socket.inet_pton(socket.AF_INET6, "::ffff:198.51.100.7")[at : at + 4])[0].to_bytes(
                    4, "big"
                )
                for at in range(0, 16, 4)
            ).hex(),
            "198.51.100.7",
        ),
    ],
)
def test_addresses_as_proc_writes_them(text: str, address: str):
    assert _address(text.upper()) == address
