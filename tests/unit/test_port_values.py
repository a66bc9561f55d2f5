"""What the counters of both ports and their drivers make of a run: quantities that a limit may name."""

from __future__ import annotations

import pytest
from doubt_samples import REPLACE, fair, run

from pytest_netperf.judge.values import TRAFFIC_QUANTITIES, traffic_values
from pytest_netperf.observe.observation import PortFacts

RUN = run()
QUIET = PortFacts(
    driver="igc",
    eee_active=False,
    counters={"rx_pause": 10, "tx_pause": 20, "rx_crc_errors": 30, "rx_missed": 40},
)
VETH = PortFacts(driver="veth")


def counting(**gained: int) -> PortFacts:
    return REPLACE(QUIET, counters={**QUIET.counters, **{key: QUIET.counters[key] + gained[key] for key in gained}})


def values(a: PortFacts = QUIET, b: PortFacts = QUIET, before: PortFacts = QUIET, **dropped: int) -> dict:
    """Of a run after which the ports were like this; ``a_rx=3``: port a dropped three frames on receipt."""
    seen = fair(RUN)
    ends = {
        end: REPLACE(
            getattr(seen, f"{end}_after"),
            rx_dropped=dropped.get(f"{end}_rx", 0),
            tx_dropped=dropped.get(f"{end}_tx", 0),
        )
        for end in "ab"
    }
    seen = REPLACE(
        seen,
        a_after=ends["a"],
        b_after=ends["b"],
        a_port_before=before,
        a_port_after=a,
        b_port_before=before,
        b_port_after=b,
    )
    return traffic_values(RUN, seen, mtu_bytes=1500, speed_bps=2.5e9)


OURS = ("crc_errors", "missed", "drops", "pause_forward", "pause_reverse", "eee_ports")


def ours(**seen) -> dict:
    found = values(**seen)
    assert found.keys() <= TRAFFIC_QUANTITIES
    return {name: found[name] for name in OURS}


def test_quiet_ports_count_nothing():
    assert ours() == dict.fromkeys(OURS, 0)


@pytest.mark.parametrize(
    ("seen", "other_than_0"),
    [
        ({"b": counting(rx_crc_errors=3)}, {"crc_errors": 3}),
        ({"a": counting(rx_missed=2), "b": counting(rx_missed=5)}, {"missed": 7}),
        ({"a_rx": 1, "b_tx": 4}, {"drops": 5}),
        ({"a": counting(rx_pause=6)}, {"pause_forward": 6}),
        ({"b": counting(tx_pause=6)}, {"pause_forward": 6}),
        ({"a": counting(rx_pause=6), "b": counting(tx_pause=6)}, {"pause_forward": 6}),  # the same frames
        ({"b": counting(rx_pause=8), "a": counting(tx_pause=9)}, {"pause_reverse": 9}),
        ({"a": REPLACE(QUIET, eee_active=True)}, {"eee_ports": 1}),
        ({"before": REPLACE(QUIET, eee_active=True)}, {"eee_ports": 2}),
    ],
)
def test_what_a_port_counted_is_a_value(seen, other_than_0):
    assert ours(**seen) == dict.fromkeys(OURS, 0) | other_than_0


def test_what_a_driver_does_not_say_is_not_known():
    silent = PortFacts(driver="virtio_net")
    unknown = dict.fromkeys(("crc_errors", "missed", "eee_ports"))
    assert ours(a=silent) == dict.fromkeys(OURS, 0) | unknown
    assert ours(a=silent, b=silent) == dict.fromkeys(OURS) | {"drops": 0}
    reset = REPLACE(QUIET, counters=dict.fromkeys(QUIET.counters, 0))  # a counter that runs backwards says nothing
    assert ours(a=reset, b=reset) == dict.fromkeys(OURS) | {"drops": 0, "eee_ports": 0}


def test_ends_of_a_simulated_link_have_none_of_it():
    assert ours(a=VETH, b=VETH, before=VETH) == dict.fromkeys(OURS, 0)
