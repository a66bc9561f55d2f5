"""Probes: whatever else is read before and after the traffic, or, if asked, while it runs.

Reading a device can slow it down (observer effect), so a probe is read outside the measured window unless it says
``during=True``; then it is read in a thread of its own, and must not use the link of the test.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from pytest_netperf.errors import ConfigError
from pytest_netperf.observe.observation import ProbeReading
from pytest_netperf.quantities import convert, get_quantity

__all__ = ["Probe", "Probing"]

_MAY_MISS: Final = 0.1
"""Share of the readings while traffic runs that may fail."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Something to read: a temperature, the CPU load of the device, a meter ..."""

    quantity: str
    """A known quantity, or one of your own (`quantities.register_quantity`)."""
    read: Callable[[], Any]
    """Called without arguments; returns a number in ``unit``, or whatever ``between`` understands."""
    unit: str
    name: str = ""
    """What is read, for the sheet: "hwmon of this machine"."""
    between: Callable[[Any, Any, float], float] | None = None
    """Makes the value of two readings, the one before and the one after the traffic, and the seconds between them: for
    counters. None: the worst of all readings is the value."""
    during: bool = False
    """Whether it is read while traffic runs, too."""
    every_s: float = 10.0
    """How often then."""
    timeout_s: float = 10.0
    """How long a reading may take."""

    def __post_init__(self) -> None:
        where = f"Probe(quantity={self.quantity!r})"
        known = get_quantity(self.quantity)
        object.__setattr__(self, "quantity", known.name)
        convert(1.0, self.unit, known)
        for name, value in (("read", self.read), ("between", self.between)):
            if not callable(value) and not (name == "between" and value is None):
                raise ConfigError(f"{where}: {name} must be a function, not {value!r}")
        if self.during and self.between is not None:
            raise ConfigError(f"{where}: between compares two readings, before and after; leave during=True out")
        for name, seconds, least in (("every_s", self.every_s, 0.2), ("timeout_s", self.timeout_s, 0.1)):
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not least <= seconds <= 3600:
                raise ConfigError(f"{where}: {name} must be a number of seconds from {least} to 3600, not {seconds!r}")


class Probing:
    """The probes of one run: `before`, `begin`, `end` and `after`, in this order; then `readings`."""

    def __init__(self, probes: Iterable[Probe]) -> None:
        self._each = [_One(probe) for probe in probes]
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._began_s = 0.0

    def before(self) -> None:
        """Read every probe before the traffic."""
        self._began_s = time.monotonic()
        for one in self._each:
            one.take(self._began_s)

    def begin(self) -> None:
        """The traffic begins: probes that are read meanwhile start."""
        self._began_s = time.monotonic()
        for one in self._each:
            one.shift()
            if one.probe.during:
                thread = threading.Thread(target=self._meanwhile, args=(one,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _meanwhile(self, one: _One) -> None:
        due_s = self._began_s
        while not self._over.wait(max(0.0, due_s - time.monotonic())):
            one.take(self._began_s, meanwhile=True)
            due_s = max(due_s + one.probe.every_s, time.monotonic())

    def end(self) -> None:
        """The traffic is over. A reading that is under way is waited for."""
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=max(one.probe.timeout_s for one in self._each) + 1)

    def after(self) -> None:
        """Read every probe after the traffic."""
        for one in self._each:
            one.take(self._began_s)

    def news(self) -> list[tuple[str, float, float]]:
        """(quantity, seconds after the traffic began, value) of each reading since this was asked last."""
        return [(one.probe.quantity, at_s, value) for one in self._each for at_s, value in one.news()]

    def readings(self) -> tuple[ProbeReading, ...]:
        """What each of them says."""
        return tuple(one.reading() for one in self._each)


class _One:
    """One probe of one run."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._taken: list[tuple[float, Any]] = []
        self._missed: list[str] = []
        self._told = 0
        self._error: str | None = None

    def take(self, began_s: float, *, meanwhile: bool = False) -> None:
        at_s = time.monotonic()
        try:
            value = _in_time(self.probe.read, self.probe.timeout_s)
            if self.probe.between is None:
                value = _number(value, self.probe)
        except Exception as error:  # noqa: BLE001 - a user's function; what it raises is the reading's error
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            if meanwhile:
                self._missed.append(said)
            else:
                self._error = self._error or said
        else:
            self._taken.append((at_s - began_s, value))

    def shift(self) -> None:
        """What was read so far was read before the traffic: at 0 s at the latest."""
        self._taken = [(min(0.0, at_s), value) for at_s, value in self._taken]

    def news(self) -> list[tuple[float, float]]:
        if self.probe.between is not None:
            return []
        new = self._taken[self._told :]
        self._told += len(new)
        return [(round(at_s, 3), float(value)) for at_s, value in new]

    def reading(self) -> ProbeReading:
        probe = self.probe
        error, value = self._error, None
        inside = len(self._taken) + len(self._missed)
        if error is None and len(self._missed) > _MAY_MISS * inside:
            error = f"{len(self._missed)} of {inside} readings failed; the first: {self._missed[0]}"
        samples = [] if probe.between is not None else self._taken
        if error is None:
            try:
                value = self._value()
            except Exception as failure:  # noqa: BLE001 - `between` is a user's function
                error = f"{type(failure).__name__}: {failure}"
        return ProbeReading(
            quantity=probe.quantity,
            name=probe.name or probe.quantity,
            value=value,
            samples=tuple((round(at_s, 3), float(sample)) for at_s, sample in samples),
            missed=len(self._missed),
            error=error,
        )

    def _value(self) -> float:
        probe, known = self.probe, get_quantity(self.probe.quantity)
        if probe.between is not None:
            (first_s, first), (last_s, last) = self._taken[0], self._taken[-1]
            return convert(_plain(probe.between(first, last, last_s - first_s)), probe.unit, known)
        values = [value for _, value in self._taken]
        return float(min(values) if known.better == "higher" else max(values))


def _in_time(read: Callable[[], Any], timeout_s: float) -> Any:
    """What it returns or raises; TimeoutError when it does neither in time."""
    answer: list[Any] = []

    def call() -> None:
        try:
            answer.extend((True, read()))
        except BaseException as error:  # noqa: BLE001 - handed over to the caller's thread
            answer.extend((False, error))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if len(answer) != 2:
        raise TimeoutError(f"no answer within {timeout_s:g} s")
    if answer[0]:
        return answer[1]
    if isinstance(answer[1], Exception):
        raise answer[1]
    raise RuntimeError(f"it ended with {type(answer[1]).__name__}")


def _number(value: Any, probe: Probe) -> float:
    return convert(_plain(value), probe.unit, probe.quantity)


def _plain(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < float("inf"):
        raise TypeError(f"a finite number was expected, not {value!r}")
    return float(value)
