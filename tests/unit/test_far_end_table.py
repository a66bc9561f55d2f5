"""A link whose far end is another host, in a bench file: what may be written, and what each mistake says."""

from __future__ import annotations

import pytest

from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.bench.ssh_target import SshTarget
from pytest_netperf.errors import BenchError

LINK = """
[[device]]
serial = "S-1"
[[device.link]]
name = "far"
speed = "1G"
topology = "remote"
"""
NEAR = {"port": '"enp1s0"', "address": '"198.18.1.1/24"'}
FAR = {"port": '"enp1s0"', "ssh": '"root@198.18.0.2"'}


def bench(near=(), far=(), link=LINK):
    def table(given, changes):
        merged = {**given, **dict(changes)}
        return "{" + ", ".join(f"{key} = {value}" for key, value in merged.items() if value is not None) + "}"

    return f"{link}a = {table(NEAR, near)}\nb = {table(FAR, far)}\n"


def the_link(*args, **kwargs):
    return parse_bench(bench(*args, **kwargs), "bench.toml").devices[0].links[0]


def test_both_ends_may_be_called_the_same_and_only_the_near_one_is_a_port_of_this_machine():
    link = the_link()
    assert link.unsupported_reason() is None
    assert list(link.physical_ports) == ["a"]
    assert link.b.ssh == SshTarget(host="198.18.0.2", user="root")
    assert link.b.iperf3 == "iperf3"
    assert not link.without_hardware


def test_everything_that_can_be_said_of_a_far_end():
    far = {
        "ssh": '"tester@[2001:db8::2]"',
        "ssh_port": "2222",
        "ssh_key": '"~/.ssh/netperf"',
        "ssh_known_hosts": '"/etc/netperf/known_hosts"',
        "iperf3": '"/opt/iperf3/bin/iperf3"',
        "namespace": '"lab"',
        "address": '"198.18.1.2/24"',
        "address6": '"2001:db8:1::2/64"',
    }
    near = {"address6": '"2001:db8:2::1/64"', "gateway": '"198.18.1.254"', "gateway6": '"2001:db8:2::ffff"'}
    link = the_link(near, far)
    assert link.unsupported_reason() is None
    assert link.b.ssh == SshTarget(
        host="2001:db8::2", user="tester", port=2222, key="~/.ssh/netperf", known_hosts="/etc/netperf/known_hosts"
    )
    assert str(link.b.ssh) == "ssh tester@[2001:db8::2]:2222"
    assert (link.b.iperf3, link.b.namespace, link.a.gateway) == ("/opt/iperf3/bin/iperf3", "lab", "198.18.1.254")


@pytest.mark.parametrize("host", ["hall-2", "far.example.org", "198.18.0.2", "2001:db8::2"])
def test_a_user_may_be_left_to_the_configuration_of_ssh(host):
    assert the_link(far={"ssh": f'"{host}"'}).b.ssh == SshTarget(host=host)


@pytest.mark.parametrize(
    ("near", "far", "place", "said"),
    [
        ({}, {"ssh": None}, "b.ssh", 'is missing; write how to log in to the host that has this port, such as "root@'),
        ({"ssh": '"root@h"'}, {}, "a.ssh", "end a is a port of this machine; the other host is end b"),
        ({"address": None}, {}, "a.address", "is missing; write one in the network of the far port"),
        ({"address": '"2001:db8::1/64"'}, {}, "a.address", "is an IPv6 address; write it as address6, and IPv4 here"),
        ({}, {"address": '"198.18.1.1/24"'}, "b.address", "is the address of end a too"),
        ({}, {"address6": '"2001:db8::2/64"'}, "a.address6", "is missing, and end b has 2001:db8::2/64"),
        (
            {},
            {"address": '"198.18.1.2/24"', "gateway": '"198.18.1.3"'},
            "b.gateway",
            "the routes of another host are its own; set them there, and remove it",
        ),
        ({}, {"allow_virtual": "true"}, "b.allow_virtual", "a far port stays where it is; remove it"),
        ({}, {"ssh": '"root@198.18.0.2:2222"'}, "b.ssh", "the port has a key of its own, ssh_port"),
        ({}, {"ssh": '"@host"'}, "b.ssh", "has no user before the @"),
        ({}, {"ssh": '"root@-oProxyCommand=x"'}, "b.ssh", "is not a user and a host"),
        ({}, {"ssh": '"ssh root@host"'}, "b.ssh", "has no user before the @"),
        ({}, {"ssh_port": "0"}, "b.ssh_port", "0 is not an integer number of a TCP port from 1 to 65535"),
        ({}, {"ssh_key": '"id_netperf"'}, "b.ssh_key", 'is not a whole path; write one such as "~/.ssh/bench"'),
        ({}, {"ssh": None, "ssh_key": '"/k"'}, "b.ssh_key", "says nothing without the machine; add ssh = "),
        ({}, {"ssh": None, "iperf3": '"/k"'}, "b.iperf3", "is the one of another host; add ssh = "),
    ],
)
def test_each_mistake_is_named_with_its_place_and_the_way_out(near, far, place, said):
    with pytest.raises(BenchError) as error:
        parse_bench(bench(near, far), "bench.toml")
    lines = [line for line in str(error.value).splitlines() if f"device[0].link[0].{place}:" in line]
    assert [said in line for line in lines] == [True], str(error.value)


@pytest.mark.parametrize("topology", ["pair", "switched"])
def test_only_a_remote_link_has_its_end_on_another_host(topology):
    with pytest.raises(BenchError, match=r'b\.ssh: only a remote link .* add topology = "remote", or remove it'):
        parse_bench(bench(link=LINK.replace("remote", topology)), "bench.toml")


def test_a_simulated_far_end_is_not_brought_up():
    link = the_link(link=f"{LINK}simulated = true\n")
    assert "'remote'" in link.unsupported_reason()
    assert link.physical_ports == {}
