"""Limits as people write them, read into `judge.limits.Limit`. Pure.

    ">= 9.8 Gbps"   "<= 50"   "between 2.3 and 2.5 Gbps"
    ">= 98 % of ceiling"   ">= 94 % of link speed"   "<= 110 % of baseline NAME"
    "p5 of intervals >= 2.2 Gbps"   "min interval >= 90 % of ceiling"   ">= 2.3 Gbps in 4 of 5 runs"

Everything refused is a `LimitError`; an unknown quantity is a `QuantityError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_netperf.errors import ConfigError, LimitError, QuantityError
from pytest_netperf.judge.conditions import CONDITION_KEYS, Conditions, parse_conditions
from pytest_netperf.judge.limits import Limit
from pytest_netperf.judge.statistic import Statistic, names_statistic, read_statistic
from pytest_netperf.quantities import (
    Quantity,
    format_exact,
    format_value,
    get_quantity,
    may_be_negative,
    near_misses,
    parse_ratio,
    parse_value,
)

if TYPE_CHECKING:
    from pytest_netperf.judge.decision import DecisionRule

__all__ = ["is_limit_text", "parse_limit", "read_limits"]

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
    if not isinstance(value, str):
        return False
    return re.match(r"\s*([<>=!~\u2264\u2265]|between\s)", value) is not None or names_statistic(value)


def parse_limit(
    quantity: str,
    text: object,
    *,
    conditions: Mapping[str, object] | Conditions = (),
    level: int = 0,
    source: str | None = None,
    rule: DecisionRule | None = None,
) -> Limit:
    """Read one limit.

    Raises QuantityError for an unknown quantity and LimitError for everything else: a wrong form, number or unit, a
    statistic that the quantity has not, bounds that contradict one another, and limits that every value or no value
    can meet.
    """
    known = get_quantity(quantity)
    name = f"{known.name} limit {text!r}"
    if not isinstance(text, str):
        raise LimitError(f"{name}: a limit is text, not {type(text).__name__}. {_FORMS}.")
    words = " ".join(text.replace("\u2265", ">=").replace("\u2264", "<=").split())
    try:
        statistic, words = read_statistic(words)
    except LimitError as error:
        raise LimitError(f"{name}: {error}") from None
    _check_statistic(name, known, statistic)
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
        text=statistic.of(_canonical(low, high, "ratio" if base else known.unit) + _of(base)),
        source=source,
        conditions=parse_conditions(conditions) if isinstance(conditions, Mapping) else conditions,
        level=level,
        warnings=warnings,
        statistic=statistic,
        rule=rule,
    )


def read_limits(
    arguments: Mapping[str, object], *, level: int = 0, source: str | None = None, rule: DecisionRule | None = None
) -> tuple[tuple[Limit, ...], tuple[str, ...]]:
    """Conditions and limits side by side, as a mark or a table of a limits file has them: limits and all mistakes.

    A key that is a condition and a quantity (mtu) is a limit when its value is written as one. A quantity may have a
    list of limits, each on a statistic of its own.
    """
    mistakes: list[str] = []
    limits: list[Limit] = []
    wanted: dict[str, object] = {}
    given: dict[str, object] = {}
    for key, value in arguments.items():
        each = value if isinstance(value, list | tuple) else (value,)
        (given if key in CONDITION_KEYS and not any(map(is_limit_text, each)) else wanted)[key] = value
    conditions: Conditions = ()
    for key, value in given.items():
        try:
            conditions += parse_conditions({key: value})
        except LimitError as error:
            mistakes.append(str(error))
    for key, text in ((key, text) for key, value in wanted.items() for text in _each(value)):
        try:
            limit = parse_limit(key, text, conditions=tuple(sorted(conditions)), level=level, source=source, rule=rule)
        except QuantityError as error:
            mistakes.append(_unknown(key, error))
        except ConfigError as error:
            mistakes.append(str(error))
        else:
            if any(limit.key == other.key for other in limits):
                mistakes.append(f"{limit.subject} is limited twice here (once as {key!r}); keep one of them.")
            limits.append(limit)
    if not wanted:
        mistakes.append("nothing is limited here: name a quantity, e.g. throughput = '>= 2.3 Gbps'.")
    return tuple(limits), tuple(dict.fromkeys(mistakes))


def _each(value: object) -> list[object]:
    """The limits of one key: those of a list one by one. An empty list stays, to be refused."""
    return list(value) if isinstance(value, list | tuple) and value else [value]


def _unknown(key: str, error: QuantityError) -> str:
    if key in ("rule", "role"):
        return (
            f"{key} is not a part of a limit here: the decision rule of a test is the mark "
            "netperf_method(rule=..., role=...); in a limits file it stands beside the limit."
        )
    hint = near_misses(key, CONDITION_KEYS)
    return f"{error}{f' As a condition{hint}.' if hint else ''}"


def _check_statistic(name: str, quantity: Quantity, statistic: Statistic) -> None:
    if statistic.kind != "mean" and quantity.name != "throughput":
        kept = "runs" if statistic.kind == "runs" else "intervals"
        way_out = (
            "limit the throughput, to which it is proportional"
            if quantity.name in ("frame_rate", "wire_rate")
            else f"leave {statistic.text!r} out"
        )
        raise LimitError(f"{name}: {kept} are kept of the throughput alone, not of {quantity.name}; {way_out}.")


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
