"""One line of iperf3's human-readable report: its form in every version, and the numbers with their resolution."""

from __future__ import annotations

import re

import msgspec

__all__ = ["Figure", "Row", "read_row"]

_NUMBER = r"\d{1,9}(?:\.\d{1,6})?"
_ROW = re.compile(
    rf"\[\s*(?P<id>\d{{1,6}}|SUM)\]\s*(?:\[(?P<way>TX|RX)-(?P<end>[CS])\])?\s*"
    rf"(?P<start>{_NUMBER})\s*-\s*(?P<stop>{_NUMBER})\s+sec\s+"
    rf"(?P<moved>{_NUMBER})\s+(?P<moved_unit>[KMGT]?Bytes)\s+"
    rf"(?P<rate>{_NUMBER})\s+(?P<rate_unit>[KMGT]?(?:bits|Bytes))/sec(?P<rest>[^\n]*)"
)
_LOSS = re.compile(rf"(?P<jitter>{_NUMBER}|-?nan)\s+ms\s+(?P<lost>-?\d{{1,20}}|Unknown)/(?P<total>-?\d{{1,20}})\b")
_RETRANSMITS = re.compile(rf"^\s*(?P<count>\d{{1,12}})\s+{_NUMBER}\s+[KMGT]?Bytes\b")
_COUNT = re.compile(r"^\s*(?P<count>\d{1,12})\s*(?:$|\(omitted\)|sender\b)")
_ROLE = re.compile(r"\b(sender|receiver)\s*$")
_PREFIX = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


class Figure(msgspec.Struct, frozen=True):
    """A printed number in SI units, and half of the unit of its last digit."""

    value: float
    resolution: float

    @property
    def relative(self) -> float:
        """Resolution as a share of the value."""
        return self.resolution / self.value if self.value else 0.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row: an interval or a summary of a stream or of all streams."""

    stream: str
    """Number of the stream, or SUM."""
    tag: str | None
    """Role of --bidir, one of TX-C, RX-C, TX-S, RX-S."""
    start_s: float
    end_s: float
    moved_bytes: Figure
    rate_bps: Figure
    omitted: bool
    role: str | None
    """The last word of a summary row: sender or receiver."""
    number: int | None
    """Retransmits of a TCP sender, datagrams of a UDP sender."""
    window: bool
    """A congestion window is printed, which only senders have."""
    has_loss: bool
    jitter_s: float | None
    lost: int | None
    packets: int | None

    @property
    def seconds(self) -> float:
        """Length by the printed times, to 10 ms."""
        return self.end_s - self.start_s

    @property
    def key(self) -> tuple[object, ...]:
        """What makes a row printed twice the same row."""
        return (self.stream, self.tag, self.start_s, self.end_s, self.moved_bytes.value, self.role, self.window)

    def agrees(self) -> bool:
        """Whether transfer, rate and times say the same, as far as their rounding lets one see."""
        if self.seconds <= 0:
            return not self.moved_bytes.value
        by_bytes = self.moved_bytes.value * 8 / self.seconds
        allowed = self.moved_bytes.relative + self.rate_bps.relative + 0.01 / self.seconds + 0.01
        return abs(by_bytes - self.rate_bps.value) <= allowed * max(by_bytes, self.rate_bps.value)


def read_row(line: str) -> Row | None:
    """The row in a line, whatever stands before it (title, time stamp, ^C); None when there is none."""
    match = _ROW.search(line)
    if match is None:
        return None
    rest = match["rest"]
    loss = _LOSS.search(rest)
    window = _RETRANSMITS.search(rest)
    number = window or _COUNT.search(rest)
    role = _ROLE.search(rest)
    unit = match["rate_unit"]
    # Bits count in thousands, bytes (-f K, M, G) in 1024s.
    scale = 1000.0 ** _PREFIX[unit[:-4]] if unit.endswith("bits") else 8 * 1024.0 ** _PREFIX[unit[:-5]]
    jitter = loss["jitter"] if loss else None
    return Row(
        stream=match["id"],
        tag=f"{match['way']}-{match['end']}" if match["way"] else None,
        start_s=float(match["start"]),
        end_s=float(match["stop"]),
        moved_bytes=_figure(match["moved"], 1024.0 ** _PREFIX[match["moved_unit"][:-5]]),
        rate_bps=_figure(match["rate"], scale),
        omitted="(omitted)" in rest,
        role=role[1] if role else None,
        number=int(number["count"]) if number else None,
        window=window is not None,
        has_loss=loss is not None,
        jitter_s=float(jitter) / 1000 if jitter and "nan" not in jitter else None,
        lost=int(loss["lost"]) if loss and loss["lost"] != "Unknown" else None,
        packets=int(loss["total"]) if loss else None,
    )


def _figure(text: str, scale: float) -> Figure:
    decimals = len(text.partition(".")[2])
    return Figure(float(text) * scale, 0.5 * 10.0**-decimals * scale)
