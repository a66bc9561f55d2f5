"""The intervals of a JSON document or stream, one direction at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pytest_netperf.traffic.draft import Draft, Side, as_dict, as_list, count, positive
from pytest_netperf.traffic.result import Interval, TcpState

__all__ = ["SeriesReader", "read_series", "read_tcp_state", "row_of"]


@dataclass(slots=True)
class SeriesReader:
    """Turns the rows of one direction, given one after another, into intervals.

    Omitted intervals get negative starts, so that time runs on through the restart of the clock at the edge of ``-O``.
    Where that edge comes a moment before a report, the row across it has ``omitted: false``, the seconds since the last
    report, but only the bytes since the edge. It is read as what it holds: from the edge to its end.

    A server whose client was stopped or died writes its last whole interval a second time, which is left out.
    """

    omit_s: float
    unreadable: int = 0
    repeated: bool = False
    """Whether the last interval stood there twice: then the writer's sums have the seconds up to that interval only."""
    sides: set[bool] = field(default_factory=set)
    """What the rows say of whether their writer sent."""
    _last: tuple[float, float] | None = None
    _counting: bool = False

    def add(self, row: dict[str, Any]) -> Interval | None:
        """The interval of a row; None where it has no valid numbers, or is the one before written again."""
        seconds, counted = positive(row.get("seconds")), count(row.get("bytes"))
        start_s, end_s = positive(row.get("start")), positive(row.get("end"))
        omitted = row.get("omitted") is True
        across_edge = self.omit_s > 0 and not omitted and not self._counting
        if across_edge and seconds and end_s is not None and end_s < 0.95 * seconds:
            start_s, seconds = 0.0, end_s
        if not seconds or counted is None or start_s is None:
            self.unreadable += 1
            return None
        if end_s is not None:
            if self._last == (start_s, end_s):
                self.repeated = True
                return None
            self._last = (start_s, end_s)
        self._counting = self._counting or not omitted
        if isinstance(row.get("sender"), bool):
            self.sides.add(row["sender"])
        return Interval(
            start_s=start_s - self.omit_s if omitted else start_s,
            seconds=seconds,
            bytes=counted,
            omitted=omitted,
            retransmits=count(row.get("retransmits")),
        )

    @property
    def side(self) -> Side | None:
        """Which end counted, as far as the rows agree on it."""
        if len(self.sides) != 1:
            return None
        return "sender" if True in self.sides else "receiver"


def read_series(parts: list[dict[str, Any]], suffix: str, draft: Draft) -> tuple[tuple[Interval, ...], SeriesReader]:
    """The intervals of one direction, all streams together, and what was found on the way."""
    reader = SeriesReader(omit_s=draft.omit_s or 0.0)
    made = [interval for part in parts if (interval := reader.add(row_of(part, suffix))) is not None]
    if reader.unreadable:
        draft.notes.append(f"{reader.unreadable} intervals without valid numbers were left out.")
    if reader.repeated:
        draft.notes.append("The last interval stood there twice, as it does when the other end goes away.")
    return tuple(made), reader


def row_of(part: dict[str, Any], suffix: str) -> dict[str, Any]:
    """All streams of one direction together, of one part of ``intervals``."""
    row = as_dict(part.get(f"sum{suffix}"))
    if not suffix and not row.keys() >= {"seconds", "bytes"}:
        return _combined(part.get("streams"))
    return row


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
