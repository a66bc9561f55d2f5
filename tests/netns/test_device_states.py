"""States of a simulated device: what packets meet on their way, and that each state is proved before it is used."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_netperf.errors import LinkError
from pytest_netperf.links import device_states
from pytest_netperf.links.kernel import has_capabilities
from pytest_netperf.links.link import Link, bring_up
from pytest_netperf.links.owner import Owner
from pytest_netperf.links.routed import RoutedPath
from pytest_netperf.observe.measure import measure
from pytest_netperf.physics import goodput_ceiling_bps
from pytest_netperf.traffic.engine import make_engine
from pytest_netperf.traffic.result import Workload

pytestmark = pytest.mark.netns

FAMILIES = pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])


@pytest.fixture(scope="module")
def in_state(owner: Owner) -> Iterator[Callable[..., Link]]:
    """``in_state(nat=True)``: a link whose device is in this state; the same one for the same state."""
    made: dict[str, Link] = {}

    def bring(speed_bps: float | None = 1e8, **state: Any) -> Link:
        key = f"{speed_bps} {sorted(state.items())}"
        if key not in made:
            device = {"state": state} if state else {}
            made[key] = bring_up(
                owner, key, name=key, speed_bps=speed_bps, mtu=1500, topology="routed", device=device
            )  # fmt: skip
        return made[key]

    yield bring
    for link in made.values():
        link.close()


def seen_from(link: Link, payload: bytes, family: int = socket.AF_INET, way: str = "ab", port: int = 0) -> str | None:
    """Whom the far end sees as the sender of a datagram; None when it does not arrive."""
    source, target = (getattr(link, end) for end in way)
    with (
        source.socket(family, socket.SOCK_DGRAM) as sender,
        target.socket(family, socket.SOCK_DGRAM) as receiver,
    ):
        receiver.bind((target.address6 if family == socket.AF_INET6 else target.address, port))
        sender.sendto(payload, receiver.getsockname()[:2])
        if not select.select([receiver], [], [], 0.3)[0]:
            return None
        data, address = receiver.recvfrom(2000)
        assert data == payload
        return str(address[0])


@FAMILIES
def test_nat(in_state, family):
    link = in_state(nat=True)
    outside = link.device_ports["device_b"]
    six = family == socket.AF_INET6
    assert seen_from(link, b"x", family) == (outside.address6 if six else outside.address)
    assert seen_from(link, b"x", family, "ba") == (link.b.address6 if six else link.b.address)  # nothing to hide
    assert "sees packets of end a as from " + outside.address in link.facts["device_state"]["nat"]


def test_without_nat_the_sender_is_seen(in_state):
    link = in_state()
    assert seen_from(link, b"x") == link.a.address
    assert "device_state" not in link.facts


@FAMILIES
@pytest.mark.parametrize("way", ["ab", "ba"])
def test_a_firewall_refuses_what_its_last_rule_names(in_state, family, way):
    link = in_state(firewall_rules=50)
    assert seen_from(link, b"x", family, way) is not None
    with contextlib.nullcontext() if has_capabilities() else pytest.raises(PermissionError):  # a port below 1024
        assert seen_from(link, b"x", family, way, port=9) is None
    assert link.facts["device_state"]["firewall"].startswith("rule 50 of 50 refused a packet")


@FAMILIES
@pytest.mark.parametrize("way", ["ab", "ba"])
@pytest.mark.parametrize("side", ["a", "b", "both"])
def test_inspection_drops_what_it_looks_for_wherever_it_is_in_the_packet(in_state, family, way, side):
    link = in_state(inspection_rules=12, inspection_side=side)
    assert seen_from(link, b"netperf-signature", family, way) is not None
    assert seen_from(link, b"netperf-signature-00012", family, way) is not None  # there are 12: 0 to 11
    for pattern in (b"netperf-signature-00000", b"netperf-signature-00011"):
        assert seen_from(link, b"x" * 1300 + pattern, family, way) is None


def packets_inspected(link: Link) -> dict[str, int]:
    """Port of the device -> packets that it handed over for inspection."""
    listed = link.device_ports["device_a"].run(["iptables-nft-save", "-c"], env={"PATH": "/usr/sbin:/usr/bin"})
    found: dict[str, int] = {}
    for line in listed.stdout.splitlines():
        if "-A FORWARD" in line:
            counted, _, _, _, port, *_ = line.split()
            found[port] = found.get(port, 0) + int(counted.strip("[]").split(":")[0])
    return found


def test_on_both_sides_each_packet_is_inspected_twice(in_state):
    one, both = (
        in_state(inspection_rules=12, inspection_side="a"),
        in_state(inspection_rules=12, inspection_side="both"),
    )
    assert len(packets_inspected(one)) == 1
    before = packets_inspected(both)
    assert len(before) == 2
    assert seen_from(both, b"x") is not None
    assert packets_inspected(both) == {port: packets + 1 for port, packets in before.items()}


def goodput_bps(link: Link) -> float:
    measured = measure(make_engine("iperf3"), link, Workload(protocol="tcp", duration_s=1.0, omit_s=0.0), slots=1)
    assert measured.throughput_bps is not None
    return measured.throughput_bps


def test_inspection_costs_goodput_and_on_both_sides_more(in_state):
    """The shape of the published tables. The figures are of the machine; other work on it slows all three alike."""
    plain = goodput_bps(in_state(None))
    one = goodput_bps(in_state(None, inspection_rules=40))
    both = goodput_bps(in_state(None, inspection_rules=40, inspection_side="both"))
    assert one < 0.5 * plain
    assert both < 0.85 * one


def test_a_service_that_is_only_slow(in_state):
    link = in_state(rate_limit_bps=5e7)
    assert 0.9 * goodput_ceiling_bps(5e7, 1500) < goodput_bps(link) < 1.03 * goodput_ceiling_bps(5e7, 1500)
    assert link.shape(1500) == {"a": 1e8, "b": 1e8, "device_a": 5e7, "device_b": 5e7}


def test_several_at_once(in_state):
    link = in_state(nat=True, firewall_rules=3, inspection_rules=2, rate_limit_bps=6e7)
    assert list(link.facts["device_state"]) == ["nat", "firewall", "inspection", "rate_limit"]
    assert seen_from(link, b"x") == link.device_ports["device_b"].address
    link.bounce()
    assert seen_from(link, b"..netperf-signature-00001..") is None


# What is not in force is found


@pytest.fixture
def path() -> Iterator[RoutedPath]:
    """A link in this process, so that what puts it into a state can be kept from doing it."""
    if not has_capabilities():
        pytest.skip("needs root to make a link in this process")
    path = RoutedPath(0x7F00, {"mtu": 1500, "speed_bps": 1e8, "far_index": 0x7F01})
    yield path
    path.close()


def test_nat_that_does_nothing(path, monkeypatch):
    monkeypatch.setattr(device_states, "_nft", lambda *_: None)
    with pytest.raises(LinkError, match=r"NAT is not in force: the far end sees a packet of .* as from .*, expected"):
        device_states.enter_state(path, {"nat": True})


def test_a_firewall_that_lets_everything_pass(path, monkeypatch):
    real = device_states._nft

    def toothless(path: RoutedPath, chain: str, body: str) -> None:
        real(path, chain, body.replace("counter drop", "counter accept"))

    monkeypatch.setattr(device_states, "_nft", toothless)
    with pytest.raises(LinkError, match="the firewall is not in force: UDP port 9, which it refuses, passes"):
        device_states.enter_state(path, {"firewall_rules": 5})


def test_inspection_that_looks_for_something_else(path, monkeypatch):
    real = device_states._iptables
    monkeypatch.setattr(
        device_states,
        "_iptables",
        lambda path, family, rules: real(path, family, rules.replace("signature", "nothing")),
    )
    with pytest.raises(LinkError, match="the inspection is not in force: a packet with its last pattern passes"):
        device_states.enter_state(path, {"inspection_rules": 5})


def test_a_limit_that_was_not_set(path, monkeypatch):
    monkeypatch.setattr(path, "limit_device", lambda _: None)
    with pytest.raises(LinkError, match=r"the rate limit of 5e\+07 bit/s is not in force at device_a"):
        device_states.enter_state(path, {"rate_limit_bps": 5e7})


def test_a_kernel_that_refuses_says_what_it_said(path):
    with pytest.raises(LinkError, match=r"cannot put the simulated device into this state: .*nft: .*syntax error"):
        device_states._nft(path, "broken", "type nonsense")


@pytest.mark.parametrize(
    ("program", "package"),
    [
        ("nft", "nftables"),
        ("iptables-restore", "iptables"),
        ("ip6tables-save", "iptables"),
        ("ndpiReader", "libndpi-bin"),
    ],
)
def test_a_program_that_is_not_installed(monkeypatch, tmp_path, program, package):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(device_states, "_SYSTEM_PATH", str(tmp_path))
    with pytest.raises(LinkError, match=f"needs the program {program}, .* sudo apt-get install {package}"):
        device_states.find_program(program)
