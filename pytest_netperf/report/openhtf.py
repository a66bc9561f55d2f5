"""A sheet in the form of OpenHTF's JSON output, for stores and dashboards of test records that read that. Pure.

A test is a phase, a row a measurement of it. Nothing becomes PASS there that is not PASS here.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.record.canonical import clean_row, encode
from pytest_netperf.record.schema import Row, Sheet

__all__ = ["openhtf_line", "openhtf_record"]

_OUTCOMES = {DeviceVerdict.ACCEPTED: "PASS", DeviceVerdict.NOT_PROVEN: "ERROR"}
_MEASURED = {Verdict.PASS: "PASS", Verdict.FAIL: "FAIL"}
_NO_UNITS = {"1": None, "ratio": None}


def openhtf_line(sheet: Sheet) -> bytes:
    """The record as one line of JSON."""
    return encode(openhtf_record(sheet)) + b"\n"


def openhtf_record(sheet: Sheet) -> dict[str, Any]:
    """The record of one device, with the keys that OpenHTF 1.6 writes.

    A device that is accepted with a waiver is FAIL, because a limit is not met; one that is not proven is ERROR, or
    ABORTED when the run did not come to its end. ``metadata.netperf`` has the verdict in our words.
    """
    outcome = _OUTCOMES.get(sheet.verdict, "FAIL")
    if outcome == "ERROR" and not sheet.complete:
        outcome = "ABORTED"
    tests: dict[str, list[Row]] = {}
    for row in map(clean_row, sheet.rows):
        tests.setdefault(row.test, []).append(row)
    return {
        "dut_id": sheet.device.serial,
        "station_id": sheet.station.name or sheet.station.host or "",
        "start_time_millis": _millis(sheet.started_at),
        "end_time_millis": _millis(sheet.finished_at),
        "outcome": outcome,
        "outcome_details": [] if outcome == "PASS" else [{"code": sheet.verdict.value, "description": sheet.sentence}],
        "marginal": None,
        "metadata": {
            "test_name": sheet.procedure.suite or "",
            "test_version": sheet.procedure.version or "",
            "operator": sheet.operator or "",
            "netperf": {
                "verdict": sheet.verdict.value,
                "run_id": sheet.run_id,
                "digest": sheet.digest,
                "simulated": sheet.simulated,
                "complete": sheet.complete,
                "software": sheet.software,
                "device": msgspec.to_builtins(sheet.device),
            },
        },
        "phases": [_phase(test, rows) for test, rows in tests.items()],
        "subtests": [],
        "branches": [],
        "diagnosers": [],
        "diagnoses": [],
        "log_records": [],
    }


def _phase(test: str, rows: list[Row]) -> dict[str, Any]:
    verdicts = {row.verdict for row in rows if row.required} - {Verdict.NOT_APPLICABLE}
    outcome = "ERROR"
    if Verdict.FAIL in verdicts:
        outcome = "FAIL"
    elif verdicts <= {Verdict.PASS}:
        outcome = "PASS" if verdicts else "SKIP"
    elif verdicts <= {Verdict.PASS, Verdict.SKIPPED}:
        outcome = "SKIP"
    started = next((row.started_at for row in rows if row.started_at), None)
    begin = _millis(started)
    lasted = max((row.duration_s or 0.0 for row in rows), default=0.0)
    return {
        "name": test,
        "start_time_millis": begin,
        "end_time_millis": begin + round(lasted * 1000) if begin is not None else None,
        "outcome": outcome,
        "marginal": None,
        "measurements": dict(map(_measurement, rows)),
        "attachments": {},
        "diagnosis_results": [],
        "failure_diagnosis_results": [],
        "result": {"phase_result": "CONTINUE"},
    }


def _measurement(row: Row) -> tuple[str, dict[str, Any]]:
    name = row.id.removeprefix(f"{row.test}::")
    unit = _NO_UNITS.get(row.unit, row.unit)
    low, high = row.limit_low, row.limit_high
    bounds = f"{low!r} <= x <= {high!r}" if low is not None and high is not None else None
    bounds = bounds or (f"{low!r} <= x" if low is not None else f"x <= {high!r}" if high is not None else None)
    measured: dict[str, Any] = {
        "name": name,
        "outcome": _MEASURED.get(row.verdict, "UNSET"),
        "validators": [bounds] if bounds else [],
        "docstring": f"{row.verdict.value}: {row.reason}",
    }
    if unit is not None:
        measured["units"] = {"name": unit, "suffix": unit}
    if row.value is not None:
        measured["measured_value"] = row.value
    return name, measured


def _millis(text: str | None) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 moment; None when there is none."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
