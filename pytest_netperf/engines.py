"""Which traffic engines a run can choose from: the two of this package, and those that a hook brings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pytest_netperf.errors import ConfigError

if TYPE_CHECKING:
    import pytest

    from pytest_netperf.traffic.engine import Engine

__all__ = ["brought_engines", "make_chosen_engine", "refuse_unknown_engine"]

_OWN = ("iperf3", "libiperf")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")
_PARTS = ("name", "version", "can_stop", "check", "run")
_HOOK = "pytest_netperf_engines"


def brought_engines(config: pytest.Config) -> dict[str, Callable[[], Engine]]:
    """What the hook pytest_netperf_engines brings: the name of each engine and what makes it.

    Raises ConfigError for what is no such mapping, a name that is none, and one that two have.
    """
    found: dict[str, Callable[[], Engine]] = {}
    hook = getattr(config.hook, _HOOK, None)
    for answer in reversed(hook(config=config) if hook is not None else []):
        if not isinstance(answer, Mapping):
            raise ConfigError(
                f"{_HOOK} returned {answer!r}: it must return a dict of names and what makes the engine, such as "
                '{"sockets": SocketEngine}'
            )
        for name, make in answer.items():
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ConfigError(f"{_HOOK} names an engine {name!r}: write up to 40 of a-z, 0-9, '_', '.' and '-'")
            if name in _OWN or name in found:
                raise ConfigError(f"{_HOOK} brings an engine {name!r}, and there is one of that name: choose another")
            if not callable(make):
                raise ConfigError(
                    f"{_HOOK} gives {make!r} for engine {name!r}: it must be a class or function without arguments "
                    "that makes the engine, so that nothing is started before a test needs it"
                )
            found[name] = make
    return found


def refuse_unknown_engine(name: str, config: pytest.Config) -> None:
    """Raise ConfigError for an engine that there is not, or when the hook that brings engines is wrong."""
    if name in _OWN:
        return
    brought = brought_engines(config)
    if name not in brought:
        others = f", or one that the hook {_HOOK} brings: {', '.join(brought)}" if brought else ""
        raise ConfigError(
            f"there is no engine {name!r}; write iperf3 (the program) or libiperf (the library, through the "
            f"PyPI package iperf3){others}"
        )


def make_chosen_engine(name: str, config: pytest.Config | None) -> Engine:
    """The engine of that name. Raises TrafficError when its tool is missing, ConfigError when it is no engine."""
    from pytest_netperf.traffic.engine import make_engine

    if name in _OWN or config is None:
        return make_engine(name)
    engine = brought_engines(config)[name]()
    missing = [part for part in _PARTS if not hasattr(engine, part)]
    if missing:
        raise ConfigError(
            f"engine {name!r} of {_HOOK} has no {', '.join(missing)}: pytest_netperf.traffic.engine.Engine says what "
            "an engine is"
        )
    if engine.name != name:
        raise ConfigError(
            f"engine {name!r} of {_HOOK} calls itself {engine.name!r}: the sheet would name another one than the option"
        )
    return engine
