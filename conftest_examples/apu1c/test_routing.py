"""A router between two hosts: plain and with firewall and NAT, large and small packets, one stream and ten."""

import pytest


@pytest.mark.netperf_link(topology="routed", device_state=["plain", "nat"], mss=[None, 600])
@pytest.mark.parametrize("streams", [1, 10])
def test_routing(iperf3, streams):
    iperf3.tcp(streams=streams)
