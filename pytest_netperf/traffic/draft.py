"""What the readers of JSON and of text have in common: the notes they take, and what makes a number a number."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from pytest_netperf.traffic.result import Flow, Interval

__all__ = [
    "SHORTEST_BYTE_MODE_S",
    "Draft",
    "Loss",
    "Side",
    "Way",
    "advice",
    "as_dict",
    "as_list",
    "count",
    "error_sentence",
    "frame_loss",
    "positive",
    "version_of",
    "without_tail",
]

Side = Literal["receiver", "sender"]
Way = Literal["forward", "reverse"]

COUNTER_MAX = 2**64 - 1
"""iperf3 counts in 64 bits; a larger number was never counted."""
SHORTEST_BYTE_MODE_S = 2.0
"""A test of so many bytes (-n, -k) that ends sooner is start-up and rounding, not a rate."""
TAIL_SHARE = 0.10
"""A last interval shorter than this share of the others says nothing: rates up to three times the mean were seen."""


@dataclass(slots=True)
class Draft:
    """A reading in the making. ``doubts`` spoil the trust, the first one becomes the reason; ``notes`` do not."""

    kind: Literal["json", "json-stream", "text", "empty", "unknown"] = "unknown"
    role: Literal["client", "server"] | None = None
    version: str | None = None
    protocol: Literal["tcp", "udp", "sctp"] | None = None
    duration_s: float | None = None
    omit_s: float | None = None
    streams: int | None = None
    congestion: str | None = None
    host_cpu_percent: float | None = None
    remote_cpu_percent: float | None = None
    byte_mode: bool = False
    """The end of the test was a number of bytes or blocks (-n, -k), not a duration (-t)."""
    flows: list[Flow] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def release(self) -> tuple[int, ...] | None:
        """The iperf3 version as numbers that compare, e.g. (3, 12)."""
        return tuple(int(part) for part in self.version.split(".")) if self.version else None


def count(value: Any) -> int | None:
    """A counter: a whole number from 0 to 2**64 - 1; anything else (bool, NaN, text, negative) is None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= COUNTER_MAX else None


def positive(value: Any) -> float | None:
    """A finite number >= 0; anything else (bool, NaN, infinity, text, negative) is None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return float(value) if 0 <= value <= COUNTER_MAX else None
    return value if math.isfinite(value) and value >= 0 else None


def as_dict(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def version_of(text: Any) -> str | None:
    """The plain version number of ``iperf 3.7+``, ``iperf 3.9-nrf`` and the like; None when there is none."""
    match = re.search(r"\biperf (\d{1,3}(?:\.\d{1,4}){1,3})", text) if isinstance(text, str) else None
    return match[1] if match else None


def without_tail(intervals: Sequence[Interval], nominal_s: float | None) -> tuple[tuple[Interval, ...], bool]:
    """The intervals without a last one that is too short to mean anything, and whether there was one."""
    counted = [interval.seconds for interval in intervals if not interval.omitted]
    if len(counted) < 2:
        return tuple(intervals), False
    usual_s = nominal_s if nominal_s else statistics.median(counted)
    if intervals[-1].omitted or intervals[-1].seconds >= TAIL_SHARE * usual_s:
        return tuple(intervals), False
    return tuple(intervals[:-1]), True


class Loss(msgspec.Struct, frozen=True):
    """Share of the frames that were lost, and why the reported share cannot be believed, if so."""

    ratio: float | None
    contradiction: str | None = None


def frame_loss(
    *,
    packets: int | None,
    lost: int | None,
    sent_bytes: int | None,
    received_bytes: int | None,
    frame_bytes: int | None,
    in_flight_bytes: float,
) -> Loss:
    """Loss as reported, when the bytes agree with it; else recomputed from the bytes, with the contradiction.

    iperf3 from 3.14 with a peer up to 3.13 reports no loss while 2 to 31 % of the bytes are missing
    (esnet/iperf#2055). ``in_flight_bytes`` is what may be on its way, or rounded, at the ends of the test.
    """
    reported = None
    if packets and lost is not None and lost <= packets:
        reported = lost / packets
    offered = sent_bytes or (packets * frame_bytes if packets and frame_bytes else None)
    if not offered or not received_bytes:
        return Loss(reported)
    recomputed = min(max(1 - received_bytes / offered, 0.0), 1.0)
    if reported is None:
        return Loss(recomputed if sent_bytes else None)
    gap = abs(offered * (1 - reported) - received_bytes)
    if gap <= in_flight_bytes + 16 * (frame_bytes or 0):
        return Loss(reported)
    if received_bytes > offered:
        return Loss(
            recomputed,
            "More UDP bytes were received than sent: some datagrams arrived twice, and the received rate counts both.",
        )
    return Loss(
        recomputed,
        f"The reported frame loss of {reported:.2%} contradicts the bytes, which say {recomputed:.2%}: "
        "run the same iperf3 version on both ends, as mixed versions miscount UDP loss.",
    )


def advice(message: str) -> str:
    """What to do about an error message of iperf3."""
    lowered = message.lower()
    for words, text in _ADVICE:
        if any(word in lowered for word in words):
            return text
    return "remove the cause and repeat the run"


_ADVICE: tuple[tuple[tuple[str, ...], str], ...] = (
    (("interrupt", "terminated", "signal"), "let the run end by itself and repeat it"),
    (("busy",), "start a fresh one-off server (iperf3 -s -1) for each run and repeat it"),
    (
        ("unable to connect", "no route", "refused", "timed out", "resolve"),
        "start the server, check the address and path",
    ),
    (("json data length", "receive results"), "use fewer intervals or a newer iperf3 on both ends and repeat the run"),
    (("closed", "broken pipe", "reset by peer", "unable to"), "look why the other end went away and repeat the run"),
    (("command not found", "no such file"), "install iperf3"),
)


def error_sentence(message: Any) -> str:
    """One sentence for an error that iperf3 itself reported."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in str(message)[:300]).split())
    plain = plain.removeprefix("error - ").rstrip(" .:") or "no text"
    return f'iperf3 reported an error ("{plain}"): {advice(plain)}.'
