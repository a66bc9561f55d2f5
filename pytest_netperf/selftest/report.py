"""The outcomes of a selftest as a table, as JSON, and the list of its cases for the documentation. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pytest_netperf.selftest.cases import CASES, Case
from pytest_netperf.selftest.outcome import Outcome

__all__ = ["as_json", "markdown", "outcome_lines", "summary"]

_HEADINGS = ("case", "what is wrong", "must be", "is", "must say", "says")


def outcome_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """A table, a case each, in the order of the cases; a case that was measured often has its worst line."""
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for case in CASES:
        of_case = [outcome for outcome in outcomes if outcome.case is case]
        if of_case:
            rows.append(_row(case, of_case))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def _row(case: Case, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    worst = next((outcome for outcome in outcomes if not outcome.holds), outcomes[-1])
    name = case.name if len(outcomes) == 1 else f"{case.name} x {len(outcomes)}"
    verdict = worst.verdict
    if worst.impossible:
        verdict = "not possible here"
    elif worst.disturbed:
        verdict += " (tester busy)"
    says = "" if not case.seen else "yes" if case.says(worst.words) else "NO"
    return name, case.what, case.verdict, verdict if worst.holds else f"{verdict}  <-- SLIPPED", case.seen, says


def summary(outcomes: Sequence[Outcome], seconds: float) -> list[str]:
    """What slipped, each with its reason, and one line over all."""
    slipped = [outcome for outcome in outcomes if not outcome.holds]
    lines = []
    for outcome in slipped:
        says = "" if outcome.case.says(outcome.words) else f"; nothing says {outcome.case.seen!r}"
        lines.append(
            f"{outcome.case.name}: {outcome.verdict} instead of {outcome.case.verdict}{says}: {outcome.reason}"
        )
        lines += [f"    doubt: {doubt}" for doubt in outcome.doubts]
    passed = [outcome for outcome in slipped if outcome.verdict == "PASS"]
    if passed:
        lines.append("PASS although the fault was there: " + ", ".join(sorted({each.case.name for each in passed})))
    impossible = sorted({outcome.case.name for outcome in outcomes if outcome.impossible})
    if impossible:
        lines.append(f"not possible on this machine: {', '.join(impossible)}")
    disturbed = sorted({outcome.case.name for outcome in outcomes if outcome.disturbed})
    if disturbed:
        lines.append(f"INCONCLUSIVE because other programs were busy here, as the rows say: {', '.join(disturbed)}")
    good = [outcome for outcome in outcomes if outcome.case.good]
    faults = len({outcome.case for outcome in outcomes if not outcome.case.good})
    verdict = "all came out as they must" if not slipped else f"{len(slipped)} SLIPPED"
    lines.append(f"{faults} faults, a good link {len(good)} times, {seconds:.0f} s: {verdict}")
    return lines


def as_json(outcomes: Sequence[Outcome]) -> str:
    """One object for each measurement."""
    objects = [
        {
            "case": outcome.case.name,
            "what": outcome.case.what,
            "time": outcome.time,
            "attempts": outcome.attempts,
            "expected_verdict": outcome.case.verdict.split(" or "),
            "verdict": outcome.verdict,
            "expected_doubt": outcome.case.seen.split(" or ") if outcome.case.seen else [],
            "seen": outcome.case.says(outcome.words),
            "possible": not outcome.impossible,
            "tester_busy": outcome.disturbed,
            "holds": outcome.holds,
            "reason": outcome.reason,
            "doubts": list(outcome.doubts),
        }
        for outcome in outcomes
    ]
    return json.dumps(objects, indent=2, ensure_ascii=False)


def markdown() -> str:
    """The table of all cases, as it stands in docs/reference/faults.md."""
    lines = ["| case | what is wrong | verdict | the row says |", "| --- | --- | --- | --- |"]
    lines += [f"| `{case.name}` | {case.what} | {case.verdict} | {case.seen} |" for case in CASES]
    return "\n".join(lines) + "\n"
