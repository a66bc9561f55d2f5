"""The device in the middle: what watching it, passive and inline inspection cost, against plain routing."""

import pytest

STATES = ["plain", "watched", "ndpi", "dpi", "ips", "ips-both"]


@pytest.mark.netperf_link(topology="routed", device_state=STATES, mtu=[1500, 9000])
def test_routing(iperf3):
    iperf3.tcp()
