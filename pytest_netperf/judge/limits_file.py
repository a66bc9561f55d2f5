"""A limits file: what a buyer or vendor requires, each number with the sentence that says where it comes from. Pure.

    [[limit]]
    source = "Data sheet 4.2: 2.5GbE ports forward at line rate"
    model = "R86S-U4"             # conditions: when it applies
    speed = "2.5G"
    mtu = [1500, 9000]
    throughput = ">= 2.3 Gbps"    # quantities: what is required
    retransmits = "<= 50"

A table names one or more quantities, any number of conditions, and its source.
"""

from __future__ import annotations

import tomllib

from pytest_netperf.errors import LimitError
from pytest_netperf.judge.conditions import Conditions, describe
from pytest_netperf.judge.limits import LEVEL_FILE, Limit, read_limits
from pytest_netperf.quantities import near_misses

__all__ = ["parse_limits_file"]


def parse_limits_file(text: str, where: str) -> tuple[Limit, ...]:
    """The limits of a file's text; ``where`` names the file in messages.

    Raises LimitError that lists every mistake, one a line, each with file, table and key. Broken TOML is one mistake,
    with its line.
    """
    try:
        document = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:  # tomllib lets both of its number and nesting limits through
        raise LimitError(f"{where}: this is not TOML: {error}.") from None
    mistakes = [
        f"{where}: {key!r} is not known here{near_misses(key, ['limit'])}; the file holds [[limit]] tables."
        for key in document
        if key != "limit"
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
        found, wrong = read_limits(arguments, level=LEVEL_FILE, source=source)
        mistakes += [f"{at}: {mistake}" for mistake in wrong]
        for limit in () if wrong else found:
            earlier, other = first_at.setdefault((limit.quantity, limit.conditions), (number, limit))
            if other.text != limit.text:
                under = describe(limit.conditions) or "all conditions"
                mistakes.append(
                    f"{at}: {limit.quantity} {limit.text!r} contradicts {other.text!r} of limit {earlier}, "
                    f"both for {under}; keep one of them."
                )
        limits += found
    if mistakes:
        raise LimitError("\n".join(mistakes))
    return tuple(limits)
