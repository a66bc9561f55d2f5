"""Arguments of ``iperf3.tcp()`` and ``iperf3.udp()`` -> a Workload. The only place that rejects them."""

from __future__ import annotations

import difflib
from typing import Any, Final, Literal, get_args

from pytest_netperf.errors import MarkError, QuantityError
from pytest_netperf.quantities import format_value, parse_duration, parse_rate, parse_ratio, parse_size
from pytest_netperf.traffic.result import Direction, Workload

__all__ = ["make_workload"]

_MAX_STREAMS: Final = 128  # iperf3's own bound
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
    ceiling_bps: float | None,
    default_duration_s: float,
    default_omit_s: float,
    udp_buffer_bytes: int | None = None,
) -> Workload:
    """Check every argument and fill in the defaults.

    ``ceiling_bps`` is the goodput ceiling of a UDP run on the link: UDP without ``bitrate`` offers 95 % of it, and
    "95 % of ceiling" may be written. ``udp_buffer_bytes`` is the socket buffer of UDP runs: with the
    kernel's default a busy tester loses datagrams that the device delivered. Raises MarkError, one message that names the argument, what was given and what is
    allowed.
    """
    call = f"iperf3.{protocol}"
    for name in arguments:
        if name not in _ARGUMENTS:
            near = difflib.get_close_matches(name, _ARGUMENTS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(_ARGUMENTS)}"
            raise MarkError(f"{call}({name}=...): unknown argument{hint}")
    given = {name: value for name, value in arguments.items() if value is not None and value is not False}

    def wrong(name: str, expected: str) -> MarkError:
        return MarkError(f"{call}({name}={arguments[name]!r}): expected {expected}")

    for name in sorted(_TCP_ONLY & given.keys()):
        if protocol != "tcp":
            raise MarkError(f"{call}({name}={given[name]!r}): {name} is a property of TCP; leave it out")
    if protocol == "tcp" and "length" in given and not _is_integer(given["length"]):
        raise wrong("length", "bytes per write as an integer")

    def seconds(name: str, default: float, lowest: int) -> float:
        if name not in arguments or arguments[name] is None:
            return default
        try:
            value = parse_duration(arguments[name])
        except QuantityError as error:
            raise MarkError(f"{call}({name}={arguments[name]!r}): {error}") from None
        if value != int(value) or value < lowest:
            raise wrong(name, f"whole seconds of at least {lowest} (iperf3 takes no fractions)")
        return value

    def integer(name: str, lowest: int, highest: int, what: str) -> int | None:
        if name not in given:
            return None
        if not _is_integer(given[name]) or not lowest <= given[name] <= highest:
            raise wrong(name, f"{what} from {lowest} to {highest}")
        return int(given[name])

    direction = given.get("direction", "forward")
    if direction not in get_args(Direction):
        raise wrong("direction", " or ".join(map(repr, get_args(Direction))))
    ip_version = given.get("ip_version", 4)
    if ip_version not in (4, 6) or isinstance(ip_version, bool):
        raise wrong("ip_version", "4 or 6")
    interval_s = given.get("interval", 1.0)
    if isinstance(interval_s, bool) or not isinstance(interval_s, int | float) or not 0.1 <= interval_s <= 60:
        raise wrong("interval", "seconds from 0.1 to 60")
    if not isinstance(given.get("zerocopy", False), bool):
        raise wrong("zerocopy", "True or False")
    if not isinstance(given.get("congestion", ""), str):
        raise wrong("congestion", "the name of a congestion control such as 'cubic'")
    largest_mss = mtu - (60 if ip_version == 6 else 40)
    length = integer("length", 1 if protocol == "tcp" else 16, 65507, "bytes")
    if protocol == "udp" and length is None:
        length = max(16, mtu - _UDP_HEADERS[ip_version])
    streams = integer("streams", 1, _MAX_STREAMS, "a number of streams") or 1
    return Workload(
        protocol=protocol,
        direction=direction,
        duration_s=seconds("duration", default_duration_s, 1),
        omit_s=seconds("omit", default_omit_s, 0),
        interval_s=float(interval_s),
        streams=streams,
        mss_bytes=integer("mss", 36, largest_mss, f"bytes (the MTU is {mtu})") if largest_mss >= 36 else None,
        zerocopy=bool(given.get("zerocopy", False)),
        window_bytes=udp_buffer_bytes if protocol == "udp" else _size(call, "window", given),
        congestion=given.get("congestion"),
        bitrate_bps=_bitrate(call, protocol, given, ceiling_bps),
        length_bytes=length,
        dscp=integer("dscp", 0, _DSCP_MAX, "a code point"),
        ip_version=ip_version,
    )


def _bitrate(call: str, protocol: str, given: dict[str, Any], ceiling_bps: float | None) -> float | None:
    text = given.get("bitrate")
    if text is None:
        if protocol == "tcp":
            return None
        if ceiling_bps is None:
            raise MarkError(f"{call}(): the link has no rated speed, so bitrate= is needed, e.g. bitrate='900 Mbps'")
        return _UDP_OFFERED * ceiling_bps
    if not isinstance(text, str):
        raise MarkError(f"{call}(bitrate={text!r}): a rate needs a unit, e.g. '900 Mbps' or '95 % of ceiling'")
    try:
        if text.rstrip().endswith("of ceiling"):
            if ceiling_bps is None:
                raise MarkError(f"{call}(bitrate={text!r}): the link has no rated speed and so no ceiling; give a rate")
            return parse_ratio(text.rstrip().removesuffix("of ceiling")) * ceiling_bps
        rate = parse_rate(text)
    except QuantityError as error:
        raise MarkError(f"{call}(bitrate={text!r}): {error}") from None
    if rate <= 0:
        raise MarkError(f"{call}(bitrate={text!r}): {format_value(rate, 'bit/s')} is no load; give a rate above zero")
    return rate


def _size(call: str, name: str, given: dict[str, Any]) -> int | None:
    if name not in given:
        return None
    try:
        return parse_size(given[name])
    except QuantityError as error:
        raise MarkError(f"{call}({name}={given[name]!r}): {error}") from None


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
