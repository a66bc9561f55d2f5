"""The acceptance record: rows, sheets and what they stand on. Pure data.

| struct    | set by                                                        |
| --------- | ------------------------------------------------------------- |
| Planned   | the collection: every row that is expected, before it runs    |
| Row       | the judge, in the process that ran the test                   |
| RunInfo   | the controller, before the first test                         |
| Sheet     | the controller at the end, from the journal alone             |

Device, station and procedure are in `record.identification`, evidence is in `record.evidence`; all are names of this
module too.

All numbers are in the SI unit named beside them (bit/s, s, bytes, ratio).

The docstrings are the published reference: the sentence that begins with "From" says who sets a field, and that of the
class speaks for its fields without one. docs/reference/sheet-fields.md and sheet.schema.json are made from them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.record.evidence import Evidence, Run, SeriesPoint
from pytest_netperf.record.identification import (
    Cable,
    DeviceInfo,
    DeviceRecord,
    EvidenceFile,
    Nic,
    Procedure,
    StationInfo,
)

__all__ = [
    "LIMITS_FILE",
    "SCHEMA_VERSION",
    "Attempt",
    "Cable",
    "DeviceInfo",
    "DeviceRecord",
    "DeviceVerdict",
    "EarlierRun",
    "Evidence",
    "EvidenceFile",
    "JournalLink",
    "JournalSeal",
    "Nic",
    "Planned",
    "Procedure",
    "Row",
    "Run",
    "RunInfo",
    "Section",
    "SeriesPoint",
    "Sheet",
    "State",
    "StationInfo",
    "TesterReference",
    "Verdict",
    "Waiver",
]

LIMITS_FILE = "limits file"
"""In place of a test: a planned row that a limits file requires of a device and that no test of the run measures."""

SCHEMA_VERSION = "2.0"

State = Literal["running", "killed", "stopped", "complete"]
"""Of a run: it goes on; its process ended without a word; it was ended early (Ctrl-C, -x); it came to its own end."""


class Waiver(msgspec.Struct, frozen=True, kw_only=True):
    """A concession: somebody takes a device although a row of it failed. From the waivers file."""

    who: str
    """Who takes the responsibility."""
    why: str
    """Why it may be taken all the same."""
    until: str
    """The last day (UTC) on which it holds, as YYYY-MM-DD."""
    serial: str
    """Serial of the device."""
    row: str
    """Id of the row; "*" stands for any text."""
    where: str
    """File and position, such as "waivers.toml: waiver 2"."""
    covers: tuple[str, ...] = ()
    """Ids of the rows of this sheet that it covers. From the ledger."""
    problem: str | None = None
    """Why it covers nothing, or not everything that it names: expired, no such row, a row that did not fail ... From
    the ledger."""


class EarlierRun(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier run of the same serial. From the sheets and journals in the output folder."""

    run_id: str
    """The earlier run."""
    started_at: str
    """Its start, UTC, ISO 8601."""
    verdict: DeviceVerdict
    """Its verdict."""
    complete: bool
    """Whether it came to its own end with every planned row."""
    sheet: str
    """Its sheet.json, below the output folder; its journal when it was killed and left no sheet."""
    digest: str | None = None
    """Digest of that sheet, or SHA-256 of that journal; null for a sheet of an older version."""


class JournalLink(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a journal. From the controller."""

    run_id: str
    """The run whose journal it is."""
    line: int
    """Number of the event there, from 0."""
    sha256: str
    """SHA-256 of that line; it stands for all lines before it, because each has the digest of the one before."""


class JournalSeal(JournalLink, frozen=True, kw_only=True):
    """The last line of the journal that a sheet is made from. From the controller."""

    path: str
    """The journal, below the output folder."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One of several attempts at a row. From the judge."""

    attempt: int
    """1 for the first run of the test, 2 for its first rerun ..."""
    verdict: Verdict
    """What this attempt said."""
    reason: str
    """Why."""
    value: float | None = None
    """What it measured, in the unit of the row; null when nothing was."""
    uncertainty: float | None = None
    """As of the row."""
    margin: float | None = None
    """As of the row."""
    started_at: str | None = None
    """UTC, ISO 8601."""
    duration_s: float | None = None
    """Time the test took, in s."""
    evidence: Evidence = Evidence()
    """Why its value can, or cannot, be believed."""


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
    """One judged quantity of one measurement of one device. From the judge."""

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
    attempts: tuple[Attempt, ...] = ()
    """Every attempt, when there were several; the row itself is then the worst of them. From the ledger."""
    waived: bool = False
    """True for a FAIL that a waiver of the sheet covers. From the ledger."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A section of the user's own at the end of a sheet. From hook pytest_netperf_sheet_sections."""

    title: str
    """Its heading."""
    text: tuple[str, ...] = ()
    """Paragraphs."""
    header: tuple[str, ...] = ()
    """Titles of the columns of the table."""
    table: tuple[tuple[str, ...], ...] = ()
    """Lines of the table."""


class TesterReference(msgspec.Struct, frozen=True, kw_only=True):
    """What the tester can do without the device (RFC 9411 section 5): TCP, one stream, over a link of its own.
    From the tester reference."""

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
    """What is common to all rows of a run; the first line of its journal."""

    run_id: str
    started_at: str
    station: StationInfo = StationInfo()
    software: dict[str, Any] = {}
    """pytest_netperf, pytest, python, iperf3, engine ..."""
    procedure: Procedure = Procedure()
    conditions: dict[str, Any] = {}
    """profile, duration_s, omit_s, measurement_slots ..."""
    operator: str | None = None
    authoriser: str | None = None
    customer: str | None = None
    batch: str | None = None
    partial: str | None = None
    """Why tests may be missing from the plan itself (--lf leaves out whole files unseen); None when none can be."""
    reference: tuple[TesterReference, ...] = ()
    devices: tuple[DeviceRecord, ...] = ()
    """What the bench file says of the devices of this run."""
    files: tuple[EvidenceFile, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    """As the waivers file has them, without ``covers`` and ``problem``."""
    previous: JournalLink | None = None
    """Where the newest other journal of the output folder ended when this run began."""


class Sheet(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """The acceptance sheet of one device of one run. From the controller."""

    schema_version: str = SCHEMA_VERSION
    """Version of this schema, major.minor; a new minor version only adds keys."""
    digest: str | None = None
    """SHA-256 of this sheet in canonical JSON (RFC 8785) without this key; with the run id it names the sheet."""
    run_id: str
    """The run that made this sheet."""
    verdict: DeviceVerdict
    """ACCEPTED, ACCEPTED WITH WAIVER, REJECTED or NOT PROVEN: the final verdict of this run. From the ledger."""
    sentence: str
    """One sentence that says why. From the ledger."""
    state: State = "complete"
    """How the run ended: "complete", "stopped" (Ctrl-C, -x, a row that never arrived) or "killed"."""
    complete: bool
    """False when the run was killed or stopped before all planned rows arrived, or its journal is not whole."""
    remarks: tuple[str, ...] = ()
    """What is odd about the record (lines of the journal that are lost, a clock that was set back)."""
    simulated: bool
    """True when any row was measured on a simulated link."""
    device: DeviceRecord
    """The device this sheet is about; the sheet speaks of this one only."""
    customer: str | None = None
    """Whom the device is for. From --netperf-customer."""
    station: StationInfo
    """The bench and its host."""
    software: dict[str, Any]
    """Name -> version, of every tool. From the machine."""
    procedure: Procedure
    """By what it was measured and judged."""
    conditions: dict[str, Any]
    """Conditions of the whole run: profile, length of the traffic, measurement slots ... From the options."""
    reference: tuple[TesterReference, ...] = ()
    """What the tester can do without the device, for the speeds and MTUs of this run. From the tester reference."""
    operator: str | None = None
    """Who ran it. From --netperf-operator."""
    authoriser: str | None = None
    """Who authorises the sheet (ISO/IEC 17025, 7.8.2.1 o): named, not signed. From --netperf-authoriser."""
    started_at: str
    """Start of the run, UTC, ISO 8601."""
    finished_at: str | None = None
    """End of the run, UTC, ISO 8601; None when it did not come to its own end."""
    first_pass: DeviceVerdict | None = None
    """Verdict of the first run of this serial that came to its own end, this one included; null when none did. From
    the sheets in the output folder."""
    earlier: tuple[EarlierRun, ...] = ()
    """Earlier runs of the same serial in the output folder, oldest first: with any, this one is a retest."""
    waivers: tuple[Waiver, ...] = ()
    """The waivers for this device, also those that cover nothing."""
    files: tuple[EvidenceFile, ...] = ()
    """Files that the result rests on."""
    journal: JournalSeal | None = None
    """The place in the journal up to which this sheet was made from it."""
    sections: tuple[Section, ...] = ()
    """Sections of the user's own; empty when the sheet was made again from its journal. From hook
    pytest_netperf_sheet_sections."""
    counts: dict[str, int] = {}
    """Verdict -> number of rows. From the ledger."""
    rows: tuple[Row, ...] = ()
    """Worst first, then in the order of the plan."""
