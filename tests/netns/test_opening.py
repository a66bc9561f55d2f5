"""UDP runs whose opening datagram is lost: begun again while nothing was measured, and an ERROR when it stays lost."""

from __future__ import annotations

import pytest

from pytest_netperf.observe.measure import measure
from pytest_netperf.traffic.engine import EngineFailure
from pytest_netperf.traffic.iperf3 import Iperf3Engine
from pytest_netperf.traffic.result import Workload

pytestmark = [pytest.mark.netns, pytest.mark.alone]

UDP = Workload(protocol="udp", duration_s=2, omit_s=0, bitrate_bps=80e6, length_bytes=1472)
OPENING_BYTES = 32  # IP, UDP, and the 4 bytes that iperf3 sends


def lose_first_openings(link, count):
    """End b throws away so many of iperf3's opening datagrams, and nothing else."""
    drop = f"udp length 12 quota until {count * OPENING_BYTES + 8} bytes drop"
    rule = f"table ip f {{ chain c {{ type filter hook input priority 0; {drop}; }}; }}"
    link.b.run(["nft", rule], check=True)


@pytest.mark.parametrize(("lost", "times"), [(1, "1 time."), (2, "2 times.")])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_an_opening_that_was_lost_is_tried_again(make_link, direction, lost, times):
    link = make_link(speed_bps=1e8)
    lose_first_openings(link, lost)
    workload = Workload(
        protocol="udp", direction=direction, duration_s=2, omit_s=0, bitrate_bps=80e6, length_bytes=1472
    )
    result = measure(Iperf3Engine(), link, workload, slots=8).result
    assert result.trusted, result.reason
    assert f"The opening of the UDP streams was lost {times}" in result.notes
    assert result.flows[0].received_bps == pytest.approx(80e6, rel=0.3)  # on a busy machine too


def test_an_opening_that_stays_lost_is_an_error_that_says_so(make_link):
    link = make_link(speed_bps=1e8)
    lose_first_openings(link, 3)
    with pytest.raises(EngineFailure, match="no UDP traffic flowed within 2 s, in each of 3 openings"):
        measure(Iperf3Engine(), link, UDP, slots=8)
    result = measure(Iperf3Engine(), link, UDP, slots=8).result
    assert result.trusted, result.reason


def test_a_load_too_small_to_be_seen_is_left_alone(make_link):
    small = Workload(protocol="udp", duration_s=3, omit_s=0, bitrate_bps=20_000, length_bytes=1000)
    result = measure(Iperf3Engine(), make_link(speed_bps=1e8), small, slots=8).result
    assert result.trusted, result.reason
