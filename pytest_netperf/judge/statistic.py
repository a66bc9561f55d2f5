"""Which number of a measurement a limit is about. Pure.

    the mean            ">= 2.3 Gbps"                        what is meant when nothing is said
    a quantile          "p5 of intervals >= 2.2 Gbps"        p1 to p99 of the rates of the intervals that count
    an extreme          "min interval >= 2.0 Gbps", "max interval <= 2.4 Gbps"
    a count of runs     ">= 2.3 Gbps in 4 of 5 runs", ">= 2.3 Gbps in every run"

Intervals and runs are kept of the throughput alone. A wrong statistic is a `LimitError`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from pytest_netperf.errors import LimitError

__all__ = ["MEAN", "Statistic", "names_statistic", "quantity_of", "read_statistic", "statistic_of"]


@dataclass(frozen=True, slots=True)
class Statistic:
    """The mean, a quantile or extreme of the intervals, or the number of runs that meet the limit."""

    kind: Literal["mean", "quantile", "min", "max", "runs"] = "mean"
    percent: int = 0
    """Of a quantile: the share of the intervals at or below it, 1 to 99."""
    needed: int = 0
    """Of runs: how many must meet the limit; 0 is every one."""
    runs: int = 0
    """Of runs: how many are to be made; 0 is however many are."""

    @property
    def text(self) -> str:
        """In canonical words: ``p5 of intervals``, ``min interval``, ``in 4 of 5 runs``; ``mean`` for the mean."""
        if self.kind == "quantile":
            return f"p{self.percent} of intervals"
        if self.kind == "runs":
            return f"in {self.needed} of {self.runs} runs" if self.runs else "in every run"
        return "mean" if self.kind == "mean" else f"{self.kind} interval"

    @property
    def key(self) -> str:
        """As a part of a row's id: ``p5``, ``min``, ``4-of-5-runs``, ``every-run``; empty for the mean."""
        if self.kind == "runs":
            return self.text.removeprefix("in ").replace(" ", "-")
        return "" if self.kind == "mean" else self.text.split(" ")[0]

    @property
    def of_intervals(self) -> bool:
        """Whether it is taken from the intervals of a run."""
        return self.kind in ("quantile", "min", "max")

    def of(self, bounds: str) -> str:
        """A limit in words: ``p5 of intervals >= 2.2 Gbit/s``, ``>= 2.3 Gbit/s in 4 of 5 runs``."""
        if self.kind == "mean":
            return bounds
        return f"{bounds} {self.text}" if self.kind == "runs" else f"{self.text} {bounds}"

    def key_of(self, quantity: str) -> str:
        """The quantity and the statistic as one key: ``throughput.p5``; the bare quantity for the mean."""
        return f"{quantity}.{self.key}" if self.key else quantity


MEAN: Final = Statistic()


def quantity_of(key: str) -> str:
    """The quantity of a key that `Statistic.key_of` made."""
    return key.partition(".")[0]


def statistic_of(key: str) -> Statistic:
    """The statistic of a key that `Statistic.key_of` made."""
    name = key.partition(".")[2]
    if not name:
        return MEAN
    if name.startswith("p"):
        return Statistic("quantile", percent=int(name[1:]))
    if name in ("min", "max"):
        return Statistic("min" if name == "min" else "max")
    needed, _, runs = name.removesuffix("-runs").partition("-of-")
    return Statistic("runs", needed=int(needed), runs=int(runs)) if runs else Statistic("runs")


# ---- reading ---------------------------------------------------------------------------------------------------------

_INTERVALS: Final = re.compile(r"([^<>=!~]*?)\s*((?:[<>=!~]|between\s).*)", re.DOTALL)
_WITHOUT_OPERATOR: Final = re.compile(r"(p[1-9][0-9]? of intervals|min interval|max interval)\s*(.*)", re.DOTALL)
_RUNS: Final = re.compile(
    r"(?:(.*?)\s+)?(in\s+(?:[0-9]+\s*(?:/|of|out of|from)\s*(?:the\s+)?[0-9].*|.*\bruns?))", re.DOTALL
)
_RUNS_IN_FRONT: Final = re.compile(
    r"(?:in )?(?:[0-9]+ ?(?:/|(?:out )?of) ?[0-9]+|every|each|all)(?: of the| the)? runs?"
)
_NAMED: Final = re.compile(
    r"\s*(?:p[0-9]+|min|max|median|mean|minimum|maximum)(?:\s+(?:of\s+)?(?:the\s+)?(?:intervals?|runs?))?"
    r"\s*(?:[<>=!~\u2264\u2265]|between\s)",
    re.IGNORECASE,
)
_KNOWN: Final = "'p5 of intervals' (p1 to p99), 'min interval' and 'max interval'"
_KNOWN_OF_RUNS: Final = "'in 4 of 5 runs' or 'in every run'"
_MOST_RUNS: Final = 1000


def names_statistic(text: str) -> bool:
    """Whether a text begins with a statistic and goes on as a limit does."""
    return _NAMED.match(text) is not None


def read_statistic(words: str) -> tuple[Statistic, str]:
    """The statistic of a limit's words and the words without it. Raises LimitError for what is none, with the way out.

    Single spaces are expected between the words.
    """
    statistic = MEAN
    behind = _RUNS.fullmatch(words)
    if behind is not None:
        words, statistic = behind[1] or "", _runs(behind[2])
    before = _INTERVALS.fullmatch(words) or _WITHOUT_OPERATOR.fullmatch(words)
    named = _intervals(before[1]) if before is not None and before[1] else None
    if before is None or named is None:
        return statistic, words
    if statistic.kind != "mean":
        raise LimitError(f"it names two statistics, {named.text!r} and {statistic.text!r}; write a limit for each.")
    return named, before[2]


def _runs(words: str) -> Statistic:
    if words == "in every run":
        return Statistic("runs")
    if re.fullmatch(r"in (?:(?:each|all|any|every)(?: of)?(?: the)?(?: [0-9]+)?) runs?", words, re.IGNORECASE):
        raise LimitError(f"{words!r} is not used here; write 'in every run'.")
    counted = re.fullmatch(r"in ([0-9]{1,9}) of ([0-9]{1,9}) runs", words)
    if counted is None:
        loose = re.match(r"in ([0-9]+)\s*(?:/|out of|of|from)\s*(?:the\s+)?([0-9]+)\b", words, re.IGNORECASE)
        way_out = f"'in {loose[1]} of {loose[2]} runs'" if loose else _KNOWN_OF_RUNS
        raise LimitError(f"{words!r} is not used here; write {way_out}.")
    needed, runs = int(counted[1]), int(counted[2])
    if runs == 0:
        raise LimitError(f"{words!r}: without a run nothing is measured; write {_KNOWN_OF_RUNS}.")
    if needed == 0:
        raise LimitError(f"{words!r}: a limit that no run has to meet could never fail; require at least 1 run.")
    if needed > runs:
        raise LimitError(f"{words!r}: of {runs} runs at most {runs} can meet it; write 'in {runs} of {needed} runs'.")
    if runs > _MOST_RUNS:
        raise LimitError(f"{words!r}: at most {_MOST_RUNS} runs can be asked for.")
    return Statistic("runs", needed=needed, runs=runs)


def _intervals(words: str) -> Statistic | None:
    """The statistic in front of an operator; None for words that have nothing of one."""
    quantile = re.fullmatch(r"p([1-9][0-9]?) of intervals", words)
    if quantile is not None:
        return Statistic("quantile", percent=int(quantile[1]))
    if words in ("min interval", "max interval"):
        return Statistic("min" if words == "min interval" else "max")
    loose = " ".join(re.sub(r"\b(?:of|the|in)\b", " ", words.lower()).split())
    number = re.match(r"p ?([0-9][0-9.,]*)", loose) or re.match(
        r"([0-9][0-9.,]*) ?(?:th|%)? ?(?:percentile|quantile)", loose
    )
    if number is not None:
        raise LimitError(_wrong_quantile(words, number[1]))
    if loose.startswith("median"):
        raise LimitError(f"{words!r} is not used here; write 'p50 of intervals'.")
    extreme = re.match(r"(?:(min|lowest|smallest|slowest|worst)|max|highest|largest|fastest|best)", loose)
    if extreme is not None:
        raise LimitError(f"{words!r} is not used here; write '{'min' if extreme[1] else 'max'} interval'.")
    if re.match(r"(?:mean|average|avg)\b", loose):
        raise LimitError(f"{words!r}: the mean is meant when nothing is said; leave it out.")
    if _RUNS_IN_FRONT.fullmatch(words.lower()):
        raise LimitError(f"{words!r} stands behind the number, as in '>= 2.3 Gbps in 4 of 5 runs'.")
    if "interval" in loose:
        raise LimitError(f"{words!r} is no statistic of intervals; known: {_KNOWN}.")
    return None


def _wrong_quantile(words: str, number: str) -> str:
    if not number.isdecimal():
        return f"{words!r}: quantiles are whole percentages, from 'p1 of intervals' to 'p99 of intervals'."
    percent = int(number[:9])
    if percent == 0:
        return f"{words!r}: there is no p0; write 'min interval' for the slowest one."
    if percent >= 100:
        return f"{words!r}: quantiles go from p1 to p99; write 'max interval' for the fastest one."
    return f"{words!r} is not used here; write 'p{percent} of intervals'."
