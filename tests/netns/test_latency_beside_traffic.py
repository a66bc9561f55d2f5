"""irtt beside real traffic: the round trip grows under load, whether the run ends by itself or early."""

from __future__ import annotations

import itertools

import pytest

from pytest_netperf.errors import TrafficError
from pytest_netperf.observe.measure import measure
from pytest_netperf.traffic.iperf3 import Iperf3Engine
from pytest_netperf.traffic.result import Workload

pytestmark = pytest.mark.netns


def test_the_round_trip_under_load(make_link, processes_in):
    link = make_link(100e6)
    found = measure(Iperf3Engine(), link, Workload(duration_s=2, omit_s=0), slots=8, rtt=True)
    seen = found.observation.latency
    assert 0 < seen.baseline_p50_s < 0.01
    assert seen.baseline_p50_s < seen.p50_s <= seen.p99_s
    assert seen.buffer_delay > 1, "the queue of the shaper is full"
    assert 100 <= seen.asked <= 200
    assert found.throughput_bps > 80e6
    assert processes_in(link.a) == processes_in(link.b) == []


def test_a_run_that_ends_early_keeps_what_was_seen(make_link, processes_in):
    link, looks = make_link(100e6), itertools.count(1)
    workload = Workload(duration_s=30, omit_s=0, direction="reverse")
    found = measure(Iperf3Engine(), link, workload, slots=8, rtt=True, enough=lambda _: next(looks) >= 2)
    seen = found.observation.latency
    assert found.result.planned_duration_s == 30
    assert 20 <= seen.asked < 1000
    assert seen.p50_s > seen.baseline_p50_s
    assert processes_in(link.a) == processes_in(link.b) == []


def test_an_irtt_that_does_not_start(make_link, processes_in, monkeypatch, tmp_path):
    (tmp_path / "irtt").write_text("#!/bin/sh\necho 'no such thing here' >&2\nexit 3\n")
    (tmp_path / "irtt").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    link = make_link(100e6)
    with pytest.raises(TrafficError, match="irtt did not start at end b: no such thing here"):
        measure(Iperf3Engine(), link, Workload(duration_s=1, omit_s=0), slots=8, rtt=True)
    assert processes_in(link.a) == processes_in(link.b) == []
