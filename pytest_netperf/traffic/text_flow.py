"""The rows of one direction of a text report into a flow: which row says what, and what is wrong with it."""

from __future__ import annotations

import statistics

import msgspec

from pytest_netperf.traffic.draft import SHORTEST_BYTE_MODE_S, Draft, Side, Way, frame_loss, without_tail
from pytest_netperf.traffic.result import Flow, Interval
from pytest_netperf.traffic.row import Row

__all__ = ["read_flow"]

SHORTEST_S = 0.9
"""-t counts in whole seconds, so a shorter run was so many bytes (-n, -k) or broke off."""


def read_flow(way: Way, rows: list[Row], summaries: list[Row], *, streams: set[str], done: bool, draft: Draft) -> Flow:
    """The flow of one direction from its interval and summary rows.

    ``streams`` are the numbers of the connected streams, ``done`` whether the client said that it came to its end.
    """
    sender = _summary(summaries, "sender")
    receiver = _summary(summaries, "receiver")
    plain = _summary(summaries, None)
    if draft.protocol == "udp" and sender is None and plain is not None:
        sender = plain
    elif draft.protocol != "udp" and receiver is None and plain is not None and sender is not None:
        receiver = plain
        draft.doubts.append(
            "The last summary row does not say whose it is (receiver is missing): capture the whole output."
        )
    fields: dict[str, object] = {}
    side_knows_sent = draft.role == "client" or (draft.role == "server" and way == "reverse")
    if sender is not None and (sender.moved_bytes.value or side_knows_sent):
        fields |= {
            "sent_bytes": round(sender.moved_bytes.value),
            "sent_seconds": sender.seconds,
            "sent_bps": sender.rate_bps.value,
            "retransmits": sender.number if draft.protocol == "tcp" else None,
        }
    if receiver is not None and not (draft.role == "server" and way == "reverse"):
        fields |= _received(receiver, rows, streams, done, draft)
    if draft.protocol == "udp" and not (draft.role == "server" and way == "reverse"):
        counted = receiver or plain
        if counted is not None and counted.has_loss:
            fields |= _loss(counted.lost, counted.packets, counted.jitter_s, sender, receiver, draft)

    series, side = _series(rows, way, draft)
    if not summaries and side == "receiver":
        fields |= _excerpt(series, rows, draft)
    series, dropped = without_tail(series, None)
    if dropped:
        draft.notes.append("A last interval shorter than 10 % of the others was dropped.")
    return Flow(direction=way, intervals=series, intervals_from=side if series else None, **fields)  # type: ignore[arg-type]


def _summary(summaries: list[Row], role: Side | None) -> Row | None:
    """The one summary row of a role: the sum of all streams, or the only stream. None when there is no such one."""
    rows = [row for row in summaries if row.role == role]
    sums = [row for row in rows if row.stream == "SUM"]
    chosen = sums or rows
    if len({row.stream for row in chosen}) != 1:
        return None
    # Two processes may print the same result twice; two different results leave none to choose.
    first = chosen[0]
    for row in chosen[1:]:
        if abs(row.rate_bps.value - first.rate_bps.value) > row.rate_bps.resolution + first.rate_bps.resolution:
            return None
        if row.number != first.number:
            first = msgspec.structs.replace(first, number=None)
    return first


def _received(receiver: Row, rows: list[Row], streams: set[str], done: bool, draft: Draft) -> dict[str, object]:
    """The receiver's summary row, with every reason to doubt it."""
    rate = receiver.rate_bps
    in_rows = {row.stream for row in rows if row.stream != "SUM"}
    connected = len(streams) / 2 if receiver.tag else len(streams)
    if receiver.stream != "SUM" and max(len(in_rows), connected) > 1:
        draft.doubts.append("The sum of all streams is missing: capture the whole output, to its end.")
        return {}
    if receiver.stream != "SUM" and not streams and not in_rows and not done:
        draft.doubts.append(
            "Only a part of the output is here: capture the whole output, from its beginning to its end."
        )
    found: dict[str, object] = {
        "received_bytes": round(receiver.moved_bytes.value),
        "received_seconds": receiver.seconds,
        "received_bps": rate.value,
    }
    if not rate.value or not receiver.moved_bytes.value:
        return found | {"received_bps": 0.0}
    if receiver.seconds < (SHORTEST_BYTE_MODE_S if draft.byte_mode else SHORTEST_S):
        draft.doubts.append(
            f"The run lasted {receiver.seconds:.2f} s, too short for a rate: use -t SECONDS instead of -n or -k."
        )
        return found | {"received_bps": None}
    if not receiver.agrees():
        draft.doubts.append(
            "The receiver's transfer, rate and times contradict each other: the text was changed, repeat the run."
        )
    draft.notes.append(f"The text rounds the received rate to {rate.relative:.2%} (+-{rate.resolution:.3g} bit/s).")
    return found


def _loss(
    lost: int | None,
    packets: int | None,
    jitter_s: float | None,
    sender: Row | None,
    receiver: Row | None,
    draft: Draft,
) -> dict[str, object]:
    """Frame loss as the receiver counted it, checked against the printed bytes."""
    if packets is not None and (packets < 0 or (lost is not None and not 0 <= lost <= packets)):
        draft.doubts.append("The count of lost UDP packets is impossible: repeat the run without -O.")
        return {"jitter_s": jitter_s}
    rounding = 0.0
    if sender is not None and receiver is not None:
        share = sender.moved_bytes.relative + receiver.moved_bytes.relative + 0.01
        rounding = share * sender.moved_bytes.value + 0.1 * sender.rate_bps.value / 8
    loss = frame_loss(
        packets=packets,
        lost=lost,
        sent_bytes=round(sender.moved_bytes.value) if sender is not None and receiver is not None else None,
        received_bytes=round(receiver.moved_bytes.value) if receiver is not None else None,
        frame_bytes=None,
        in_flight_bytes=rounding,
    )
    if loss.contradiction:
        draft.doubts.append(loss.contradiction)
    return {"packets": packets, "lost_packets": lost, "frame_loss_ratio": loss.ratio, "jitter_s": jitter_s}


def _side(row: Row, way: Way, draft: Draft, senders_show: bool) -> Side | None:
    """Who counted an interval row."""
    if row.has_loss:
        return "receiver"
    if row.tag:
        return "sender" if row.tag.startswith("TX") else "receiver"
    if row.window or row.number is not None:
        return "sender"
    if draft.role is not None:
        return "sender" if (draft.role == "client") == (way == "forward") else "receiver"
    # Client and server on one terminal: rows without a window are the receiver's if others have one.
    return "receiver" if senders_show else None


def _series(rows: list[Row], way: Way, draft: Draft) -> tuple[tuple[Interval, ...], Side | None]:
    """The intervals of all streams together, the receiver's where there are any. Omitted ones start below zero."""
    unique = list({row.key: row for row in rows}.values())
    if len(unique) < len(rows):
        draft.notes.append("An interval that was printed twice counts once.")
    if any(row.stream == "SUM" for row in unique):
        unique = [row for row in unique if row.stream == "SUM"]
    if len({row.stream for row in unique}) > 1:
        return (), None
    senders_show = any(row.window for row in unique)
    sides = {row.key: _side(row, way, draft, senders_show) for row in unique}
    side: Side | None = "receiver" if "receiver" in sides.values() else "sender" if "sender" in sides.values() else None
    chosen = [row for row in unique if sides[row.key] == side]
    omit_s = max((row.end_s for row in chosen if row.omitted), default=0.0)
    made: list[Interval] = []
    for row in chosen:
        start_s, seconds, omitted = row.start_s, row.seconds, row.omitted
        if seconds <= 0:
            continue
        if omitted:
            start_s -= omit_s
        elif made and made[-1].omitted and row.rate_bps.value:
            # Across the edge of -O the printed times are too short for the bytes; part of it does not count.
            real_s = row.moved_bytes.value * 8 / row.rate_bps.value
            if real_s > 1.1 * seconds + 0.02:
                omitted, start_s, seconds = True, row.end_s - real_s, real_s
        if made and start_s < made[-1].start_s + made[-1].seconds - 0.02:
            # Overlapping intervals are of several processes.
            return (), None
        # The rate has the finer rounding and the printed times are its base, so that bytes / seconds gives it back.
        counted = round(row.rate_bps.value * seconds / 8)
        retransmits = row.number if side == "sender" and draft.protocol == "tcp" else None
        made.append(Interval(start_s=start_s, seconds=seconds, bytes=counted, omitted=omitted, retransmits=retransmits))
    return tuple(made), side


def _excerpt(series: tuple[Interval, ...], rows: list[Row], draft: Draft) -> dict[str, object]:
    """What the receiver's intervals say when the summary is missing: the median one, for a person, never trusted."""
    draft.doubts.append("The summary at the end is missing: capture the whole output, to its end.")
    rates = [interval.bytes * 8 / interval.seconds for interval in series if not interval.omitted]
    typical_bps = statistics.median_low(rates) if rates else 0.0
    if not typical_bps:
        return {}
    draft.notes.append("The received rate is that of the median interval of the receiver.")
    found: dict[str, object] = {"received_bps": typical_bps}
    losses = [row for row in rows if row.has_loss and row.stream == rows[-1].stream and not row.omitted]
    if losses and all(row.lost is not None and row.packets and 0 <= row.lost <= row.packets for row in losses):
        lost, packets = sum(row.lost or 0 for row in losses), sum(row.packets or 0 for row in losses)
        found |= {"lost_packets": lost, "packets": packets, "frame_loss_ratio": lost / packets}
    sent = [row for row in rows if row.window and row.number is not None and not row.omitted]
    if sent and draft.protocol == "tcp":
        found["retransmits"] = sum(row.number or 0 for row in sent)
    return found
