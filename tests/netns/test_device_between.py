"""A real device between two ports of this machine: what is proved of the path, and that both ports come home.

Veth pairs stand in for the cables, and a namespace of the test for the device; the plugin knows nothing about it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from between import ADDRESSES, ADDRESSES6, Box
from stand_in import StandIn, sh, unequal

from pytest_netperf.errors import LinkError
from pytest_netperf.links.device_ports import DevicePorts
from pytest_netperf.links.kernel import has_capabilities
from pytest_netperf.links.physical import PhysicalPair
from pytest_netperf.links.routed_ports import RoutedPorts
from pytest_netperf.links.switched_ports import SwitchedPorts

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(not has_capabilities(), reason="physical ports need root"),
]


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    monkeypatch.setenv("NETPERF_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(PhysicalPair, "carrier_seconds", 1.0)
    monkeypatch.setattr(DevicePorts, "proof_seconds", 1.0)
    box = Box(secrets.token_hex(3))
    yield box
    box.remove()


def bring(kind: type[DevicePorts], box: Box | StandIn, mtu: int = 1500, **words: Any) -> DevicePorts:
    """The ports of a box, lent and proved. ``a`` and ``b`` change what the bench file says of an end."""
    given = {end: {**ADDRESSES[end], **ADDRESSES6[end]} for end in "ab"} if kind is RoutedPorts else {"a": {}, "b": {}}
    ports = {
        end: {"port": f"altname-{getattr(box, end)}", "allow_virtual": True, **given[end], **words.pop(end, {})}
        for end in "ab"
    }
    holder = {"pid": os.getpid(), "command": "this test", "run": "this one"}
    index = 6000 + int(box.a[3:9], 16) % 1000
    return kind(index, {"mtu": mtu, "ports": ports, "holder": holder, **words}, lambda: False)


def refused(kind: type[DevicePorts], box: Box | StandIn, **words: Any) -> str:
    """Why it was refused; both ports are what they were."""
    before = box.view()
    with pytest.raises(LinkError) as refusal:
        bring(kind, box, **words)
    assert unequal(before, box.view()) == []
    return str(refusal.value)


def test_a_router_between_two_ports(box: Box):
    box.route(mtu=9000)
    before = box.view()
    path = bring(RoutedPorts, box, mtu=9000)
    assert box.view() == dict.fromkeys(before), "both are away"
    proof = path.facts["proof"]
    assert proof["gateways_resolved"] == {
        "a": {"198.18.201.1": box.mac["p"], "2001:db8:201::1": box.mac["p"]},
        "b": {"198.18.202.1": box.mac["q"], "2001:db8:202::1": box.mac["q"]},
    }
    assert (proof["ttl_falls_by"], proof["mtu_with_df_bytes"], proof["ip_versions"]) == (1, 9000, [4, 6])
    assert "address_translation" not in path.facts
    path.bounce()
    path.close()
    assert unequal(before, box.view()) == []


def test_what_a_router_announces_does_not_change_the_way(box: Box):
    box.route()
    path = bring(RoutedPorts, box)
    inside = path.ends["a"].call(lambda: Path(f"/proc/sys/net/ipv6/conf/{box.a}/accept_ra").read_text().strip())
    assert inside == "0"
    path.close()


def test_gateways_however_they_are_written(box: Box):
    box.route()
    box.run(f"ip addr add fe80::1/64 dev {box.q} nodad")
    path = bring(RoutedPorts, box, a={"gateway6": "2001:DB8:201::0001"}, b={"gateway6": "fe80::1"})
    assert path.facts["proof"]["gateways_resolved"] == {
        "a": {"198.18.201.1": box.mac["p"], "2001:db8:201::1": box.mac["p"]},
        "b": {"198.18.202.1": box.mac["q"], "fe80::1": box.mac["q"]},
    }
    path.close()


def test_without_ipv6_addresses_only_ipv4_is_proved(box: Box):
    box.route()
    path = bring(RoutedPorts, box, a={"address6": None}, b={"address6": None})
    assert path.facts["proof"]["ip_versions"] == [4]
    assert path.ports["a"]["address6"] is None
    path.close()


def test_the_device_has_a_smaller_mtu(box: Box):
    box.route(mtu=1500)
    said = refused(RoutedPorts, box, mtu=9000)
    assert "an IPv4 packet of 9000 bytes with DF set did not pass from a to b, and a short one does" in said
    assert "the MTU is 9000 at both ends and 150" in said  # a veth takes the 4 bytes of a VLAN tag more


def masquerade(box: Box) -> None:
    box.nft("nat", f'type nat hook postrouting priority 100; oifname "{box.q}" masquerade')
    box.nft("wan", f'type filter hook forward priority 0; iifname "{box.q}" ct state new drop')


def test_a_device_that_translates_and_lets_nothing_in(box: Box):
    box.route()
    masquerade(box)
    path = bring(RoutedPorts, box, translates=True)
    assert path.facts["address_translation"] == {
        "IPv4": "end b sees end a as 198.18.202.1",
        "IPv6": "end b sees end a as 2001:db8:202::1",
    }
    assert path.facts["proof"]["ttl_falls_by"] == 1
    path.close()


def test_a_state_that_translates_is_seen_in_the_packets(box: Box):
    box.route()
    assert "is asked for in a state that translates addresses, and end b sees those of end a" in refused(
        RoutedPorts, box, translates=True
    )


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (lambda box: box.run("sysctl -qw net.ipv4.ip_forward=0"), "no IPv4 packet passes from a to b: the gateways"),
        (
            lambda box: box.nft("wan", f'type filter hook forward priority 0; iifname "{box.q}" drop'),
            "did not pass from b to a, nor does a short one: the gateways answer",
        ),
        (
            lambda box: box.nft("ttl", "type filter hook postrouting priority 0; ip ttl 63 ip ttl set 64"),
            "a packet that left a with a TTL of 64 arrived at b with 64, and one device that forwards leaves 63: it "
            "did not pass a device that routes",
        ),
        (
            lambda box: box.nft("ttl", "type filter hook postrouting priority 0; ip6 hoplimit 63 ip6 hoplimit set 61"),
            "arrived at b with 61, and one device that forwards leaves 63: 3 routers are on the way",
        ),
        (lambda box: box.run(f"ip link set {box.q} down"), "has no carrier after 1 s"),
    ],
    ids=["does not forward", "one way only", "does not route", "more than one router", "switched off"],
)
def test_a_device_that_does_something_else(box: Box, prepare: Callable[[Box], object], says: str):
    box.route()
    prepare(box)
    assert says in refused(RoutedPorts, box)


def test_a_gateway_that_is_another_one(box: Box):
    box.route()
    said = refused(RoutedPorts, box, b={"gateway": "198.18.202.3"})
    assert f"end b: its gateway 198.18.202.3 does not answer at port {box.b}" in said
    assert "does the device have this address at this port, are its cables in the right ports, and is it up?" in said


@pytest.fixture
def cable(tmp_path: Path, box: Box) -> Iterator[StandIn]:
    """Two ports cabled to each other."""
    cable = StandIn()
    cable.make()
    yield cable
    cable.remove()


def test_two_ports_that_are_cabled_to_each_other_are_no_router(cable: StandIn):
    said = refused(RoutedPorts, cable)
    assert "end a: its gateway 198.18.201.1 does not answer" in said
    assert "the two ports are cabled to each other, without a device between them" in said


def test_nor_is_a_cable_whose_other_end_has_the_address_of_the_gateway(cable: StandIn):
    ends = {"a": {"gateway": "198.18.201.3"}, "b": {"address": "198.18.201.3/24", "gateway": "198.18.201.2"}}
    said = refused(RoutedPorts, cable, **ends)
    assert "end a: its gateway 198.18.201.3 is port b itself" in said


def test_a_switch_between_two_ports(box: Box):
    box.switch(mtu=9000)
    before = box.view()
    path = bring(SwitchedPorts, box, mtu=9000)
    proof = path.facts["proof"]
    assert (proof["ttl_falls_by"], proof["ip_versions"], proof["neighbours_resolved"]) == (0, [4, 6], True)
    assert proof["between_the_ports"].startswith("something that keeps frames for the nearest bridge to itself")
    path.bounce()
    path.close()
    assert unequal(before, box.view()) == []


def test_a_cheap_switch_passes_what_it_should_keep_but_no_loss_of_carrier(box: Box):
    box.switch()
    sh("nsenter", "-t", str(box.pid), "-n", "ip", "link", "set", "br0", "type", "bridge", "group_fwd_mask", "0x4000")
    path = bring(SwitchedPorts, box)
    assert path.facts["proof"]["between_the_ports"].startswith("something that passes on frames for the nearest bridge")
    path.close()


def test_two_ports_that_are_cabled_to_each_other_are_no_switch(cable: StandIn):
    said = refused(SwitchedPorts, cable)
    assert "are cabled to each other, without a switch between them" in said
    assert 'write topology = "pair"' in said


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (lambda box: box.run(f"ip link set {box.q} nomaster"), "the device passes nothing between them; are they in"),
        (lambda box: box.run(f"ip link set {box.q} mtu 1400"), "the MTU is 1500 at both ends and 1400 in the middle"),
    ],
    ids=["two networks", "a smaller MTU"],
)
def test_a_switch_that_passes_too_little(box: Box, prepare: Callable[[Box], object], says: str):
    box.switch()
    prepare(box)
    assert says in refused(SwitchedPorts, box)


def test_a_router_where_a_switch_is_expected(box: Box):
    """It answers for the other network itself."""
    box.route()
    box.run(f"sysctl -qw net.ipv4.conf.{box.p}.proxy_arp=1 net.ipv4.conf.{box.q}.proxy_arp=1")
    box.run(f"ip addr flush dev {box.p}; ip addr flush dev {box.q}")
    box.run(f"ip route add 198.18.201.2 dev {box.p}; ip route add 198.18.201.3 dev {box.q}")
    said = refused(SwitchedPorts, box, a={"address": "198.18.201.2/24"}, b={"address": "198.18.201.3/24"})
    assert "arrived at b with 63: something on the path routes, and a switch does not" in said
