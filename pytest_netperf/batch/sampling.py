"""What a sampling plan says about a lot: c = 0 by the hypergeometric distribution, and ISO 2859-1 by its tables."""

from __future__ import annotations

import functools
import math
import tomllib
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import msgspec

from pytest_netperf.batch.summary import SamplingCheck, Severity
from pytest_netperf.errors import ConfigError
from pytest_netperf.quantities import near_misses

__all__ = [
    "INSPECTION_LEVELS",
    "Inspected",
    "Plan",
    "aqls",
    "c0_sample_size",
    "check_c0",
    "check_iso2859",
    "iso2859_plan",
]

INSPECTION_LEVELS = ("S-1", "S-2", "S-3", "S-4", "I", "II", "III")
_C0_SOURCE = "Hypergeometric distribution (ISO 2859-2 rests on the same), acceptance number 0"


class Inspected(NamedTuple):
    """What was found in the devices that were tested."""

    lot_size: int
    inspected: int
    nonconforming: int
    """REJECTED, and those with a waiver: a concession does not make a device conform."""
    undecided: int
    """NOT PROVEN: neither the one nor the other."""


class Plan(NamedTuple):
    """A single sampling plan."""

    letter: str
    size: int
    acceptance: int
    rejection: int
    """One more than ``acceptance``, but for reduced inspection: a lot between them is accepted as well."""


@functools.cache
def _tables() -> dict[str, Any]:
    return tomllib.loads((files("pytest_netperf.batch") / "iso2859_1.toml").read_text("utf-8"))


def aqls() -> tuple[str, ...]:
    """The acceptance quality limits of the table, in per cent nonconforming, as they are written there."""
    return tuple(_tables()["first_acceptance"])


def iso2859_plan(lot_size: int, aql: str, level: str, severity: Severity = "normal") -> Plan:
    """The plan of tables 1 and 2, with their arrows followed. ConfigError for an AQL or a level that they lack."""
    tables = _tables()
    if aql not in tables["first_acceptance"]:
        raise ConfigError(
            f"--aql {aql}: ISO 2859-1 has the limits {', '.join(aqls())} per cent{near_misses(aql, aqls())}"
        )
    if level not in INSPECTION_LEVELS:
        raise ConfigError(f"--inspection-level {level}: ISO 2859-1 has the levels {', '.join(INSPECTION_LEVELS)}")
    column = INSPECTION_LEVELS.index(level)
    row = next(row for row in tables["code_letters"] if lot_size <= row["to"])
    of_severity = tables["severities"][severity]
    sizes = of_severity.get("sample_sizes", tables["sample_sizes"])
    if severity == "tightened":
        sizes = {**sizes, "S": 3150}  # below R, and only there
    letters = list(sizes)
    at = letters.index(row["letters"][column])
    zero = letters.index(tables["first_acceptance"][aql]) if tables["first_acceptance"][aql] != "-" else -1
    there = zero >= 0
    zero += severity == "tightened"
    # Letter -> acceptance and rejection number; between the first 0 and the next number lie two arrows.
    steps = {zero: (0, 1)} if there else {}
    numbers = of_severity["acceptance_numbers"]
    rejections = of_severity.get("rejection_numbers", [number + 1 for number in numbers])
    for offset, pair in enumerate(zip(numbers, rejections, strict=True), start=3):
        if zero + offset < len(letters):
            steps[zero + offset] = pair
    if at not in steps:
        below = [index for index in steps if index > at]
        above = [index for index in steps if index < at]
        up = of_severity["arrow_up"] and at == zero + 1 and there
        at = max(above) if (up or not below) else min(below)
    return Plan(letters[at], sizes[letters[at]], *steps[at])


def check_iso2859(found: Inspected, aql: str, level: str, severity: Severity = "normal") -> SamplingCheck:
    """Single sampling."""
    plan = iso2859_plan(found.lot_size, aql, level, severity)
    words = (
        f"ISO 2859-1, single sampling, {severity} inspection, level {level}, AQL {aql} %, lot of {found.lot_size}: "
        f"code letter {plan.letter}"
    )
    check = _check(
        words, plan.size, plan.acceptance, found, _tables()["severities"][severity].get("source", _tables()["source"]),
        rejection=plan.rejection,
    )  # fmt: skip
    return msgspec.structs.replace(check, inspection=severity, aql=aql, level=level, lot_size=found.lot_size)


def c0_sample_size(lot_size: int, quality: float, confidence: float) -> int:
    """The fewest devices that are all good with probability at most 1 - ``confidence``, where a share ``quality`` of
    the lot is bad."""
    from scipy.stats import hypergeom

    bad = max(1, math.ceil(lot_size * quality))
    low, high = 1, lot_size
    while low < high:
        middle = (low + high) // 2
        if float(hypergeom.pmf(0, lot_size, bad, middle)) <= 1 - confidence:
            high = middle
        else:
            low = middle + 1
    return low


def check_c0(found: Inspected, quality: float, confidence: float = 0.95) -> SamplingCheck:
    """Acceptance number 0 against a limiting quality, a share of the lot."""
    size = c0_sample_size(found.lot_size, quality, confidence)
    sought = f"limiting quality {100 * quality:.3g} % at {100 * confidence:g} % confidence"
    words = f"c = 0, {sought}, lot of {found.lot_size}"
    return _check(words, size, 0, found, _C0_SOURCE)


def _check(
    words: str, size: int, acceptance: int, found: Inspected, source: str, *, rejection: int | None = None
) -> SamplingCheck:
    allowed = acceptance if rejection is None else rejection - 1
    decision: Literal["accept", "reject", "screen", "undecided"]
    all_of_it = size >= found.lot_size
    worst = found.nonconforming + found.undecided
    rest = found.lot_size - found.inspected
    if all_of_it:
        decision = "screen"
        reason = "The plan asks for the whole lot, so each device is judged by itself."
        step = (
            f"Test the other {rest}; deliver those that are accepted." if rest else "Deliver those that are accepted."
        )
    elif found.nonconforming > allowed:
        decision = "reject"
        reason = f"{found.nonconforming} nonconforming, {allowed} allowed."
        step = (
            f"Hold the lot. If the contract permits it, screen it: test the other {rest}, deliver the accepted ones."
            if rest
            else "Hold the lot. All of it was tested: if the contract permits it, deliver those that are accepted."
        )
    elif found.inspected < size:
        decision = "undecided"
        reason = f"{found.inspected} inspected, the plan asks for {size}."
        step = f"Test {size - found.inspected} more, drawn at random."
    elif worst > allowed:
        decision = "undecided"
        reason = f"{found.nonconforming} nonconforming and {found.undecided} not proven, {allowed} allowed."
        step = "Test those that are not proven again, until they are accepted or rejected."
    else:
        decision = "accept"
        reason = f"{worst} nonconforming or not proven, {allowed} allowed."
        step = "Accept the lot; the nonconforming devices themselves are not delivered."
    return SamplingCheck(
        plan=words,
        sample_size=None if all_of_it else size,
        acceptance_number=acceptance,
        rejection_number=allowed + 1,
        inspected=found.inspected,
        nonconforming=found.nonconforming,
        undecided=found.undecided,
        decision=decision,
        reason=reason,
        next_step=step,
        source=source,
    )
