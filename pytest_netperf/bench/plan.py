"""Which links of the bench a test runs on, under which settings: requirements select links, settings sweep over them.

Pure: a plan is made from the bench and the marks alone, never from what this machine happens to have, so that each
xdist worker makes the same plans in the same order.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from pytest_netperf.bench.builtin import simulated_link
from pytest_netperf.bench.device_state import PLAIN, DeviceState
from pytest_netperf.bench.model import DEFAULT_MTU, Bench, Device, Fault, LinkSpec
from pytest_netperf.bench.port_wishes import PORT_SETTINGS, Negotiation, wish_label, wish_text, wish_to_send
from pytest_netperf.errors import MarkError
from pytest_netperf.quantities import format_speed, near_misses

__all__ = ["LinkPlan", "LinkRequest", "LinkScope", "LinkSettings", "plan_links", "states_of"]

LinkScope = Literal["session", "function"]

_IP_AND_TCP_HEADER: Final = {4: 40, 6: 60}
_IPV6_MIN_MTU: Final = 1280  # RFC 8200 section 5; Linux takes IPv6 off a port with less
_MAX_TRIED: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRequest:
    """What the netperf_link marks of one test ask for, already validated. An empty requirement accepts every link."""

    speeds_bps: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    """Names or shell patterns (``sfp*``); so are devices and models."""
    media: tuple[str, ...] = ()
    topologies: tuple[str, ...] = ()
    simulated: bool | None = None
    devices: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    sweeps: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    """(setting, its values) for each setting that was given, in a fixed order; the last one varies fastest."""
    scope: LinkScope = "session"
    text: str = "netperf_link()"
    """How the marks read together, for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """The conditions of one plan. What is not a matter of the link is the default of the traffic call."""

    mtu: int = DEFAULT_MTU
    mss_bytes: int | None = None
    congestion: str | None = None
    window_bytes: int | None = None
    zerocopy: bool = False
    ip_version: Literal[4, 6] = 4
    device_state: str | None = None
    """The name of the state that the device shall be in; None: nobody asked for one."""
    scope: LinkScope = "session"
    """session: the link is brought up once and shared; function: each test gets a cold one."""
    offloads: tuple[tuple[str, bool], ...] | None = None
    """This and the following are settings of both ports (`bench.port_wishes`); None: as the ports are."""
    ring: tuple[tuple[str, int], ...] | None = None
    pause: tuple[tuple[str, bool], ...] | None = None
    eee: bool | None = None
    negotiation: Negotiation | None = None
    irq_cpus: str | None = None
    governor: str | None = None

    @property
    def of_ports(self) -> dict[str, Any]:
        """The settings of ports that are asked for, as plain data for the keeper."""
        return {name: wish_to_send(value) for name, value in self._asked()}

    @property
    def port_conditions(self) -> dict[str, str]:
        """The same in words."""
        return {name: wish_text(name, value) for name, value in self._asked()}

    def _asked(self) -> Iterator[tuple[str, Any]]:
        values = ((name, getattr(self, name)) for name in PORT_SETTINGS)
        return ((name, value) for name, value in values if value is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPlan:
    """One link of one device under one set of conditions: one parameter of a test."""

    device: Device
    link: LinkSpec
    """As it shall be brought up: its mtu, fault and shaped are those of the mark where the mark gives them."""
    settings: LinkSettings
    id: str
    """``SERIAL/link`` and each setting that the mark gives: ``R86S-U4-0007/sfp1/mtu9000``."""

    @property
    def state(self) -> DeviceState | None:
        """The state that its tests ask for."""
        name = self.settings.device_state
        return None if name is None else next(each for each in states_of(self.device) if each.name == name)

    @property
    def not_applicable(self) -> str | None:
        """Why there is nothing to measure under these conditions, or None where there is."""
        return None if self.state is None else self.state.not_applicable(self.settings.mtu)


def plan_links(bench: Bench, request: LinkRequest, device_filter: Collection[str] = ()) -> tuple[LinkPlan, ...]:
    """The plans of one test, in the order device, link, sweep.

    ``device_filter`` holds the serials that the command line asks for; empty is all. The result is empty only when the
    links that fit all belong to devices that the command line leaves out. MarkError when no link of the bench fits, or
    a listed speed or name has none, or a setting is impossible on a link that was selected.
    """
    _require_fits(bench, request)
    plans = tuple(
        _plan(device, link, request, combination)
        for device, link, unfit in _candidates(bench, request)
        if not unfit and (not device_filter or device.serial in device_filter)
        for combination in _combinations(request)
    )
    for plan_id, count in Counter(plan.id for plan in plans).items():
        if count > 1:
            raise MarkError(f"{request.text}: two of its links or values have the same id {plan_id!r}")
    return plans


def _require_fits(bench: Bench, request: LinkRequest) -> None:
    """A speed or name that is listed beside others must be found like one that stands alone, or it would never run."""
    wanted = [(request, "")]
    if len(request.speeds_bps) > 1:
        wanted += [
            (replace(request, speeds_bps=(speed,)), f" with speed {format_speed(speed)}")
            for speed in request.speeds_bps
        ]
    if len(request.names) > 1:
        wanted += [(replace(request, names=(name,)), f" with name {name!r}") for name in request.names]
    for single, what in wanted:
        tried = list(_candidates(bench, single))
        if any(not unfit for _, _, unfit in tried):
            continue
        lines = [f"  {device.serial}/{link.name}: {'; '.join(unfit)}" for device, link, unfit in tried[:_MAX_TRIED]]
        if len(tried) > _MAX_TRIED:
            lines.append(f"  ... and {len(tried) - _MAX_TRIED} more")
        where = f"the bench {bench.path}" if bench.path is not None else "the built-in bench"
        way_out = "" if bench.path is not None else "; describe your own links in a bench file (--netperf-bench)"
        raise MarkError(
            f"{request.text}: no link of {where} fits{what}{way_out}. "
            + ("Tried:\n" + "\n".join(lines) if lines else "It has no links at all.")
        )


def _candidates(bench: Bench, request: LinkRequest) -> Iterator[tuple[Device, LinkSpec, list[str]]]:
    """Each link of each device, with the reasons why it does not fit."""
    for device in bench.devices:
        links = device.links
        if bench.elastic and request.speeds_bps:
            links = tuple(simulated_link(speed) for speed in request.speeds_bps)
        for link in links:
            yield device, link, _unfit(device, link, request)


def _unfit(device: Device, link: LinkSpec, request: LinkRequest) -> list[str]:
    reasons = []
    if request.speeds_bps and not any(_same(speed, link.speed_bps) for speed in request.speeds_bps):
        found = "none" if link.speed_bps is None else format_speed(link.speed_bps)
        reasons.append(f"its speed is {found}, not {_or(map(format_speed, request.speeds_bps))}")
    texts: tuple[tuple[str, str | None, tuple[str, ...]], ...] = (
        ("name", link.name, request.names),
        ("media", link.media, request.media),
        ("topology", link.topology, request.topologies),
        ("device", device.serial, request.devices),
        ("model", device.model, request.models),
    )
    for what, text, patterns in texts:
        if patterns and not any(text is not None and _matches(text, pattern) for pattern in patterns):
            found = "not given" if text is None else repr(text)
            reasons.append(f"its {what} is {found}, not {_or(map(repr, patterns))}")
    if request.simulated is not None and request.simulated != link.simulated:
        reasons.append("it is simulated" if link.simulated else "it is not simulated")
    return reasons


def _combinations(request: LinkRequest) -> Iterator[dict[str, Any]]:
    names = [name for name, _ in request.sweeps]
    for values in itertools.product(*(values for _, values in request.sweeps)):
        yield dict(zip(names, values, strict=True))


def _plan(device: Device, link: LinkSpec, request: LinkRequest, given: Mapping[str, Any]) -> LinkPlan:
    plan_id = "/".join((device.serial, link.name, *(_label(name, value) for name, value in given.items())))
    effective = replace(
        link,
        mtu=given.get("mtu", link.mtu if link.mtu is not None else DEFAULT_MTU),
        fault=given.get("fault", link.fault),
        shaped=given.get("shaped", link.shaped),
    )
    assert effective.mtu is not None
    others = {name: value for name, value in given.items() if name in _OTHER_SETTINGS}
    settings = LinkSettings(mtu=effective.mtu, scope=request.scope, **others)
    problem = _impossible(effective, settings) or _impossible_state(device, effective, settings.device_state)
    if settings.negotiation is not None:  # then that is what the link can carry
        a, b = (port and replace(port, speed_bps=None) for port in (effective.a, effective.b))
        effective = replace(effective, speed_bps=settings.negotiation.speed_bps, a=a, b=b)
    if problem:
        raise MarkError(f"{request.text}: impossible on {plan_id}: {problem}")
    return LinkPlan(device=device, link=effective, settings=settings, id=plan_id)


def _impossible(link: LinkSpec, settings: LinkSettings) -> str | None:
    """Why these conditions cannot exist together: a test would run under others than the ones on its sheet."""
    if settings.ip_version == 6 and settings.mtu < _IPV6_MIN_MTU:
        return f"IPv6 needs an MTU of at least {_IPV6_MIN_MTU}, not {settings.mtu}"
    largest = settings.mtu - _IP_AND_TCP_HEADER[settings.ip_version]
    if settings.mss_bytes is not None and settings.mss_bytes > largest:
        return (
            f"an MSS of {settings.mss_bytes} does not fit into an MTU of {settings.mtu} "
            f"(at most {largest} over IPv{settings.ip_version})"
        )
    if not link.simulated and (link.fault is not None or not link.shaped):
        return "a fault, or shaped=False, works on simulated links only; add simulated=True"
    wish = settings.negotiation
    if wish is not None and link.speed_bps is not None and wish.speed_bps > link.speed_bps:
        return f"negotiation asks for {wish.text}, and the link is one of {format_speed(link.speed_bps)}"
    refused = [name for name in settings.port_conditions if name not in _OF_SIMULATED] if link.simulated else []
    if refused:
        what = "is a setting" if len(refused) == 1 else "are settings"
        return f"{' and '.join(refused)} {what} of physical ports, and this link is simulated; add simulated=False"
    if link.fault is not None and link.fault.takes_single_frames:
        joined = [name for name, on in settings.offloads or () if on and name in _JOINING]
        if joined:
            return f"its fault decides on single frames, which needs {' and '.join(joined)} off"
    problem = link.fault.problem(link.line_rate_bps, settings.mtu) if link.fault is not None else None
    return f"fault.{problem[0]}: {problem[1]}" if problem else None


def states_of(device: Device) -> tuple[DeviceState, ...]:
    """Every state of a device: those of the bench file, those of the profile of its model, and ``plain``."""
    from pytest_netperf.bench.model_profile import states_of_model  # late: most tests ask for no state

    own = {state.name for state in device.states}
    return (*device.states, *(state for state in states_of_model(device.model) if state.name not in own), PLAIN)


def _impossible_state(device: Device, link: LinkSpec, name: str | None) -> str | None:
    if name is None:
        return None
    states = states_of(device)
    state = next((each for each in states if each.name == name), None)
    if state is None:
        known = [each.name for each in states]
        return (
            f"device {device.serial} has no state {name!r}{near_misses(name, known)}; it has {', '.join(known)}; "
            "describe it in a [[device.state]] table of the bench file"
        )
    is_one_of_it = link.topology == "routed" or (link.topology == "switched" and state.only_rate_bps is not None)
    if state.is_simulated and link.simulated and not is_one_of_it:
        return (
            f"state {name!r} is one of a device that forwards, and the topology of this link is {link.topology!r}; add "
            "topology='routed' to the mark"
        )
    return None


_OTHER_SETTINGS: Final = frozenset(field.name for field in fields(LinkSettings)) - {"mtu", "scope"}
_JOINING: Final = frozenset({"tso", "gro", "lro"})
_OF_SIMULATED: Final = frozenset({"offloads"})


def _label(setting: str, value: Any) -> str:
    """The part of an id that says this setting: mtu9000, mss1240, bbr, ipv6, zerocopy."""
    short = setting.removesuffix("_bytes")
    if setting in PORT_SETTINGS:
        return wish_label(setting, value)
    match setting, value:
        case "fault", Fault():
            return value.label
        case ("fault", None) | ("zerocopy", False):
            return f"no-{short}"
        case "zerocopy", True:
            return short
        case "shaped", _:
            return "shaped" if value else "unshaped"
        case "ip_version", _:
            return f"ipv{value}"
        case _, None:
            return f"{short}-default"
        case (("congestion" | "device_state"), _):
            return str(value)
    return f"{short}{value}"


def _matches(text: str, pattern: str) -> bool:
    return text == pattern or fnmatchcase(text, pattern)


def _same(wanted_bps: float, speed_bps: float | None) -> bool:
    return speed_bps is not None and math.isclose(wanted_bps, speed_bps, rel_tol=1e-9)


def _or(words: Iterable[str]) -> str:
    return " or ".join(words)
