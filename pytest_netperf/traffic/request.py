"""Arguments of ``iperf3.tcp()`` and ``iperf3.udp()`` -> a Workload. The only place that rejects them."""

from __future__ import annotations

import difflib
import re
from typing import Any, Final, Literal, get_args

import msgspec

from pytest_netperf.errors import MarkError, QuantityError
from pytest_netperf.quantities import format_value, parse_duration, parse_rate, parse_ratio, parse_size
from pytest_netperf.traffic.framing import ceiling_bps
from pytest_netperf.traffic.result import Direction, Workload

__all__ = ["make_workload"]

# The bounds of iperf3 itself: MAX_STREAMS, MAX_TIME, MAX_OMIT_TIME, MAX_TCP_BUFFER and MAX_MSS of its iperf.h and
# iperf_api.c; the smallest MSS is Linux' TCP_MIN_MSS.
_MAX_STREAMS: Final = 128
_MAX_DURATION_S: Final = 86_400
_MAX_OMIT_S: Final = 600
_MAX_WINDOW: Final = 512 * 1024 * 1024
_MSS: Final = (88, 9216)
_UDP_OFFERED: Final = 0.95
_UDP_HEADERS: Final = {4: 28, 6: 48}
_DSCP_MAX: Final = 63
_ARGUMENTS: Final = (
    "duration",
    "omit",
    "interval",
    "streams",
    "direction",
    "mss",
    "zerocopy",
    "window",
    "congestion",
    "bitrate",
    "length",
    "dscp",
    "ip_version",
)
_TCP_ONLY: Final = {"mss", "window", "congestion", "zerocopy"}


def make_workload(
    protocol: Literal["tcp", "udp"],
    arguments: dict[str, Any],
    *,
    mtu: int,
    speed_bps: float | None,
    default_duration_s: float,
    default_omit_s: float,
    udp_buffer_bytes: int | None = None,
) -> Workload:
    """Check every argument and fill in the defaults.

    ``speed_bps`` is the rated speed of the link, None where it has none. UDP without ``bitrate`` offers 95 % of the
    ceiling, and "95 % of ceiling" may be written. ``udp_buffer_bytes`` is the socket buffer of UDP runs: with the
    kernel's default a busy tester loses datagrams that the device delivered. Raises MarkError, one message that names
    the argument, what was given and what is allowed.
    """
    call = f"iperf3.{protocol}"
    for name in arguments:
        if name not in _ARGUMENTS:
            near = difflib.get_close_matches(name, _ARGUMENTS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(_ARGUMENTS)}"
            raise MarkError(f"{call}({name}=...): unknown argument{hint}")
    given = {name: value for name, value in arguments.items() if value is not None}

    def wrong(name: str, expected: str) -> MarkError:
        return MarkError(f"{call}({name}={arguments[name]!r}): expected {expected}")

    for name in sorted(_TCP_ONLY & given.keys()):
        if protocol != "tcp" and given[name] is not False:
            raise MarkError(f"{call}({name}={given[name]!r}): {name} is a property of TCP; leave it out")

    def seconds(name: str, default: float, lowest: int, highest: int) -> float:
        if name not in given:
            return default
        try:
            value = parse_duration(given[name])
        except QuantityError as error:
            raise MarkError(f"{call}({name}={given[name]!r}): {error}") from None
        if value != int(value) or not lowest <= value <= highest:
            raise wrong(name, f"whole seconds from {lowest} to {highest} (iperf3 takes no fractions)")
        return value

    def integer(name: str, lowest: int, highest: int, what: str) -> int | None:
        if name not in given:
            return None
        if not _is_integer(given[name]) or not lowest <= given[name] <= highest:
            raise wrong(name, f"{what} from {lowest} to {highest}, as an integer")
        return int(given[name])

    direction = given.get("direction", "forward")
    if direction not in get_args(Direction):
        raise wrong("direction", " or ".join(map(repr, get_args(Direction))))
    ip_version = given.get("ip_version", 4)
    if not _is_integer(ip_version) or ip_version not in (4, 6):
        raise wrong("ip_version", "4 or 6")
    interval_s = given.get("interval", 1.0)
    if isinstance(interval_s, bool) or not isinstance(interval_s, int | float) or not 0.1 <= interval_s <= 60:
        raise wrong("interval", "seconds from 0.1 to 60")
    if not isinstance(given.get("zerocopy", False), bool):
        raise wrong("zerocopy", "True or False")
    congestion = given.get("congestion")
    # TCP_CA_NAME_MAX is 16 with the closing NUL.
    if congestion is not None and not (isinstance(congestion, str) and re.fullmatch(r"[a-z0-9_]{1,15}", congestion)):
        raise wrong("congestion", "the name of a congestion control such as 'cubic'")
    largest_mss = min(_MSS[1], mtu - (60 if ip_version == 6 else 40))
    if "mss" in given and largest_mss < _MSS[0]:
        raise wrong("mss", f"nothing: an MTU of {mtu} leaves no room for an MSS of {_MSS[0]} bytes; leave it out")
    length = integer("length", 1 if protocol == "tcp" else 16, 65507, "bytes")
    if protocol == "udp" and length is None:
        length = max(16, mtu - _UDP_HEADERS[ip_version])
    streams = integer("streams", 1, _MAX_STREAMS, "a number of streams") or 1
    workload = Workload(
        protocol=protocol,
        direction=direction,
        duration_s=seconds("duration", default_duration_s, 1, _MAX_DURATION_S),
        omit_s=seconds("omit", default_omit_s, 0, _MAX_OMIT_S),
        interval_s=float(interval_s),
        streams=streams,
        mss_bytes=integer("mss", _MSS[0], largest_mss, f"bytes (the MTU is {mtu})"),
        zerocopy=bool(given.get("zerocopy", False)),
        window_bytes=udp_buffer_bytes if protocol == "udp" else _window(call, given),
        congestion=congestion,
        length_bytes=length,
        dscp=integer("dscp", 0, _DSCP_MAX, "a code point"),
        ip_version=ip_version,
    )
    ceiling = ceiling_bps(workload, speed_bps, mtu) if speed_bps is not None else None
    return msgspec.structs.replace(workload, bitrate_bps=_bitrate(call, protocol, given, ceiling))


def _bitrate(call: str, protocol: str, given: dict[str, Any], ceiling: float | None) -> float | None:
    text = given.get("bitrate")
    if text is None:
        if protocol == "tcp":
            return None
        if ceiling is None:
            raise MarkError(f"{call}(): the link has no rated speed, so bitrate= is needed, e.g. bitrate='900 Mbps'")
        return _UDP_OFFERED * ceiling
    if not isinstance(text, str):
        raise MarkError(f"{call}(bitrate={text!r}): a rate needs a unit, e.g. '900 Mbps' or '95 % of ceiling'")
    try:
        if text.rstrip().endswith("of ceiling"):
            if ceiling is None:
                raise MarkError(f"{call}(bitrate={text!r}): the link has no rated speed and so no ceiling; give a rate")
            rate = parse_ratio(text.rstrip().removesuffix("of ceiling").rstrip()) * ceiling
        else:
            rate = parse_rate(text)
    except QuantityError as error:
        raise MarkError(f"{call}(bitrate={text!r}): {error}") from None
    if rate < 1:  # iperf3 takes whole bits per second, and 0 as "no limit"
        raise MarkError(f"{call}(bitrate={text!r}): {format_value(rate, 'bit/s')} is no load; give a rate above zero")
    return rate


def _window(call: str, given: dict[str, Any]) -> int | None:
    size = given.get("window")
    if size is None:
        return None
    try:
        window = parse_size(size)
    except QuantityError as error:
        raise MarkError(f"{call}(window={size!r}): {error}") from None
    if not 1 <= window <= _MAX_WINDOW:
        raise MarkError(f"{call}(window={size!r}): expected a size from 1 byte to 512 MiB, such as '4 MiB'")
    return window


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
