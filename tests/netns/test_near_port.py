"""The proof of the way to a far port, by echoes: what is said when something on it is not as it should be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from real_sshd import Cable, SshHost

from pytest_netperf.errors import LinkError
from pytest_netperf.links.kernel import has_capabilities
from pytest_netperf.links.near_port import NearPort

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(not has_capabilities(), reason="ports of this machine, and another host, need root"),
]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHost]:
    with SshHost(tmp_path_factory.mktemp("far")) as host:
        yield host


@pytest.fixture
def cable(host: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cable:
    monkeypatch.setenv("NETPERF_STATE", str(tmp_path))
    monkeypatch.setattr(NearPort, "proof_seconds", 0.4)
    return host.cable()


def far_of(host: SshHost, cable: Cable, **changes: Any) -> dict[str, Any]:
    mac = host.run("cat", f"/sys/class/net/{cable.far}/address").strip()
    return {"name": "hall 2", "mac": mac, "address": cable.far_address, "address6": cable.far_address6, **changes}


def up(cable: Cable, far: dict[str, Any], mtu: int = 1500, **near: Any) -> NearPort:
    given = {
        "port": f"mac-{cable.near_mac}",
        "address": f"{cable.near_address}/30",
        "address6": f"{cable.near_address6}/64",
        "allow_virtual": True,
    }
    holder = {"pid": os.getpid(), "command": "a test", "run": "a test"}
    spec = {"mtu": mtu, "ports": {"a": {**given, **near}}, "far": far, "holder": holder, "asked": {}}
    return NearPort(7, spec, lambda: False)


def refused(cable: Cable, far: dict[str, Any], **how: Any) -> str:
    """What is said; and the near port is home again."""
    with pytest.raises(LinkError) as error:
        up(cable, far, **how).close()
    assert Path("/sys/class/net", cable.near).exists()
    return str(error.value)


def test_a_way_of_both_ip_versions_is_proved_also_after_the_port_was_down(host: SshHost, cable: Cable):
    near = up(cable, far_of(host, cable))
    try:
        assert near.facts["proof"]["ip_versions"] == [4, 6]
        assert near.facts["proof"]["ttl_of_echo"] == {"IPv4": 64, "IPv6": 64}
        near.bounce()
        assert set(near.counters()) == {"a"}
        assert near.port_facts()["a"]["driver"] == "veth"
    finally:
        near.close()
    assert Path("/sys/class/net", cable.near).exists()


def test_without_ipv6_only_ipv4_is_proved(host: SshHost, cable: Cable):
    near = up(cable, far_of(host, cable, address6=None), address6=None)
    near.close()
    assert near.facts["proof"]["ip_versions"] == [4]
    assert near.ports["a"]["address6"] is None


def test_a_host_that_does_not_answer_pings(host: SshHost, cable: Cable):
    said = refused(cable, far_of(host, cable, address="198.18.255.254"), address="198.18.255.253/30")
    assert said == (
        "no answer to an IPv4 echo (ping) from hall 2 at 198.18.255.254: is the cable in this port, does the far host "
        "have a route back, and does its firewall drop pings?"
    )


def test_an_answer_from_another_port_of_the_far_host(host: SshHost, cable: Cable):
    """The address may be on any port of a Linux host, and it answers all the same."""
    said = refused(cable, far_of(host, cable, mac="02:00:5e:00:00:77"))
    assert "comes from MAC address " in said
    assert "and its port has 02:00:5e:00:00:77: the answer left another port of the far host" in said


def test_a_smaller_mtu_on_the_way_there(host: SshHost, cable: Cable):
    said = refused(cable, far_of(host, cable), mtu=9000)  # the far port takes no more than its own 1500
    assert "an IPv4 echo of 9000 bytes with DF set did not come back from hall 2" in said
    assert "the MTU is 9000 at both ends and 1500 in the middle; set the MTU on every device of the path" in said


@pytest.mark.parametrize("version", [4, 6])
def test_a_smaller_mtu_on_the_way_back(host: SshHost, cable: Cable, version: int):
    near = cable.near_address if version == 4 else cable.near_address6
    far = f"-{version}"
    host.run("ip", far, "route", "add", near, "dev", cable.far, "mtu", "lock", "1400")
    said = refused(cable, far_of(host, cable))
    assert f"an IPv{version} echo of 1500 bytes with DF set came back from hall 2 at" in said
    assert "in pieces: what is on the way back has a smaller MTU" in said


def test_a_gateway_that_is_the_far_host_itself(host: SshHost, cable: Cable):
    said = refused(cable, far_of(host, cable), gateway=cable.far_address)
    assert f"came with a TTL of 64, as it was sent: it did not pass the gateway {cable.far_address}" in said


def test_a_far_port_behind_a_gateway(host: SshHost, cable: Cable):
    """The host forwards to a network namespace behind it, where the far port is."""
    inside = f"in{cable.tag}"
    host.run("ip", "netns", "add", inside)
    host.run("ip", "link", "add", "toward", "type", "veth", "peer", "name", "behind", "netns", inside)
    host.run("ip", "addr", "add", "198.18.254.1/30", "dev", "toward")
    host.run("ip", "link", "set", "toward", "up")
    host.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    for words in ("addr add 198.18.254.2/30 dev behind", "link set behind up", "route add default via 198.18.254.1"):
        host.run("ip", "-n", inside, *words.split())
    far = far_of(host, cable, address="198.18.254.2", address6=None)
    near = up(cable, far, gateway=cable.far_address, address6=None)
    near.close()
    assert near.facts["proof"]["ttl_of_echo"] == {"IPv4": 63}
    assert near.facts["proof"]["gateways"] == [cable.far_address]
