"""What a physical link must be before any traffic, by what its ports say of themselves."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_netperf.judge.precondition import unmet_preconditions
from pytest_netperf.observe.observation import PcieHop, PortFacts

GOOD: dict[str, Any] = {"driver": "ixgbe", "speed_bps": 10e9, "duplex": "full"}


def hop(speed: float, width: int | None, most_speed: float = 8.0, most_width: int | None = 8) -> PcieHop:
    return PcieHop(
        upper="0000:00:1c.0",
        lower="0000:01:00.0",
        speed_gtps=speed,
        width=width,
        upper_max_speed_gtps=most_speed,
        upper_max_width=most_width,
        lower_max_speed_gtps=8.0,
        lower_max_width=8,
    )


def unmet(rated: float | None = 10e9, **facts: Any) -> tuple[str, ...]:
    ports = {"a": PortFacts(**GOOD), "b": PortFacts(**{**GOOD, **facts})}
    return unmet_preconditions(ports, rated)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"speed_bps": 1e9}, "port b negotiated 1G full duplex, and the link is one of 10G"),
        ({"speed_bps": 9.999e9, "duplex": None}, "port b negotiated 9.999G, and the link is one of 10G"),
        ({"duplex": "half"}, "port b negotiated half duplex, and the link is one of full duplex"),
        ({"pcie": (hop(5.0, 2),)}, "port b is behind a PCI Express link that carries 8 Gbit/s for 10 Gbit/s; both"),
        ({"pcie": (hop(8.0, 8), hop(8.0, 1))}, "carries 7.877 Gbit/s for 10 Gbit/s; both its ends can do more"),
        ({"pcie": (hop(8.0, 1, most_width=1),)}, "its ends can do no more (0000:00:1c.0 - 0000:01:00.0: 8 GT/s x1"),
        ({"usb_bps": 5e9}, "port b is on a USB that carries 4 Gbit/s for 10 Gbit/s"),
    ],
)
def test_the_device_is_not_what_it_is_sold_for(facts: dict[str, Any], said: str):
    (found,) = unmet(**facts)
    assert said in found


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"speed_bps": 25e9},
        {"speed_bps": None, "duplex": None},
        {"driver": "veth", "speed_bps": 1e9},
        {"pcie": (hop(8.0, 2), hop(16.0, 1, most_speed=16.0))},
        {"pcie": (hop(5.0, None),)},
        {"pcie": ()},
        {"usb_bps": 20e9},
    ],
)
def test_nothing_is_wrong_or_known(facts: dict[str, Any]):
    assert unmet(**facts) == ()


def test_everything_is_said_at_once():
    found = unmet(speed_bps=1e9, pcie=(hop(2.5, 1),), duplex="half")
    assert [sentence.split()[2] for sentence in found] == ["negotiated", "is"]
    assert unmet(None, duplex="half", speed_bps=1e7) == ()


def test_a_duplex_that_a_test_asked_for():
    ports = dict.fromkeys("ab", PortFacts(driver="r8169", speed_bps=1e8, duplex="half"))
    assert unmet_preconditions(ports, 1e8, duplex="half") == ()
    assert len(unmet_preconditions(ports, 1e8)) == 2
