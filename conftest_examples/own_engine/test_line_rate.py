import pytest


@pytest.mark.netperf_link(speed="1G")
@pytest.mark.netperf_limit(throughput=">= 90 % of ceiling")
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_line_rate(iperf3, direction):
    iperf3.tcp(direction=direction)
