"""The ports of links with a device in the middle: their networks, gateways and speeds, and what cannot be together."""

from __future__ import annotations

import pytest

from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.bench.model import LinkSpec
from pytest_netperf.errors import BenchError

A = 'port = "pci-0000:04:00.0", address = "198.18.1.2/24", gateway = "198.18.1.1"'
B = 'port = "pci-0000:05:00.0", address = "198.18.2.2/24", gateway = "198.18.2.1"'
A6 = 'address6 = "2001:db8:1::2/64", gateway6 = "2001:db8:1::1"'
B6 = 'address6 = "2001:db8:2::2/64", gateway6 = "2001:db8:2::1"'


def text(a: str | None, b: str | None, *more: str, topology: str = "routed") -> str:
    ends = [f"{end} = {{ {port} }}" for end, port in (("a", a), ("b", b)) if port is not None]
    return "\n".join(
        ['[[device]]\nserial = "BOX-1"\n[[device.link]]\nname = "p"', f'topology = "{topology}"', *more, *ends]
    )


def link(*args: str | None, **words: str) -> LinkSpec:
    return parse_bench(text(*args, **words)).devices[0].links[0]


def mistakes(*args: str | None, **words: str) -> str:
    with pytest.raises(BenchError) as refusal:
        link(*args, **words)
    return str(refusal.value)


def test_two_networks_with_a_gateway_in_each():
    found = link(f"{A}, {A6}", f"{B}, {B6}", 'speed = "1G"')
    assert found.a is not None
    assert found.b is not None
    assert (found.a.address, found.a.gateway) == ("198.18.1.2/24", "198.18.1.1")
    assert (found.b.address6, found.b.gateway6) == ("2001:db8:2::2/64", "2001:db8:2::1")
    assert found.unsupported_reason() is None


def test_a_switch_needs_no_addresses():
    found = link('port = "pci-0000:04:00.0"', 'port = "pci-0000:05:00.0"', 'speed = "1G"', topology="switched")
    assert (found.topology, found.unsupported_reason()) == ("switched", None)


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        ('port = "eth1"', B, "a.address: is missing; write one in the network of the device there"),
        (A.partition(", gateway")[0], B, "a.gateway: is missing; write the address that the device has there"),
        (
            'port = "eth1", address = "2001:db8::2/64", gateway = "2001:db8::1"',
            B,
            'a.address: "2001:db8::2/64" is an IPv6 address; write it as address6, and IPv4 here',
        ),
        (A, f"{B}, {B6}", "a.address6: is missing, and the other end has 2001:db8:2::2/64; write one, or none at both"),
        (f"{A}, {A6}", f'{B}, address6 = "2001:db8:2::2/64"', "b.gateway6: is missing"),
        (
            A,
            B.replace("198.18.2.2/24", "198.18.1.130/25").replace("198.18.2.1", "198.18.1.129"),
            'b.address: "198.18.1.130/25" is in the network of end a (198.18.1.0/24), and a router is between two',
        ),
        (
            f"{A}, {A6}",
            f"{B}, {A6.replace('::2', '::3')}",
            'b.address6: "2001:db8:1::3/64" is in the network of end a (2001:db8:1::/64)',
        ),
        (
            f'{A}, address6 = "fe80::2/64", gateway6 = "fe80::1"',
            f"{B}, {B6}",
            "a.address6: fe80::2/64 is a link-local address",
        ),
        (f'{A}, address6 = "198.18.7.2/24"', B, 'a.address6: "198.18.7.2/24" is an IPv4 address; write it as address'),
        (f'{A}, gateway6 = "2001:db8::1"', B, "a.gateway6: needs an address of the port beside it, such as 2001:db8:1"),
        (f'{A}, address6 = "2001:db8::2"', B, 'a.address6: "2001:db8::2" has no prefix length; write an address'),
    ],
)  # fmt: skip
def test_what_no_router_can_have(a, b, says):
    assert says in mistakes(a, b, 'speed = "1G"')


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        (A, B, "a.gateway: a switched link is one network without a router; remove it, or write topology"),
        (
            'port = "eth1", address = "198.18.1.2/24"',
            'port = "eth2", address = "198.18.2.2/24"',
            "is not in the network of end a (198.18.1.2/24); both ends of a switched link share a network",
        ),
        (
            'port = "eth1", address = "198.18.1.2/24", address6 = "2001:db8::1/64"',
            'port = "eth2", address = "198.18.1.3/24"',
            "b.address6: is missing, and the other end has 2001:db8::1/64",
        ),
        (
            'port = "eth1", address6 = "2001:db8::1/64"',
            'port = "eth2", address6 = "2001:db8::1/64"',
            'b.address6: "2001:db8::1/64" is the address of end a too',
        ),
    ],
)
def test_what_no_switch_can_have(a, b, says):
    assert says in mistakes(a, b, 'speed = "1G"', topology="switched")


def test_each_port_has_its_own_speed_and_the_link_that_of_the_slower_one():
    found = link(f'{A}, speed = "10G"', f'{B}, speed = "2.5G"')
    assert (found.speed_bps, found.port_speed_bps("a"), found.port_speed_bps("b")) == (2.5e9, 10e9, 2.5e9)
    one = link(A, f'{B}, speed = "2.5G"', 'speed = "10G"')
    assert (one.speed_bps, one.port_speed_bps("a"), one.port_speed_bps("b")) == (2.5e9, 10e9, 2.5e9)
    none = link(A, B, 'speed = "1G"')
    assert (none.speed_bps, none.port_speed_bps("a"), none.port_speed_bps("b")) == (1e9, 1e9, 1e9)


def test_a_simulated_device_has_speeds_and_mtus_of_its_ports():
    found = link('speed = "10G", device_mtu = 9000', 'speed = "2.5G"', "simulated = true", "device_mtu = 4000")
    assert found.physical_ports == {}
    assert found.simulated_device == {
        "device_mtus": {"a": 9000, "b": 4000},
        "port_speeds_bps": {"a": 10e9, "b": 2.5e9},
        "vlans": {"a": None, "b": None},
    }
    plain = link(None, None, "simulated = true", 'speed = "1G"')
    assert plain.simulated_device == {
        "device_mtus": {"a": None, "b": None},
        "port_speeds_bps": {"a": 1e9, "b": 1e9},
        "vlans": {"a": None, "b": None},
    }
    switch = link("vlan = 10", "vlan = 20", "simulated = true", 'speed = "1G"', topology="switched")
    assert switch.simulated_device["vlans"] == {"a": 10, "b": 20}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (text(A, f'{B}, speed = "2.5G"'), "speed: is missing; write the speed that the link is sold for"),
        (text('speed = "1G"', None, "simulated = true"), "speed: is missing"),
        (
            text('speed = "2.5"', None, "simulated = true", 'speed = "1G"'),
            "a.speed: '2.5': a link speed needs its unit",
        ),
        (
            text('speed = "1G"', 'speed = "2.5G"', "simulated = true", topology="pair"),
            "a.speed: a pair is one cable, with one speed; write it beside the name of the link",
        ),
        (
            text('speed = "1G"', 'speed = "1G"', "simulated = true", "shaped = false"),
            "a.speed: a link with shaped = false has no speed that would limit it",
        ),
        (
            text("device_mtu = 9000", None, "simulated = true", 'speed = "1G"', topology="pair"),
            "a.device_mtu: is of a simulated device in the middle",
        ),
        (text("vlan = 10", "vlan = 10", "simulated = true", 'speed = "1G"'), "a.vlan: is of a simulated switch"),
        (
            text("vlan = 10", None, "simulated = true", 'speed = "1G"', topology="switched"),
            "b.vlan: is missing, and the other port is in one; write it, such as vlan = 10",
        ),
        (
            text("vlan = 4095", None, "simulated = true", 'speed = "1G"', topology="switched"),
            "a.vlan: 4095 is not an integer number of a VLAN from 1 to 4094",
        ),
        (text(A, f"{B}, device_mtu = 9000", 'speed = "1G"'), "b.device_mtu: is of a simulated device in the middle"),
    ],
)
def test_speeds_and_mtus_where_they_cannot_be(given, says):
    with pytest.raises(BenchError, match=says.replace("(", r"\(")):
        parse_bench(given)
