"""The wire: RFC figures to the printed digit, published reviews, and what must hold for any frame."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.errors import QuantityError
from pytest_netperf.physics import (
    datagram_packets,
    frame_rate_fps,
    goodput_ceiling_bps,
    payload_bytes,
    wire_bytes_per_frame,
)

SPEEDS_BPS = (1e9, 2.5e9, 5e9, 10e9, 25e9, 100e9)
CEILINGS = [
    # conditions, share in %, Gbit/s at 1G, 2.5G, 5G, 10G, 25G, 100G as printed
    ({"mtu_bytes": 1500}, 94.148, "0.94148 2.35371 4.70741 9.41482 23.5371 94.1482"),
    ({"mtu_bytes": 1500, "ip_version": 6}, 92.848, "0.92848 2.32120 4.64239 9.28479 23.2120 92.8479"),
    ({"mtu_bytes": 1500, "protocol": "udp"}, 95.709, "0.95709 2.39272 4.78544 9.57087 23.9272 95.7087"),
    ({"mtu_bytes": 1500, "vlan_tags": 1}, 93.904, "0.93904 2.34760 4.69520 9.39040 23.4760 93.9040"),
    ({"mtu_bytes": 9000}, 99.004, "0.99004 2.47511 4.95021 9.90042 24.7511 99.0042"),
    ({"mtu_bytes": 9000, "ip_version": 6}, 98.783, "0.98783 2.46957 4.93915 9.87829 24.6957 98.7829"),
    ({"mtu_bytes": 9000, "protocol": "udp"}, 99.270, "0.99270 2.48174 4.96349 9.92697 24.8174 99.2697"),
]


@pytest.mark.parametrize(("conditions", "share", "printed"), CEILINGS)
def test_the_goodput_table_to_the_printed_digit(conditions, share, printed):
    for speed_bps, text in zip(SPEEDS_BPS, printed.split(), strict=True):
        decimals = len(text.partition(".")[2])
        assert f"{goodput_ceiling_bps(speed_bps, **conditions) / 1e9:.{decimals}f}" == text
    assert round(goodput_ceiling_bps(100.0, **conditions), 3) == share


@pytest.mark.parametrize(
    ("frame_bytes", "fps"),
    [
        (64, 1_488_095),
        (128, 844_595),
        (256, 452_899),
        (512, 234_962),
        (1024, 119_732),
        (1280, 96_154),
        (1518, 81_274),
        (9018, 13_830),  # 13830.49
    ],
)
def test_frames_per_second_of_gigabit_ethernet(frame_bytes, fps):
    assert round(frame_rate_fps(1e9, frame_bytes)) == fps
    assert frame_rate_fps(10e9, frame_bytes) == pytest.approx(10 * frame_rate_fps(1e9, frame_bytes))


# Review B: 2.5G and 10G ports, iperf3 -M, printed as "Gbps". Line-limited rows only; they are Gibit/s.
@pytest.mark.parametrize(
    ("speed_bps", "mss", "printed"),
    [
        (2.5e9, 216, 1.62),
        (2.5e9, 472, 1.95),
        (2.5e9, 984, 2.13),
        (2.5e9, 1240, 2.17),
        (2.5e9, 1478, 2.19),
        (2.5e9, 3960, 2.28),
        (2.5e9, 7960, 2.30),
        (2.5e9, 8960, 2.31),
        (2.5e9, 9176, 2.31),
        (10e9, 1478, 8.77),
        (10e9, 3960, 9.10),
        (10e9, 7960, 9.20),
        (10e9, 8960, 9.21),
        (10e9, 9176, 9.21),
    ],
)
def test_published_line_limited_results_are_the_ceiling_in_binary_units(speed_bps, mss, printed):
    ceiling_bps = goodput_ceiling_bps(speed_bps, 9216, mss_bytes=mss)
    assert ceiling_bps == pytest.approx(speed_bps * (mss - 12) / (mss + 78))
    assert printed * 2**30 == pytest.approx(ceiling_bps, rel=0.003)
    assert printed * 1e9 < 0.94 * ceiling_bps  # read as decimal it would fail a good device


def test_plain_routing_of_the_reviews_stays_below_the_ceiling():
    for gbps, speed_bps, mtu in [(8.32, 10e9, 1500), (9.89, 10e9, 9000), (2.35, 2.5e9, 1500), (0.938, 1e9, 1500)]:
        assert gbps * 1e9 < goodput_ceiling_bps(speed_bps, mtu)


@pytest.mark.parametrize(
    ("ip_bytes", "tags", "wire"),
    [
        (1500, 0, 1538),
        (1500, 1, 1542),
        (1500, 2, 1546),
        (9000, 0, 9038),
        (52, 0, 90),
        (46, 0, 84),
        (28, 0, 84),
        (28, 1, 84),
    ],
)
def test_wire_bytes(ip_bytes, tags, wire):
    assert wire_bytes_per_frame(ip_bytes, vlan_tags=tags) == wire


@pytest.mark.parametrize(
    ("mtu", "options", "payload"),
    [
        (1500, {}, 1448),
        (1500, {"timestamps": False}, 1460),
        (1500, {"ip_version": 6}, 1428),
        (9000, {}, 8948),
        (1500, {"protocol": "udp"}, 1472),
        (1500, {"protocol": "udp", "ip_version": 6}, 1452),
        (1500, {"protocol": "udp", "length_bytes": 8948}, 8948),
        (1500, {"mss_bytes": 600}, 588),
        (1500, {"mss_bytes": 600, "timestamps": False}, 600),
        (1500, {"mss_bytes": 1460}, 1448),
        (1500, {"mss_bytes": 9000}, 1448),  # clamped to what the MTU allows
        (1500, {"mss_bytes": 600, "ip_version": 6}, 588),
        (68, {}, 16),
        (65535, {}, 65483),
        (1500, {"length_bytes": 131072}, 1448),  # TCP: a write size, not a packet size
        (1500, {"protocol": "udp", "mss_bytes": 600}, 1472),
    ],
)
def test_payload(mtu, options, payload):
    assert payload_bytes(mtu, **options) == payload


def test_mss_with_ipv6_counts_its_own_header():
    assert goodput_ceiling_bps(1e9, 1500, mss_bytes=600, ip_version=6) == pytest.approx(1e9 * 588 / (600 + 60 + 38))


def test_small_datagrams_pay_for_the_shortest_frame():
    assert goodput_ceiling_bps(1e9, 1500, protocol="udp", length_bytes=18) == pytest.approx(1e9 * 18 / 84)
    assert goodput_ceiling_bps(1e9, 1500, protocol="udp", length_bytes=1) == pytest.approx(1e9 / 84)
    assert goodput_ceiling_bps(1e9, 1500, protocol="udp", length_bytes=19) == pytest.approx(1e9 * 19 / 85)


@pytest.mark.parametrize(
    ("mtu", "length", "ip_version", "packets"),
    [
        (1500, 1472, 4, (1500,)),
        (1500, 1473, 4, (1500, 21)),
        (1500, 2952, 4, (1500, 1500)),
        (1500, 2953, 4, (1500, 1500, 21)),
        (1500, 8948, 4, (1500,) * 6 + (96,)),
        (9000, 8972, 4, (9000,)),
        (9000, 8973, 4, (8996, 25)),  # 8980 is no multiple of 8
        (68, 100, 4, (68, 68, 32)),
        (1500, 1452, 6, (1500,)),
        (1500, 1453, 6, (1496, 61)),
        (1280, 3000, 6, (1280, 1280, 592)),
    ],
)
def test_fragments(mtu, length, ip_version, packets):
    assert datagram_packets(mtu, length, ip_version=ip_version) == packets


def test_the_ceiling_of_large_datagrams_counts_every_fragment():
    # 65507 bytes at MTU 1500: 44 fragments of 1480 and one of 395.
    wire = 44 * 1538 + (65515 - 44 * 1480 + 20 + 38)
    assert goodput_ceiling_bps(1e9, 1500, protocol="udp", length_bytes=65507) == pytest.approx(1e9 * 65507 / wire)


@pytest.mark.parametrize(
    ("options", "ack_wire"),
    [({}, 90), ({"ip_version": 6}, 110), ({"timestamps": False}, 84), ({"vlan_tags": 1}, 94), ({"mss_bytes": 600}, 90)],
)
def test_acks_of_the_other_direction(options, ack_wire):
    alone = goodput_ceiling_bps(1e9, 1500, **options)
    payload = payload_bytes(1500, **{key: value for key, value in options.items() if key != "vlan_tags"})
    wire = 1e9 * payload / alone
    for k in (1, 2, 44.0):
        both = goodput_ceiling_bps(1e9, 1500, segments_per_ack=k, **options)
        assert both == pytest.approx(1e9 * payload / (wire + ack_wire / k))


def test_udp_has_no_acks():
    assert goodput_ceiling_bps(1e9, 1500, protocol="udp", segments_per_ack=2) == goodput_ceiling_bps(
        1e9, 1500, protocol="udp"
    )


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: goodput_ceiling_bps(0, 1500), "speed is 0; expected bit/s"),
        (lambda: goodput_ceiling_bps(-1e9, 1500), "speed is -1000000000.0"),
        (lambda: goodput_ceiling_bps(math.nan, 1500), "speed is nan"),
        (lambda: goodput_ceiling_bps(math.inf, 1500), "speed is inf"),
        (lambda: goodput_ceiling_bps("1G", 1500), "speed is '1G'"),
        (lambda: goodput_ceiling_bps(True, 1500), "speed is True"),
        (lambda: goodput_ceiling_bps(1e9, 67), "MTU is 67; expected a whole number from 68 to 65535"),
        (lambda: goodput_ceiling_bps(1e9, 65536), "MTU is 65536"),
        (lambda: goodput_ceiling_bps(1e9, 1500.0), "MTU is 1500.0"),
        (lambda: goodput_ceiling_bps(1e9, None), "MTU is None"),
        (lambda: goodput_ceiling_bps(1e9, 1279, ip_version=6), "from 1280 to 65535 (bytes, what IPv6 allows)"),
        (lambda: goodput_ceiling_bps(1e9, 1500, ip_version=5), "ip_version is 5"),
        (lambda: goodput_ceiling_bps(1e9, 1500, protocol="sctp"), "protocol is 'sctp'"),
        (lambda: goodput_ceiling_bps(1e9, 1500, mss_bytes=87), "MSS is 87; expected a whole number from 88"),
        (lambda: goodput_ceiling_bps(1e9, 1500, mss_bytes=600.5), "MSS is 600.5"),
        (lambda: goodput_ceiling_bps(1e9, 1500, protocol="udp", length_bytes=0), "UDP length is 0"),
        (lambda: goodput_ceiling_bps(1e9, 1500, protocol="udp", length_bytes=65508), "from 1 to 65507"),
        (lambda: goodput_ceiling_bps(1e9, 1500, vlan_tags=-1), "VLAN tags is -1"),
        (lambda: goodput_ceiling_bps(1e9, 1500, segments_per_ack=0), "segments_per_ack is 0"),
        (lambda: goodput_ceiling_bps(1e9, 1500, segments_per_ack=math.nan), "segments_per_ack is nan"),
        (lambda: goodput_ceiling_bps(1e9, 1500, segments_per_ack=True), "segments_per_ack is True"),
        (lambda: frame_rate_fps(1e9, 63), "frame is 63; expected a whole number from 64"),
        (lambda: frame_rate_fps(0, 64), "speed is 0"),
        (lambda: wire_bytes_per_frame(0), "IP packet is 0"),
        (lambda: payload_bytes(1500, ip_version=True), "ip_version is True"),
        (lambda: datagram_packets(1500, 65508), "UDP length is 65508"),
    ],
)
def test_nonsense_is_refused_by_name_and_bound(call, says):
    with pytest.raises(QuantityError) as caught:
        call()
    assert says in str(caught.value)


speeds = st.floats(1e6, 1e12)
ip_versions = st.sampled_from([4, 6])
mtus = st.integers(1280, 65535)


@given(speeds, mtus, st.sampled_from(["tcp", "udp"]), ip_versions, st.booleans(), st.integers(0, 2))
def test_a_ceiling_is_below_line_rate_and_rises_with_mtu_and_speed(speed, mtu, protocol, ip_version, timestamps, tags):
    options = {"protocol": protocol, "ip_version": ip_version, "timestamps": timestamps, "vlan_tags": tags}
    ceiling = goodput_ceiling_bps(speed, mtu, **options)
    assert 0.8 * speed < ceiling < speed
    assert goodput_ceiling_bps(2 * speed, mtu, **options) == pytest.approx(2 * ceiling)
    if mtu < 65535:
        assert goodput_ceiling_bps(speed, mtu + 1, **options) > ceiling
    assert goodput_ceiling_bps(speed, mtu, **{**options, "vlan_tags": tags + 1}) < ceiling


@given(mtus, st.integers(88, 65535), ip_versions)
def test_a_larger_mss_never_lowers_the_ceiling_and_the_mtu_caps_it(mtu, mss, ip_version):
    limited = goodput_ceiling_bps(1e9, mtu, mss_bytes=mss, ip_version=ip_version)
    assert limited <= goodput_ceiling_bps(1e9, mtu, ip_version=ip_version)
    assert limited <= goodput_ceiling_bps(1e9, mtu, mss_bytes=min(mss + 1, 65535), ip_version=ip_version)


@given(st.integers(1, 64), st.integers(1, 64))
def test_fewer_acks_leave_more_for_data(k, more):
    assert goodput_ceiling_bps(1e9, 1500, segments_per_ack=k) < goodput_ceiling_bps(
        1e9, 1500, segments_per_ack=k + more
    )
    assert goodput_ceiling_bps(1e9, 1500, segments_per_ack=k) < goodput_ceiling_bps(1e9, 1500)


@given(st.integers(68, 9000), st.integers(1, 65507), ip_versions)
def test_fragments_carry_exactly_the_datagram_and_fit_the_mtu(mtu, length, ip_version):
    mtu = max(mtu, 1280) if ip_version == 6 else mtu
    packets = datagram_packets(mtu, length, ip_version=ip_version)
    header = {4: 20, 6: 40}[ip_version] + (8 if ip_version == 6 and len(packets) > 1 else 0)
    assert sum(packet - header for packet in packets) == length + 8
    assert all(header < packet <= mtu for packet in packets)
    assert all((packet - header) % 8 == 0 for packet in packets[:-1])
    if len(packets) > 1:  # no smaller number of fragments would do
        step = (mtu - header) // 8 * 8
        assert length + 8 > (len(packets) - 2) * step + mtu - header
    assert goodput_ceiling_bps(1e9, mtu, protocol="udp", length_bytes=length, ip_version=ip_version) < 1e9
