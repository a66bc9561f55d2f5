"""Why a measured value can, or cannot, be believed. A part of `record.schema`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from pytest_netperf.record.identification import EvidenceFile

__all__ = ["Evidence", "Run", "SeriesPoint"]


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput of one interval, for the plot. From iperf3."""

    start_s: float
    """Start of the interval in s after the counted window began; below zero for what was omitted before it."""
    seconds: float
    """Length of the interval in s."""
    throughput_bps: float
    """Payload throughput of the interval in bit/s."""
    omitted: bool = False
    """True for an interval at the start that does not count."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a repeated measurement. From the measurement."""

    throughput_bps: float | None = None
    """What its receiver got, in bit/s; None when that is not known."""
    evidence: Evidence
    """As of a measurement that is not repeated: series, facts, doubts and raw output of this run."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why the value can, or cannot, be believed. Everything a stranger needs to judge the row again.
    From the measurement."""

    series: tuple[SeriesPoint, ...] = ()
    """Throughput over time."""
    series_from: Literal["receiver", "sender"] | None = None
    """The end that counted the series."""
    facts: dict[str, Any] = {}
    """Flat name -> number or text: received_bytes, retransmits, port counters, tester CPU, commands, versions ..."""
    doubts: tuple[str, ...] = ()
    """One sentence each: what was seen, what it means, what to do next."""
    documents: dict[str, str] = {}
    """Raw tool output, untouched: client, server."""
    files: tuple[EvidenceFile, ...] = ()
    """Files that the test attached, with copies in the output folder and beside the sheet. From netperf_attach."""
    runs: tuple[Run, ...] = ()
    """Every run of a repeated measurement, in their order; the rest is then that of the slowest, or the worst."""
