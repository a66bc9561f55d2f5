"""Ports at both sides of a real device: what each must have negotiated, and what cannot be one. Pure."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.bench.plan import LinkRequest, plan_links
from pytest_netperf.errors import DeviceError, LinkError
from pytest_netperf.links.routed_ports import RoutedPorts
from pytest_netperf.observe.observation import PortFacts
from pytest_netperf.session import _refuse_unmet

BENCH = """
[[device]]
serial = "BOX-1"
[[device.link]]
name = "lan-wan"
topology = "routed"
a = { port = "eth1", address = "198.18.1.2/24", gateway = "198.18.1.1", speed = "10G" }
b = { port = "eth2", address = "198.18.2.2/24", gateway = "198.18.2.1", speed = "2.5G" }
"""


class Lent:
    """A link whose ports negotiated these speeds."""

    def __init__(self, a: float, b: float) -> None:
        self.negotiated, self.closed = (a, b), False

    def port_facts(self) -> tuple[PortFacts, ...]:
        return tuple(PortFacts(driver="igc", speed_bps=speed, duplex="full") for speed in self.negotiated)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        (10e9, 2.5e9, None),
        (2.5e9, 2.5e9, "port a negotiated 2.5G full duplex, and the link is one of 10G. No traffic was sent."),
        (10e9, 1e9, "port b negotiated 1G full duplex, and the link is one of 2.5G. No traffic was sent."),
    ],
)
def test_each_port_is_held_against_its_own_speed(a: float, b: float, says: str | None):
    (plan,) = plan_links(parse_bench(BENCH), LinkRequest())
    assert plan.link.speed_bps == 2.5e9
    lent = Lent(a, b)
    if says is None:
        _refuse_unmet(cast("Any", lent), plan)
    else:
        with pytest.raises(DeviceError) as refusal:
            _refuse_unmet(cast("Any", lent), plan)
        assert str(refusal.value) == says
    assert lent.closed is (says is not None)


def test_what_both_ports_shall_negotiate_is_the_speed_of_both():
    request = LinkRequest(sweeps=(("negotiation", (SimpleNamespace(speed_bps=1e9, text="1G"),)),))
    (plan,) = plan_links(parse_bench(BENCH), cast("Any", request))
    assert (plan.link.speed_bps, plan.link.port_speed_bps("a"), plan.link.port_speed_bps("b")) == (1e9, 1e9, 1e9)


def test_a_radio_does_not_join_a_device():
    found = {"a": SimpleNamespace(wifi=True, label="wlan0, phy0"), "b": SimpleNamespace(wifi=False, label="eth2")}
    with pytest.raises(LinkError, match=r"port a \(wlan0, phy0\): it is Wi-Fi, which joins the other port of a pair"):
        RoutedPorts.refuse(object.__new__(RoutedPorts), cast("Any", found), {})
