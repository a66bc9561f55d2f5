"""A limits file: what a buyer or vendor requires, each number with the sentence that says where it comes from. Pure.

    [[limit]]
    source = "Data sheet 4.2: 2.5GbE ports forward at line rate"
    model = "R86S-U4"             # conditions: when it applies
    speed = "2.5G"
    mtu = [1500, 9000]
    throughput = ">= 2.3 Gbps"    # quantities: what is required
    retransmits = "<= 50"
    rule = "guarded"              # decision rule and role, for this table; before the first table: for the file
    role = "vendor"

A table names one or more quantities, any number of conditions, and its source.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Final

from pytest_netperf.errors import ConfigError, LimitError
from pytest_netperf.judge.conditions import Conditions, describe
from pytest_netperf.judge.decision import ROLES, RULES, DecisionRule, get_rule
from pytest_netperf.judge.limit_text import read_limits
from pytest_netperf.judge.limits import LEVEL_FILE, Limit, same_requirement
from pytest_netperf.quantities import near_misses

__all__ = ["parse_limits_file"]

_RULE: Final = ("rule", "role")
_TOP: Final = ("limit", *_RULE)


def parse_limits_file(text: str, where: str) -> tuple[Limit, ...]:
    """The limits of a file's text; ``where`` names the file in messages.

    Raises LimitError that lists every mistake, one a line, each with file, table and key. Broken TOML is one mistake,
    with its line.
    """
    try:
        document = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:  # tomllib lets both of its number and nesting limits through
        raise LimitError(f"{where}: this is not TOML: {error}.") from None
    default, mistakes = _rule(document, None, where)
    mistakes += [
        f"{where}: {key!r} is not known here{near_misses(key, _TOP)}; the file holds [[limit]] tables."
        for key in document
        if key not in _TOP
    ]
    tables = document.get("limit", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        mistakes.append(f"{where}: limit must be tables written [[limit]], with double brackets.")
        tables = []
    elif not tables:
        mistakes.append(f"{where}: no limit is given; write at least one [[limit]] table.")
    limits: list[Limit] = []
    first_at: dict[tuple[str, Conditions], tuple[int, Limit]] = {}
    for number, table in enumerate(tables, 1):
        at = f"{where}: limit {number}"
        arguments = dict(table)
        source = arguments.pop("source", None)
        if not isinstance(source, str) or not source.strip():
            given = f"; found {source!r}" if source is not None else ""
            mistakes.append(f"{at}: source must be the sentence that says where the numbers come from{given}.")
            source = None
        rule, refused = _rule(arguments, default, at)
        mistakes += refused
        for key in _RULE:
            arguments.pop(key, None)
        found, wrong = read_limits(arguments, level=LEVEL_FILE, source=source, rule=rule)
        mistakes += [f"{at}: {mistake}" for mistake in wrong]
        for limit in () if wrong else found:
            earlier, other = first_at.setdefault((limit.key, limit.conditions), (number, limit))
            if not same_requirement(limit, other):
                under = describe(limit.conditions) or "all conditions"
                rules = " by another rule" if limit.text == other.text else ""
                mistakes.append(
                    f"{at}: {limit.quantity} {limit.text!r} contradicts {other.text!r}{rules} of limit {earlier}, "
                    f"both for {under}; keep one of them."
                )
        limits += found
    if mistakes:
        raise LimitError("\n".join(mistakes))
    return tuple(limits)


def _rule(table: Mapping[str, object], default: DecisionRule | None, at: str) -> tuple[DecisionRule | None, list[str]]:
    """The decision rule of a table and what is wrong with it; ``default`` where the table names none.

    A role alone is that of the guarded rule of the file.
    """
    name, role = (table.get(key) for key in _RULE)
    wrong = [
        f"{at}: {key} must be text, one of {', '.join(map(repr, known))}; found {table[key]!r}."
        for key, known in zip(_RULE, (RULES, ROLES), strict=True)
        if key in table and not isinstance(table[key], str)
    ]
    if wrong or (name is None and role is None):
        return default, wrong
    if name is None and default is None:
        return default, [f"{at}: role {role!r} alone names no rule; write rule = 'guarded' beside it."]
    if name is None and default is not None:
        name = default.name
    elif role is None and default is not None and name == default.name:
        role = default.role
    try:
        return get_rule(str(name), None if role is None else str(role)), []
    except ConfigError as error:
        return default, [f"{at}: {error}"]
