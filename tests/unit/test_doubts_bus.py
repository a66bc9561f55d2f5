"""Doubts about the bus of a port: what it carries, what the port needs, and how deeply it sleeps."""

from __future__ import annotations

import pytest
from doubt_samples import CEILING_BPS, REPLACE, SPEED_BPS, fair, look, run, tcp_flow

from pytest_netperf.judge.doubts import Findings
from pytest_netperf.judge.port_evidence import hop_bps, hop_text
from pytest_netperf.observe.observation import PcieHop, PortFacts
from pytest_netperf.traffic.result import Result, Workload

FAST = run()
SLOW = run(tcp_flow(rate_bps=CEILING_BPS / 2))
BIDIRECTIONAL = Workload(direction="bidirectional")
BOTH = run(tcp_flow(), tcp_flow("reverse"), workload=BIDIRECTIONAL)
NOTHING = PortFacts()


def hop(speed_gtps=8.0, width: int | None = 4, upper=(8.0, 4), lower=(8.0, 4), at="0000:00:1c.0") -> PcieHop:
    return PcieHop(
        upper=at, lower="0000:01:00.0", speed_gtps=speed_gtps, width=width,
        upper_max_speed_gtps=upper[0], upper_max_width=upper[1],
        lower_max_speed_gtps=lower[0], lower_max_width=lower[1],
    )  # fmt: skip


def on(*hops: PcieHop, **known) -> PortFacts:
    return PortFacts(pcie=hops, **known)


def seen(result: Result, a=NOTHING, b=NOTHING, **known) -> Findings:
    observed = REPLACE(fair(result), a_port_before=a, a_port_after=a, b_port_before=b, b_port_after=b)
    return look(result, observed, **{"simulated": False, **known})


def names(findings: Findings) -> list[str]:
    return [doubt.name for doubt in findings.named]


@pytest.mark.parametrize(
    ("speed", "width", "bps"),
    [
        (2.5, 1, 2e9),
        (5.0, 4, 16e9),
        (8.0, 1, 8e9 * 128 / 130),
        (16.0, 16, 256e9 * 128 / 130),
        (64.0, 2, 128e9),
        (None, 1, None),
        (8.0, None, None),
    ],
)
def test_what_lanes_carry(speed, width, bps):
    assert hop_bps(speed, width) == (None if bps is None else pytest.approx(bps))


def test_a_hop_in_words():
    assert hop_text(hop(5.0, 1, (8.0, 4), (None, None))) == (
        "0000:00:1c.0 - 0000:01:00.0: 5 GT/s x1 (can: 8 GT/s x4, not known)"
    )
    assert hop_text(hop(5.0, None, (8.0, None), (None, 2))).endswith("5 GT/s x? (can: 8 GT/s x?, ? GT/s x2)")


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (hop(), []),
        (hop(5.0, 1, (8.0, 4), (5.0, 1)), []),  # the card can do no more
        (hop(5.0, 2, (5.0, 2), (8.0, 4)), []),  # the slot can do no more
        (hop(5.0, 4, (8.0, 4), (8.0, 4)), ["PCIe below what both ends can"]),
        (hop(8.0, 1, (8.0, 4), (8.0, 4)), ["PCIe below what both ends can"]),
        (hop(5.0, 1, (8.0, 1), (16.0, 4)), ["PCIe below what both ends can"]),
        (hop(5.0, 1, (8.0, 4), (None, None)), ["PCIe below what both ends can"]),  # a virtual function does not say
        (hop(5.0, 1, (None, None), (None, None)), []),
        (hop(2.5, 1, (2.5, 1), (2.5, 1)), ["PCIe below need"]),
        (hop(2.5, 1, (5.0, 1), (5.0, 1)), ["PCIe below what both ends can", "PCIe below need"]),
        (hop(2.5, None), []),
    ],
)
def test_a_hop_of_pci_express(one, expected):
    for result in (FAST, SLOW):
        findings = seen(result, on(hop(at="0000:00:01.0"), one))
        assert names(findings) == expected
        assert findings.tester_limited is None  # the bus may be the device's


def test_it_says_what_the_port_needs():
    (doubt,) = seen(SLOW, b=on(hop(2.5, 1, (2.5, 1), (2.5, 1)))).named
    assert doubt.seen == (
        "Port b, 0000:00:1c.0 - 0000:01:00.0: 2.5 GT/s x1 (can: 2.5 GT/s x1, 2.5 GT/s x1), carries 2 Gbit/s for "
        "2.5 Gbit/s."
    )


def test_a_hop_that_trained_down_during_the_run():
    before, after = on(hop()), on(hop(2.5))
    observed = REPLACE(fair(SLOW), a_port_before=before, a_port_after=after, b_port_before=before, b_port_after=before)
    (doubt,) = look(SLOW, observed, simulated=False).named
    assert doubt.seen == "Port a, 0000:00:1c.0 - 0000:01:00.0: 2.5 GT/s x4 (can: 8 GT/s x4, 8 GT/s x4)."


@pytest.mark.parametrize(
    ("result", "other", "raised"),
    [
        (BOTH, "0000:00:1c.0", True),
        (FAST, "0000:00:1c.0", False),  # each direction of the bus has one port to serve
        (BOTH, "0000:00:1d.0", False),
    ],
)
def test_two_ports_behind_one_link_share_it(result, other, raised):
    """5 GT/s x1 carries 4 Gbit/s: enough for one port of 2.5 Gbit/s, not for two that send."""
    one = hop(5.0, 1, (5.0, 1), (5.0, 1))
    two = REPLACE(one, upper=other, lower="0000:01:00.1")
    found = [doubt.seen for doubt in seen(result, on(one), on(two)).named if doubt.name == "PCIe below need"]
    assert bool(found) is raised
    assert all(text.endswith("carries 4 Gbit/s for 5 Gbit/s, of both ports.") for text in found)


def test_without_a_rating_the_speed_of_the_port_is_what_it_needs():
    narrow = hop(2.5, 1, (2.5, 1), (2.5, 1))
    known = {"speed_bps": None, "ceiling_bps": None}
    assert names(seen(FAST, on(narrow, speed_bps=SPEED_BPS), **known)) == ["PCIe below need"]
    assert names(seen(FAST, on(narrow, speed_bps=1e9), **known)) == []
    assert names(seen(FAST, on(narrow), **known)) == []


# ---- USB -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usb_bps", "speed_bps", "result", "raised"),
    [
        (480e6, 1e9, FAST, True),
        (480e6, 100e6, FAST, False),
        (480e6, 100e6, BOTH, False),
        (480e6, 400e6, FAST, False),
        (480e6, 300e6, BOTH, True),  # one wire for both directions
        (5e9, 2.5e9, FAST, False),
        (5e9, 2.5e9, BOTH, False),
        (5e9, 5e9, FAST, True),  # 4 Gbit/s after its encoding
        (10e9, 5e9, FAST, False),
        (10e9, 10e9, FAST, True),
        (20e9, 10e9, FAST, False),
        (12e6, 10e6, FAST, False),
        (None, 10e9, FAST, False),
    ],
)
def test_usb(usb_bps, speed_bps, result, raised):
    findings = seen(result, PortFacts(usb_bps=usb_bps), speed_bps=speed_bps)
    assert ("USB below need" in names(findings)) is raised
    assert all(doubt.kind == "device" for doubt in findings.named)


def test_usb_says_its_sum():
    (doubt,) = seen(FAST, PortFacts(usb_bps=5e9), speed_bps=5e9).named
    assert doubt.seen == "Port a is on a USB of 5 Gbit/s, which carries 4 Gbit/s for 5 Gbit/s."


# ---- power saving ----------------------------------------------------------------------------------------------------

LOPSIDED = run(tcp_flow(rate_bps=CEILING_BPS), tcp_flow("reverse", rate_bps=CEILING_BPS * 0.7), workload=BIDIRECTIONAL)


@pytest.mark.parametrize(
    ("driver", "aspm", "result", "raised"),
    [
        ("igc", ("l1_aspm", "l1_2_aspm"), SLOW, True),
        ("r8169", ("l1_aspm",), SLOW, True),
        ("igc", ("l1_aspm",), FAST, False),
        ("igc", ("l1_aspm",), BOTH, False),
        ("igc", ("l1_aspm",), LOPSIDED, True),
        ("igc", (), SLOW, False),
        ("igc", None, SLOW, False),
        ("ixgbe", ("l1_aspm",), SLOW, False),
        (None, ("l1_aspm",), SLOW, False),
    ],
)
def test_power_saving_of_the_bus(driver, aspm, result, raised):
    findings = seen(result, b=PortFacts(driver=driver, aspm=aspm, aspm_policy="powersave"))
    assert ("ASPM on a card known for it" in names(findings)) is raised
    assert findings.tester_limited is None


def test_it_names_the_card_and_the_policy():
    port = PortFacts(driver="igc", aspm=("l1_aspm", "l1_2_aspm"), aspm_policy="default")
    (doubt,) = (doubt for doubt in seen(LOPSIDED, port).named if doubt.name.startswith("ASPM"))
    assert doubt.seen == "Port a (igc) has l1_aspm, l1_2_aspm, policy default."
