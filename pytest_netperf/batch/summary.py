"""What a batch page says, as data: batch.json is this, the HTML shows it. All numbers in SI units. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "BATCH_VERSION",
    "SIMULATED",
    "Batch",
    "Counts",
    "Golden",
    "Histogram",
    "Outlier",
    "ParetoRow",
    "Proportion",
    "RowStatistics",
    "SamplingCheck",
    "Severity",
    "Station",
    "StationRow",
    "UnitLine",
]

BATCH_VERSION = "1.1"

SIMULATED = " (SIMULATED)"
"""Behind the verdict of a simulated device, so that no reader of the figures takes it for one of hardware."""


class Proportion(msgspec.Struct, frozen=True):
    """k of n, with its two-sided Clopper-Pearson bounds at 95 %; without a share when n is 0."""

    k: int
    n: int
    share: float | None
    low: float | None
    high: float | None


class Counts(msgspec.Struct, frozen=True):
    """Devices with this verdict, after their first and after their last run."""

    verdict: str
    first: int
    last: int


class ParetoRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that failed."""

    label: str
    devices: int
    """Devices of which it failed in any run."""
    still: int
    """Of these, those whose last run has it as FAIL."""
    cumulative: float
    """Share of all failures (device and row) up to here."""


class Histogram(msgspec.Struct, frozen=True):
    """How many values lie in each bin; ``edges`` has one number more than ``counts``."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


class RowStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """One row over the lot: the value of each device's last run, where it is PASS or FAIL."""

    key: str
    label: str
    unit: str
    n: int
    not_counted: int
    """Devices whose last run has no value that counts: never measured, or INVALID, INCONCLUSIVE, ERROR ..."""
    failed: int
    """Of the n, those that are FAIL."""
    mean: float | None = None
    sd: float | None = None
    """Sample standard deviation (n - 1)."""
    smallest: float | None = None
    largest: float | None = None
    median: float | None = None
    limit_low: float | None = None
    limit_high: float | None = None
    ceiling: float | None = None
    cpk: float | None = None
    cpk_low: float | None = None
    """One-sided lower bound of Cpk at 95 %."""
    near_ceiling: int = 0
    """Values within 0.5 % of the ceiling."""
    notes: tuple[str, ...] = ()
    histogram: Histogram | None = None


class Outlier(msgspec.Struct, frozen=True, kw_only=True):
    """A device that is unlike the others in one row; no verdict, but worth a look."""

    serial: str
    label: str
    unit: str
    value: float
    median: float
    score: float
    """(value - median) / scaled MAD."""
    verdict: str


Severity = Literal["normal", "tightened", "reduced"]
"""Of inspection by ISO 2859-1."""


class SamplingCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a sampling plan says about the lot."""

    plan: str
    sample_size: int | None
    """Devices that the plan asks for; None: all of them."""
    acceptance_number: int
    rejection_number: int | None = None
    """From so many nonconforming devices on the lot is rejected: one more than is accepted, but for reduced inspection,
    where a lot in between is accepted and the next one inspected normally."""
    inspection: Severity | None = None
    """Of ISO 2859-1: its severity."""
    aql: str | None = None
    """Of ISO 2859-1: acceptance quality limit in per cent, as the table writes it."""
    level: str | None = None
    """Of ISO 2859-1: inspection level."""
    lot_size: int | None = None
    """Of ISO 2859-1: devices of the whole lot."""
    next_inspection: str | None = None
    """Of ISO 2859-1: what the switching rules say about the next lot, from this one and those before it."""
    inspected: int
    nonconforming: int
    undecided: int
    """Inspected, but neither accepted nor rejected."""
    decision: Literal["accept", "reject", "screen", "undecided"]
    reason: str
    next_step: str
    source: str


class Station(msgspec.Struct, frozen=True, kw_only=True):
    """One bench: what came out of the first runs that it made."""

    name: str
    devices: int
    first_pass: Proportion
    not_proven: int


class StationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row whose values differ between stations by more than chance."""

    label: str
    unit: str
    medians: dict[str, float]
    p: float
    """Kruskal-Wallis, times the number of rows that were compared (Bonferroni)."""


class Golden(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a golden device over its runs."""

    serial: str
    label: str
    unit: str
    times: tuple[str, ...]
    values: tuple[float, ...]
    limit_low: float | None
    limit_high: float | None
    slope_per_day: float | None
    """Theil-Sen slope in units per day; None with fewer than 4 runs."""
    p: float | None
    """Probability of such a trend by chance (Kendall)."""
    text: str


class UnitLine(msgspec.Struct, frozen=True, kw_only=True):
    """One device of the lot."""

    serial: str
    runs: int
    first: str
    last: str
    complete: bool
    """Of the last run."""
    simulated: bool
    run_id: str
    started_at: str
    station: str
    operator: str | None
    sentence: str


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A lot."""

    batch_version: str = BATCH_VERSION
    batch: str | None
    model: str | None
    source: str
    made_at: str
    software: str
    simulated: bool
    """True when every sheet is of simulated links: then no device is accepted, whatever its verdict."""
    devices: int
    runs: int
    accepted_units: int
    """Devices whose last run is ACCEPTED on real links, without a waiver."""
    incomplete: int
    """Devices whose last run was killed or stopped."""
    counts: tuple[Counts, ...]
    first_pass: Proportion
    final: Proportion
    retested: Proportion
    pareto: tuple[ParetoRow, ...]
    rows: tuple[RowStatistics, ...]
    outliers: tuple[Outlier, ...]
    sampling: tuple[SamplingCheck, ...]
    stations: tuple[Station, ...]
    station_rows: tuple[StationRow, ...]
    golden: tuple[Golden, ...]
    units: tuple[UnitLine, ...]
    problems: tuple[str, ...]
    """What was not read or contradicts itself, one sentence each."""
    remarks: tuple[str, ...]
