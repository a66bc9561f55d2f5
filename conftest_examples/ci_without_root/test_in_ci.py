"""Short measurements for a CI job: moderate speeds, because a runner shares its CPUs with others."""

import pytest


@pytest.mark.netperf_link(speed=["100M", "1G"])
@pytest.mark.netperf_limit(throughput=">= 95 % of ceiling")
def test_throughput(iperf3):
    iperf3.tcp()


@pytest.mark.netperf_link(speed="100M", ip_version=6)
@pytest.mark.netperf_limit(frame_loss_ratio="<= 0.1 %")
def test_loss_over_ipv6(iperf3):
    iperf3.udp(bitrate="20 Mbps")
