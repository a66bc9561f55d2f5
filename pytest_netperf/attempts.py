"""One attempt at a test, in the process that runs it: from its set-up to the rows that its reports carry."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_netperf import collection, history
from pytest_netperf.errors import (
    ConfigError,
    DeviceError,
    LateRequestError,
    MarkError,
    NetperfError,
    ServiceMissingError,
    StationError,
)
from pytest_netperf.fixtures import PLAN, PROBLEM, SESSION
from pytest_netperf.session import LinkHandle

if TYPE_CHECKING:
    from pytest_netperf.judge.verdict import Verdict
    from pytest_netperf.record.schema import Row
    from pytest_netperf.rows import Ending

__all__ = [
    "ROWS_ATTRIBUTE",
    "VERDICT_ATTRIBUTE",
    "begin",
    "end",
    "hide_ours",
    "judge",
    "links_up",
    "not_applicable",
    "not_planned",
    "running",
]

ROWS_ATTRIBUTE = "netperf_rows"
"""Attribute of a report: its rows as one JSON text, the only form that every version of xdist carries unharmed."""
VERDICT_ATTRIBUTE = "netperf_verdict"
"""Attribute of a report that failed by nothing but its rows, or has nothing to measure: the worst verdict of those that
are required."""

_ATTEMPT = pytest.StashKey[int]()
_STARTED = pytest.StashKey[float]()
_RUNNING = pytest.StashKey[bool]()
_SUBTESTS = pytest.StashKey["list[Ending]"]()
_ROWS = pytest.StashKey["list[Row]"]()
_PACKAGE = Path(__file__).parent
_XPASS_STRICT = "[XPASS(strict)]"


def begin(item: pytest.Item) -> None:
    """A new attempt starts with an empty record; a rerun is an attempt of its own."""
    item.stash[_ATTEMPT] = item.stash.get(_ATTEMPT, 0) + 1
    item.stash[_STARTED] = time.time()
    item.stash[_SUBTESTS] = []
    item.stash[_ROWS] = []
    item.config.stash[SESSION].begin(item.nodeid, item.stash[PLAN])


def links_up(item: pytest.Item) -> None:
    """Bring the test's link up when the previous test left it down.

    Raises MarkError for marks that came too late to be refused at collection, and LinkError or KeeperError. A real
    device is in the state that the test asks for before its link is brought up.
    """
    if PROBLEM in item.stash:
        raise MarkError(item.stash[PROBLEM])
    reason = not_applicable(item)
    if reason is not None:  # where pytest's own plugin for marks like skip is switched off
        pytest.skip(f"NOT APPLICABLE: {reason}")
    handle = _handle(item)
    if handle is not None:
        handle.ensure_up()


def not_applicable(item: pytest.Item) -> str | None:
    """Why there is nothing to measure under the conditions of a test; None where there is."""
    plan = item.stash[PLAN].link
    return None if plan is None else plan.not_applicable


def end(item: pytest.Item) -> None:
    """Take the link down behind a test that asked for a cold one, or when other workers may wait for its ports.

    A worker of xdist that kept them would wait for its next test while another waits for the ports, for ever.
    """
    handle = _handle(item)
    if handle is None:
        return
    shared = handle.plan.link.physical_ports and hasattr(item.config, "workerinput")
    if shared or handle.plan.settings.scope == "function":
        handle.take_down()


@contextmanager
def running(item: pytest.Item) -> Iterator[None]:
    """While the body of the test runs: a report that is made meanwhile is that of a subtest."""
    item.stash[_RUNNING] = True
    try:
        yield
    finally:
        item.stash[_RUNNING] = False


def hide_ours(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """A mistake of the user's, or a broken bench, is shown where the test met it, without our own source.

    What a state of the device needs and nobody installed makes it a skipped one, as ``pytest.skip`` does.
    """
    if call.excinfo is not None and isinstance(call.excinfo.value, ServiceMissingError):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), (item.location[1] or 0) + 1, f"Skipped: {call.excinfo.value}")
        return
    style = item.config.getoption("tbstyle", "auto")
    asked_for_more = item.config.getoption("fulltrace", False) or style not in ("auto", "long", "short")
    if call.excinfo is None or not isinstance(call.excinfo.value, NetperfError) or not report.failed or asked_for_more:
        return
    theirs = call.excinfo.traceback.filter(lambda entry: _is_of_user(Path(entry.path)))
    if theirs:
        report.longrepr = call.excinfo.getrepr(style="short" if style == "short" else "long", tbfilter=lambda _: theirs)
    else:
        report.longrepr = call.excinfo.exconly()


def _is_of_user(path: Path) -> bool:
    return _PACKAGE not in path.parents and not {"_pytest", "pluggy"} & set(path.parts)


def _handle(item: pytest.Item) -> LinkHandle | None:
    handle = getattr(item, "funcargs", {}).get(collection.LINK_FIXTURE)
    return handle if isinstance(handle, LinkHandle) else None


def judge(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Make the rows of this phase, hang them on the report, and fail it when one that is required did not pass."""
    try:
        _judge(item, call, report)
    except Exception as error:  # noqa: BLE001 - a fault of ours fails this test; it must not end the run of all others
        _could_not_judge(item, report, error)


def not_planned(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """A test that asked for a fixture of ours too late has a row for each device all the same: none is accepted by a
    run that did not do what it should.
    """
    error = call.excinfo.value if call.excinfo is not None else None
    if not isinstance(error, LateRequestError):
        return
    from pytest_netperf.options import select_devices
    from pytest_netperf.record.canonical import encode
    from pytest_netperf.rows import never_planned

    session = item.config.stash[SESSION]
    serials = select_devices(session.options, session.bench)
    devices = [device for device in session.bench.devices if device.serial in serials]
    setattr(report, ROWS_ATTRIBUTE, encode(never_planned(item.nodeid, devices, str(error))).decode())


def _could_not_judge(item: pytest.Item, report: pytest.TestReport, error: Exception) -> None:
    """The rows of this test become ERROR, or at least stay NOT RUN."""
    from pytest_netperf.record.canonical import encode
    from pytest_netperf.rows import unjudged

    said = f"pytest-netperf could not judge this test, which is a fault of its own ({type(error).__name__}: {error})"
    report.outcome = "failed"
    report.longrepr = "".join([*traceback.format_exception(error), said])
    setattr(report, ROWS_ATTRIBUTE, encode(unjudged(item.stash[PLAN], said, item.stash.get(_ATTEMPT, 1))).decode())


def _judge(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    if item.stash.get(_RUNNING, False):
        item.stash[_SUBTESTS].append(_ending(call, report))
        return
    if report.when != "call" and report.passed:
        if report.when == "teardown":  # nothing can make its rows worse any more
            session, rows = item.config.stash[SESSION], item.stash[_ROWS]
            history.remember(session, session.run_of(item.nodeid).calls, rows)
        return
    from pytest_netperf.judge.verdict import Verdict
    from pytest_netperf.record.canonical import clean_row, encode
    from pytest_netperf.rows import Ending, summary

    was_to_fail = _expected_to_fail(call, report)
    ending = _worst_ending([_ending_of(item, call, report), *item.stash.get(_SUBTESTS, [])])
    rows = _rows(item, call, ending)
    verdict = _worst_required(rows)
    if verdict is Verdict.PASS and was_to_fail is not None and report.failed:
        unexpected = Ending(
            verdict=Verdict.ERROR,
            reason=f"the test passed, although it is marked as xfail(strict=True): {was_to_fail or 'no reason given'}",
            next_step="Remove the xfail mark, or find out why the test passes.",
        )
        rows = _rows(item, call, unexpected)
        was_to_fail, verdict = None, Verdict.ERROR
    item.stash[_ROWS] = rows
    if not rows:
        return
    setattr(report, ROWS_ATTRIBUTE, encode([clean_row(row) for row in rows]).decode())
    # JUnit takes the properties of the last report of a test, which pytest copies from the item.
    item.user_properties[:] = [
        *(each for each in item.user_properties if not each[0].startswith("netperf_")),
        ("netperf_verdict", verdict.value),
        *_properties(rows),
    ]
    report.user_properties = list(item.user_properties)
    if verdict is Verdict.PASS:
        return
    if was_to_fail is not None:  # and it did, by its limit
        report.outcome, report.longrepr = "skipped", None
        setattr(report, "wasxfail", was_to_fail)  # noqa: B010 - pytest's own attribute, not declared on the class
    elif verdict is Verdict.NOT_APPLICABLE:  # pytest has skipped it
        setattr(report, VERDICT_ATTRIBUTE, verdict.value)
    elif report.outcome == "passed":
        report.outcome, report.longrepr = "failed", summary(rows)
        setattr(report, VERDICT_ATTRIBUTE, verdict.value)


def _worst_required(rows: list[Row]) -> Verdict:
    from pytest_netperf.judge.verdict import Verdict, worst

    required = [row.verdict for row in rows if row.required]
    return worst(required) if required else Verdict.PASS


def _expected_to_fail(call: pytest.CallInfo[None], report: pytest.TestReport) -> str | None:
    """The reason of xfail on a test that ended without an exception, as far as pytest knows; None without xfail."""
    if call.excinfo is not None:
        return None
    strict = report.longrepr if report.failed and isinstance(report.longrepr, str) else ""
    if strict.startswith(_XPASS_STRICT):
        return strict.removeprefix(_XPASS_STRICT).strip()
    reason: str | None = getattr(report, "wasxfail", None)
    return reason


def _rows(item: pytest.Item, call: pytest.CallInfo[None], ending: Ending) -> list[Row]:
    from pytest_netperf.judge.decision import get_rule
    from pytest_netperf.judge.doubt_reference import reference_facts
    from pytest_netperf.judge.verdict import Verdict
    from pytest_netperf.rows import rows_of
    from pytest_netperf.tester_check import references_of

    session = item.config.stash[SESSION]
    options = session.options
    run = session.run_of(item.nodeid)
    run.over = True
    handle = _handle(item)
    link = handle.link if handle is not None else None
    rows = rows_of(
        item.stash[PLAN],
        run,
        ending,
        rule=get_rule(options.rule, options.role),
        link_facts={
            **(link.summary() if link is not None else {}),
            **session.device_state_facts(item.stash[PLAN].link),
            **reference_facts(references_of(session), item.stash[PLAN].conditions),
        },
        burst_bits=link.burst_bits if link is not None else 0.0,
        faulted=link.faulted if link is not None else False,
        attempt=item.stash.get(_ATTEMPT, 1),
        started_at=datetime.fromtimestamp(item.stash.get(_STARTED, call.start), UTC).isoformat(timespec="milliseconds"),
        duration_s=round(call.duration, 6),
    )
    return [_examined(row) if row.verdict is Verdict.ERROR else row for row in rows]


def _examined(row: Row) -> Row:
    """With what the doctor says about this machine."""
    import msgspec

    from pytest_netperf.doctor_cli import quick_look

    facts = {**row.evidence.facts, "doctor": list(quick_look())}
    return msgspec.structs.replace(row, evidence=msgspec.structs.replace(row.evidence, facts=facts))


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


def _worst_ending(endings: list[Ending]) -> Ending:
    """The ending of the test itself, unless one of its subtests ended worse."""
    from pytest_netperf.judge.verdict import worst

    verdict = worst(ending.verdict for ending in endings)
    return next(ending for ending in endings if ending.verdict is verdict)


def _ending_of(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> Ending:
    """How a phase of a test ended; one that was skipped because there is nothing to measure is not its own doing."""
    from pytest_netperf.judge.verdict import Verdict
    from pytest_netperf.rows import Ending

    reason = not_applicable(item)
    if reason is not None and report.when == "setup" and report.skipped:
        return Ending(verdict=Verdict.NOT_APPLICABLE, reason=reason)
    return _ending(call, report)


def _ending(call: pytest.CallInfo[None], report: pytest.TestReport) -> Ending:
    """How the phase ended, as far as it says something about the rows."""
    from pytest_netperf.judge.verdict import Verdict
    from pytest_netperf.rows import NOT_AS_SOLD, Ending

    error = call.excinfo.value if call.excinfo is not None else None
    if error is None and report.failed and _expected_to_fail(call, report) is None:  # another plugin says so
        said = (str(report.longrepr).strip() or "it does not say why").splitlines()
        return Ending(
            verdict=Verdict.ERROR,
            reason=f"the test was failed by a plugin of pytest: {said[0]}",
            next_step="Read the test's output, and correct the test.",
        )
    if error is None:
        return Ending()
    said = str(error).strip().splitlines()[:1] or [""]
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
    if isinstance(error, DeviceError):
        return Ending(verdict=Verdict.FAIL, reason=str(error), next_step=NOT_AS_SOLD)
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
