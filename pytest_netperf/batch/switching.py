"""The switching rules of ISO 2859-1 (9.3): how the next lot is inspected, from what came of those before it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from pytest_netperf.batch.sampling import aqls, iso2859_plan
from pytest_netperf.batch.summary import SamplingCheck, Severity
from pytest_netperf.errors import ConfigError

__all__ = ["Standing", "severity_of_next", "standing_after", "with_next"]

_SCORE = 30
"""Switching score from which inspection may be reduced."""
_OF_LAST, _REJECTED = 5, 2
"""Normal to tightened: so many rejected among the last so many."""
_ACCEPTED_RUNNING = 5
"""Tightened to normal: so many accepted one after another."""
_MOST_ON_TIGHTENED = 5
"""So many rejected on tightened inspection end the inspection."""


class Standing(NamedTuple):
    """Where a series of lots has come to."""

    severity: Severity
    """Of the next lot."""
    score: int
    """Switching score; only normal inspection has one."""
    stopped: bool
    """Nothing is accepted by inspection any more, until the supplier has improved."""
    why: str

    @property
    def sentence(self) -> str:
        """For the page."""
        if self.stopped:
            return f"No further lot is accepted by inspection until the supplier has improved: {self.why}."
        may = ""
        if self.severity == "normal" and self.score >= _SCORE:
            may = " It may be reduced, where production is steady and whoever is responsible wants it."
        score = f" (switching score {self.score} of {_SCORE})" if self.severity == "normal" else ""
        return f"The next lot has {self.severity} inspection{score}: {self.why}.{may}"


def standing_after(checks: Sequence[SamplingCheck]) -> Standing:
    """What the rules say after these lots, the oldest first, all of one AQL and level, first inspections only.

    A lot that was undecided or screened counts for nothing. Raises ConfigError for lots that are no series.
    """
    of = {(check.aql, check.level) for check in checks}
    if len(of) > 1:
        listed = " and ".join(sorted(f"AQL {aql} %, level {level}" for aql, level in of))
        raise ConfigError(f"--previous: these lots are no series, because their plans differ: {listed}")
    standing = Standing("normal", 0, False, "inspection begins normal")
    recent: list[bool] = []  # whether accepted, since the severity began
    rejected_on_tightened = 0
    for check in checks:
        if check.decision not in ("accept", "reject") or check.inspection is None:
            continue
        accepted = check.decision == "accept"
        if check.inspection != standing.severity:  # somebody decided otherwise; that stands
            standing, recent = Standing(check.inspection, 0, False, f"{check.inspection} inspection was chosen"), []
        recent.append(accepted)
        if check.inspection == "normal":
            score = _scored(standing.score, check, accepted)
            if recent[-_OF_LAST:].count(False) >= _REJECTED:
                rejected = f"{_REJECTED} of the last {len(recent[-_OF_LAST:])} lots were rejected"
                standing, recent = Standing("tightened", 0, False, rejected), []
                rejected_on_tightened = 0
            else:
                standing = Standing("normal", score, False, "nothing asks for another")
        elif check.inspection == "tightened":
            rejected_on_tightened += not accepted
            if rejected_on_tightened >= _MOST_ON_TIGHTENED:
                many = f"{rejected_on_tightened} lots were rejected on tightened inspection"
                return Standing("tightened", 0, True, many)
            if len(recent) >= _ACCEPTED_RUNNING and all(recent[-_ACCEPTED_RUNNING:]):
                running = f"{_ACCEPTED_RUNNING} lots were accepted one after another"
                standing, recent = Standing("normal", 0, False, running), []
            else:
                standing = Standing("tightened", 0, False, "fewer than 5 lots were accepted one after another")
        elif not accepted or check.nonconforming > check.acceptance_number:
            more = "a lot was rejected" if not accepted else "a lot had more nonconforming than its acceptance number"
            standing, recent = Standing("normal", 0, False, more), []
        else:
            standing = Standing("reduced", 0, False, "the last lot was accepted")
    return standing


def severity_of_next(checks: Sequence[SamplingCheck]) -> Severity:
    """The severity of the next lot. ConfigError when the rules end the inspection."""
    standing = standing_after(checks)
    if standing.stopped:
        raise ConfigError(f"--previous: {standing.sentence} Name --inspection tightened to begin again after that")
    return standing.severity


def with_next(check: SamplingCheck, previous: Sequence[SamplingCheck]) -> SamplingCheck:
    """The check of a lot with what the rules say about the lot after it."""
    return msgspec.structs.replace(check, next_inspection=standing_after([*previous, check]).sentence)


def _scored(score: int, check: SamplingCheck, accepted: bool) -> int:
    """The switching score (9.3.3.2) after a lot on normal inspection."""
    if check.acceptance_number <= 1:
        return score + 2 if accepted else 0
    assert check.aql is not None
    assert check.level is not None
    assert check.lot_size is not None
    limits = aqls()
    tighter = limits[max(0, limits.index(check.aql) - 1)]
    step = iso2859_plan(check.lot_size, tighter, check.level)
    return score + 3 if accepted and check.nonconforming + check.undecided <= step.acceptance else 0
