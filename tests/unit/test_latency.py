"""Round-trip times as irtt gives them: quantiles, what got lost, and the buffer delay of RFC 6349."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.errors import TrafficError
from pytest_netperf.observe.latency import LatencyWatch, _round_trips, latency_of
from pytest_netperf.traffic.result import Workload

IDLE = [0.001] * 100


def document(*trips, every_s=0.01):
    """One question every 10 ms; None got lost."""
    return {
        "round_trips": [
            {
                "lost": "false" if rtt is not None else "true_up",
                "timestamps": {"client": {"send": {"monotonic": int(place * every_s * 1e9)}}},
                "delay": {} if rtt is None else {"rtt": int(rtt * 1e9)},
            }
            for place, rtt in enumerate(trips)
        ]
    }


def test_quantiles_are_round_trips_that_were_seen():
    found = latency_of(IDLE, [0.001 * (place + 1) for place in range(200)])
    assert (found.p50_s, found.p99_s) == (0.1, pytest.approx(0.198))
    assert (found.asked, found.lost, found.baseline_p50_s) == (200, 0, 0.001)


def test_the_buffer_delay_of_rfc_6349():
    """Its example: 25 ms idle, 32 ms on average under load, is 28 %."""
    found = latency_of([0.025] * 100, [0.030, 0.034] * 50)
    assert found.buffer_delay == pytest.approx(0.28)


@pytest.mark.parametrize(("lost", "p99"), [(1, 0.01), (2, None), (60, None)])
def test_what_gets_lost_took_for_ever(lost, p99):
    """No quantile is made of the lucky ones alone."""
    found = latency_of(IDLE, [None] * lost + [0.01] * (200 - lost) if lost < 3 else [None] * 120 + [0.01] * 80)
    if lost == 2:
        found = latency_of(IDLE, [None] * 3 + [0.01] * 197)
    assert found.p99_s == p99
    assert found.p50_s == (None if lost == 60 else 0.01)


@pytest.mark.parametrize(
    ("asked", "p50", "p99"), [(19, False, False), (20, True, False), (99, True, False), (100, True, True)]
)
def test_too_few_to_tell(asked, p50, p99):
    found = latency_of(IDLE, [0.002] * asked)
    assert (found.p50_s is not None, found.p99_s is not None) == (p50, p99)


def test_nothing_at_all():
    found = latency_of([], [])
    assert {found.baseline_p50_s, found.p50_s, found.p99_s, found.mean_s, found.buffer_delay} == {None}
    assert latency_of([None] * 100, [None] * 100).mean_s is None


def test_seconds_that_do_not_count():
    trips = _round_trips(document(*([0.5] * 100), *([0.002] * 50)), skip_s=1.0)
    assert trips == [0.002] * 50
    assert _round_trips(document(0.001, None)) == [0.001, None]


@pytest.mark.parametrize(
    "each",
    [
        {},
        3,
        {"lost": "false"},
        {"lost": "false", "timestamps": {"client": {}}, "delay": {}},
        {**document(1)["round_trips"][0], "delay": None},
    ],
)
def test_documents_of_another_version(each):
    with pytest.raises(TrafficError, match="irtt gave a round trip that is not understood"):
        _round_trips({"round_trips": [each]})


def test_without_irtt(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(TrafficError, match="irtt, which is not installed: sudo apt-get install irtt"):
        LatencyWatch(None, Workload())


@given(st.lists(st.one_of(st.none(), st.floats(1e-6, 10))), st.lists(st.one_of(st.none(), st.floats(1e-6, 10))))
def test_quantiles_are_in_order(idle, loaded):
    found = latency_of(idle, loaded)
    if found.p50_s is not None and found.p99_s is not None:
        assert min(rtt for rtt in loaded if rtt is not None) <= found.p50_s <= found.p99_s
    assert found.lost <= found.asked == len(loaded)
