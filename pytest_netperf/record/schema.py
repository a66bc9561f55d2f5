"""The acceptance record: rows, sheets and what they stand on. Pure data; a reader holds it in this one file.

| struct    | set by                                                        |
| --------- | ------------------------------------------------------------- |
| Planned   | the collection: every row that is expected, before it runs    |
| Row       | the judge, in the process that ran the test                   |
| Sheet     | the controller at the end, from the journal alone             |

All numbers are in the SI unit named beside them (bit/s, s, bytes, ratio).
"""

from __future__ import annotations

import enum
from typing import Any, Literal

import msgspec

__all__ = [
    "SCHEMA_VERSION",
    "DeviceInfo",
    "DeviceVerdict",
    "Evidence",
    "Planned",
    "Row",
    "RunInfo",
    "SeriesPoint",
    "Sheet",
    "Verdict",
]

SCHEMA_VERSION = "1.0"


class Verdict(enum.Enum):
    """What a row says. Ordered from best to worst in `pytest_netperf.judge.verdict`."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"
    ERROR = "ERROR"
    ABORTED = "ABORTED"
    SKIPPED = "SKIPPED"
    NOT_RUN = "NOT RUN"
    CRASHED = "CRASHED"


class DeviceVerdict(enum.Enum):
    """What a sheet says about its device."""

    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    NOT_PROVEN = "NOT PROVEN"


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The thing under test."""

    serial: str
    model: str | None = None
    batch: str | None = None


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput of one interval, for the plot."""

    start_s: float
    seconds: float
    throughput_bps: float
    omitted: bool = False


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why the value can, or cannot, be believed. Everything a stranger needs to judge the row again."""

    series: tuple[SeriesPoint, ...] = ()
    series_from: Literal["receiver", "sender"] | None = None
    facts: dict[str, Any] = {}
    """Flat name -> number or text: received_bytes, retransmits, port counters, tester CPU, commands, versions ..."""
    doubts: tuple[str, ...] = ()
    """One sentence each: what was seen, what it means, what to do next."""
    documents: dict[str, str] = {}
    """Raw tool output, untouched: client, server."""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A row that is expected. ``id`` is the same as the id of the Row that should arrive for it."""

    id: str
    test: str
    """pytest node id."""
    device: DeviceInfo
    link: str | None = None
    quantity: str
    unit: str = ""
    limit: str | None = None
    conditions: dict[str, Any] = {}
    simulated: bool = False
    selected: bool = True
    """False when the command line deselected its test (-k, -m, --lf, --deselect)."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One judged quantity of one measurement of one device."""

    id: str
    test: str
    device: DeviceInfo
    link: str | None = None
    quantity: str
    unit: str
    """SI unit of ``value``, ``ceiling``, ``limit_low`` and ``limit_high``: "bit/s", "s", "1" for counts and ratios."""
    value: float | None = None
    limit: str | None = None
    """The limit in canonical words, e.g. ">= 2.3 Gbit/s" or ">= 98 % of ceiling (2.307 Gbit/s)"."""
    limit_low: float | None = None
    limit_high: float | None = None
    limit_source: str | None = None
    ceiling: float | None = None
    """What physics allows for this quantity under these conditions."""
    margin: float | None = None
    """(value - limit) / limit, positive on the good side."""
    verdict: Verdict
    reason: str
    next_step: str | None = None
    """What to do about a row that is not PASS."""
    required: bool = True
    simulated: bool = False
    conditions: dict[str, Any] = {}
    evidence: Evidence = Evidence()
    attempt: int = 1
    started_at: str | None = None
    """UTC, ISO 8601."""
    duration_s: float | None = None


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is common to all rows of a run."""

    run_id: str
    started_at: str
    station: dict[str, Any] = {}
    """name, location, host, kernel, cpu, cpus ..."""
    software: dict[str, Any] = {}
    """pytest_netperf, pytest, python, iperf3, engine ..."""
    conditions: dict[str, Any] = {}
    """bench file and its SHA-256, limits file and its SHA-256, command line, decision rule, operator ..."""
    operator: str | None = None
    batch: str | None = None


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """The acceptance sheet of one device of one run."""

    schema_version: str = SCHEMA_VERSION
    run_id: str
    verdict: DeviceVerdict
    sentence: str
    """One sentence that says why."""
    complete: bool
    """False when the run was killed or stopped before all planned rows arrived."""
    simulated: bool
    """True when any row was measured on a simulated link."""
    device: DeviceInfo
    station: dict[str, Any]
    software: dict[str, Any]
    conditions: dict[str, Any]
    operator: str | None = None
    started_at: str
    finished_at: str | None = None
    counts: dict[str, int] = {}
    """Verdict -> number of rows."""
    rows: tuple[Row, ...] = ()
    """Worst first, then in the order of the plan."""
