"""Frame rate and wire rate: from the counters where they count frames, from the framing where they do not."""

from __future__ import annotations

import msgspec
import pytest

from pytest_netperf.judge.wire import forwarding_rate, wire_rates
from pytest_netperf.observe.observation import Observation, PortCounters
from pytest_netperf.physics import goodput_ceiling_bps
from pytest_netperf.traffic.framing import rates_of
from pytest_netperf.traffic.result import Flow, Interval, Result, Workload

GOODPUT = 9.4e8
SECONDS = 10
NONE = PortCounters(rx_bytes=0, tx_bytes=0, rx_packets=0, tx_packets=0)


def run_of(workload=None, *, direction="forward", intervals_from="receiver", goodput=GOODPUT, **changes):
    workload = workload or Workload(direction=direction, duration_s=SECONDS)
    bytes_a_second = int(goodput / 8)
    flow = Flow(
        direction=direction,
        received_bytes=bytes_a_second * SECONDS,
        received_seconds=SECONDS,
        received_bps=goodput,
        intervals=tuple(Interval(start_s=i - 1, seconds=1, bytes=bytes_a_second, omitted=i == 0) for i in range(11)),
        intervals_from=intervals_from,
    )
    known = dict.fromkeys(Result.__struct_fields__)
    known |= {"workload": workload, "flows": (flow,), "trusted": True, "reason": "", "notes": ()}
    return msgspec.structs.replace(Result(**known), **changes)


def seen(frames, octets, end="b"):
    after = PortCounters(rx_bytes=int(octets), tx_bytes=0, rx_packets=int(frames), tx_packets=0)
    quiet = dict.fromkeys(("a_before", "a_after", "b_before", "b_after"), NONE)
    return Observation(**{**quiet, f"{end}_after": after})


PAYLOAD = GOODPUT / 8 * 11
FRAMES = PAYLOAD / 1448


@pytest.mark.parametrize("end", ["b", "a"])
@pytest.mark.parametrize(("frame", "words"), [(1514, "without check sequence"), (1518, "with check sequence")])
def test_full_frames_are_what_the_framing_says(frame, words, end):
    """Whether the driver counts the check sequence or not."""
    result = run_of(direction="forward" if end == "b" else "reverse")
    found = wire_rates(result, seen(FRAMES, FRAMES * frame, end), mtu_bytes=1500)
    framed = rates_of(GOODPUT, result.workload, 1500)
    assert found.frame_rate == pytest.approx(framed["frame_rate"], rel=1e-5)
    assert found.wire_rate == pytest.approx(framed["wire_rate"], rel=1e-5)
    assert found.bytes_on_wire == pytest.approx(1538, abs=0.01)
    assert f"counters of port {end}" in found.source
    assert words in found.source
    assert "100 % of what the receiver got" in found.source


def test_a_device_that_clamps_the_mss_is_seen():
    """Smaller frames than the framing expects carry the same goodput: there are more of them."""
    frames = PAYLOAD / 500
    found = wire_rates(run_of(), seen(frames, frames * (500 + 66)), mtu_bytes=1500)
    assert found.frame_rate == pytest.approx(GOODPUT / 8 / 500, rel=1e-4)
    assert found.wire_rate == pytest.approx(GOODPUT / 500 * (500 + 66 + 24), rel=1e-4)


def test_what_was_on_its_way_at_the_end_does_not_count():
    """The port counted 3 % more than the receiver read; the rates are those of the goodput."""
    found = wire_rates(run_of(), seen(FRAMES * 1.03, FRAMES * 1.03 * 1514), mtu_bytes=1500)
    assert found.frame_rate == pytest.approx(GOODPUT / 8 / 1448, rel=1e-5)
    assert "103 % of what the receiver got" in found.source


@pytest.mark.parametrize(
    ("result", "observation", "why"),
    [
        (run_of(), None, "nobody read the counters"),
        (run_of(), seen(FRAMES / 20, FRAMES * 1514), "super-frames of 302"),
        (run_of(), seen(900, 900 * 1514), "counted only 900 frames"),
        (run_of(), seen(FRAMES * 0.9, FRAMES * 0.9 * 1514), "do not explain what the receiver got"),
        (run_of(), seen(FRAMES, FRAMES * 60), "do not explain what the receiver got"),
        (run_of(intervals_from="sender"), seen(FRAMES, FRAMES * 1514), "the receiver's own intervals are not known"),
        (run_of(goodput=0.0), seen(FRAMES, FRAMES * 1514), "the receiver's own intervals are not known"),
        (
            run_of(Workload(protocol="udp", length_bytes=4000, duration_s=SECONDS)),
            seen(FRAMES, FRAMES * 1514),
            "only the first of several fragments",
        ),
    ],
)
def test_counters_that_cannot_tell(result, observation, why):
    found = wire_rates(result, observation, mtu_bytes=1500)
    framed = rates_of(result.throughput_bps, result.workload, 1500)
    assert (found.frame_rate, found.wire_rate) == (framed["frame_rate"], framed["wire_rate"])
    assert found.bytes_on_wire is None
    assert why in found.source


def test_both_directions_at_once_follow_from_the_framing():
    one = run_of()
    flows = (*one.flows, *run_of(direction="reverse").flows)
    both = msgspec.structs.replace(one, flows=flows, workload=Workload(direction="bidirectional", duration_s=SECONDS))
    assert "acknowledgements" in wire_rates(both, seen(FRAMES, FRAMES * 1514), mtu_bytes=1500).source


def test_a_driver_that_counts_the_check_sequence_is_known_by_its_full_frames():
    """A few small frames among them: the mean is nearer to a frame without it."""
    small = FRAMES * 0.0015
    found = wire_rates(run_of(), seen(FRAMES + small, FRAMES * 1518 + small * 70), mtu_bytes=1500)
    assert "with check sequence" in found.source
    assert found.wire_rate == pytest.approx(rates_of(GOODPUT, Workload(), 1500)["wire_rate"], rel=1e-3)


def test_at_line_rate_nothing_is_above_the_wire():
    ceiling = goodput_ceiling_bps(1e9, 1500)
    found = wire_rates(
        run_of(goodput=ceiling), seen(ceiling / 8 * 11 / 1448, ceiling / 8 * 11 / 1448 * 1514), mtu_bytes=1500
    )
    assert found.wire_rate == pytest.approx(1e9, rel=1e-5)


def test_without_a_goodput_there_is_nothing():
    assert wire_rates(run_of(flows=()), seen(1, 1), mtu_bytes=1500) is None


# At the ports of a device in the middle


def through_device(entered, left, arrived, *, reverse=False):
    way_in, way_out, end = ("device_b", "device_a", "a") if reverse else ("device_a", "device_b", "b")
    counted = {way_in: {"rx_packets": entered}, way_out: {"tx_packets": left}}
    known = dict.fromkeys(("rx_bytes", "tx_bytes", "rx_packets", "tx_packets"), 0)
    return msgspec.structs.replace(
        seen(arrived, arrived * 1514, end),
        device_before={"device_a": NONE, "device_b": NONE},
        device_after={port: PortCounters(**{**known, **counts}) for port, counts in counted.items()},
    )


@pytest.mark.parametrize("reverse", [False, True])
def test_the_forwarding_rate_is_that_at_the_device(reverse):
    result = run_of(direction="reverse" if reverse else "forward")
    rate, said = forwarding_rate(result, through_device(9000, 8000, 7600, reverse=reverse), 76_000.0)
    assert rate == pytest.approx(80_000)
    end = "a" if reverse else "b"
    assert said == f"of 9000 frames that entered the device 8000 left it, and 7600 arrived at port {end}"


def test_without_a_device_or_with_few_frames_there_is_none():
    assert forwarding_rate(run_of(), seen(9000, 9000 * 1514), 76_000.0) is None
    assert forwarding_rate(run_of(), through_device(9000, 8000, 40), 76_000.0) is None
    assert forwarding_rate(run_of(), None, 76_000.0) is None
    both = run_of()
    assert forwarding_rate(run_of(flows=(*both.flows, *both.flows)), through_device(9000, 8000, 7600), 1.0) is None
