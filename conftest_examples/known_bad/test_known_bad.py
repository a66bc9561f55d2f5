"""The acceptance test of a 100M port, on links that are known to be good or bad: does it tell them apart?"""

import pytest

both_directions = pytest.mark.parametrize("direction", ["forward", "reverse"])


@both_directions
@pytest.mark.netperf_limit(throughput=">= 90 % of ceiling")
def test_line_rate(iperf3, direction):
    iperf3.tcp(direction=direction)


@both_directions
@pytest.mark.netperf_limit(frame_loss_ratio="<= 0.1 %")
def test_loss_at_low_load(iperf3, direction):
    iperf3.udp(direction=direction, bitrate="20 % of ceiling")
