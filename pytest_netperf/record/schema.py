"""The acceptance record: rows, sheets and what they stand on. Pure data; a reader holds it in this one file.

| struct    | set by                                                        |
| --------- | ------------------------------------------------------------- |
| Planned   | the collection: every row that is expected, before it runs    |
| Row       | the judge, in the process that ran the test                   |
| Sheet     | the controller at the end, from the journal alone             |

All numbers are in the SI unit named beside them (bit/s, s, bytes, ratio).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from pytest_netperf.judge.verdict import DeviceVerdict, Verdict

__all__ = [
    "LIMITS_FILE",
    "SCHEMA_VERSION",
    "DeviceInfo",
    "DeviceVerdict",
    "Evidence",
    "Planned",
    "Row",
    "Run",
    "RunInfo",
    "SeriesPoint",
    "Sheet",
    "TesterReference",
    "Verdict",
]

LIMITS_FILE = "limits file"
"""In place of a test: a planned row that a limits file requires of a device and that no test of the run measures."""

SCHEMA_VERSION = "1.0"


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The thing under test."""

    serial: str
    """Serial number; it names the sheet."""
    model: str | None = None
    """Model name, as in the bench file."""
    batch: str | None = None
    """Production batch or delivery."""


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput of one interval, for the plot."""

    start_s: float
    """Start of the interval in s after the counted window began; below zero for what was omitted before it."""
    seconds: float
    """Length of the interval in s."""
    throughput_bps: float
    """Payload throughput of the interval in bit/s."""
    omitted: bool = False
    """True for an interval at the start that does not count."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a repeated measurement."""

    throughput_bps: float | None = None
    """What its receiver got, in bit/s; None when that is not known."""
    evidence: Evidence
    """As of a measurement that is not repeated: series, facts, doubts and raw output of this run."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why the value can, or cannot, be believed. Everything a stranger needs to judge the row again."""

    series: tuple[SeriesPoint, ...] = ()
    """Throughput over time."""
    series_from: Literal["receiver", "sender"] | None = None
    """The end that counted the series."""
    facts: dict[str, Any] = {}
    """Flat name -> number or text: received_bytes, retransmits, port counters, tester CPU, commands, versions ...

    The ledger adds ``attempts`` to a row that took several: a list with attempt, verdict, value, reason, started_at.
    """
    doubts: tuple[str, ...] = ()
    """One sentence each: what was seen, what it means, what to do next."""
    documents: dict[str, str] = {}
    """Raw tool output, untouched: client, server."""
    runs: tuple[Run, ...] = ()
    """Every run of a repeated measurement, in their order; the rest is then that of the slowest, or the worst."""


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
    limit_low: float | None = None
    """Of throughput: the largest lower bound that may apply, in bit/s; None when there is none."""
    statistic: str | None = None
    """As of a Row."""
    conditions: dict[str, Any] = {}
    simulated: bool = False
    selected: bool = True
    """False when the command line deselected its test (-k, -m, --lf, --deselect)."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One judged quantity of one measurement of one device."""

    id: str
    """Unique in its run; the same in every attempt."""
    test: str
    """pytest node id."""
    device: DeviceInfo
    """The device that was measured."""
    link: str | None = None
    """Link of the bench, None for a measurement that uses none."""
    quantity: str
    """Name of the quantity in the registry, e.g. throughput."""
    statistic: str | None = None
    """Which number of the measurement, e.g. "p5 of intervals", "min interval", "in 4 of 5 runs"; None for the mean."""
    unit: str
    """SI unit of ``value``, ``ceiling`` and the limits: "bit/s", "s", "1" for counts, "ratio" for fractions."""
    value: float | None = None
    """What was measured; None when nothing was."""
    uncertainty: float | None = None
    """Expanded uncertainty U of ``value`` (k = 2), in its unit; None when it is not known, which is not zero."""
    limit: str | None = None
    """The limit in canonical words, e.g. ">= 2.3 Gbit/s" or ">= 98 % of ceiling (2.307 Gbit/s)"."""
    limit_low: float | None = None
    """Smallest value allowed; None when there is no such bound."""
    limit_high: float | None = None
    """Largest value allowed; None when there is no such bound."""
    limit_source: str | None = None
    """Where the limit was written: mark or limits file."""
    expected: float | None = None
    """What the model is known to do under these conditions, in ``unit``: published, or of a golden device. It is never
    required unless a limit says so. From the baselines."""
    expected_source: str | None = None
    """Where that number comes from. From the baselines."""
    rule: str | None = None
    """The decision rule it was judged by: "simple", "guarded (vendor)" or "guarded (buyer)"; None when it was not."""
    risk: str | None = None
    """What chance of a wrong verdict that rule leaves, in one sentence."""
    ceiling: float | None = None
    """What physics allows for this quantity under these conditions."""
    margin: float | None = None
    """(value - limit) / limit, positive on the good side."""
    verdict: Verdict
    """What this row says."""
    reason: str
    """Why it has this verdict."""
    next_step: str | None = None
    """What to do about a row that is not PASS."""
    required: bool = True
    """False for a row that is information only and does not count for the device."""
    simulated: bool = False
    """True when the link was simulated."""
    conditions: dict[str, Any] = {}
    """Under which conditions: speed, mtu, direction, protocol ..."""
    evidence: Evidence = Evidence()
    """Why the value can, or cannot, be believed."""
    attempt: int = 1
    """1 for the first run of the test, 2 for its first rerun ..."""
    started_at: str | None = None
    """UTC, ISO 8601."""
    duration_s: float | None = None
    """Time the test took, in s."""


class TesterReference(msgspec.Struct, frozen=True, kw_only=True):
    """What the tester can do without the device (RFC 9411 section 5): TCP, one stream, over a link of its own."""

    link: str
    """The link it was measured over: an unshaped veth pair, or a cable-only link that the bench file names."""
    speed_bps: float | None = None
    """Speed of that link in bit/s; None when nothing but the tester limits it."""
    simulated: bool = True
    """True when that link was simulated."""
    mtu: int
    """MTU of that link in bytes."""
    throughput_bps: float | None = None
    """Payload that the receiver got per second, in bit/s; None when it was not measured."""
    missing: str | None = None
    """Why it was not measured."""
    measured_at: str | None = None
    """UTC, ISO 8601."""
    host: str | None = None
    """Name of the machine."""
    kernel: str | None = None
    """Release of its kernel."""
    software: str | None = None
    """What made the traffic, with its version, e.g. "iperf 3.12"."""
    stored: bool = False
    """True when an earlier run of the same day measured it, False when this run did."""
    note: str | None = None
    """What disturbed it: the tester can then do more."""


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
    partial: str | None = None
    """Why tests may be missing from the plan itself (--lf leaves out whole files unseen); None when none can be."""
    reference: tuple[TesterReference, ...] = ()


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """The acceptance sheet of one device of one run."""

    schema_version: str = SCHEMA_VERSION
    """Version of this schema, major.minor; a new minor version only adds keys."""
    run_id: str
    """The run that made this sheet."""
    verdict: DeviceVerdict
    """ACCEPTED, REJECTED or NOT PROVEN."""
    sentence: str
    """One sentence that says why."""
    complete: bool
    """False when the run was killed or stopped before all planned rows arrived."""
    simulated: bool
    """True when any row was measured on a simulated link."""
    device: DeviceInfo
    """The device this sheet is about."""
    station: dict[str, Any]
    """The bench and its host."""
    software: dict[str, Any]
    """Name -> version."""
    conditions: dict[str, Any]
    """Conditions of the whole run: bench file, limits file, command line ..."""
    reference: tuple[TesterReference, ...] = ()
    """What the tester can do without the device, for the speeds and MTUs of this run."""
    operator: str | None = None
    """Who ran it."""
    started_at: str
    """Start of the run, UTC, ISO 8601."""
    finished_at: str | None = None
    """End of the run, UTC, ISO 8601; None when it did not come to its own end."""
    counts: dict[str, int] = {}
    """Verdict -> number of rows."""
    rows: tuple[Row, ...] = ()
    """Worst first, then in the order of the plan."""
