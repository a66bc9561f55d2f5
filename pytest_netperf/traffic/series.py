"""The intervals of a JSON document, one direction at a time."""

from __future__ import annotations

from typing import Any

from pytest_netperf.traffic.draft import Draft, Side, as_dict, as_list, count, positive
from pytest_netperf.traffic.result import Interval, TcpState

__all__ = ["read_series", "read_tcp_state"]


def read_series(parts: list[dict[str, Any]], suffix: str, draft: Draft) -> tuple[tuple[Interval, ...], Side | None]:
    """The intervals of one direction, all streams together, and who counted them.

    Omitted intervals get negative starts, so that time runs on through the restart of the clock. An interval across
    the edge of ``-O`` is written with ``omitted: false``, the start of the old clock and the end of the new one; part
    of it does not count, so it is omitted here.
    """
    made: list[Interval] = []
    sides: set[bool] = set()
    omit_s = draft.omit_s or 0.0
    unreadable = 0
    for part in parts:
        row = as_dict(part.get(f"sum{suffix}"))
        if not suffix and not row.keys() >= {"seconds", "bytes"}:
            row = _combined(part.get("streams"))
        seconds, counted = positive(row.get("seconds")), count(row.get("bytes"))
        start_s, end_s = positive(row.get("start")), positive(row.get("end"))
        if not seconds or counted is None or start_s is None:
            unreadable += 1
            continue
        omitted = row.get("omitted") is True
        if omitted:
            start_s -= omit_s
        elif made and made[-1].omitted and end_s is not None and end_s < 0.95 * seconds:
            omitted, start_s = True, end_s - seconds
        if isinstance(row.get("sender"), bool):
            sides.add(row["sender"])
        made.append(
            Interval(
                start_s=start_s,
                seconds=seconds,
                bytes=counted,
                omitted=omitted,
                retransmits=count(row.get("retransmits")),
            )
        )
    if unreadable:
        draft.notes.append(f"{unreadable} intervals without valid numbers were left out.")
    side: Side | None = None
    if len(sides) == 1:
        side = "sender" if sides.pop() else "receiver"
    return tuple(made), side


def read_tcp_state(parts: list[dict[str, Any]]) -> TcpState | None:
    """What TCP said in each interval of the streams that the writer of the document sends on; None when nothing."""
    rtts, windows, cwnd, pmtu = [], [], None, None
    for part in parts:
        streams = [row for row in as_list(part.get("streams")) if isinstance(row, dict) and "snd_cwnd" in row]
        counted = [value for row in streams if (value := positive(row.get("rtt")))]
        if counted:
            rtts.append(sum(counted) / len(counted) / 1e6)
        if streams:
            cwnd = _sum(streams, "snd_cwnd")
            windows.append(_sum(streams, "snd_wnd"))
            pmtu = min((size for row in streams if (size := count(row.get("pmtu")))), default=None)
    known = [window for window in windows if window]
    state = TcpState(
        min_rtt_s=min(rtts, default=None),
        mean_rtt_s=sum(rtts) / len(rtts) if rtts else None,
        last_cwnd_bytes=cwnd,
        max_peer_window_bytes=max(known, default=None),
        pmtu_bytes=pmtu,
    )
    return None if state == TcpState() else state


def _sum(rows: list[dict[str, Any]], key: str) -> int | None:
    values = [count(row.get(key)) for row in rows]
    return None if None in values else sum(value for value in values if value is not None)


def _combined(streams: Any) -> dict[str, Any]:
    """The sum row of an interval that has none (one stream of old versions, fragments)."""
    rows = [row for row in as_list(streams) if isinstance(row, dict)]
    if len(rows) == 1:
        return rows[0]
    counts = [count(row.get("bytes")) for row in rows]
    if not rows or None in counts:
        return {}
    return rows[0] | {"bytes": sum(n for n in counts if n is not None), "retransmits": None}
