"""The mark ``netperf_method`` and the options of the same things, put together into one `judge.method.Method`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pytest_netperf.errors import ConfigError, MarkError, QuantityError

if TYPE_CHECKING:
    import pytest

    from pytest_netperf.judge.method import BetweenRuns, Method
    from pytest_netperf.options import Options

__all__ = ["method_of", "read_between_runs", "read_repeat"]

_ARGUMENTS = ("profile", "repeat", "between_runs", "run_to_run", "rtt", "rule", "role")


def method_of(marks: Iterable[pytest.Mark], options: Options) -> Method:
    """The method of a test from its ``netperf_method`` marks, closest first, and the options of the run.

    Of each argument the closest mark that names it wins; ``rule`` and ``role`` go together. Raises MarkError that lists
    every mistake.
    """
    from pytest_netperf.judge.decision import get_rule
    from pytest_netperf.judge.method import DURATION_S, OMIT_S, Method
    from pytest_netperf.judge.profile import get_profile
    from pytest_netperf.quantities import near_misses

    chosen: dict[str, Any] = {}
    wrong: list[str] = []
    for mark in marks:
        if mark.args:
            wrong.append(
                f"takes named arguments only; write what it is, as in netperf_method(profile={mark.args[0]!r})"
            )
        for name in mark.kwargs:
            if name not in _ARGUMENTS:
                near = near_misses(name, _ARGUMENTS)
                wrong.append(f"there is no argument {name!r}{near}; known: {', '.join(_ARGUMENTS)}")
        if {"rule", "role"} & mark.kwargs.keys() and not {"rule", "role"} & chosen.keys():
            chosen |= {"rule": mark.kwargs.get("rule", "simple"), "role": mark.kwargs.get("role")}
        for name in _ARGUMENTS:
            if name in mark.kwargs and name not in chosen:
                chosen[name] = mark.kwargs[name]

    def read(name: str, convert: Any, default: Any) -> Any:
        if name not in chosen:
            return default
        try:
            return convert(chosen[name])
        except (ConfigError, TypeError) as error:
            wrong.append(f"{name}={chosen[name]!r}: {error}")
            return default

    profile = read("profile", _profile, None)
    if profile is None and "profile" not in chosen and options.profile is not None:
        profile = get_profile(options.profile)
    own = profile if "profile" in chosen else None
    repeat = read("repeat", read_repeat, profile.repetitions if profile else 1)
    between = read("between_runs", read_between_runs, "connection")
    run_to_run = read("run_to_run", _share, options.run_to_run)
    rtt = read("rtt", _flag, False)
    rule = None
    if "rule" in chosen:
        try:
            rule = get_rule(chosen["rule"], chosen["role"])
        except (ConfigError, TypeError) as error:
            wrong.append(f"rule={chosen['rule']!r}, role={chosen['role']!r}: {error}")
    if wrong:
        raise MarkError("\n".join(f"netperf_method: {each}" for each in wrong))

    def seconds(given: float | None, name: str, plain: float) -> float:
        if own is None and given is not None:
            return given
        return plain if profile is None else float(getattr(profile, name))

    return Method(
        profile=profile,
        duration_s=seconds(options.duration_s, "duration_s", DURATION_S),
        omit_s=seconds(options.omit_s, "omit_s", OMIT_S),
        repeat=repeat,
        between_runs=between,
        run_to_run=run_to_run,
        rtt=rtt,
        rule=rule,
    )


def read_repeat(value: Any) -> int:
    """A number of runs. Raises MarkError."""
    from pytest_netperf.judge.method import MOST_RUNS

    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_RUNS:
        raise MarkError(f"expected a number of runs from 1 to {MOST_RUNS}, as an integer")
    return value


def read_between_runs(value: Any) -> BetweenRuns:
    """What lies between two runs. Raises MarkError."""
    from pytest_netperf.judge.method import BETWEEN_RUNS

    for known in BETWEEN_RUNS:
        if value == known:
            return known
    raise MarkError("expected " + ", ".join(f"{name!r} ({meaning})" for name, meaning in BETWEEN_RUNS.items()))


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise MarkError("expected True or False")
    return value


def _profile(value: Any) -> Any:
    from pytest_netperf.judge.profile import PROFILES, get_profile

    if not isinstance(value, str):
        raise MarkError(f"expected one of {', '.join(map(repr, PROFILES))}")
    return get_profile(value)


def _share(value: Any) -> float:
    """A relative standard deviation such as "0.5 %"."""
    from pytest_netperf.quantities import parse_ratio

    if not isinstance(value, str):
        raise MarkError("expected a share such as '0.5 %', the relative standard deviation from one run to the next")
    try:
        share = parse_ratio(value)
    except QuantityError as error:
        raise MarkError(str(error)) from None
    if not 0 <= share < 1:
        raise MarkError("expected a share from 0 % to below 100 %")
    return share
