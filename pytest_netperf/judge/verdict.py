"""The verdict lattice: how verdicts combine, for a row over its attempts and for a device over its rows.

Combining only ever worsens. A device is ACCEPTED only by evidence: at least one required row, and every one of them
PASS. REJECTED needs a FAIL, which only the device can cause. Everything else is NOT PROVEN.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_netperf.record.schema import DeviceVerdict, Row, Verdict

__all__ = ["WORST_LAST", "device_verdict", "worst"]

WORST_LAST: tuple[Verdict, ...] = (
    Verdict.PASS,
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


def device_verdict(rows: Iterable[Row]) -> DeviceVerdict:
    """The verdict of a device over its rows; rows that are not required are information and do not count."""
    required = [row.verdict for row in rows if row.required]
    if Verdict.FAIL in required:
        return DeviceVerdict.REJECTED
    if required and all(verdict is Verdict.PASS for verdict in required):
        return DeviceVerdict.ACCEPTED
    return DeviceVerdict.NOT_PROVEN
