"""Ports without hardware of their own, and Wi-Fi without a radio that could move: refused, with the way out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_netperf.links.kernel import has_capabilities
from pytest_netperf.links.namespace import Namespace
from pytest_netperf.links.port_refusal import read_machine_use, refusals
from pytest_netperf.links.ports import HostPort, find_port, list_ports

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(not has_capabilities(), reason="makes namespaces in this process: run as root"),
]


@pytest.fixture
def refused():
    """``refused("br0")``: why this port of a namespace with a bridge must not be taken."""
    namespace = Namespace("refusal")
    ipr = namespace.ipr

    def build() -> None:
        ipr.link("add", ifname="eth0", kind="veth", peer={"ifname": "eth1"})
        ipr.link("add", ifname="br0", kind="bridge")
        ipr.link("add", ifname="br1", kind="bridge")
        ipr.link("set", index=ipr.link_lookup(ifname="eth0")[0], master=ipr.link_lookup(ifname="br0")[0])

    def why(name: str, **changes: object) -> list[str]:
        def ask() -> list[str]:
            port: HostPort = replace(find_port(name, list_ports(ipr)), **changes)  # type: ignore[arg-type]
            return refusals(port, ipr, read_machine_use(ipr), allow_addressed=False, allow_virtual=True)

        return namespace.call(ask)

    namespace.call(build)
    yield why
    namespace.close()


def test_a_bridge_is_no_port_and_its_ports_are_named(refused):
    (reason,) = refused("br0")
    assert reason == (
        "it is a bridge of eth0 without hardware of its own; remove it (ip link del br0) and name one of its ports"
    )
    (reason,) = refused("br1")
    assert reason.startswith("it is a bridge without hardware of its own")
    (reason,) = refused("eth0")
    assert reason.startswith("br0 stands on it")


def test_a_vlan_is_no_port_and_the_one_below_it_is_named(refused):
    """This kernel may have no 802.1Q: what the kernel answers of one is the same as of a veth with its peer."""
    (reason,) = refused("eth1", kind="vlan")
    assert "it is a vlan on eth0: a VLAN cannot be moved without what else uses its port" in reason
    assert "and name eth0 itself" in reason


def test_wifi_without_a_phy_is_refused(refused):
    (reason,) = refused("eth1", wifi=True)
    assert reason.startswith("it is Wi-Fi of an old kind")
