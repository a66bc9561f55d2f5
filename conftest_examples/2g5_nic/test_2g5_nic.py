"""A 2.5G network card at both frame sizes and in both directions, against what physics allows."""

import pytest

pytestmark = [
    pytest.mark.netperf_link(speed="2.5G", mtu=[1500, 9000]),
    # A good card delivers more than 99.5 % of the ceiling; the rest is for the machine that measures.
    pytest.mark.netperf_limit(throughput=">= 98 % of ceiling", source="agreed with the vendor"),
]


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.netperf_limit(retransmits="<= 500")
def test_one_stream(iperf3, direction):
    iperf3.tcp(direction=direction)


def test_four_streams(iperf3):
    iperf3.tcp(streams=4)
