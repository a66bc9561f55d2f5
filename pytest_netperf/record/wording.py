"""How a row is named to people: on the sheet, on the terminal and in the sentence of a verdict. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from pytest_netperf.judge.count_uncertainty import ZERO_LOSS
from pytest_netperf.quantities import format_pair, format_speed, format_value
from pytest_netperf.record.schema import Planned, Row, Sheet

__all__ = [
    "conditions_text",
    "differing_rules",
    "limit_text",
    "margin_text",
    "measured_text",
    "moment_text",
    "port_text",
    "printable",
    "quantity_text",
    "speed_text",
    "uncertainty_text",
    "value_text",
    "zero_loss_text",
]

_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_ORDER = ("mtu", "direction", "protocol", "ip_version", "streams", "mss")
_NAMED_ELSEWHERE = ("batch", "device", "link", "media", "model", "simulated", "speed", "test", "topology")


def speed_text(speed: Any) -> str:
    """A link speed in the words of the trade: 2.5e9 becomes "2.5G"; text stays as it was written; nothing is ""."""
    if speed is None or isinstance(speed, bool):
        return ""
    return format_speed(speed) if isinstance(speed, (int, float)) else str(speed)


def port_text(row: Row | Planned) -> str:
    """Speed and link of a row, as in "2.5G port p2"; without a link ""."""
    return f"{speed_text(row.conditions.get('speed'))} port {row.link}".strip() if row.link else ""


def conditions_text(row: Row | Planned, names: Collection[str] | None = None) -> str:
    """What tells rows of one link apart, as in "MTU 1500, reverse, 4 streams, MSS 536"; of these ``names`` if given."""
    parts = []
    for name, value in sorted(row.conditions.items(), key=_rank):
        words = name.replace("_", " ")
        if value is None or value is False or name in _NAMED_ELSEWHERE or (names is not None and name not in names):
            continue
        if name in ("mtu", "mss"):
            parts.append(f"{name.upper()} {value}")
        elif name == "ip_version":
            parts.append(f"IPv{value}")
        elif name == "streams":
            parts.append(f"{value} stream{'' if value == 1 else 's'}")
        elif name in ("direction", "protocol"):
            parts.append(str(value).upper() if name == "protocol" else str(value))
        else:
            parts.append(words if value is True else f"{words} {value}")
    return ", ".join(parts)


def _rank(item: tuple[str, Any]) -> int:
    return _ORDER.index(item[0]) if item[0] in _ORDER else len(_ORDER)


def value_text(value: float | None, unit: str) -> str:
    """A number with its unit for people, "-" when there is none."""
    return "-" if value is None else format_value(value, unit)


def measured_text(row: Row) -> str:
    """The value of a row for people, with as many digits as tell it apart from the bounds it must keep."""
    if row.value is None:
        return "-"
    bounds = [bound for bound in (row.limit_low, row.limit_high) if bound is not None]
    texts = [format_value(row.value, row.unit), *(format_pair(row.value, bound, row.unit)[0] for bound in bounds)]
    return max(texts, key=len)


def uncertainty_text(row: Row) -> str:
    """U in the unit in which `measured_text` shows the value, as in "\u00b1 0.003"; "" when it is not known.

    Rounded up, to the decimals of the value or as many as it takes to show a digit of it; two digits where the first is
    1 or 2.
    """
    if not row.value or row.uncertainty is None or not 0 < row.uncertainty < math.inf:
        return ""  # a count without an uncertainty is exact
    number = measured_text(row).split(" ")[0]
    if not float(number):
        return ""
    factor = 10.0 ** round(math.log10(row.value / float(number)))  # 1e9 for a number in Gbit/s, 0.01 for a percentage
    decimals = len(number.partition(".")[2])
    shown = row.uncertainty / factor
    if shown > 0:
        leading = math.floor(math.log10(shown))
        decimals = max(decimals, (shown < 3 * 10.0**leading) - leading)
    step = 10.0**-decimals
    return f"\u00b1 {math.ceil(shown / step * (1 - 1e-9)) * step:.{decimals}f}"


def zero_loss_text(row: Row) -> str:
    """What a run without a lost frame leaves possible, as in "<= 0.003 % (95 %)"; "" for any other row."""
    bound = row.evidence.facts.get(ZERO_LOSS)
    return f"<= {format_value(bound, 'ratio', 2)} (95 %)" if isinstance(bound, int | float) else ""


def differing_rules(sheet: Sheet) -> bool:
    """Whether a row was judged by another decision rule than that of the run: each row then names its own."""
    usual = (sheet.procedure.decision_rule or "").partition(":")[0]
    return any(row.rule not in (None, usual) for row in sheet.rows)


def quantity_text(row: Row | Planned) -> str:
    """Quantity and statistic as words: "frame loss ratio", "p5 throughput", "throughput in 4 of 5 runs"."""
    words = row.quantity.replace("_", " ")
    if row.statistic is None:
        return words
    return f"{words} {row.statistic}" if row.statistic.startswith("in ") else f"{row.statistic.split(' ')[0]} {words}"


def limit_text(row: Row | Planned) -> str:
    """The limit in words, "-" when there is none."""
    return row.limit or "-"


def margin_text(margin: float | None) -> str:
    """A margin in percent with its sign, as in "+0.9 %"; "-" when there is none.

    A margin that rounds to zero keeps the digits that show on which side of the limit it lies.
    """
    if margin is None:
        return "-"
    percent = margin * 100
    for digits in (1, 2, 3, 4):
        if margin == 0 or round(percent, digits) != 0:
            return f"{percent:+.{digits}f} %".replace("+0.0 %", "0.0 %")
    return f"{percent:+.0e} %"


def printable(text: str) -> str:
    """The text without characters that steer a terminal or turn the reading direction; line breaks become spaces."""
    return _STEERING.sub("\ufffd", " ".join(text.splitlines()))


def moment_text(text: str | None) -> str:
    """An ISO 8601 moment as people write it, in UTC; anything else as it stands."""
    if not text:
        return "-"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    if moment.tzinfo is None:
        return text
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
