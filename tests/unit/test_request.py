"""Arguments of iperf3.tcp() and iperf3.udp(): what they become, and how wrong ones are refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.errors import MarkError
from pytest_netperf.physics import goodput_ceiling_bps
from pytest_netperf.traffic.request import make_workload
from pytest_netperf.traffic.result import Workload


def workload(protocol="tcp", /, *, mtu=1500, speed_bps=1e9, udp_buffer_bytes=None, **arguments) -> Workload:
    return make_workload(
        protocol,
        arguments,
        mtu=mtu,
        speed_bps=speed_bps,
        default_duration_s=10.0,
        default_omit_s=1.0,
        udp_buffer_bytes=udp_buffer_bytes,
    )


def refused(*args, **kwargs) -> str:
    with pytest.raises(MarkError) as caught:
        workload(*args, **kwargs)
    return str(caught.value)


# ---- what they become ------------------------------------------------------------------------------------------------


def test_tcp_without_arguments_is_the_defaults():
    assert workload() == Workload(protocol="tcp", duration_s=10.0, omit_s=1.0)


def test_udp_without_arguments_fills_the_mtu_and_offers_95_percent_of_the_ceiling():
    made = workload("udp", udp_buffer_bytes=4 << 20)
    assert (made.length_bytes, made.window_bytes) == (1472, 4 << 20)
    assert made.bitrate_bps == pytest.approx(0.95 * 957.087e6, rel=1e-6)  # 1G, IPv4, 1472 bytes of payload


def test_udp_over_ipv6_fills_the_mtu_too():
    made = workload("udp", ip_version=6, mtu=9000)
    assert made.length_bytes == 9000 - 40 - 8
    assert made.bitrate_bps == pytest.approx(0.95 * 1e9 * 8952 / 9038)


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ({"duration": 5}, "duration_s", 5.0),
        ({"duration": "1 min"}, "duration_s", 60.0),
        ({"duration": "2000 ms"}, "duration_s", 2.0),
        ({"duration": 86_400}, "duration_s", 86_400.0),
        ({"omit": 0}, "omit_s", 0.0),
        ({"omit": "3 s"}, "omit_s", 3.0),
        ({"interval": 0.1}, "interval_s", 0.1),
        ({"streams": 128}, "streams", 128),
        ({"direction": "bidirectional"}, "direction", "bidirectional"),
        ({"mss": 1460}, "mss_bytes", 1460),
        ({"mss": 88}, "mss_bytes", 88),
        ({"zerocopy": True}, "zerocopy", True),
        ({"window": "4 MiB"}, "window_bytes", 4 << 20),
        ({"window": "512 MiB"}, "window_bytes", 512 << 20),
        ({"congestion": "bbr"}, "congestion", "bbr"),
        ({"bitrate": "500 Mbps"}, "bitrate_bps", 500e6),
        ({"bitrate": "1.5 MB/s"}, "bitrate_bps", 12e6),
        ({"length": 1}, "length_bytes", 1),
        ({"dscp": 0}, "dscp", 0),
        ({"dscp": 63}, "dscp", 63),
        ({"ip_version": 6}, "ip_version", 6),
    ],
)
def test_each_argument_goes_where_it_belongs_and_nowhere_else(given, field, expected):
    made = workload(**given)
    others = {name: getattr(made, name) for name in made.__struct_fields__ if name != field}
    assert getattr(made, field) == expected
    assert others == {name: getattr(workload(), name) for name in others}


def test_none_is_the_default_for_every_argument():
    names = (
        "duration", "omit", "interval", "streams", "direction", "mss", "zerocopy", "window", "congestion", "bitrate",
        "length", "dscp", "ip_version",
    )  # fmt: skip
    assert workload(**dict.fromkeys(names)) == workload()
    assert workload("udp", **dict.fromkeys(names)) == workload("udp")


@pytest.mark.parametrize(
    ("protocol", "arguments", "ceiling"),
    [
        ("tcp", {}, {}),
        ("tcp", {"mss": 1000}, {"mss_bytes": 1000}),
        ("tcp", {"ip_version": 6}, {"ip_version": 6}),
        ("tcp", {"direction": "bidirectional"}, {"segments_per_ack": 2.0}),
        ("udp", {"length": 200}, {"protocol": "udp", "length_bytes": 200}),
    ],
)
def test_a_bitrate_of_the_ceiling_is_that_of_this_very_run(protocol, arguments, ceiling):
    made = workload(protocol, bitrate="50 % of ceiling", **arguments)
    assert made.bitrate_bps == pytest.approx(0.5 * goodput_ceiling_bps(1e9, 1500, **ceiling))


def test_udp_may_offer_more_than_the_link_carries():
    assert workload("udp", bitrate="120 % of ceiling").bitrate_bps == pytest.approx(1.2 * 957.087e6, rel=1e-6)


def test_a_link_without_a_rated_speed_takes_a_rate_in_numbers():
    assert workload("udp", speed_bps=None, bitrate="5 Gbps").bitrate_bps == 5e9
    assert workload("tcp", speed_bps=None).bitrate_bps is None


def test_zerocopy_false_is_no_property_of_tcp():
    assert workload("udp", zerocopy=False) == workload("udp")


# ---- how wrong ones are refused --------------------------------------------------------------------------------------

WHOLE_SECONDS = "expected whole seconds from 1 to 86400"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("duration", 0, WHOLE_SECONDS),
        ("duration", 1.5, WHOLE_SECONDS),
        ("duration", "500 ms", WHOLE_SECONDS),
        ("duration", 86_401, WHOLE_SECONDS),
        ("duration", -1, "must be a finite number, zero or more"),
        ("duration", math.nan, "must be a finite number"),
        ("duration", math.inf, "must be a finite number"),
        ("duration", True, "not as bool"),
        ("duration", False, "not as bool"),
        ("duration", "ten", "the number is missing"),
        ("duration", "3 parsecs", "unknown unit 'parsecs'"),
        ("omit", 0.5, "expected whole seconds from 0 to 600"),
        ("omit", 601, "expected whole seconds from 0 to 600"),
        ("omit", "x", "the number is missing"),
        ("interval", 0, "expected seconds from 0.1 to 60"),
        ("interval", 61, "expected seconds from 0.1 to 60"),
        ("interval", math.nan, "expected seconds from 0.1 to 60"),
        ("interval", "1", "expected seconds from 0.1 to 60"),
        ("interval", True, "expected seconds from 0.1 to 60"),
        ("streams", 0, "expected a number of streams from 1 to 128"),
        ("streams", 129, "expected a number of streams from 1 to 128"),
        ("streams", 4.0, "as an integer"),
        ("streams", "4", "as an integer"),
        ("streams", True, "as an integer"),
        ("streams", False, "as an integer"),
        ("direction", "up", "expected 'forward' or 'reverse' or 'bidirectional'"),
        ("direction", "Forward", "expected 'forward'"),
        ("direction", ["forward"], "expected 'forward'"),
        ("direction", False, "expected 'forward'"),
        ("mss", 87, "expected bytes (the MTU is 1500) from 88 to 1460"),
        ("mss", 1461, "expected bytes (the MTU is 1500) from 88 to 1460"),
        ("mss", "1400", "as an integer"),
        ("zerocopy", 1, "expected True or False"),
        ("zerocopy", "yes", "expected True or False"),
        ("window", "4", "a size needs its unit"),
        ("window", "0 B", "expected a size from 1 byte to 512 MiB"),
        ("window", "513 MiB", "expected a size from 1 byte to 512 MiB"),
        ("window", "-1 MiB", "cannot be negative"),
        ("window", False, "not as bool"),
        ("congestion", "", "expected the name of a congestion control"),
        ("congestion", "bbr; reboot", "expected the name of a congestion control"),
        ("congestion", 1, "expected the name of a congestion control"),
        ("bitrate", 100, "a rate needs a unit"),
        ("bitrate", False, "a rate needs a unit"),
        ("bitrate", "100", "a rate needs its unit"),
        ("bitrate", "5 Mpbs", "unknown unit 'Mpbs'"),
        ("bitrate", "0 Mbps", "no load"),
        ("bitrate", "0 % of ceiling", "no load"),
        ("bitrate", "50 of ceiling", "a ratio needs its unit"),
        ("bitrate", "-5 % of ceiling", "cannot be negative"),
        ("bitrate", "nan Mbps", "must be a finite number"),
        ("length", 0, "expected bytes from 1 to 65507"),
        ("length", 65_508, "expected bytes from 1 to 65507"),
        ("length", "1 kB", "as an integer"),
        ("dscp", -1, "expected a code point from 0 to 63"),
        ("dscp", 64, "expected a code point from 0 to 63"),
        ("dscp", "EF", "expected a code point from 0 to 63"),
        ("ip_version", 5, "expected 4 or 6"),
        ("ip_version", "4", "expected 4 or 6"),
        ("ip_version", 4.0, "expected 4 or 6"),
        ("ip_version", True, "expected 4 or 6"),
    ],
)
def test_wrong_values_name_the_call_the_value_and_what_is_allowed(name, value, says):
    message = refused(**{name: value})
    assert message.startswith(f"iperf3.tcp({name}={value!r}): ")
    assert says in message


@pytest.mark.parametrize(
    ("name", "value"), [("mss", 1000), ("zerocopy", True), ("window", "1 MiB"), ("congestion", "bbr")]
)
def test_what_only_tcp_has_is_refused_for_udp(name, value):
    assert refused("udp", **{name: value}) == f"iperf3.udp({name}={value!r}): {name} is a property of TCP; leave it out"


@pytest.mark.parametrize("length", [15, 65_508])
def test_udp_datagrams_have_a_smallest_and_a_largest_length(length):
    assert f"iperf3.udp(length={length}): expected bytes from 16 to 65507" in refused("udp", length=length)


def test_an_unknown_argument_is_met_with_the_near_miss_or_with_all():
    assert refused(stream=4) == "iperf3.tcp(stream=...): unknown argument; did you mean 'streams'?"
    assert "known are duration, omit, interval" in refused("udp", reverse=True)
    assert "unknown argument" in refused("udp", protocol="tcp")


def test_without_a_rated_speed_nothing_can_relate_to_the_ceiling():
    assert "bitrate= is needed, e.g. bitrate='900 Mbps'" in refused("udp", speed_bps=None)
    assert "so no ceiling; give a rate" in refused("tcp", speed_bps=None, bitrate="50 % of ceiling")


def test_an_mtu_without_room_for_a_segment_refuses_every_mss():
    assert "an MTU of 100 leaves no room" in refused(mtu=100, mss=88)
    assert workload(mtu=100).mss_bytes is None


def test_the_largest_mss_is_that_of_iperf3_on_a_large_mtu():
    assert workload(mtu=65_535, mss=9216).mss_bytes == 9216
    assert "from 88 to 9216" in refused(mtu=65_535, mss=9217)


_anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12), st.lists(st.integers(), max_size=2),
    st.sampled_from(["1 s", "5 Mbps", "4 MiB", "50 % of ceiling", "forward", "cubic", 4, 6, 1, 0]),
)  # fmt: skip


@given(
    protocol=st.sampled_from(["tcp", "udp"]),
    arguments=st.dictionaries(
        st.sampled_from(
            ["duration", "omit", "interval", "streams", "direction", "mss", "zerocopy", "window", "congestion",
             "bitrate", "length", "dscp", "ip_version", "other"]
        ),
        _anything,
    ),
    speed_bps=st.sampled_from([None, 100e6, 10e9]),
)  # fmt: skip
def test_whatever_is_given_it_is_a_workload_that_iperf3_takes_or_a_mark_error(protocol, arguments, speed_bps):
    try:
        made = workload(protocol, speed_bps=speed_bps, **arguments)
    except MarkError as error:
        said = str(error)
        assert said.startswith(f"iperf3.{protocol}("), said
        return
    assert made.duration_s == int(made.duration_s) >= 1
    assert made.omit_s == int(made.omit_s) >= 0
    assert made.bitrate_bps is None or made.bitrate_bps >= 1
    assert made.window_bytes is None or 1 <= made.window_bytes <= 512 << 20
    assert made.ip_version in (4, 6)
    assert isinstance(made.ip_version, int)
    assert 1 <= made.streams <= 128
