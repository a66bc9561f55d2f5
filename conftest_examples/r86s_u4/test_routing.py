"""The device in the middle: what deep packet inspection and inline inspection cost it, against plain routing."""

import pytest


@pytest.mark.netperf_link(topology="routed", device_state=["plain", "dpi", "ips", "ips-both"], mtu=[1500, 9000])
def test_routing(iperf3):
    iperf3.tcp()
