"""Damaged iperf3 output: a result or a reasoned refusal, never an exception, never a number that was not there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_netperf.traffic.import_report import describe
from pytest_netperf.traffic.output import read_output
from pytest_netperf.traffic.result import Flow, Reading

SAMPLES = {
    path.name: path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parent / "samples/iperf3").iterdir())
}
# Small ones, so that each example stays fast and a mutation hits something that matters.
SMALL = {name: text for name, text in SAMPLES.items() if 0 < len(text) < 12_000}
DOCUMENTS = {
    name: json.loads(SAMPLES[name])
    for name in (
        "cp01_tcp_omit3_39.json",
        "f01_3191_tcp_forward_client.json",
        "f02_3191_tcp_forward_server.json",
        "f04_3191_udp_client.json",
        "f06_321_tcp_omit_client.json",
        "f07_321_tcp_reverse_server.json",
        "f09_321_udp_bidir_client.json",
        "f12_322_tcp_bidir_server.json",
        "f14_322_sctp_reverse_client.json",
        "o02_39_udp_only_sum.json",
        "o10_312srv_321cli_udp_loss_reported_zero.json",
        "o12_321_bytes_mode_1MiB.json",
    )
}
JUNK = [
    "",
    "{",
    "}",
    '"end":',
    "\x00",
    "^C",
    "\r\n",
    "[SUM]",
    "NaN",
    "-nan",
    "iperf3: error - x\n",
    "[  5] 0.00-1.00 sec",
]
VALUES: list[Any] = [None, True, False, 0, 1, -1, 0.5, -1e9, 1e308, 2**64, 10**400, float("nan"), float("inf")]
VALUES += ["", "12", "nan", [], {}, [[]], [None], {"bytes": 1}]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
UNITS = [1000.0**n for n in range(5)] + [8 * 1024.0**n for n in range(5)]

relaxed = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])


def check(text: str | bytes) -> Reading:
    """What holds for every reading, whatever was read."""
    reading = read_output(text)
    assert reading.reason.endswith(".")
    assert "\n" not in reading.reason
    entry = describe("x", reading)
    json.dumps(entry, allow_nan=False)
    plain = text if isinstance(text, str) else text.decode("utf-8", errors="replace")
    for flow in reading.flows:
        if flow.received_bps is not None:
            assert explained(flow, plain), (flow.received_bps, reading.reason)
        if flow.frame_loss_ratio is not None:
            assert 0 <= flow.frame_loss_ratio <= 1
        assert flow.retransmits is None or flow.retransmits >= 0
        assert all(interval.seconds > 0 and interval.bytes >= 0 for interval in flow.intervals)
    if reading.trusted:
        assert reading.flows
        assert any(flow.received_bps for flow in reading.flows)
        for flow in reading.flows:
            assert flow.received_bps or (reading.role == "server" and flow.direction == "reverse")
    return reading


def explained(flow: Flow, text: str) -> bool:
    """A received rate is bytes over seconds of the text, or a number in it with one of the units of the text form."""
    wanted = flow.received_bps
    numbers = {number for match in NUMBER.findall(text) if (number := float(match)) < 1e300}
    # "e 06" has lost its plus; such a text is never trusted, its repaired number is still in it.
    if any(abs(number * unit - wanted) <= 1e-6 * wanted for number in numbers for unit in UNITS):
        return True
    if flow.received_bytes is None or not flow.received_seconds:
        return False
    by_bytes = flow.received_bytes * 8 / flow.received_seconds
    return abs(by_bytes - wanted) <= 1e-6 * wanted and flow.received_bytes in numbers


names = st.sampled_from(sorted(SMALL))


@relaxed
@given(names, st.data())
def test_truncated(name, data):
    text = SMALL[name]
    reading = check(text[: data.draw(st.integers(0, len(text) - 1))])
    if name.endswith(".json") and reading.trusted:
        # Only what stands behind the document can be missing.
        assert SMALL[name].rstrip().endswith("}")
        assert describe("x", reading) == describe("x", read_output(text))


@relaxed
@given(names, st.data())
def test_the_beginning_is_missing(name, data):
    text = SMALL[name]
    check(text[data.draw(st.integers(1, len(text))) :])


@relaxed
@given(names, names)
def test_two_outputs_in_one_file_are_never_trusted(first, second):
    reading = check(SMALL[first] + "\n" + SMALL[second])
    both = [read_output(SMALL[name]) for name in (first, second)]
    if all(reading.trusted for reading in both):
        assert not reading.trusted


@relaxed
@given(names, st.sampled_from(JUNK), st.sampled_from(JUNK), st.data())
def test_junk_before_behind_and_within(name, before, behind, data):
    text = SMALL[name]
    at = data.draw(st.integers(0, len(text)))
    check(before + text + behind)
    check(text[:at] + before + text[at:])


@relaxed
@given(names, st.data())
def test_flipped_bits(name, data):
    raw = bytearray(SMALL[name].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    check(bytes(raw))


@relaxed
@given(names, st.data())
def test_a_piece_stands_twice_or_is_cut_out(name, data):
    lines = SMALL[name].splitlines(keepends=True)
    start = data.draw(st.integers(0, len(lines) - 1))
    stop = data.draw(st.integers(start, min(len(lines), start + 30)))
    check("".join(lines[:stop] + lines[start:]))
    check("".join(lines[:start] + lines[stop:]))


@relaxed
@given(names)
def test_line_ends_do_not_change_the_reading(name):
    text = SMALL[name].replace("\r\n", "\n")
    unix, dos = describe("x", check(text)), describe("x", check(text.replace("\n", "\r\n")))
    assert unix == dos


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, part in items for place in [(*path, key), *places(part, (*path, key))]]


PLACES = {name: places(document) for name, document in DOCUMENTS.items()}
MATTERS = {
    name: [place for place in found if place[0] == "end" and "streams" not in place] for name, found in PLACES.items()
}


def put(document: Any, place: tuple[Any, ...], value: Any, drop: bool) -> str:
    copy = json.loads(json.dumps(document))
    parent = copy
    for key in place[:-1]:
        parent = parent[key]
    if drop:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return json.dumps(copy)


@relaxed
@given(st.sampled_from(sorted(DOCUMENTS)), st.booleans(), st.booleans(), st.sampled_from(VALUES), st.data())
def test_a_value_is_swapped_or_its_key_dropped(name, in_end, drop, value, data):
    place = data.draw(st.sampled_from((MATTERS if in_end else PLACES)[name]))
    check(put(DOCUMENTS[name], place, value, drop))


@relaxed
@given(st.sampled_from(["bytes", "seconds", "bits_per_second"]), st.sampled_from(VALUES), st.booleans())
@example("bytes", True, False)
@example("seconds", float("nan"), False)
def test_a_run_is_not_trusted_when_a_number_of_its_receiver_is_gone(key, value, drop):
    name = "cp01_tcp_omit3_39.json"
    reading = check(put(DOCUMENTS[name], ("end", "sum_received", key), value, drop))
    assert not reading.trusted


@relaxed
@given(st.binary(max_size=300) | st.text(max_size=300))
def test_anything_at_all(content):
    reading = check(content)
    assert not reading.trusted


KEYS = ["start", "end", "intervals", "error", "event", "data", "streams", "sum_received", "sum_sent", "sum", "udp"]
KEYS += ["sender", "receiver", "bytes", "seconds", "omitted", "bits_per_second", "test_start", "duration", "packets"]
KEYS += ["lost_packets", "cpu_utilization_percent", "version", "connecting_to", "protocol"]


@relaxed
@given(
    st.recursive(
        st.sampled_from(VALUES),
        lambda inner: st.dictionaries(st.sampled_from(KEYS), inner) | st.lists(inner, max_size=3),
        max_leaves=25,
    )
)
def test_any_json_made_of_the_keys_of_iperf3(value):
    check(json.dumps(value))
