"""Which baseline a limit means, and what is expected of a measurement. Pure.

    of baseline plain             that of the model of the device under test
    of baseline R86S-U4/plain     that of another model
    of baseline R86S-U4           whatever that model did in the same topology and state of the device

Several values may have one name: the conditions of the measurement choose among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pytest_netperf.bench.baseline import Baseline
from pytest_netperf.errors import LimitError
from pytest_netperf.judge.conditions import describe
from pytest_netperf.judge.limits import Limit, applies
from pytest_netperf.quantities import format_value, get_quantity, near_misses

__all__ = ["Baselines", "baseline_of", "expected_text"]

_TRAFFIC: Final[dict[str, Any]] = {
    "mss": None, "streams": 1, "direction": "forward", "protocol": "tcp", "ip_version": 4, "zerocopy": False,
}  # fmt: skip
"""What a baseline means that does not say otherwise: the defaults of a traffic call."""
_BY_NAME: Final = frozenset({"topology", "device_state"})
"""What a name alone chooses: "ips keeps 40 % of baseline plain" compares two states."""
_MOST_SHOWN: Final = 8


def baseline_of(limit: Limit) -> str | None:
    """The name that a limit relates to; None for a limit that relates to no baseline."""
    kind, _, name = (limit.relative_to or "").partition(":")
    return name if kind == "baseline" else None


def expected_text(baseline: Baseline) -> str:
    """Where an expectation comes from, for the sheet."""
    parts = [f"{baseline.model}/{baseline.name}{' (SIMULATED)' if baseline.simulated else ''}: {baseline.source}"]
    parts += [text for text in (baseline.os, baseline.driver, baseline.method, baseline.unit_note) if text]
    return "; ".join(part.rstrip(".") for part in parts) + "."


class Baselines:
    """All baselines that are known to a run."""

    def __init__(self, known: Iterable[Baseline] = ()) -> None:
        self._known = tuple(known)

    def __iter__(self) -> Any:
        return iter(self._known)

    def refuse_unknown(self, limits: Iterable[Limit], conditions: Mapping[str, Any]) -> None:
        """Raise LimitError for a limit of these that may apply and relates to what no measurement can have.

        ``conditions`` are those that are known before a test runs.
        """
        for limit in limits:
            name = baseline_of(limit)
            if name is not None and applies(limit, conditions, unknown_matches=True):
                named = self._named(name, limit, conditions)
                if conditions.get("simulated") is False:
                    _refuse_simulated(limit, name, named)

    def find(self, limit: Limit, conditions: Mapping[str, Any]) -> Baseline:
        """The baseline that a limit relates to under the conditions of a measurement.

        Raises LimitError when there is none, when several fit, and for a simulated one of a real measurement.
        """
        name = baseline_of(limit)
        assert name is not None
        named = self._named(name, limit, conditions)
        by_name = any(each.name in (name, name.rpartition("/")[2]) for each in named)
        where = f"{limit.quantity} limit {limit.text!r}"
        ignored = _BY_NAME if by_name else frozenset()
        fitting = [each for each in named if _fits(each, conditions, ignored)]
        own = [each for each in fitting if each.statistic == _statistic(limit)]
        best = _most_specific(own or [each for each in fitting if each.statistic is None], conditions)
        if not best:
            raise LimitError(
                f"{where}: baseline {name} has no {limit.quantity} for the conditions of this measurement; it has "
                f"{_listed(named)}."
            )
        if len({each.value for each in best}) > 1:
            raise LimitError(
                f"{where}: several values of baseline {name} fit this measurement equally well: {_listed(best)}. "
                "Name one, or give the measurement a further condition."
            )
        if not conditions.get("simulated", False):
            _refuse_simulated(limit, name, best)
        return best[0]

    def expected(self, quantity: str, statistic: str | None, conditions: Mapping[str, Any]) -> Baseline | None:
        """What the model of the device is known to do under the same conditions; None when nobody knows.

        A baseline that states no topology is of something else than a link, and expected of none; one that was measured
        on simulated links is not expected of a real one.
        """
        best = _most_specific(
            [
                each
                for each in self._known
                if (each.model, each.quantity, each.statistic) == (conditions.get("model"), quantity, statistic)
                and "topology" in each.conditions
                and _fits(each, conditions, frozenset())
                and (conditions.get("simulated", False) or not each.simulated)
            ],
            conditions,
        )
        return best[0] if len({each.value for each in best}) == 1 else None

    def of_sweep(self, quantity: str, swept: str, conditions: Mapping[str, Any]) -> list[tuple[Any, Baseline]]:
        """(value of the swept condition, baseline) for each that fits whatever its value of that condition is."""
        found = []
        for each in self._known:
            value = each.conditions.get(swept)
            if value is not None and each.quantity == quantity:
                at = {**conditions, swept: value}
                if self.expected(quantity, None, at) is each:
                    found.append((value, each))
        return sorted(found, key=lambda item: float(item[0]))

    def _named(self, name: str, limit: Limit, conditions: Mapping[str, Any]) -> list[Baseline]:
        """The baselines of the limit's quantity with this name, whatever their conditions. Never empty."""
        where = f"{limit.quantity} limit {limit.text!r}"
        model, slash, own = name.rpartition("/")
        device_model = conditions.get("model")
        of_model = model if slash else device_model
        named = [each for each in self._known if each.model == of_model and each.name == own]
        if not named and not slash:
            named = [each for each in self._known if each.model == name]
        if not named:
            choices = self._choices(device_model)
            full = {f"{each.model}/{each.name}" for each in self._known} | {each.model for each in self._known}
            near = near_misses(name, [*choices, *sorted(full)])
            own_model = f" of model {device_model!r}" if device_model and not slash else ""
            no_model = (
                " The device has no model in the bench file, so write MODEL/NAME."
                if device_model is None and not slash
                else ""
            )
            raise LimitError(
                f"{where}: there is no baseline {name!r}{own_model}{near}; known: {', '.join(choices) or 'none'}."
                f"{no_model}"
            )
        those = [each for each in named if each.quantity == limit.quantity]
        if not those:
            has = ", ".join(dict.fromkeys(each.quantity for each in named))
            raise LimitError(f"{where}: baseline {name} has no {limit.quantity}; it has {has}.")
        return those

    def _choices(self, model: object) -> list[str]:
        """Names as a limit may write them: those of the device's own model bare."""
        named = sorted({(each.model != model, each.model, each.name) for each in self._known})
        return [f"{of}/{name}" if other else name for other, of, name in named]


def _statistic(limit: Limit) -> str | None:
    return limit.statistic.text if limit.statistic.key else None


def _fits(baseline: Baseline, actual: Mapping[str, Any], ignored: frozenset[str]) -> bool:
    traffic = actual.get("protocol") is not None  # before the call nobody knows its conditions
    for key in (*baseline.conditions, *(key for key in _TRAFFIC if key not in baseline.conditions)):
        if key in ignored:
            continue
        stated = baseline.conditions.get(key, _TRAFFIC.get(key))
        found = actual.get(key)
        if found is None:
            if key == "device_state":
                found = "plain"
            elif traffic and key in _TRAFFIC:
                found = _TRAFFIC[key]
            else:
                continue
        elif not traffic and key not in baseline.conditions:
            continue
        if found != stated:
            return False
    return True


def _most_specific(fitting: Sequence[Baseline], actual: Mapping[str, Any]) -> list[Baseline]:
    """Those with most conditions that are known to hold; what nobody knows speaks for none."""
    known = {key for key, value in actual.items() if value is not None} | {"device_state"}
    if "protocol" in known:
        known |= _TRAFFIC.keys()
    scores = [len(known & each.conditions.keys()) for each in fitting]
    return [each for each, score in zip(fitting, scores, strict=True) if score == max(scores)]


def _refuse_simulated(limit: Limit, name: str, baselines: Sequence[Baseline]) -> None:
    if all(each.simulated for each in baselines):
        raise LimitError(
            f"{limit.quantity} limit {limit.text!r}: baseline {name} was measured on simulated links, and says nothing "
            "about a real one. Record it from the sheet of a real device."
        )


def _listed(baselines: Sequence[Baseline]) -> str:
    texts = [
        f"{format_value(each.value, get_quantity(each.quantity).unit)}"
        f"{f' ({each.statistic})' if each.statistic else ''}"
        f" for {describe(tuple(sorted(each.conditions.items()))) or 'any conditions'}"
        for each in baselines
    ]
    more = f"; and {len(texts) - _MOST_SHOWN} more" if len(texts) > _MOST_SHOWN else ""
    return "; ".join(texts[:_MOST_SHOWN]) + more
