"""One iperf3 JSON document (versions 3.0 to 3.22) into flows.

What the keys mean, and which side of a document knows them:

- ``end.sum_received`` is the receiver's count, ``end.sum_sent`` the sender's; ``*_bidir_reverse`` the other direction.
- A server never learns the client's counts: zeros there mean "unknown". A client has both.
- For UDP ``end.sum`` is the *sent* rate in every version; ``sum_received`` exists from 3.11 on.
- Each sum has seconds of its own. After ``-O`` its clock starts again at zero, also that of the intervals.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

from pytest_netperf.traffic.draft import (
    SHORTEST_BYTE_MODE_S,
    Draft,
    Side,
    Way,
    as_dict,
    as_list,
    count,
    error_sentence,
    frame_loss,
    positive,
    version_of,
    without_tail,
)
from pytest_netperf.traffic.result import Flow
from pytest_netperf.traffic.series import read_series, read_tcp_state

__all__ = ["directions", "read_document", "read_fragment", "role_of", "writer_side"]

_BAD_NUMBER = (
    "The document's received bytes, seconds or rate are not valid numbers: do not edit iperf3's output, repeat the run."
)


def read_document(document: dict[str, Any], draft: Draft) -> None:
    """Fill the draft from a complete document: start, intervals, end."""
    _read_start(document, draft)
    if document.get("error") not in (None, ""):
        draft.doubts.append(error_sentence(document["error"]))
    end = as_dict(document.get("end"))
    if not end:
        draft.doubts.append(
            "The run has no result (its end is empty): read iperf3's stderr, remove the cause and repeat it."
        )
    _read_end(document, end, draft)


def read_fragment(piece: dict[str, Any], draft: Draft) -> None:
    """Fill the draft with what a fragment of a document still says. The caller adds the doubt."""
    if (
        not any(isinstance(piece.get(key), dict | list) for key in ("start", "intervals", "end"))
        and "error" not in piece
    ):
        if "udp" in piece:
            piece = {"end": {"streams": [piece]}}
        elif piece.keys() & {"sum_sent", "sum_received"} or _has_sides(piece.get("streams")):
            piece = {"end": piece}
        elif "streams" in piece:
            piece = {"intervals": [piece]}
        else:
            piece = {"intervals": [{"streams": [piece]}]}
    _read_start(piece, draft)
    if piece.get("error") not in (None, ""):
        draft.doubts.append(error_sentence(piece["error"]))
    end = as_dict(piece.get("end"))
    if not end.keys() & {"sum", "sum_sent"}:
        end = end | _sums_of_streams(end.get("streams"))
    _read_end(piece, end, draft)


def _read_start(document: dict[str, Any], draft: Draft) -> None:
    start = as_dict(document.get("start"))
    asked = as_dict(start.get("test_start"))
    draft.version = version_of(start.get("version"))
    draft.role = role_of(start)
    protocol = asked.get("protocol")
    lowered = protocol.lower() if isinstance(protocol, str) else None
    draft.protocol = lowered if lowered in ("tcp", "udp", "sctp") else None  # type: ignore[assignment]
    draft.duration_s = positive(asked.get("duration"))
    draft.omit_s = positive(asked.get("omit"))
    draft.streams = count(asked.get("num_streams"))
    draft.byte_mode = bool(count(asked.get("bytes")) or count(asked.get("blocks")))
    if draft.byte_mode:
        draft.duration_s = None
    elif asked and not draft.duration_s:
        draft.doubts.append(
            "The document does not say how many seconds were asked for (0 is endless): "
            "run iperf3 with -t SECONDS and let it end by itself."
        )


def role_of(start: dict[str, Any]) -> Literal["client", "server"] | None:
    """Which end wrote this ``start``."""
    connecting, accepted = "connecting_to" in start, "accepted_connection" in start
    if connecting == accepted:
        return None
    return "client" if connecting else "server"


def _read_end(document: dict[str, Any], end: dict[str, Any], draft: Draft) -> None:
    intervals = [part for part in as_list(document.get("intervals")) if isinstance(part, dict)]
    asked = as_dict(as_dict(document.get("start")).get("test_start"))
    cpu = as_dict(end.get("cpu_utilization_percent"))
    draft.host_cpu_percent = positive(cpu.get("host_total"))
    draft.remote_cpu_percent = positive(cpu.get("remote_total")) or None
    for key in ("sender_tcp_congestion", "receiver_tcp_congestion"):
        if draft.congestion is None and isinstance(end.get(key), str):
            draft.congestion = end[key]
    if draft.protocol is None and "sum" in end:
        draft.protocol = "udp"

    for direction, suffix in directions(asked, end, intervals, draft):
        flow = _flow(end, direction, suffix, count(asked.get("blksize")), draft)
        series, found = read_series(intervals, suffix, draft)
        series, dropped = without_tail(series, positive(asked.get("interval")))
        if dropped:
            draft.notes.append("A last interval shorter than 10 % of the others was dropped.")
        side = writer_side(draft.role, direction)
        if side and found.side and side != found.side:
            draft.doubts.append("The document contradicts itself about the direction of the data: repeat the run.")
        if series:
            flow = msgspec.structs.replace(flow, intervals=series, intervals_from=found.side or side)
        if found.repeated:
            flow = _without_seconds(flow)
        if (side or found.side) == "sender":
            flow = msgspec.structs.replace(flow, tcp=read_tcp_state(intervals))
        if flow != Flow(direction=direction):
            draft.flows.append(flow)


def directions(
    asked: dict[str, Any], end: dict[str, Any], intervals: list[dict[str, Any]], draft: Draft
) -> tuple[tuple[Way, str], ...]:
    """The directions of the test, each with the suffix of its keys. 3.7 to 3.16 do not say ``bidir`` anywhere."""
    if (
        asked.get("bidir") in (1, True)
        or any(key.endswith("_bidir_reverse") for key in end)
        or any("sum_bidir_reverse" in part for part in intervals)
    ):
        return (("forward", ""), ("reverse", "_bidir_reverse"))
    reverse = asked.get("reverse", 0)
    if reverse not in (0, 1):
        draft.doubts.append("The document does not say in which direction data went: repeat the run.")
    return (("reverse" if reverse in (1, True) else "forward", ""),)


def _flow(end: dict[str, Any], direction: Way, suffix: str, frame_bytes: int | None, draft: Draft) -> Flow:
    """The sums of one direction, without what this side of the test cannot know."""
    sent_row = as_dict(end.get(f"sum_sent{suffix}"))
    got_row = as_dict(end.get(f"sum_received{suffix}"))
    udp_row = as_dict(end.get(f"sum{suffix}"))
    writer = writer_side(draft.role, direction)
    fields: dict[str, Any] = {}

    from_row = sent_row or udp_row
    sent_bytes, sent_s = count(from_row.get("bytes")), positive(from_row.get("seconds"))
    if sent_bytes or (sent_bytes == 0 and (writer == "sender" or draft.role == "client")):
        fields |= {"sent_bytes": sent_bytes, "sent_seconds": sent_s, "sent_bps": _sent_bps(from_row)}
        fields["retransmits"] = count(sent_row.get("retransmits"))
    got_bytes, got_s = count(got_row.get("bytes")), positive(got_row.get("seconds"))
    if got_bytes or (got_bytes == 0 and (writer == "receiver" or draft.role == "client")):
        fields |= {"received_bytes": got_bytes, "received_seconds": got_s}
        fields["received_bps"] = _received_bps(got_row, got_bytes or 0, got_s, draft)
    elif got_row and got_bytes is None:
        draft.doubts.append(_BAD_NUMBER)

    if draft.protocol == "udp" and not (draft.role == "server" and writer == "sender"):
        fields |= _loss_fields(got_row if "packets" in got_row else udp_row, fields, frame_bytes, draft)
        if writer == "receiver":
            fields["out_of_order"] = _out_of_order(end)
    elif draft.omit_s == 0 and got_bytes and sent_bytes and got_bytes > 1.01 * sent_bytes:
        draft.doubts.append(
            "More bytes were received than sent, which cannot be without -O: a count is wrong, repeat the run."
        )
    return Flow(direction=direction, **fields)


def _without_seconds(flow: Flow) -> Flow:
    """The sums of an end that the other one left: their bytes reach up to then, their seconds to the last interval."""
    return msgspec.structs.replace(flow, received_seconds=None, received_bps=None, sent_seconds=None, sent_bps=None)


def _received_bps(row: dict[str, Any], received: int, seconds: float | None, draft: Draft) -> float | None:
    """The received rate in bit/s: as written when bytes and seconds agree within 0.01 %, else recomputed from them."""
    if received == 0:
        return 0.0
    if not seconds:
        draft.doubts.append(_BAD_NUMBER)
        return None
    if draft.byte_mode and seconds < SHORTEST_BYTE_MODE_S:
        draft.doubts.append(
            f"The test was so many bytes (-n or -k) and lasted {seconds:.3g} s, too short for a rate: use -t SECONDS."
        )
        return None
    computed = received * 8 / seconds
    written = positive(row.get("bits_per_second"))
    if not math.isfinite(computed) or not written:
        draft.doubts.append(_BAD_NUMBER)
        return computed if math.isfinite(computed) else None
    difference = abs(computed - written) / written
    if difference <= 1e-4:
        return written
    if difference <= 0.01:
        draft.notes.append(
            f"The received rate was recomputed from bytes and seconds; the document differs by {difference:.2%}."
        )
    else:
        draft.doubts.append(
            f"The received rate in the document ({written:.6g} bit/s) contradicts its own bytes and seconds "
            f"({computed:.6g} bit/s): do not edit iperf3's output, repeat the run."
        )
    return computed


def _sent_bps(row: dict[str, Any]) -> float | None:
    """The sent rate in bit/s, evidence only; as written, because old UDP ``sum`` rows have the receiver's seconds."""
    written = positive(row.get("bits_per_second"))
    seconds, sent = positive(row.get("seconds")), count(row.get("bytes"))
    if written is not None or not seconds or sent is None:
        return written
    computed = sent * 8 / seconds
    return computed if math.isfinite(computed) else None


def _loss_fields(row: dict[str, Any], sums: dict[str, Any], frame_bytes: int | None, draft: Draft) -> dict[str, Any]:
    """Packets, loss and jitter as the receiver counted them."""
    packets, lost = count(row.get("packets")), count(row.get("lost_packets"))
    if "lost_packets" in row and (lost is None or packets is None or lost > packets):
        draft.doubts.append("The count of lost UDP packets is impossible: repeat the run without -O.")
    jitter_ms = positive(row.get("jitter_ms"))
    sent, sent_s = sums.get("sent_bytes"), sums.get("sent_seconds")
    got, got_s = sums.get("received_bytes"), sums.get("received_seconds")
    # Data sent in the last moment may not be counted; after -O also what was on its way when the counting began.
    slack_s = (0.25 if draft.omit_s else 0.05) + (abs(sent_s - got_s) if sent_s and got_s else 0.0)
    rate_bytes = (sent / sent_s) if sent and sent_s else (got / got_s) if got and got_s else 0.0
    loss = frame_loss(
        packets=packets,
        lost=lost,
        sent_bytes=sent,
        received_bytes=got,
        frame_bytes=frame_bytes,
        in_flight_bytes=rate_bytes * slack_s,
    )
    if loss.contradiction:
        draft.doubts.append(loss.contradiction)
    return {
        "packets": packets,
        "lost_packets": lost,
        "frame_loss_ratio": loss.ratio,
        "jitter_s": jitter_ms / 1000 if jitter_ms is not None else None,
    }


def _out_of_order(end: dict[str, Any]) -> int | None:
    """Datagrams that arrived after later ones, of all streams that the writer received; None when one does not say."""
    streams = [as_dict(as_dict(part).get("udp")) for part in as_list(end.get("streams"))]
    counts = [count(stream.get("out_of_order")) for stream in streams if stream.get("sender") is not True]
    known = [each for each in counts if each is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _has_sides(streams: Any) -> bool:
    """Whether these are the streams of ``end`` (a sender and a receiver each), not those of an interval."""
    return any(
        isinstance(part, dict) and any(isinstance(part.get(key), dict) for key in ("sender", "receiver", "udp"))
        for part in as_list(streams)
    )


def _sums_of_streams(streams: Any) -> dict[str, Any]:
    """The sent side of a fragment's streams as sum rows. The received side is never guessed from streams."""
    parts = [part for part in as_list(streams) if isinstance(part, dict)]
    for side, key in (("sender", "sum_sent"), ("udp", "sum")):
        rows = [row for part in parts if (row := as_dict(part.get(side)))]
        if len(rows) == 1:
            return {key: {name: value for name, value in rows[0].items() if name != "retransmits"}}
    return {}


def writer_side(role: str | None, direction: Way) -> Side | None:
    """Which side of a direction wrote the document: the client sends forward, the server sends in reverse."""
    if role is None:
        return None
    return "sender" if (role == "client") == (direction == "forward") else "receiver"
