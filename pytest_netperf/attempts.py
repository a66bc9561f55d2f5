"""One attempt at a test, in the process that runs it: from its set-up to the rows that its reports carry."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from pytest_netperf import collection
from pytest_netperf.errors import ConfigError, StationError
from pytest_netperf.fixtures import PLAN, SESSION
from pytest_netperf.session import LinkHandle, TestRun

if TYPE_CHECKING:
    from pytest_netperf.record.schema import Row
    from pytest_netperf.rows import Ending

__all__ = ["ROWS_ATTRIBUTE", "VERDICT_ATTRIBUTE", "begin", "end", "judge", "links_up"]

ROWS_ATTRIBUTE = "netperf_rows"
"""Attribute of a report: its rows as one JSON text, the only form that every version of xdist carries unharmed."""
VERDICT_ATTRIBUTE = "netperf_verdict"
"""Attribute of a report: the worst verdict of its required rows."""

_ATTEMPT = pytest.StashKey[int]()
_STARTED = pytest.StashKey[float]()


def begin(item: pytest.Item) -> None:
    """A new attempt starts with an empty record; a rerun is an attempt of its own."""
    item.stash[_ATTEMPT] = item.stash.get(_ATTEMPT, 0) + 1
    item.stash[_STARTED] = time.time()
    item.config.stash[SESSION].current = TestRun(nodeid=item.nodeid)


def links_up(item: pytest.Item) -> None:
    """Bring the test's link up when the previous test left it down."""
    handle = _handle(item)
    if handle is not None:
        handle.ensure_up()


def end(item: pytest.Item) -> None:
    """Take the link down behind a test that asked for a cold one."""
    handle = _handle(item)
    if handle is not None and handle.plan.settings.scope == "function":
        handle.take_down()


def _handle(item: pytest.Item) -> LinkHandle | None:
    handle = getattr(item, "funcargs", {}).get(collection.LINK_FIXTURE)
    return handle if isinstance(handle, LinkHandle) else None


def judge(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Make the rows of this phase, hang them on the report, and fail it when one that is required did not pass."""
    if report.when == "setup" and report.passed:
        return
    if report.when == "teardown" and report.passed:
        return
    from pytest_netperf.judge.verdict import Verdict, worst
    from pytest_netperf.record.canonical import clean_row, encode
    from pytest_netperf.rows import rows_of, summary

    session = item.config.stash[SESSION]
    handle = _handle(item)
    link = handle.link if handle is not None else None
    rows: list[Row] = rows_of(
        item.stash[PLAN],
        session.run_of(item.nodeid),
        _ending(call, report),
        link_facts=link.summary() if link is not None else {},
        burst_bits=link.burst_bits if link is not None else 0.0,
        faulted=link.faulted if link is not None else False,
        attempt=item.stash.get(_ATTEMPT, 1),
        started_at=datetime.fromtimestamp(item.stash.get(_STARTED, call.start), UTC).isoformat(timespec="milliseconds"),
        duration_s=round(call.duration, 6),
    )
    setattr(report, ROWS_ATTRIBUTE, encode([clean_row(row) for row in rows]).decode())
    required = [row.verdict for row in rows if row.required]
    verdict = worst(required) if required else Verdict.PASS
    report.user_properties += [("netperf_verdict", verdict.value), *_properties(rows)]
    if verdict is Verdict.PASS:
        return
    setattr(report, VERDICT_ATTRIBUTE, verdict.value)
    if report.outcome == "passed":
        if hasattr(report, "wasxfail"):
            report.outcome = "skipped"  # expected to fail, and it did: by its limit
        else:
            report.outcome = "failed"
            report.longrepr = summary(rows)


def _properties(rows: list[Row]) -> list[tuple[str, object]]:
    """Plain text for JUnit and others: value, limit and reason of each row."""
    from pytest_netperf.quantities import format_value

    properties: list[tuple[str, object]] = []
    for row in rows:
        name = row.id.rsplit("::", 1)[-1]
        if row.value is not None:
            properties.append((f"netperf_{name}", format_value(row.value, row.unit)))
        properties.append((f"netperf_{name}_verdict", row.verdict.value))
        properties.append((f"netperf_{name}_reason", row.reason))
    return properties


def _ending(call: pytest.CallInfo[None], report: pytest.TestReport) -> Ending:
    """How the phase ended, as far as it says something about the rows."""
    from pytest_netperf.judge.verdict import Verdict
    from pytest_netperf.rows import Ending

    error = call.excinfo.value if call.excinfo is not None else None
    if error is None:
        return Ending()
    said = str(error).strip().splitlines()[0:1] or [""]
    text = f"{type(error).__name__}: {said[0]}" if said[0] else type(error).__name__
    if report.outcome == "skipped":
        expected = f"expected failure (xfail): {text}" if hasattr(report, "wasxfail") else f"skipped: {said[0]}"
        return Ending(
            verdict=Verdict.SKIPPED, reason=expected, next_step="Run it where it is not skipped; a skip proves nothing."
        )
    if report.when == "teardown":
        return Ending(
            verdict=Verdict.ERROR,
            reason=f"the test's teardown failed: {text}",
            next_step="Mend the fixture that failed; what it left behind may have disturbed the measurement.",
        )
    if isinstance(error, StationError):
        return Ending(
            verdict=Verdict.ERROR,
            reason=str(error),
            next_step="This is the bench, not the device: mend it and run again.",
        )
    if isinstance(error, ConfigError):
        return Ending(verdict=Verdict.ERROR, reason=str(error), next_step="Correct the test and run again.")
    if (
        report.when == "call"
        and isinstance(error, AssertionError | pytest.fail.Exception)
        and "pytest-timeout" not in text
    ):
        return Ending(
            verdict=Verdict.FAIL,
            reason=f"the test's own check failed: {text}",
            next_step="Read the test's output: it states what the device did not do.",
        )
    return Ending(
        verdict=Verdict.ERROR,
        reason=f"the test broke in its {report.when} phase: {text}",
        next_step="Mend the test or its fixtures; this says nothing about the device.",
    )
