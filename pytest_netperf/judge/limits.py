"""Limits: what is required of a quantity, under which conditions, and which limit wins. Pure.

    ">= 9.8 Gbps"   "<= 50"   "between 2.3 and 2.5 Gbps"
    ">= 98 % of ceiling"   ">= 94 % of link speed"   "<= 110 % of baseline NAME"

A limit lives through three steps: `parse_limit` reads it (before anything runs), `select_limit` picks the one that
applies to a measurement, `resolve` turns it into plain numbers. Everything refused is a `LimitError`; an unknown
quantity is a `QuantityError`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_netperf.errors import ConfigError, LimitError, QuantityError
from pytest_netperf.judge.conditions import CONDITION_KEYS, Conditions, describe, matches, parse_conditions
from pytest_netperf.quantities import (
    Quantity,
    format_exact,
    format_pair,
    format_value,
    get_quantity,
    may_be_negative,
    near_misses,
    parse_ratio,
    parse_value,
)

__all__ = [
    "CONDITION_KEYS",
    "LEVEL_FILE",
    "Limit",
    "ResolvedLimit",
    "applies",
    "check_possible",
    "is_limit_text",
    "parse_limit",
    "read_limits",
    "resolve",
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

    def __post_init__(self) -> None:
        # A limit without bounds, or with NaN, would be met by everything or by nothing: no verdict may rest on it.
        bounds = [bound for bound in (self.low, self.high) if bound is not None]
        if not bounds or not all(math.isfinite(bound) for bound in bounds):
            raise LimitError(f"limit {self.text!r} for {self.quantity} has no finite bound; it cannot be judged.")


# ---- reading ---------------------------------------------------------------------------------------------------------

_FORMS = "Write '>= 9.8 Gbps', '<= 50' or 'between 2.3 and 2.5 Gbps'; a rate also as '>= 98 % of ceiling'"
_INSTEAD = {
    ">": "use '>=' (measured numbers are never exactly at the edge)",
    "<": "use '<=' (measured numbers are never exactly at the edge)",
    "=>": "write '>='",
    "=<": "write '<='",
    "==": "no measurement equals a number exactly; use 'between a and b'",
    "=": "no measurement equals a number exactly; use 'between a and b'",
    "!=": "a limit says what is allowed; use '>=', '<=' or 'between a and b'",
}
_OPERATOR = re.compile(r"([<>=!~]+)\s*(.*)", re.DOTALL)
_BETWEEN = re.compile(r"between\s+(.+?)\s+and\s+(.+)", re.DOTALL)
_RELATIVE = re.compile(r"(.*?)\s+of\s+(?:the\s+)?(ceiling|link speed|baseline\s+(\S.*))", re.DOTALL)


def is_limit_text(value: object) -> bool:
    """Whether a value is written as a limit: tells ``mtu=">= 9000 B"`` (quantity) from ``mtu=9000`` (condition)."""
    return isinstance(value, str) and re.match(r"\s*([<>=!~\u2264\u2265]|between\s)", value) is not None


def parse_limit(
    quantity: str,
    text: object,
    *,
    conditions: Mapping[str, object] | Conditions = (),
    level: int = 0,
    source: str | None = None,
) -> Limit:
    """Read one limit.

    Raises QuantityError for an unknown quantity and LimitError for everything else: a wrong form, number or unit,
    bounds that contradict one another, and limits that every value or no value can meet.
    """
    known = get_quantity(quantity)
    name = f"{known.name} limit {text!r}"
    if not isinstance(text, str):
        raise LimitError(f"{name}: a limit is text, not {type(text).__name__}. {_FORMS}.")
    words = " ".join(text.replace("\u2265", ">=").replace("\u2264", "<=").split())
    relative = _RELATIVE.fullmatch(words)
    base = None
    if relative is not None:
        words = relative[1]
        base = relative[2] if relative[3] is None else f"baseline:{relative[3].strip()}"
        _check_base(name, known, base)
    elif re.search(r"\bof\b", words):
        raise LimitError(f"{name}: 'of' what? A limit can be 'of ceiling', 'of link speed' or 'of baseline NAME'.")
    low, high = _bounds(name, words, known, relative=base is not None)
    warnings = _check_bounds(name, known, base, low, high)
    return Limit(
        quantity=known.name,
        low=low,
        high=high,
        relative_to=base,
        text=_canonical(low, high, "ratio" if base else known.unit) + _of(base),
        source=source,
        conditions=parse_conditions(conditions) if isinstance(conditions, Mapping) else conditions,
        level=level,
        warnings=warnings,
    )


def read_limits(
    arguments: Mapping[str, object], *, level: int = 0, source: str | None = None
) -> tuple[tuple[Limit, ...], tuple[str, ...]]:
    """Conditions and limits side by side, as a mark or a table of a limits file has them: limits and all mistakes.

    A key that is a condition and a quantity (mtu) is a limit when its value is written as one.
    """
    mistakes: list[str] = []
    limits: list[Limit] = []
    wanted: dict[str, object] = {}
    given: dict[str, object] = {}
    for key, value in arguments.items():
        (given if key in CONDITION_KEYS and not is_limit_text(value) else wanted)[key] = value
    conditions: Conditions = ()
    for key, value in given.items():
        try:
            conditions += parse_conditions({key: value})
        except LimitError as error:
            mistakes.append(str(error))
    for key, text in wanted.items():
        try:
            limit = parse_limit(key, text, conditions=tuple(sorted(conditions)), level=level, source=source)
        except QuantityError as error:
            hint = near_misses(key, CONDITION_KEYS)
            mistakes.append(f"{error}{f' As a condition{hint}.' if hint else ''}")
        except ConfigError as error:
            mistakes.append(str(error))
        else:
            if any(limit.quantity == other.quantity for other in limits):
                mistakes.append(f"{limit.quantity} is limited twice here (once as {key!r}); keep one of them.")
            limits.append(limit)
    if not wanted:
        mistakes.append("nothing is limited here: name a quantity, e.g. throughput = '>= 2.3 Gbps'.")
    return tuple(limits), tuple(mistakes)


def _bounds(name: str, words: str, quantity: Quantity, *, relative: bool) -> tuple[float | None, float | None]:
    """Lower and upper bound as numbers; a bound without a unit in a ``between`` has the unit of the other."""
    between = _BETWEEN.fullmatch(words)
    operator = _OPERATOR.fullmatch(words)
    if between is None and operator is None:
        raise LimitError(f"{name}: it does not say which way. {_FORMS}.")
    if operator is not None and operator[1] not in (">=", "<="):
        raise LimitError(f"{name}: {operator[1]!r} is not used here; {_INSTEAD.get(operator[1], _FORMS)}.")
    numbers = [operator[2]] if operator is not None else [between[1], between[2]] if between is not None else []
    if any(re.search(r"[<>=]|\band\b", number) for number in numbers):
        raise LimitError(f"{name}: two bounds are written 'between a and b'.")
    if len(numbers) == 2 and re.fullmatch(r"[-+.0-9eE]+", numbers[0]):
        unit = re.sub(r"^[-+.0-9]+(?:[eE][-+]?[0-9]+)?\s*", "", numbers[1])
        numbers[0] = f"{numbers[0]} {unit}".strip()
    try:
        values = [parse_ratio(number) if relative else parse_value(number, quantity) for number in numbers]
    except QuantityError as error:
        raise LimitError(f"{name}: {error}") from None
    if len(values) == 2:
        return values[0], values[1]
    return (values[0], None) if operator is not None and operator[1] == ">=" else (None, values[0])


def _check_base(name: str, quantity: Quantity, base: str) -> None:
    allowed = {"ceiling": ("bit/s", "frame/s"), "link speed": ("bit/s",)}.get(base)
    if allowed is not None and quantity.unit not in allowed:
        raise LimitError(
            f"{name}: {quantity.name} has no {base} to relate to; 'of {base}' is for rates. "
            f"Give a number{'' if quantity.unit == '1' else f' in {quantity.unit}'}."
        )


def _check_bounds(
    name: str, quantity: Quantity, base: str | None, low: float | None, high: float | None
) -> tuple[str, ...]:
    """Refuse bounds that no value or every value meets; return warnings about bounds that look turned round."""
    if low is not None and high is not None and low >= high:
        why = "the bounds are equal; no measurement equals a number exactly" if low == high else "no value is both"
        raise LimitError(f"{name}: contradictory bounds, {why}. Write the smaller one first: 'between a and b'.")
    over = max((bound for bound in (low, high) if bound is not None), default=0.0)
    if base in ("ceiling", "link speed") and over > 1:
        raise LimitError(
            f"{name}: {format_value(over, 'ratio')} of {base} can never be reached; 100 % is what physics allows."
        )
    if high is None and low == 0 and not may_be_negative(quantity.unit):
        raise LimitError(f"{name}: every value is at least zero, so this limit could never fail. Require more than 0.")
    if base is not None and high == 0:
        raise LimitError(f"{name}: 0 % of anything is zero; write the number itself.")
    if low is None and quantity.better == "higher":
        return (f"{name} is an upper bound, but of {quantity.name} more is better: did you mean '>='?",)
    if high is None and quantity.better == "lower":
        return (f"{name} is a lower bound, but of {quantity.name} less is better: did you mean '<='?",)
    return ()


def _canonical(low: float | None, high: float | None, unit: str) -> str:
    shown = [format_exact(bound, unit) for bound in (low, high) if bound is not None]
    return f"between {shown[0]} and {shown[1]}" if len(shown) == 2 else f"{'<=' if low is None else '>='} {shown[0]}"


def _of(base: str | None) -> str:
    return "" if base is None else f" of {base.replace(':', ' ', 1)}"


# ---- choosing and resolving ------------------------------------------------------------------------------------------


def applies(limit: Limit, conditions: Mapping[str, Any], *, unknown_matches: bool = False) -> bool:
    """Whether a limit applies under the actual conditions; see `judge.conditions.matches`."""
    return matches(limit.conditions, conditions, unknown_matches=unknown_matches)


def select_limit(limits: Iterable[Limit], conditions: Mapping[str, Any]) -> Limit | None:
    """The limit of one quantity that applies: the closest to the test wins, then the one with most conditions.

    Raises LimitError when two different ones have an equal claim. ``limits`` are those of a single quantity.
    """
    candidates = sorted(
        (limit for limit in limits if applies(limit, conditions)),
        key=lambda limit: (limit.level, -len(limit.conditions)),
    )
    if len({limit.quantity for limit in candidates}) > 1:
        raise ValueError("select_limit chooses among the limits of one quantity")
    if not candidates:
        return None
    first, *others = candidates
    for other in others:
        if (other.level, len(other.conditions)) != (first.level, len(first.conditions)):
            break
        if (other.low, other.high, other.relative_to) != (first.low, first.high, first.relative_to):
            raise LimitError(
                f"two limits of {first.quantity} apply with equal right: {_named(first)} and {_named(other)}. "
                "Give one of them a further condition, or remove one."
            )
    return first


def _named(limit: Limit) -> str:
    under = describe(limit.conditions)
    return f"{limit.text!r}{f' for {under}' if under else ''}{f' ({limit.source})' if limit.source else ''}"


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
        return ResolvedLimit(limit.quantity, limit.low, limit.high, limit.text, limit.source)
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
    return ResolvedLimit(
        limit.quantity, low, high, f"{limit.text} ({shown})", limit.source, re.sub("^[<>]= ", "", limit.text)
    )


def check_possible(limit: ResolvedLimit, bound: float | None, *, of: str = "this link") -> str | None:
    """Why no value up to ``bound`` can ever meet the limit, or None when one can.

    ``bound`` is the physical maximum in the quantity's unit (None: not known); ``of`` names what has it, e.g. "a 2.5G
    link at MTU 1500".
    """
    if bound is None or limit.low is None or limit.low <= bound:
        return None
    low, top = format_pair(limit.low, bound, get_quantity(limit.quantity).unit)
    return f"{limit.quantity} limit {low} can never be reached: it is above the ceiling {top} of {of}."
