"""Acceptance of a small router: every port at line rate, in both directions."""

import pytest


@pytest.mark.netperf_link(topology="pair")
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_line_rate(iperf3, direction):
    iperf3.tcp(direction=direction)
