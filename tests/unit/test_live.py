"""The live reading of a json-stream: the intervals of the final document as they come, whatever comes with them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_netperf.traffic.live import LiveInterval, StreamMeter
from pytest_netperf.traffic.output import read_output

SAMPLES = {
    path.name: path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parent / "samples/iperf3").glob("*.jsonl"))
}
STOPPED_SERVER = SAMPLES["l02_322_stream_bidir_omit_stopped_server.jsonl"]
FORWARD_CLIENT = SAMPLES["o07_3171_stream_ok.jsonl"]

relaxed = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])


def read(*pieces: str) -> list[LiveInterval]:
    meter = StreamMeter()
    for piece in pieces:
        meter.feed(piece)
    return meter.take()


def of_document(text: str) -> list[tuple[object, ...]]:
    """The intervals of the final document. It leaves out a last one that is very short."""
    return [
        (flow.direction, i.start_s, i.seconds, i.bytes, i.omitted, i.retransmits, flow.intervals_from)
        for flow in read_output(text).flows
        for i in flow.intervals
    ]


def as_tuples(live: list[LiveInterval]) -> list[tuple[object, ...]]:
    """As `of_document`: forward first."""
    rows = [(i.direction, i.start_s, i.seconds, i.bytes, i.omitted, i.retransmits, i.counted_by) for i in live]
    return sorted(rows, key=lambda row: (row[0], row[1]))


@pytest.mark.parametrize(
    ("name", "intervals"),
    [
        ("i02_stream_error_busy.jsonl", 0),
        ("l01_322_stream_bidir_omit_stopped_client.jsonl", 12),
        ("l02_322_stream_bidir_omit_stopped_server.jsonl", 10),
        ("o07_3171_stream_ok.jsonl", 2),
        ("o09_321_stream_full_output.jsonl", 1),
    ],
)
def test_a_stream_has_the_intervals_of_its_document(name: str, intervals: int) -> None:
    live = read(SAMPLES[name])
    assert as_tuples(live) == of_document(SAMPLES[name])
    assert len(live) == intervals


def test_every_sample_of_a_stream_is_read_above() -> None:
    assert len(SAMPLES) == 5


def test_each_end_counts_its_own_side() -> None:
    client = read(SAMPLES["l01_322_stream_bidir_omit_stopped_client.jsonl"])
    server = read(STOPPED_SERVER)
    assert {(i.direction, i.counted_by) for i in client} == {("forward", "sender"), ("reverse", "receiver")}
    assert {(i.direction, i.counted_by) for i in server} == {("forward", "receiver"), ("reverse", "sender")}
    # In a forward run nothing of the client's says what arrived.
    assert {i.counted_by for i in read(FORWARD_CLIENT)} == {"sender"}


def test_an_interval_is_there_as_soon_as_its_line_is_and_only_once() -> None:
    meter = StreamMeter()
    seen = []
    for line in FORWARD_CLIENT.splitlines(keepends=True):
        meter.feed(line[:-1])
        assert meter.take() == []
        meter.feed(line[-1])
        seen.append(len(meter.take()))
        assert meter.take() == []
    assert seen == [0, 1, 1, 0]


def test_the_last_interval_that_a_server_writes_twice_comes_once() -> None:
    rows = [json.loads(line) for line in STOPPED_SERVER.splitlines()]
    written = [row["data"]["sum"]["start"] for row in rows if row["event"] == "interval"]
    assert written[-1] == written[-2]
    live = [i.start_s for i in read(STOPPED_SERVER) if i.direction == "forward"]
    assert len(live) == len(set(live)) == len(written) - 1


def test_the_interval_across_the_omit_edge_has_the_time_of_its_bytes() -> None:
    (_, across, after, *_) = (i for i in read(STOPPED_SERVER) if i.direction == "forward")
    assert (across.start_s, across.omitted) == (0.0, False)
    assert across.seconds == pytest.approx(0.5, abs=0.01)  # iperf3 writes 1.0
    assert across.bytes * 8 / across.seconds == pytest.approx(after.bytes * 8 / after.seconds, rel=0.01)


def test_streams_are_together_and_who_sent_is_taken_from_the_role_where_a_row_does_not_say_it() -> None:
    start = {"connecting_to": {}, "test_start": {"reverse": 1, "bidir": 0, "omit": 0}}
    rows = [{"socket": n, "start": 0, "end": 1, "seconds": 1, "bytes": 100 * n, "omitted": False} for n in (1, 2)]
    (interval,) = read(event("start", start) + event("interval", {"streams": rows}))
    assert (interval.bytes, interval.direction, interval.counted_by) == (300, "reverse", "receiver")


def event(name: str, data: object) -> str:
    return json.dumps({"event": name, "data": data}) + "\n"


START = FORWARD_CLIENT.splitlines(keepends=True)[0]
INTERVAL = FORWARD_CLIENT.splitlines(keepends=True)[1]
END = FORWARD_CLIENT.splitlines(keepends=True)[-1]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (INTERVAL, "no start: nobody knows which way data goes"),
        (START + END + INTERVAL, "the run is over"),
        (START + INTERVAL[:-1], "the line is not over"),
        (START + INTERVAL[:-20] + "\n", "cut off"),
        (START + event("interval", None), "no data"),
        (START + event("interval", {"sum": {"seconds": -1, "bytes": 5, "start": 0}}), "no valid numbers"),
        (START + event("interval", {"sum": {"seconds": 1, "bytes": 2**64, "start": 0}}), "more than can be counted"),
        (event("start", {"test_start": {"reverse": "yes"}}) + INTERVAL, "no direction"),
        (event("start", {"test_start": {}}) + INTERVAL, "no direction"),
        (event("start", []) + INTERVAL, "no direction"),
        (START + '{"event":"interval","data":' + "9" * 5000 + "}\n", "a number no one can read"),
        (START + '{"event":' + "[" * 100_000 + "\n", "too deep to read"),
        (START + '["event"]\n7\n', "no event"),
    ],
)
def test_what_is_no_interval_of_the_run_is_not_reported(text: str, why: str) -> None:
    assert read(text) == [], why


def test_what_stands_between_the_events_does_not_matter() -> None:
    text = "warning: no\n" + START + "\r\n\x00{}\nnull\n" + event("server_output_text", "x") + INTERVAL
    assert len(read(text)) == 1


def test_a_line_without_end_is_not_kept_for_ever() -> None:
    meter = StreamMeter()
    meter.feed(START)
    for _ in range(100):
        meter.feed('{"event":"interval",' + " " * 100_000)
    assert sum(map(len, meter._line)) < 1_300_000
    meter.feed("\n" + INTERVAL)
    assert len(meter.take()) == 1


@relaxed
@given(st.sampled_from(sorted(SAMPLES)), st.lists(st.integers(0, 100_000), max_size=40))
def test_how_a_stream_is_cut_into_pieces_does_not_matter(name: str, cuts: list[int]) -> None:
    text = SAMPLES[name]
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    pieces = [text[begin:end] for begin, end in itertools.pairwise(edges)]
    assert "".join(pieces) == text
    assert read(*pieces) == read(text)


def test_character_by_character() -> None:
    assert read(*STOPPED_SERVER) == read(STOPPED_SERVER)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["sum", "sum_bidir_reverse", "streams", "start", "end", "seconds", "bytes", "omitted"])
            | st.sampled_from(["sender", "retransmits", "test_start", "reverse", "bidir", "omit", "connecting_to"]),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@relaxed
@given(
    st.lists(
        st.text(max_size=40)
        | st.builds(event, st.sampled_from(["start", "interval", "end", "error"]), json_values)
        | st.sampled_from([START, INTERVAL, END]),
        max_size=8,
    )
)
@example([START, event("interval", {"sum": {"seconds": 1e-320, "bytes": 1, "start": 1e308, "end": float("inf")}})])
def test_garbage_never_raises_and_gives_only_numbers_that_can_be(pieces: list[str]) -> None:
    for interval in read(*pieces):
        assert 0 <= interval.bytes < 2**64
        assert 0 < interval.seconds < 1e300
        assert interval.direction in ("forward", "reverse")
        assert interval.counted_by in ("sender", "receiver")


@relaxed
@given(st.sampled_from(sorted(SAMPLES)), st.integers(0, 10_000), st.integers(0, 200), st.text(max_size=30))
def test_a_damaged_stream_never_raises_and_reports_no_interval_twice(
    name: str, place: int, length: int, junk: str
) -> None:
    text = SAMPLES[name]
    live = read(text[: place % len(text)] + junk + text[place % len(text) + length :])
    keys = [(i.direction, i.start_s) for i in live]
    assert len(keys) == len(set(keys))
