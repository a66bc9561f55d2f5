"""Limits: what is required of a quantity, under which conditions, and which limit wins. Pure.

`judge.limit_text` reads a limit (before anything runs), `select_limit` picks the one that applies to a measurement,
`resolve` turns it into plain numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_netperf.errors import LimitError
from pytest_netperf.judge.conditions import Conditions, describe, matches
from pytest_netperf.judge.statistic import MEAN, Statistic
from pytest_netperf.quantities import format_pair, format_value, get_quantity, near_misses

if TYPE_CHECKING:
    from pytest_netperf.judge.decision import DecisionRule

__all__ = [
    "LEVEL_FILE",
    "Limit",
    "ResolvedLimit",
    "applies",
    "check_possible",
    "resolve",
    "same_requirement",
    "select_limit",
]

LEVEL_FILE = 9
"""Level of a limits file: everything in the test's own code wins over it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What is required of one quantity, as written in one place."""

    quantity: str
    low: float | None
    """Smallest value allowed, in the quantity's unit, or as a fraction of ``relative_to``."""
    high: float | None
    relative_to: str | None
    """None, "ceiling", "link speed" or "baseline:NAME"."""
    text: str
    """The limit in canonical words."""
    source: str | None
    """Where the number comes from, or where the limit was written."""
    conditions: Conditions = ()
    level: int = 0
    """How close to the test it stands: 0 is closest, each further place of its marks is one more, 9 a limits file."""
    warnings: tuple[str, ...] = ()
    """What looks like a mistake but is allowed; the caller shows it."""
    statistic: Statistic = MEAN
    """Which number of a measurement it is about."""
    rule: DecisionRule | None = None
    """The decision rule that it is to be judged by; None: that of the run."""

    @property
    def key(self) -> str:
        """Quantity and statistic, ``throughput.p5``: limits of different keys are judged side by side."""
        return self.statistic.key_of(self.quantity)

    @property
    def subject(self) -> str:
        """The same in words."""
        return _subject(self.quantity, self.statistic)


@dataclass(frozen=True, slots=True)
class ResolvedLimit:
    """A limit in plain numbers of the quantity's unit. At least one of ``low`` and ``high`` is there, both finite."""

    quantity: str
    low: float | None
    high: float | None
    text: str
    """E.g. ``>= 98 % of ceiling (2.307 Gbit/s)``."""
    source: str | None = None
    relative: str | None = None
    """``98 % of ceiling``, for a reason; None for a limit in plain numbers."""
    statistic: Statistic = MEAN

    def __post_init__(self) -> None:
        # A limit without bounds, or with NaN, would be met by everything or by nothing: no verdict may rest on it.
        bounds = [bound for bound in (self.low, self.high) if bound is not None]
        if not bounds or not all(math.isfinite(bound) for bound in bounds):
            raise LimitError(f"limit {self.text!r} for {self.quantity} has no finite bound; it cannot be judged.")


def _subject(quantity: str, statistic: Statistic) -> str:
    """``throughput``, ``throughput (p5 of intervals)``."""
    return f"{quantity} ({statistic.text})" if statistic.key else quantity


def applies(limit: Limit, conditions: Mapping[str, Any], *, unknown_matches: bool = False) -> bool:
    """Whether a limit applies under the actual conditions; see `judge.conditions.matches`."""
    return matches(limit.conditions, conditions, unknown_matches=unknown_matches)


def select_limit(limits: Iterable[Limit], conditions: Mapping[str, Any]) -> Limit | None:
    """The limit of one key that applies: the closest to the test wins, then the one with most conditions.

    Raises LimitError when two different ones have an equal claim. ``limits`` are those of one quantity and statistic.
    """
    candidates = sorted(
        (limit for limit in limits if applies(limit, conditions)),
        key=lambda limit: (limit.level, -len(limit.conditions)),
    )
    if len({limit.key for limit in candidates}) > 1:
        raise ValueError("select_limit chooses among the limits of one quantity and statistic")
    if not candidates:
        return None
    first, *others = candidates
    for other in others:
        if (other.level, len(other.conditions)) != (first.level, len(first.conditions)):
            break
        if not same_requirement(first, other):
            raise LimitError(
                f"two limits of {first.subject} apply with equal right: {_named(first)} and {_named(other)}. "
                "Give one of them a further condition, or remove one."
            )
    return first


def same_requirement(one: Limit, other: Limit) -> bool:
    """Whether two limits of one key ask for the same, by the same rule."""
    return (one.low, one.high, one.relative_to, one.rule) == (other.low, other.high, other.relative_to, other.rule)


def _named(limit: Limit) -> str:
    under = describe(limit.conditions)
    by = f" by rule {limit.rule.name_and_role}" if limit.rule else ""
    return f"{limit.text!r}{by}{f' for {under}' if under else ''}{f' ({limit.source})' if limit.source else ''}"


def resolve(
    limit: Limit,
    *,
    ceiling: float | None = None,
    link_speed: float | None = None,
    baselines: Mapping[str, float] | None = None,
) -> ResolvedLimit:
    """The limit in plain numbers. Raises LimitError when what it relates to is not known.

    ``ceiling``, ``link_speed`` and the ``baselines`` are in the unit of the limit's quantity.
    """
    base = limit.relative_to
    if base is None:
        return ResolvedLimit(limit.quantity, limit.low, limit.high, limit.text, limit.source, statistic=limit.statistic)
    kind, _, name = base.partition(":")
    known = baselines or {}
    whole = {"ceiling": ceiling, "link speed": link_speed}.get(kind) if kind != "baseline" else known.get(name)
    where = f"{limit.quantity} limit {limit.text!r}"
    if whole is None:
        if kind == "baseline":
            listed = ", ".join(sorted(known)) or "none"
            raise LimitError(f"{where}: no baseline {name!r}{near_misses(name, known)}; known: {listed}.")
        raise LimitError(
            f"{where}: the {kind} is not known here, because the link has no speed. Give the link a speed."
        )
    if not 0 < whole < math.inf:
        raise LimitError(f"{where}: the {base.replace(':', ' ', 1)} is {whole!r}, not a finite number above zero.")
    unit = get_quantity(limit.quantity).unit
    low = None if limit.low is None else limit.low * whole
    high = None if limit.high is None else limit.high * whole
    shown = " to ".join(format_value(bound, unit) for bound in (low, high) if bound is not None)
    bare = limit.text.removeprefix(f"{limit.statistic.text} ").removesuffix(f" {limit.statistic.text}")
    relative = re.sub("^[<>]= ", "", bare)
    return ResolvedLimit(limit.quantity, low, high, f"{limit.text} ({shown})", limit.source, relative, limit.statistic)


def check_possible(limit: ResolvedLimit, bound: float | None, *, of: str = "this link") -> str | None:
    """Why no value up to ``bound`` can ever meet the limit, or None when one can.

    ``bound`` is the physical maximum in the quantity's unit (None: not known); ``of`` names what has it, e.g. "a 2.5G
    link at MTU 1500".
    """
    if bound is None or limit.low is None or limit.low <= bound:
        return None
    low, top = format_pair(limit.low, bound, get_quantity(limit.quantity).unit)
    what = _subject(limit.quantity, limit.statistic)
    return f"{what} limit {low} can never be reached: it is above the ceiling {top} of {of}."
