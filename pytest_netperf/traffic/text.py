"""The human-readable report of iperf3, of any version and system, into flows.

A rate is offered as received only where the text says that the receiver counted it: the summary row that ends with
``receiver``, or, in an excerpt without summary, the intervals printed by the receiving side. Sender rows, and the one
UDP summary row without a role of 3.1 (which prints the sent rate), are never offered as received.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pytest_netperf.traffic.draft import Draft, Way, error_sentence, version_of
from pytest_netperf.traffic.result import Flow
from pytest_netperf.traffic.row import Row, read_row
from pytest_netperf.traffic.text_flow import read_flow

__all__ = ["ERROR_LINE", "read_text"]

ERROR_LINE = re.compile(
    r"\biperf3(?:\.exe)?: (?!warning|OUT OF ORDER|getsockopt)(?P<message>[^\r\n]{1,300})", re.IGNORECASE
)
_STARTING = re.compile(
    r"Starting Test: protocol: (?P<protocol>TCP|UDP|SCTP), (?P<streams>\d{1,4}) streams?, \d{1,9} byte blocks, "
    r"omitting (?P<omit>\d{1,6}) seconds, (?:(?P<duration>\d{1,6}) second test|\d{1,20} (?:bytes|blocks) to send)"
)
_HEADER = re.compile(r"\[\s*ID\](?:\[Role\])?\s+Interval\b")
_SERVER_OUTPUT = re.compile(r"(?:^|\s)Server (?:JSON )?output:\s*$")
_LOCAL = re.compile(r"\[\s*(\d{1,6})\] local \S+ port \d+ connected to ")


@dataclass(slots=True)
class _Report:
    """The lines of the text, sorted by what they say."""

    rows: list[Row] = field(default_factory=list)
    summaries: list[Row] = field(default_factory=list)
    streams: set[str] = field(default_factory=set)
    clients: int = 0
    servers: int = 0
    listening: bool = False
    reverse: bool = False
    done: bool = False
    datagrams: bool = False
    restarted: bool = False
    """An interval that begins at zero stands behind a summary."""


def read_text(text: str, draft: Draft) -> None:
    """Fill the draft from a text. Doubts say what is missing or wrong in it."""
    report = _sort_lines(text, draft)
    if not report.rows and not report.summaries:
        if not draft.doubts:
            draft.doubts.append(
                "No iperf3 result was found in the text: give the complete output of an iperf3 client or server."
            )
        return
    draft.kind = "text"
    if "^C" in text:
        draft.doubts.append("Somebody pressed Ctrl-C (^C stands in the text): let the run end by itself and repeat it.")
    everything = report.rows + report.summaries
    if draft.protocol is None:
        draft.protocol = "udp" if report.datagrams or any(row.has_loss for row in everything) else "tcp"
    _set_role(report, draft)
    if _is_several(report):
        draft.doubts.append(
            "The text mixes several iperf3 processes or runs: keep the output of each in a file of its own."
        )
    default_way = _untagged_way(report, draft)
    for way in _ways(everything, default_way):
        rows = [row for row in report.rows if _way(row, default_way) == way]
        summaries = [row for row in report.summaries if _way(row, default_way) == way]
        flow = read_flow(way, rows, summaries, streams=report.streams, done=report.done, draft=draft)
        if flow != Flow(direction=way):
            draft.flows.append(flow)


def _sort_lines(text: str, draft: Draft) -> _Report:
    report = _Report()
    dashes = in_summary = skipping = False
    for line in text.splitlines():
        if "iperf Done." in line:
            report.done, skipping, in_summary = True, False, False
            continue
        if skipping:
            if ERROR_LINE.search(line):
                _read_line(line, report, draft)
            continue
        row = read_row(line)
        if row is not None:
            tail_like = row.start_s > 0.01
            longer = bool(report.rows) and row.seconds > 1.5 * report.rows[0].seconds
            if row.role or (row.start_s <= 0.01 and not row.omitted and (in_summary or longer)):
                report.summaries.append(row)
            else:
                report.restarted = report.restarted or (not tail_like and bool(report.summaries))
                report.rows.append(row)
                in_summary = in_summary and tail_like
        elif _HEADER.search(line):
            in_summary, dashes = dashes, False
            report.datagrams = report.datagrams or "Datagrams" in line
        elif "- - - -" in line:
            dashes = True
        elif _SERVER_OUTPUT.search(line):
            draft.notes.append("The server's output behind the client's was not read.")
            skipping = True
        else:
            _read_line(line, report, draft)
    return report


def _read_line(line: str, report: _Report, draft: Draft) -> None:
    """A line that is neither a row nor a header."""
    if error := ERROR_LINE.search(line):
        draft.doubts.append(error_sentence(error["message"]))
    elif line.lower().startswith("warning:"):
        draft.notes.append(f"iperf3 warned: {line[8:200].strip()}")
    elif starting := _STARTING.search(line):
        draft.protocol = starting["protocol"].lower()  # type: ignore[assignment]
        draft.streams = int(starting["streams"])
        draft.omit_s = float(starting["omit"])
        draft.byte_mode = starting["duration"] is None
        draft.duration_s = float(starting["duration"]) if starting["duration"] else None
    elif local := _LOCAL.search(line):
        report.streams.add(local[1])
    elif "Connecting to host" in line:
        report.clients += 1
    elif "Accepted connection from" in line:
        report.servers += 1
    elif "Server listening on" in line:
        report.listening = True
    elif "Reverse mode, remote host" in line:
        report.reverse = True
    elif draft.version is None:
        draft.version = version_of(line)


def _is_several(report: _Report) -> bool:
    """Whether rows of more than one process or run stand in the text, also where the lines that say so are missing."""
    if report.clients + report.servers > 1 or report.restarted:
        return True
    labels = [(row.stream, row.tag, row.role) for row in report.summaries if row.role]
    everything = report.rows + report.summaries
    return (
        len(set(labels)) < len(labels)
        or (any(row.tag for row in everything) and not all(row.tag for row in everything))
        or (bool(report.rows) and _has_sum(report.summaries) and not _has_sum(report.rows))
    )


def _has_sum(rows: list[Row]) -> bool:
    return any(row.stream == "SUM" for row in rows)


def _set_role(report: _Report, draft: Draft) -> None:
    tags = {row.tag[-1] for row in report.rows + report.summaries if row.tag}
    if report.clients and not report.servers:
        draft.role = "client"
    elif (report.servers or report.listening) and not report.clients:
        draft.role = "server"
    elif report.clients and report.servers:
        draft.role = None
    elif (
        report.done
        or report.reverse
        or tags == {"C"}
        or {row.role for row in report.summaries} >= {"sender", "receiver"}
    ):
        draft.role = "client"
    elif tags == {"S"}:
        draft.role = "server"


def _untagged_way(report: _Report, draft: Draft) -> Way:
    """Direction of rows without a role of --bidir. The text of a server does not say it, but a sender shows itself."""
    if report.reverse:
        return "reverse"
    if draft.role == "server":
        by_role = {row.role for row in report.summaries if row.moved_bytes.value}
        sending = any(row.window or (row.number is not None and not row.has_loss) for row in report.rows)
        if sending or by_role == {"sender"}:
            return "reverse"
    return "forward"


def _way(row: Row, default: Way) -> Way:
    """TX-C and RX-S are forward (client to server), RX-C and TX-S reverse."""
    if row.tag is None:
        return default
    return "forward" if row.tag in ("TX-C", "RX-S") else "reverse"


def _ways(rows: list[Row], default: Way) -> list[Way]:
    if any(row.tag for row in rows):
        return ["forward", "reverse"]
    return [default]
