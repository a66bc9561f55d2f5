"""Doubts about the host at the far end of a link: it may have been too slow, and then the device is not to blame."""

from __future__ import annotations

import msgspec
import pytest
from doubt_samples import CEILING_BPS, UDP, fair, look, run, tcp_flow, udp_flow

from pytest_netperf.observe.observation import FarLoad

SLOW = CEILING_BPS * 0.8


def names(result, **load):
    observation = msgspec.structs.replace(fair(result), far=FarLoad(**load))
    findings = look(result, observation, simulated=False)
    return {doubt.name: doubt for doubt in findings.named if doubt.name.startswith("Far host")}, findings


@pytest.mark.parametrize(("busy", "seen"), [((0.3, 0.951), True), ((0.3, 0.949), False), ((), False)])
def test_a_far_host_without_time_left_may_be_the_cause(busy, seen):
    found, findings = names(run(tcp_flow(rate_bps=SLOW)), cpu_busy=busy)
    assert ("Far host CPU bound" in found) is seen
    assert (findings.tester_limited_for("throughput") is not None) is seen
    if seen:
        assert "CPU 1 of the far host was 95.1 % busy." in found["Far host CPU bound"].text


def test_a_busy_far_host_that_delivered_all_the_same_is_no_excuse():
    _, findings = names(run(tcp_flow()), cpu_busy=(1.0,))
    assert findings.tester_limited_for("throughput") is None


@pytest.mark.parametrize(
    ("dropped", "lost", "kind"),
    [(500, 1000, "tester"), (50, 1000, "note"), (500, 0, None), (0, 1000, None), (None, 1000, None)],
)
def test_packets_that_the_far_host_dropped_are_not_the_loss_of_the_device(dropped, lost, kind):
    result = run(udp_flow(lost=lost), workload=UDP)
    found, _ = names(result, softnet_dropped=dropped)
    assert [doubt.kind for doubt in found.values()] == ([] if kind is None else [kind])


def test_the_tester_itself_is_no_far_host():
    result = run(tcp_flow(rate_bps=SLOW))
    assert not [doubt for doubt in look(result, fair(result)).named if doubt.name.startswith("Far host")]
