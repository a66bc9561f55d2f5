"""A simulated device in the middle: that traffic passes it, what is wrong with its path, and its states."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from pytest_netperf.errors import LinkError
from pytest_netperf.links.link import Link, bring_up
from pytest_netperf.links.owner import Owner
from pytest_netperf.links.path_proof import path_mtu
from pytest_netperf.observe.measure import measure
from pytest_netperf.observe.observation import PortCounters
from pytest_netperf.physics import goodput_ceiling_bps
from pytest_netperf.traffic.engine import make_engine
from pytest_netperf.traffic.result import Workload

pytestmark = pytest.mark.netns

SPEED_BPS = 3e8


def routed(owner: Owner, key: str, speed_bps: float | None = 1e9, mtu: int = 1500, **device: object) -> Link:
    return bring_up(owner, key, name=key, speed_bps=speed_bps, mtu=mtu, topology="routed", device=device)


@pytest.fixture(scope="module")
def link(owner: Owner) -> Iterator[Link]:
    link = routed(owner, "routed", speed_bps=SPEED_BPS)
    yield link
    link.close()


def hear(link: Link, source: str, target: str, family: int = socket.AF_INET, payload: bytes = b"x") -> tuple[int, str]:
    """The TTL and the sender of a datagram from one end to the other."""
    ends = {"a": link.a, "b": link.b}
    six = family == socket.AF_INET6
    level, ask, kind = (socket.IPPROTO_IPV6, 51, 52) if six else (socket.IPPROTO_IP, 12, socket.IP_TTL)
    with (
        ends[source].socket(family, socket.SOCK_DGRAM) as sender,
        ends[target].socket(family, socket.SOCK_DGRAM) as receiver,
    ):
        receiver.bind((ends[target].address6 if six else ends[target].address, 0))
        receiver.setsockopt(level, ask, 1)
        receiver.settimeout(2)
        sender.sendto(payload, receiver.getsockname()[:2])
        _, ancillary, _, address = receiver.recvmsg(100, 100)
    ttl = {(each[0], each[1]): int.from_bytes(each[2][:4], "little") for each in ancillary}
    return ttl[level, kind], address[0]


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize(("source", "target"), ["ab", "ba"])
def test_every_packet_passes_the_device(link: Link, family: int, source: str, target: str):
    assert link.facts["proof"]["ttl_falls_by"] == 1
    assert link.facts["proof"]["gateways_resolved"] is True
    assert hear(link, source, target, family)[0] == 63


def test_two_subnets_and_a_gateway_in_each(link: Link):
    routes = link.a.run(["ip", "route", "show", "default"]).stdout
    assert f"via {link.device_ports['device_a'].address} " in routes
    assert "Network unreachable" not in link.a.run(["ip", "route", "get", link.b.address], check=True).stdout
    networks = {address.rsplit(".", 1)[0] + str(int(address.rsplit(".", 1)[1]) // 4)
                for address in (link.a.address, link.b.address)}  # fmt: skip
    assert len(networks) == 2
    assert len({link.a.namespace, link.b.namespace, link.device_ports["device_a"].namespace}) == 3
    assert link.device_ports["device_a"].namespace == link.device_ports["device_b"].namespace
    assert link.topology == "routed"


def test_goodput_is_that_of_the_wire_and_the_device_counted_all_of_it(link: Link):
    workload = Workload(protocol="tcp", duration_s=1.0, omit_s=0.0)
    measured = measure(make_engine("iperf3"), link, workload, slots=1)
    (flow,) = measured.flows
    assert flow.received_bps is not None
    assert flow.received_bytes is not None
    ceiling = goodput_ceiling_bps(SPEED_BPS, 1500)
    assert 0.95 * ceiling < flow.received_bps < 1.006 * ceiling  # in one second a burst is 0.4 %
    before, after = measured.observation.device_before, measured.observation.device_after
    assert set(before) == {"device_a", "device_b"}
    assert after["device_a"].rx_bytes - before["device_a"].rx_bytes > flow.received_bytes
    assert after["device_b"].tx_bytes - before["device_b"].tx_bytes > flow.received_bytes
    assert set(measured.shaped_bps) == {"a", "b", "device_a", "device_b"}


def test_down_and_up_again(link: Link):
    link.bounce()
    assert [hear(link, *ends, family)[0] for ends in ("ab", "ba") for family in (socket.AF_INET, socket.AF_INET6)] == [
        63
    ] * 4


def test_the_cable_of_one_end_is_pulled_and_comes_back_with_its_routes(owner: Owner):
    link = bring_up(
        owner, "flap", name="flap", speed_bps=1e8, mtu=1500, topology="routed",
        fault={"flap": True, "after_s": 0.05, "for_s": 0.2},
    )  # fmt: skip
    try:
        workload = Workload(protocol="tcp", duration_s=1.0, omit_s=0.0)
        measured = measure(make_engine("iperf3"), link, workload, slots=1)
        changes = measured.observation.b_after.carrier_changes - measured.observation.b_before.carrier_changes
        assert changes >= 2
        assert hear(link, "b", "a")[0] == 63
    finally:
        link.close()


def test_a_slow_device(owner: Owner):
    """A fault in the rate of one direction is at the device: the port of the tester is not slow."""
    link = bring_up(
        owner, "slow", name="slow", speed_bps=1e8, mtu=1500, topology="routed",
        fault={"rate_bps": 5e7, "direction": "a-to-b"},
    )  # fmt: skip
    try:
        shaped = link.shape(1500)
        assert shaped == {"a": 1e8, "b": 1e8, "device_a": 1e8, "device_b": 5e7}
    finally:
        link.close()


def test_a_device_with_ports_of_unequal_speed(owner: Owner):
    """The goodput is that of the slower one, whichever way; each port sends at its own speed."""
    link = routed(owner, "unequal", speed_bps=1e8, port_speeds_bps={"a": 1e9, "b": 1e8})
    try:
        assert link.shape(1500) == {"a": 1e9, "b": 1e8, "device_a": 1e9, "device_b": 1e8}
        workload = Workload(protocol="tcp", duration_s=1.0, omit_s=0.0)
        measured = measure(make_engine("iperf3"), link, workload, slots=1)
        assert measured.throughput_bps is not None
        assert 0.9 < measured.throughput_bps / goodput_ceiling_bps(1e8, 1500) < 1.02  # a burst is 1 % in a second
    finally:
        link.close()


# A path that is not what it should be


@pytest.mark.parametrize("mtus", [{"a": 9000, "b": 1500}, {"a": 1500, "b": 9000}], ids=["side b", "side a"])
def test_one_port_of_the_device_with_a_smaller_mtu(owner: Owner, mtus: dict[str, int]):
    """A veth takes 4 bytes more than its MTU, those of a VLAN tag."""
    with pytest.raises(LinkError, match=r"the MTU is 9000 at both ends and 150[04] in the middle"):
        routed(owner, "half a hole", mtu=9000, device_mtus=mtus)


def test_jumbo_frames_that_the_device_does_not_take(owner: Owner):
    with pytest.raises(LinkError, match="the MTU is 9000 at both ends and 1500 in the middle; set the MTU on every"):
        routed(owner, "hole", mtu=9000, device_mtus={"a": 1500, "b": 1500})


def test_an_mtu_that_nobody_would_guess(owner: Owner):
    with pytest.raises(LinkError, match="the MTU is 1500 at both ends and 1443 in the middle"):
        routed(owner, "odd", device_mtus={"a": 1443, "b": 1443})


def test_too_little_for_ipv6(owner: Owner):
    link = routed(owner, "small", mtu=1000)
    try:
        assert link.facts["proof"]["ip_versions"] == [4]
        assert hear(link, "a", "b")[0] == 63
    finally:
        link.close()


@pytest.mark.parametrize("real", [68, 69, 576, 1279, 1280, 1499, 1500, 1501, 4000, 8999])
def test_the_path_mtu_is_found(real: int):
    asked: list[int] = []

    def passes(mtu: int) -> bool:
        asked.append(mtu)
        return mtu <= real

    assert path_mtu(passes, 68, 9000) == real
    assert len(asked) <= 16


def test_no_namespace_and_no_claim_is_left(owner: Owner):
    first = routed(owner, "again", speed_bps=None)
    addresses = {first.a.address, first.b.address}
    first.close()
    second = routed(owner, "again", speed_bps=None)
    try:
        assert {second.a.address, second.b.address} == addresses
    finally:
        second.close()


def test_counters_of_all_four_ports(link: Link):
    counted = link.all_counters()
    assert list(counted) == ["a", "b", "device_a", "device_b"]
    assert all(isinstance(each, PortCounters) and each.rx_packets > 0 for each in counted.values())
    assert re.fullmatch(r"np[0-9a-f]{4}p", link.device_ports["device_a"].interface)
