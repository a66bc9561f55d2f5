"""The intervals of a run while it is running: what ``iperf3 --json-stream`` (from 3.17 on) prints, read bit by bit.

Each end knows only its own side. In a forward run the client's stream has what was sent, and the server's (which can
be started with ``--json-stream`` too) what was received; in reverse it is the other way round, and a bidirectional
stream has one direction of each. ``counted_by`` says which it is; only "receiver" is what arrived.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec

from pytest_netperf.traffic.document import directions, role_of, writer_side
from pytest_netperf.traffic.draft import Draft, Side, Way, as_dict, positive
from pytest_netperf.traffic.series import SeriesReader, row_of

__all__ = ["LiveInterval", "StreamMeter"]

_LONGEST_LINE = 1 << 20
"""Characters of a line; the interval of 128 streams has about 60,000. A longer line is none of iperf3's."""


class LiveInterval(msgspec.Struct, frozen=True, kw_only=True):
    """One reporting interval of one direction, all its streams together, as `traffic.result.Interval` has it."""

    direction: Way
    start_s: float
    """Seconds after the counted window began; below zero for omitted intervals."""
    seconds: float
    bytes: int
    omitted: bool = False
    retransmits: int | None = None
    """Of the sender; None where the kernel or the end does not say."""
    counted_by: Side


class StreamMeter:
    """Reads the stream of one end of one run. Takes any text in any pieces, and never raises.

    Lines that are no events are skipped. Without a ``start`` nobody knows which way data goes: nothing is reported
    then, nor after the ``end``. The last interval of a run that ends early is shorter than the others, and a server
    writes it twice; it is reported once.
    """

    def __init__(self) -> None:
        self._line: list[str] = []
        self._held = 0
        self._ready: list[LiveInterval] = []
        self._state: Literal["waiting", "running", "over"] = "waiting"
        self._draft = Draft()
        self._asked: dict[str, Any] = {}
        self._readers: dict[Way, SeriesReader] = {}

    def feed(self, text: str) -> None:
        """Take what was printed since the last call."""
        *ends, rest = text.split("\n")
        for end in ends:
            line, self._line, self._held = "".join((*self._line, end)), [], 0
            if len(line) <= _LONGEST_LINE:
                self._read(line)
        if rest and self._held <= _LONGEST_LINE:  # of a longer line, the rest is not needed
            self._line.append(rest)
            self._held += len(rest)

    def take(self) -> list[LiveInterval]:
        """The intervals that ended since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def _read(self, line: str) -> None:
        if self._state == "over" or '"event"' not in line:
            return
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(event, dict):
            return
        name, data = event.get("event"), as_dict(event.get("data"))
        if name == "start" and self._state == "waiting":
            self._start(data)
        elif name == "interval" and self._state == "running":
            self._interval(data)
        elif name == "end":
            self._state = "over"

    def _start(self, data: dict[str, Any]) -> None:
        self._asked = as_dict(data.get("test_start"))
        self._draft.role = role_of(data)
        self._draft.omit_s = positive(self._asked.get("omit"))
        self._state = "running" if self._asked.get("reverse") in (0, 1) else "over"

    def _interval(self, data: dict[str, Any]) -> None:
        for way, suffix in directions(self._asked, {}, [data], self._draft):
            reader = self._readers.setdefault(way, SeriesReader(omit_s=self._draft.omit_s or 0.0))
            row = row_of(data, suffix)
            interval = reader.add(row)
            sender = row.get("sender")
            side: Side | None = ("sender" if sender else "receiver") if isinstance(sender, bool) else None
            side = side or writer_side(self._draft.role, way)
            if interval is not None and side is not None:
                self._ready.append(
                    LiveInterval(
                        direction=way,
                        start_s=interval.start_s,
                        seconds=interval.seconds,
                        bytes=interval.bytes,
                        omitted=interval.omitted,
                        retransmits=interval.retransmits,
                        counted_by=side,
                    )
                )
