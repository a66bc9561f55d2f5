"""The marks ``netperf_link`` and ``netperf_limit``, read into link requests and limits.

This is the only place that rejects arguments of marks. Every refusal is a `MarkError` that says what was given, what is
allowed and what to write instead; it lists all mistakes of the marks at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_netperf.bench.model import MTU_RANGE, TOPOLOGIES, Fault
from pytest_netperf.bench.plan import LinkPlan, LinkRequest, LinkSettings, plan_links
from pytest_netperf.bench.port_wishes import PORT_SETTINGS, WishError, read_wish
from pytest_netperf.errors import MarkError, QuantityError
from pytest_netperf.quantities import get_quantity, near_misses, parse_size, parse_speed

if TYPE_CHECKING:
    import pytest

    from pytest_netperf.judge.limits import Limit

__all__ = ["LinkPlan", "LinkRequest", "LinkSettings", "limits_from_marks", "link_settings", "plan_links"]

_MSS_RANGE: Final = (88, 9216)
"""Linux' TCP_MIN_MSS, and the largest that iperf3 -M takes."""
_MAX_WINDOW: Final = 512 * 1024 * 1024
"""The largest that iperf3 -w takes."""
_MAX_SHOWN: Final = 80


class _Refused(ValueError):
    """A value of a mark's argument that is not allowed; the text is the way out, or empty."""


class _Argument(NamedTuple):
    read: Callable[[Any], Any]
    allowed: str
    field: str
    """The field of LinkRequest, or of LinkSettings for a setting."""
    sweep: bool = True
    """Whether a list of values is allowed."""


def link_settings(marks: Iterable[pytest.Mark]) -> LinkRequest:
    """What the stacked netperf_link marks of one test ask for; for each argument the closest mark wins.

    ``marks`` come closest first, as ``Node.iter_markers`` yields them. All marks are checked, also the arguments that a
    closer mark overrides; MarkError lists every mistake, one a line.
    """
    merged: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    wrong: list[str] = []
    for mark in marks:
        if mark.args:
            wrong.append(_positional("netperf_link", mark.args, "speed='2.5G', mtu=9000"))
        for key, value in mark.kwargs.items():
            if key not in _ARGUMENTS:
                wrong.append(f"netperf_link({key}={_repr(value)}): {_unknown(key)}")
                continue
            try:
                values = _read(key, value)
            except MarkError as error:
                wrong.append(str(error))
                continue
            if key not in merged:
                merged[key], shown[key] = values, value
    if wrong:
        raise MarkError("\n".join(wrong))
    requirements = {
        argument.field: (merged[key] if argument.sweep else merged[key][0])
        for key, argument in _REQUIREMENTS.items()
        if key in merged
    }
    sweeps = tuple((argument.field, merged[key]) for key, argument in _SETTINGS.items() if key in merged)
    text = ", ".join(f"{key}={_repr(shown[key])}" for key in _ARGUMENTS if key in shown)
    return LinkRequest(**requirements, sweeps=sweeps, text=f"netperf_link({text})")


def limits_from_marks(marks: Iterable[tuple[pytest.Mark, int]]) -> tuple[tuple[Limit, ...], tuple[str, ...]]:
    """The limits of the stacked netperf_limit marks of one test, and warnings about what looks like a mistake.

    ``marks`` are (mark, level) pairs, closest first; the level says how far from the test the mark stands (see
    `Limit.level`) and decides later which limit of a quantity wins. MarkError lists every mistake, one a line.
    """
    from pytest_netperf.judge.limit_text import read_limits

    limits: list[tuple[Limit, str]] = []
    warnings: list[str] = []
    wrong: list[str] = []
    for mark, level in marks:
        if mark.args:
            wrong.append(_positional("netperf_limit", mark.args, "throughput='>= 2.3 Gbps', speed='2.5G'"))
            continue
        arguments = dict(mark.kwargs)
        text = f"netperf_limit({', '.join(f'{key}={_repr(value)}' for key, value in arguments.items())})"
        source = arguments.pop("source", None)
        if source is not None and not (isinstance(source, str) and source.strip()):
            wrong.append(
                f"{text}: source must be a sentence that says where the numbers come from; leave it out if none"
            )
            source = None
        found, mistakes = read_limits(arguments, level=level, source=source)
        wrong += [f"{text}: {mistake}" for mistake in mistakes]
        warnings += [f"{text}: {warning}" for limit in found for warning in limit.warnings]
        for limit in found:
            wrong += [f"{text}: {other} {_OTHERWISE}" for known, other in limits if _contradicts(limit, known)]
        limits += [(limit, text) for limit in found]
    if wrong:
        raise MarkError("\n".join(dict.fromkeys(wrong)))
    return tuple(limit for limit, _ in limits), tuple(dict.fromkeys(warnings))


_OTHERWISE: Final = (
    "stands equally close to the test and requires something else of the same quantity under the same conditions; "
    "keep one of them, or give them different conditions"
)


def _contradicts(one: Limit, other: Limit) -> bool:
    """Whether nothing could decide between two limits that both claim a measurement."""
    from pytest_netperf.judge.limits import same_requirement

    claim = (one.key, one.level, one.conditions) == (other.key, other.level, other.conditions)
    return claim and not same_requirement(one, other)


def _read(key: str, value: Any) -> tuple[Any, ...]:
    """The values of one argument, a single one as a sweep of one."""
    argument = _ARGUMENTS[key]
    call = f"netperf_link({key}={_repr(value)})"
    or_list = ", or a list of them" if argument.sweep else ""
    listed = isinstance(value, list | tuple)
    if listed and not argument.sweep:
        raise MarkError(f"{call}: {key} must be {argument.allowed}, not a list")
    if listed and not value:
        raise MarkError(
            f"{call}: the list is empty, so the test would not run at all; {key} must be {argument.allowed}, "
            "or a list with at least one of them"
        )
    values = []
    for item in value if listed else [value]:
        try:
            read = argument.read(item)
        except _Refused as error:
            which = f" ({_repr(item)} is not)" if listed else ""
            way_out = f"; {error}" if str(error) else ""
            raise MarkError(f"{call}: {key} must be {argument.allowed}{or_list}{which}{way_out}") from None
        if read in values:
            raise MarkError(f"{call}: {_repr(item)} is in the list twice; each value may stand there once")
        values.append(read)
    return tuple(values)


def _integer(low: int, high: int, key: str) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        text = value.strip() if isinstance(value, str) else str(value) if isinstance(value, float) else ""
        digits = text.removesuffix(".0")
        if digits.isdecimal() and len(digits) < 9 and low <= int(digits) <= high:
            raise _Refused(f"write {key}={int(digits)}")
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _Refused
        return value

    return read


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Refused
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Refused(f"write '{value}'" if isinstance(value, int | float) and not isinstance(value, bool) else "")
    if not value.strip():
        raise _Refused("the text is empty")
    return value


def _speed(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise _Refused(f"{value} has no unit; write '{value}G' for {value} Gbit/s")
    return _above_zero(parse_speed, value)


def _window(value: Any) -> int:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise _Refused(f"{value} has no unit; write '{value}B' for {value} bytes")
    size = int(_above_zero(parse_size, value))
    if not 1 <= size <= _MAX_WINDOW:
        raise _Refused("iperf3 takes at most 512 MiB")
    return size


def _above_zero(parse: Callable[[str], float], value: Any) -> float:
    if not isinstance(value, str):
        raise _Refused
    try:
        number = parse(value)
    except QuantityError as error:
        raise _Refused(str(error)) from None
    if not 0 < number < float("inf"):
        raise _Refused("it must be a finite number above zero")
    return number


def _topology(value: Any) -> str:
    if not isinstance(value, str) or value not in TOPOLOGIES:
        raise _Refused(near_misses(str(value), TOPOLOGIES).strip())
    return value


def _congestion(value: Any) -> str:
    # TCP_CA_NAME_MAX is 16 with the closing NUL.
    if not isinstance(value, str) or not re.fullmatch(r"[a-z0-9_]{1,15}", value):
        raise _Refused
    return value


def _ip_version(value: Any) -> int:
    if isinstance(value, str) and value in ("4", "6"):
        raise _Refused(f"write ip_version={value}")
    if isinstance(value, bool) or not isinstance(value, int) or value not in (4, 6):
        raise _Refused
    return value


def _fault(value: Any) -> Fault | None:
    if value is None:
        return None
    # Late: for the one mark in a hundred that has a fault.
    from pytest_netperf.bench.fault_table import parse_fault

    fault, mistakes = parse_fault(value, "fault")
    if fault is None:
        raise _Refused("; ".join(mistakes))
    return fault


def _of_ports(name: str) -> _Argument:
    def read(value: Any) -> Any:
        try:
            return read_wish(name, value)
        except WishError as error:
            raise _Refused(str(error)) from None

    return _Argument(read, f"{PORT_SETTINGS[name][1]} (None: as the ports are)", name)


def _scope(value: Any) -> str:
    if not isinstance(value, str) or value not in ("session", "function"):
        raise _Refused
    return value


_REQUIREMENTS: Final[dict[str, _Argument]] = {
    "speed": _Argument(_speed, "a text with a unit such as '2.5G' or '100 Mbit/s'", "speeds_bps"),
    "name": _Argument(_text, "the name of a link, or a pattern such as 'sfp*'", "names"),
    "media": _Argument(_text, "the media that the bench file gives, such as 'dac'", "media"),
    "topology": _Argument(_topology, f"one of {', '.join(map(repr, TOPOLOGIES))}", "topologies"),
    "simulated": _Argument(_boolean, "True or False", "simulated", sweep=False),
    "device": _Argument(_text, "the serial of a device, or a pattern", "devices"),
    "model": _Argument(_text, "the model of a device, or a pattern", "models"),
    "scope": _Argument(_scope, "'session' or 'function' (a cold link for each test)", "scope", sweep=False),
}
_SETTINGS: Final[dict[str, _Argument]] = {
    "device_state": _Argument(  # first, so that it varies slowest: a real device takes its time
        _text, "the name of a state of the device, such as 'plain' or 'nat'", "device_state"
    ),
    "mtu": _Argument(
        _integer(*MTU_RANGE, "mtu"), f"an integer number of bytes from {MTU_RANGE[0]} to {MTU_RANGE[1]}", "mtu"
    ),
    "mss": _Argument(
        _or_none(_integer(*_MSS_RANGE, "mss")),
        f"an integer number of bytes from {_MSS_RANGE[0]} to {_MSS_RANGE[1]} (None: what the MTU allows)",
        "mss_bytes",
    ),
    "congestion": _Argument(
        _or_none(_congestion), "the name of a TCP congestion control such as 'bbr' (None: the system's)", "congestion"
    ),
    "window": _Argument(
        _or_none(_window), "a size with a unit such as '4 MiB' (None: what the system chooses)", "window_bytes"
    ),
    "zerocopy": _Argument(_boolean, "True or False", "zerocopy"),
    "ip_version": _Argument(_ip_version, "4 or 6", "ip_version"),
    "shaped": _Argument(_boolean, "True or False", "shaped"),
    "fault": _Argument(
        _fault,
        "a dict such as {'rate': '1.9 Gbps'} or {'loss': '0.5 %', 'direction': 'a-to-b'} (None: no fault)",
        "fault",
    ),
    **{name: _of_ports(name) for name in PORT_SETTINGS},
}
_ARGUMENTS: Final = _REQUIREMENTS | _SETTINGS
_OF_THE_CALL: Final = ("protocol", "direction", "duration", "omit", "streams", "interval", "bitrate", "length", "dscp")


def _unknown(key: str) -> str:
    if key in _OF_THE_CALL:
        return f"{key} belongs to the traffic call in the test: iperf3.tcp({key}=...)"
    try:
        quantity = get_quantity(key)
    except QuantityError:
        return f"there is no argument {key!r}{near_misses(key, list(_ARGUMENTS))}; known: {', '.join(_ARGUMENTS)}"
    return f"{quantity.name} is a quantity, not a condition; require it with netperf_limit({key}=...)"


def _positional(mark: str, args: Sequence[Any], example: str) -> str:
    given = ", ".join(map(_repr, args))
    return f"{mark}({given}): takes named arguments only; write what it is, as in {mark}({example})"


def _repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
