import pytest


@pytest.mark.netperf_link(speed="1G")
@pytest.mark.netperf_limit(throughput=">= 930 Mbps")
def test_line_rate(iperf3):
    iperf3.tcp()
