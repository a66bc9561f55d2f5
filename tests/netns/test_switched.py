"""A simulated switch in the middle: one subnet, frames that pass the bridge, and what is wrong with its path."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_netperf.errors import LinkError
from pytest_netperf.links.link import Link, bring_up
from pytest_netperf.links.owner import Owner
from pytest_netperf.observe.measure import measure
from pytest_netperf.physics import goodput_ceiling_bps
from pytest_netperf.traffic.engine import make_engine
from pytest_netperf.traffic.result import Workload

pytestmark = pytest.mark.netns

SPEED_BPS = 3e8


def switched(owner: Owner, key: str, mtu: int = 1500, **device: object) -> Link:
    return bring_up(owner, key, name=key, speed_bps=SPEED_BPS, mtu=mtu, topology="switched", device=device)


@pytest.fixture(scope="module")
def link(owner: Owner) -> Iterator[Link]:
    link = switched(owner, "switched")
    yield link
    link.close()


def test_both_ends_are_neighbours_in_one_subnet(link: Link):
    proof = link.facts["proof"]
    assert (proof["switch_learned_both_ends"], proof["ttl_falls_by"], proof["ip_versions"]) == (True, 0, [4, 6])
    neighbours = link.a.run(["ip", "neigh", "show", link.b.address], check=True).stdout
    assert link.b.mac in neighbours
    assert link.a.address.rpartition(".")[0] == link.b.address.rpartition(".")[0]
    assert len({link.a.namespace, link.b.namespace, link.device_ports["device_a"].namespace}) == 3
    assert "None" not in str(link.summary()["port_device_a"])


def test_the_bridge_carries_all_of_it_at_the_goodput_of_the_wire(link: Link):
    measured = measure(make_engine("iperf3"), link, Workload(protocol="tcp", duration_s=1.0, omit_s=0.0), slots=1)
    (flow,) = measured.flows
    assert flow.received_bps is not None
    assert flow.received_bytes is not None
    ceiling = goodput_ceiling_bps(SPEED_BPS, 1500)
    assert 0.9 * ceiling < flow.received_bps < 1.006 * ceiling
    before, after = measured.observation.device_before, measured.observation.device_after
    assert after["device_a"].rx_bytes - before["device_a"].rx_bytes > flow.received_bytes
    assert after["device_b"].tx_bytes - before["device_b"].tx_bytes > flow.received_bytes


def test_down_and_up_again(link: Link):
    link.bounce()
    assert link.facts["proof"]["switch_learned_both_ends"] is True


def test_jumbo_frames_that_the_switch_does_not_take(owner: Owner):
    with pytest.raises(LinkError, match="the MTU is 9000 at both ends and 1500 in the middle"):
        switched(owner, "hole", mtu=9000, device_mtus={"a": 1500, "b": 1500})


def test_a_switch_that_is_slow(owner: Owner):
    link = switched(owner, "slow", state={"rate_limit_bps": 1e8})
    try:
        assert link.shape(1500) == {"a": SPEED_BPS, "b": SPEED_BPS, "device_a": 1e8, "device_b": 1e8}
    finally:
        link.close()


def test_vlans_of_a_switch_or_what_the_kernel_lacks(owner: Owner):
    """This kernel may have none; the lab's has (tests/lab/test_lab_vlan.py)."""
    said = ""
    try:
        link = switched(owner, "vlan", vlans={"a": 10, "b": 10})
    except LinkError as error:
        said = str(error)
    else:
        assert link.facts["proof"]["vlans_of_the_switch"] == {"a": 10, "b": 10}
        link.close()
    assert said == "" or "this kernel has no VLANs on bridges (CONFIG_BRIDGE_VLAN_FILTERING); take the vlan out" in said
