"""Two ports of one small router, cabled to each other: goodput by segment size, then half an hour of it."""

import pytest

# The frame sizes of RFC 2544 less 40 bytes of headers, and jumbo frames.
SEGMENT_SIZES = [88, 216, 472, 984, 1240, 1478, 3960, 7960, 8960, 9176]


@pytest.mark.netperf_link(mss=SEGMENT_SIZES, zerocopy=[False, True])
def test_mss(iperf3):
    iperf3.tcp()


def test_burn_in(iperf3, request):
    iperf3.tcp(duration=request.config.getoption("--burn-in"))
