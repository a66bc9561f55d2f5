"""The verdict lattice: how verdicts combine, for a row over its attempts and for a device over its rows.

Combining only ever worsens. A device is ACCEPTED only by evidence: at least one required row, and every one of them
PASS. REJECTED needs a FAIL, which only the device can cause. Everything else is NOT PROVEN.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Protocol

__all__ = ["WORST_LAST", "DeviceVerdict", "Verdict", "device_verdict", "has_a_say", "worst"]


class Verdict(enum.Enum):
    """What a row says."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"
    ERROR = "ERROR"
    ABORTED = "ABORTED"
    SKIPPED = "SKIPPED"
    NOT_RUN = "NOT RUN"
    CRASHED = "CRASHED"
    NOT_APPLICABLE = "NOT APPLICABLE"
    """There is nothing to measure: the bench says that this state of the device does not exist here, and why."""


class DeviceVerdict(enum.Enum):
    """What a sheet says about its device."""

    ACCEPTED = "ACCEPTED"
    ACCEPTED_WITH_WAIVER = "ACCEPTED WITH WAIVER"
    """Somebody takes it although a row of it is FAIL; see `record.waivers`."""
    REJECTED = "REJECTED"
    NOT_PROVEN = "NOT PROVEN"


class _Judged(Protocol):
    @property
    def verdict(self) -> Verdict: ...
    @property
    def required(self) -> bool: ...


WORST_LAST: tuple[Verdict, ...] = (
    Verdict.PASS,
    Verdict.NOT_APPLICABLE,
    Verdict.SKIPPED,
    Verdict.NOT_RUN,
    Verdict.INCONCLUSIVE,
    Verdict.ABORTED,
    Verdict.CRASHED,
    Verdict.ERROR,
    Verdict.INVALID,
    Verdict.FAIL,
)
_RANK = {verdict: rank for rank, verdict in enumerate(WORST_LAST)}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of some verdicts; NOT RUN when there are none, because no evidence is never a PASS."""
    return max(verdicts, key=_RANK.__getitem__, default=Verdict.NOT_RUN)


def has_a_say(row: _Judged) -> bool:
    """Whether a row counts for its device: it is required, and there is something that could be measured."""
    return row.required and row.verdict is not Verdict.NOT_APPLICABLE


def device_verdict(rows: Iterable[_Judged]) -> DeviceVerdict:
    """The verdict of a device over its rows; rows that are not required are information and do not count.

    Nor do those that are NOT APPLICABLE; a device with nothing else is NOT PROVEN.
    """
    required = [row.verdict for row in rows if has_a_say(row)]
    if Verdict.FAIL in required:
        return DeviceVerdict.REJECTED
    if required and all(verdict is Verdict.PASS for verdict in required):
        return DeviceVerdict.ACCEPTED
    return DeviceVerdict.NOT_PROVEN
