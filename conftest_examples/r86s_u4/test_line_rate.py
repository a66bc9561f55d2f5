"""Acceptance of a small router: every port at line rate, in both directions."""

import pytest


@pytest.mark.netperf_link(speed="2.5G")
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_2g5_line_rate(iperf3, direction):
    iperf3.tcp(direction=direction)


@pytest.mark.netperf_link(name="sfp", mtu=9000)
def test_10g_jumbo_line_rate(iperf3):
    iperf3.tcp()
