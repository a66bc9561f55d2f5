import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.strategies import mtus, on_a_link, segment_sizes, sweep, udp_workloads


@pytest.mark.netperf_link(topology="pair", mtu=sweep(mtus(576, 9000), 3))
@pytest.mark.netperf_limit(throughput=">= 97 % of ceiling")
@on_a_link(examples=2)
@given(data=st.data())
def test_any_segment_size(iperf3, netperf_link, data):
    """For all MTUs and segment sizes: the link carries what physics allows. The limit judges each example."""
    iperf3.tcp(mss=data.draw(segment_sizes(netperf_link.mtu)))


@pytest.mark.netperf_link(topology="routed")
@pytest.mark.netperf_limit(frames_unaccounted="<= 0")
@on_a_link(examples=3)
@given(load=udp_workloads(lowest_mbps=20, highest_mbps=300))
def test_no_frame_vanishes(iperf3, netperf_record, count_frames, load):
    """For all loads: what goes into the router comes out, or is counted as dropped."""
    before = count_frames()
    iperf3.udp(**{**load, "direction": "forward"})
    after = count_frames()
    sent, arrived, dropped, _ = (now - then for now, then in zip(after, before, strict=True))
    netperf_record("frames_unaccounted", max(0, sent - arrived - dropped), "1")
    assert sent <= arrived + dropped
