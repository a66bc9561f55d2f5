"""Which connections carry the data of a direction, and what the kernel says of them together."""

from __future__ import annotations

import pytest

from pytest_netperf.observe.observation import TcpConnection
from pytest_netperf.observe.tcp_times import times_of
from pytest_netperf.traffic.result import Workload


def connection(busy_s: float = 0.0, acked: int = 37, **known: float) -> TcpConnection:
    values = {
        "local_port": 40_000,
        "remote_port": 5201,
        "rwnd_limited_s": 0.0,
        "sndbuf_limited_s": 0.0,
        "rtt_s": 0.001,
        "min_rtt_s": 0.0001,
        "retransmits": 0,
        "delivery_bps": 1e9,
        "mss_bytes": 1448,
    }
    return TcpConnection(busy_s=busy_s, acked_bytes=acked, **{**values, **known})


CONTROL = connection(0.004, 600, min_rtt_s=0.000_01)


def test_the_control_connection_is_left_out():
    data = connection(2.0, 10**8, rwnd_limited_s=0.5, sndbuf_limited_s=1.0)
    times = times_of("forward", [CONTROL, data], Workload())
    assert times is not None
    assert (times.connections, times.busy_s, times.rwnd_limited, times.sndbuf_limited) == (1, 2.0, 0.25, 0.5)
    assert times.min_rtt_s == 0.0001


def test_streams_are_added_up():
    data = [connection(2.0, rwnd_limited_s=0.2, rtt_s=0.001), connection(2.0, rtt_s=0.003, min_rtt_s=None)]
    times = times_of("reverse", [*data, CONTROL], Workload(streams=2, direction="reverse"))
    assert times is not None
    assert (times.direction, times.connections, times.busy_s) == ("reverse", 2, 4.0)
    assert times.rwnd_limited == pytest.approx(0.05)
    assert (times.rtt_s, times.min_rtt_s) == (0.002, 0.0001)


def test_a_stream_that_nothing_acknowledged_is_data_still():
    """A path that swallows everything: the busiest connection is the one that waits."""
    times = times_of("forward", [CONTROL, connection(3.0, 0)], Workload())
    assert times is not None
    assert times.busy_s == 3.0


@pytest.mark.parametrize(
    ("direction", "open_connections", "enough"),
    [("forward", 0, False), ("forward", 1, False), ("forward", 2, True), ("bidirectional", 2, False),
     ("bidirectional", 3, True)],
)  # fmt: skip
def test_a_direction_whose_connections_are_not_all_open_says_nothing(direction, open_connections, enough):
    found = [connection(1.0 - number / 10) for number in range(open_connections)]
    assert (times_of("forward", found, Workload(direction=direction)) is not None) is enough


def test_receiving_connections_of_a_bidirectional_run_are_left_out():
    times = times_of(
        "forward", [CONTROL, connection(0.004, 37), connection(2.0, 10**8)], Workload(direction="bidirectional")
    )
    assert times is not None
    assert times.busy_s == 2.0


def test_no_time_is_no_share():
    times = times_of("forward", [connection(), connection()], Workload())
    assert times is not None
    assert (times.rwnd_limited, times.sndbuf_limited) == (0.0, 0.0)
