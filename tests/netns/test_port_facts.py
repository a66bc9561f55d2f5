"""What is read of the ports of real links: what the kernel says by other means too, and the doubts that rest on it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import pytest
from observed import named, observe

from pytest_netperf.links.link import Endpoint, Link
from pytest_netperf.observe.observation import PortFacts, PortQueue

pytestmark = pytest.mark.netns

MakeLink = Callable[..., Link]

FEATURES = """
import json, sys
from pyroute2.ethtool.ioctl import IoctlEthtool
port = IoctlEthtool(sys.argv[1])
features = port.get_features()
for name in sys.argv[3:]:
    features[name] = sys.argv[2] == "on"
if sys.argv[3:]:
    port.set_features(features)
    features = port.get_features()
asked = {name: features.is_available(name) and not features.is_requested(name) for name in features.keys()}
print(json.dumps({name: [features[name], asked[name]] for name in features.keys()}))
"""
KERNEL_NAMES = {
    "tso": ("tx-tcp-segmentation", "tx-tcp6-segmentation"),
    "gso": ("tx-generic-segmentation",),
    "gro": ("rx-gro", "rx-gro-hw"),
    "lro": ("rx-lro",),
    "tx-checksum": ("tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"),
    "rx-checksum": ("rx-checksum",),
    "scatter-gather": ("tx-scatter-gather",),
}


STATISTICS = """
import json, sys
from pyroute2.ethtool.ioctl import IoctlEthtool
from pytest_netperf.links.ethtool import Ethtool
with Ethtool(sys.argv[1]) as port:
    ours = port.statistics()
print(json.dumps([ours, dict(IoctlEthtool(sys.argv[1]).get_statistics())]))
"""
OURS = {"Offload off at the tester", "Shaper at the tester"}


def features(end: Endpoint, state: str = "on", *names: str) -> dict[str, list[bool]]:
    """By another reader: which features are on, and which somebody switched off; ``names`` are switched before."""
    argv = [sys.executable, "-c", FEATURES, end.interface, state, *names]
    return json.loads(end.run(argv, check=True).stdout)


def tc(end: Endpoint, *words: str) -> None:
    end.run(["tc", *words], check=True)


def port_of(link: Link, end: str = "a") -> PortFacts:
    return link.port_facts()["ab".index(end)]


# ---- what is read ----------------------------------------------------------------------------------------------------


def test_offloads_are_those_of_the_kernel(make_link: MakeLink) -> None:
    link = make_link(speed_bps=None)
    switched = ("tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-checksum-ip-generic")
    for before, names in (("on", ()), ("off", switched[:2]), ("off", switched), ("on", switched), ("on", ("rx-gro",))):
        kernel = features(link.a, before, *names)
        expected = {}
        for short, long in KERNEL_NAMES.items():
            states = [kernel[name] for name in long]
            can = any(switched_off for _, switched_off in states)
            expected[short] = "on" if any(active for active, _ in states) else "off" if can else "cannot"
        assert port_of(link).offloads == expected
    assert port_of(link).offloads["gro"] == "on"
    assert port_of(link, "b").offloads["gro"] == "off"  # a veth is made without


def test_driver_and_link_are_those_of_the_kernel(make_link: MakeLink) -> None:
    """And what a veth does not have is None, never 0 or False."""
    for port in make_link(speed_bps=1e9).port_facts():
        assert (port.driver, port.version, port.firmware, port.bus_address) == ("veth", "1.0", None, None)
        assert (port.speed_bps, port.duplex, port.autoneg) == (10e9, "full", False)
        assert (port.pause_autoneg, port.pause_rx, port.pause_tx) == (None, None, None)
        assert (port.eee_supported, port.eee_enabled, port.eee_active) == (None, None, None)
        assert port.counters == {}
        assert (port.pcie, port.aspm, port.aspm_policy, port.usb_bps) == ((), None, None, None)


def test_statistics_are_those_of_the_kernel(make_link: MakeLink) -> None:
    link = make_link(speed_bps=None)
    said = link.a.run([sys.executable, "-c", STATISTICS, link.a.interface], check=True).stdout
    ours, theirs = json.loads(said)
    assert ours == theirs
    assert "peer_ifindex" in ours


def test_without_a_carrier_there_is_no_speed(make_link: MakeLink) -> None:
    link = make_link(speed_bps=None)
    link.b.run(["ip", "link", "set", link.b.interface, "down"], check=True)
    for port in link.port_facts():
        assert (port.driver, port.speed_bps, port.duplex, port.autoneg) == ("veth", None, None, False)
    link.b.run(["ip", "link", "set", link.b.interface, "up"], check=True)
    assert [port.speed_bps for port in link.port_facts()] == [10e9, 10e9]


def test_the_shaper_of_a_link_is_known_as_ours(make_link: MakeLink) -> None:
    link = make_link(speed_bps=1e9)
    rate = link.shape(1500)["a"]
    assert rate == 1e9
    for port in link.port_facts():
        (queue,) = port.queues or ()
        assert (queue.kind, queue.root, queue.limits, queue.ours) == ("tbf", True, True, True)
        assert queue.rate_bps == pytest.approx(1e9 * 1514 / 1538, rel=1e-6)


def test_queues_are_those_of_the_kernel(make_link: MakeLink) -> None:
    link = make_link(speed_bps=None)
    interface = link.a.interface

    def queues() -> tuple[PortQueue, ...]:
        found = port_of(link).queues
        assert found is not None
        listed = json.loads(link.a.run(["tc", "-j", "qdisc", "show", "dev", interface], check=True).stdout)
        assert sorted(queue.kind for queue in found) == sorted(
            each["kind"] for each in listed if each["kind"] not in ("clsact", "ingress")
        )
        return found

    (alone,) = queues()
    assert not alone.limits

    def queue(kind: str, rate_bps: float | None, *, limits: bool = True, root: bool = True) -> PortQueue:
        return PortQueue(kind=kind, root=root, limits=limits, rate_bps=rate_bps, ours=False)

    tc(link.a, "qdisc", "add", "dev", interface, "clsact")
    tc(link.a, "qdisc", "add", "dev", interface, "root", "handle", "7:", "tbf", "rate", "300mbit", "burst", "256k",
       "limit", "4m")  # fmt: skip
    assert queues() == (queue("tbf", 300e6),)
    tc(link.a, "qdisc", "add", "dev", interface, "parent", "7:1", "handle", "8:", "pfifo", "limit", "1000")
    assert queues() == (queue("tbf", 300e6), queue("pfifo", None, limits=False, root=False))
    tc(link.a, "qdisc", "replace", "dev", interface, "root", "handle", "7:", "tbf", "rate", "50gbit", "burst", "8m",
       "limit", "64m")  # fmt: skip
    assert queues()[0] == queue("tbf", 50e9)  # does not fit into 32 bits
    tc(link.a, "qdisc", "del", "dev", interface, "root")
    tc(link.a, "qdisc", "add", "dev", interface, "root", "handle", "1:", "htb")
    assert queues() == (queue("htb", None, limits=False),)  # without a class everything passes
    tc(link.a, "class", "add", "dev", interface, "parent", "1:", "classid", "1:1", "htb", "rate", "10mbit", "ceil",
       "40mbit")  # fmt: skip
    assert queues() == (queue("htb", 40e6),)
    tc(link.a, "class", "add", "dev", interface, "parent", "1:", "classid", "1:2", "htb", "rate", "50gbit")
    assert queues() == (queue("htb", None),)
    tc(link.a, "class", "del", "dev", interface, "classid", "1:1")
    assert queues() == (queue("htb", 50e9),)


def test_a_port_that_is_gone_has_no_facts(make_link: MakeLink) -> None:
    link = make_link(speed_bps=None)
    link.a.run(["ip", "link", "del", link.a.interface], check=True)
    for port in link.port_facts():
        assert port == PortFacts(queues=())


def test_it_takes_no_time_that_anybody_notices(make_link: MakeLink) -> None:
    """Both ends, asked through the keeper; the fastest of many, because others measure on this machine."""
    link = make_link(speed_bps=1e9)
    took = []
    for _ in range(40):
        begin = time.perf_counter()
        link.port_facts()
        took.append(time.perf_counter() - begin)
    assert min(took) < 0.005


# ---- the doubts that rest on it, on real runs ------------------------------------------------------------------------


def test_offloads_switched_off_at_the_sender(make_link: MakeLink) -> None:
    link = make_link(speed_bps=None)
    features(link.a, "off", "tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-checksum-ip-generic")
    measured, findings = observe(link)
    said = named(findings, "Offload off at the tester")
    assert said.startswith("At port a tso, tx-checksum were off")
    assert findings.tester_limited_for("throughput")
    assert measured.observation.a_port_before == measured.observation.a_port_after
    assert measured.observation.b_port_before is not None
    assert measured.observation.b_port_before.offloads["tso"] == "on"


def test_offloads_that_are_on_raise_nothing(make_link: MakeLink) -> None:
    """Receive coalescing is off at both ends of a veth, which is how the kernel makes them."""
    measured, findings = observe(make_link(speed_bps=None), duration_s=1.0)
    assert measured.observation.b_port_before is not None
    assert measured.observation.b_port_before.offloads["gro"] == "off"
    assert not [
        doubt for doubt in findings.named if doubt.name in ("Offload off at the tester", "Shaper at the tester")
    ]


@pytest.mark.parametrize("fault", [{"loss_ratio": 0.001}, {"rate_bps": 300e6}], ids=lambda fault: next(iter(fault)))
def test_what_a_fault_does_to_the_ports_is_no_finding(make_link: MakeLink, fault: dict[str, object]) -> None:
    measured, findings = observe(make_link(speed_bps=1e9, fault=fault), duration_s=1.0, congestion="cubic")
    port = measured.observation.a_port_before
    assert port is not None
    assert port.offloads["tso"] == ("off" if "loss_ratio" in fault else "on")
    assert not [
        doubt for doubt in findings.named if doubt.name in ("Offload off at the tester", "Shaper at the tester")
    ]


@pytest.mark.parametrize("kind", ["tbf", "htb"])
def test_a_shaper_at_the_root(make_link: MakeLink, kind: str) -> None:
    link = make_link(speed_bps=None)
    at = ("dev", link.a.interface)
    if kind == "tbf":
        tc(link.a, "qdisc", "add", *at, "root", "tbf", "rate", "400mbit", "burst", "256k", "limit", "4m")
    else:
        tc(link.a, "qdisc", "add", *at, "root", "handle", "1:", "htb", "default", "1")
        tc(link.a, "class", "add", *at, "parent", "1:", "classid", "1:1", "htb", "rate", "400mbit", "burst", "256k",
           "quantum", "60000")  # fmt: skip
    measured, findings = observe(link, duration_s=1.0)
    rate = measured.result.throughput_bps
    assert rate is not None
    assert rate < 420e6
    assert named(findings, "Shaper at the tester") == f"Port a has the queue {kind} 400 Mbit/s."
    assert "Shaper at the tester" in (findings.tester_limited_for("throughput") or "")


def test_a_shaper_inside_that_of_the_link(make_link: MakeLink) -> None:
    """The root is ours and stays; who hangs another into it is found all the same."""
    link = make_link(speed_bps=1e9)
    tc(link.a, "qdisc", "add", "dev", link.a.interface, "parent", "1000:1", "tbf", "rate", "200mbit", "burst", "256k",
       "limit", "4m")  # fmt: skip
    _, findings = observe(link, duration_s=1.0)
    assert named(findings, "Shaper at the tester") == "Port a has the queue tbf 200 Mbit/s."
    assert findings.tester_limited_for("throughput")


def test_a_shaper_of_the_acknowledgements_is_no_excuse(make_link: MakeLink) -> None:
    """It lets through more of them than there are."""
    link = make_link(speed_bps=1e9, fault={"rate_bps": 200e6})
    tc(link.b, "qdisc", "replace", "dev", link.b.interface, "parent", "1000:1", "tbf", "rate", "100mbit", "burst",
       "256k", "limit", "4m")  # fmt: skip
    _, findings = observe(link, duration_s=1.0)
    (doubt,) = (doubt for doubt in findings.named if doubt.name == "Shaper at the tester")
    assert doubt.kind == "note"
