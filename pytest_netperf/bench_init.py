"""A bench file of what this machine has: its ports as comments, a link for each pair that is cabled together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_netperf.bench.model_profile import ModelProfile, fitting_profiles
from pytest_netperf.links.cable_probe import Cabling
from pytest_netperf.links.machine import Machine
from pytest_netperf.links.port_reading import PortReading
from pytest_netperf.links.ports import HostPort
from pytest_netperf.quantities import format_speed

__all__ = ["draft_bench"]

_HEAD = """\
# Bench file of {station}, written by pytest-netperf bench init. Look it through, then: pytest-netperf bench check
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Allowed:
    addressed: bool
    virtual: bool


def draft_bench(
    station: str,
    machine: Machine,
    cabling: Cabling | None,
    profiles: Mapping[str, ModelProfile],
    *,
    probed: Sequence[HostPort] = (),
    allow_addressed: bool = False,
    allow_virtual: bool = False,
) -> str:
    """The text of a bench file that `bench_file` reads. ``cabling`` is what a probe of the ``probed`` found."""
    allowed = _Allowed(addressed=allow_addressed, virtual=allow_virtual)
    names = {port.port_id for port in probed}
    ports = [port for port in machine.ports if not port.virtual or port.port_id in names]
    listed = [machine.read(port) for port in sorted(ports, key=_place)]
    readings = {reading.port.port_id: reading for reading in listed}
    lines = [_HEAD.format(station=station), f"# Ports of this machine: {len(listed) or 'none'}"]
    for reading in listed:
        lines += _port_lines(reading, machine, allowed)
    lines += ["", *_probe_lines(cabling, readings), "", "[station]", f"name = {_text(station)}", ""]
    lines += ["[[device]]", 'serial = "DEVICE-1" # the serial number of the device; it names its sheets']
    lines += _model_lines(profiles, listed)
    pairs = [sorted((readings[each] for each in pair), key=_of) for pair in (cabling.pairs if cabling else ())]
    for number, ends in enumerate(sorted(pairs, key=lambda pair: _of(pair[0])), 1):
        lines += _link_lines(f"p{number}", ends, cabling, machine, allowed)
    return "\n".join(lines) + "\n"


def _port_lines(reading: PortReading, machine: Machine, allowed: _Allowed) -> list[str]:
    port = reading.port
    known = [port.name, port.driver or port.kind or "no driver"]
    known += [f"firmware {reading.firmware}"] if reading.firmware else []
    known += [f"PCI {port.pci}" + (f" port {port.dev_port}" if port.dev_port else "")] if port.pci else []
    mac = port.permanent_mac or port.mac
    known += [f"permanent MAC {mac}" if port.permanent_mac else f"MAC {mac}"] if mac else []
    known += [f"also {name}" for name in port.altnames]
    known += [f"up to {format_speed(reading.most_bps)}"] if reading.most_bps else []
    known += [f"now {format_speed(reading.speed_bps)}"] if reading.speed_bps else []
    known += [] if reading.carrier else ["no carrier" if reading.up else "down"]
    known += [f"MTU up to {reading.most_mtu}"] if reading.most_mtu else []
    lines = [_comment(f"port = {_text(_reference(port))}: {', '.join(known)}")]
    refused = machine.refusals(port, allow_addressed=allowed.addressed, allow_virtual=allowed.virtual)
    return lines + [_comment(f"    refused: {reason}") for reason in refused]


def _place(port: HostPort) -> tuple[str, int, str]:
    """By card, then by its ports; those without one last."""
    return port.pci or "~", port.dev_port, port.name


def _of(reading: PortReading) -> tuple[str, int, str]:
    return _place(reading.port)


def _reference(port: HostPort) -> str:
    """A name that survives a reboot; of a veth, which has none but its MAC address, the name that people gave it."""
    return f"altname-{port.name}" if port.virtual else port.port_id


def _probe_lines(cabling: Cabling | None, readings: Mapping[str, PortReading]) -> list[str]:
    if cabling is None:
        return [
            "# Which ports are cabled to each other was not looked at. --probe PORT PORT ... takes the ports that you",
            "# name up, sends a few frames between them, and puts each back as it was.",
        ]
    lines = [_comment(f"before: {text}") for text in cabling.rescued]
    name = {port_id: reading.port.name for port_id, reading in readings.items()}
    lines += [f"# cabled together: {' and '.join(sorted((name[a], name[b])))}" for a, b in cabling.pairs]
    lines += [
        f"# more than a cable between: {', '.join(name[each] for each in group)} (a switch?)"
        for group in cabling.shared
    ]
    lines += [f"# a carrier, but none of the other probed ports at its end: {name[each]}" for each in cabling.alone]
    lines += [f"# no carrier: {name[each]}" for each in cabling.dark]
    return lines


def _model_lines(profiles: Mapping[str, ModelProfile], listed: Sequence[PortReading]) -> list[str]:
    ports = [reading for reading in listed if not reading.port.virtual and not reading.port.wifi]
    fitting = fitting_profiles(profiles, [(reading.port.driver, reading.most_bps) for reading in ports])
    models = [profile.model for profile in fitting]
    if len(models) == 1:
        return [f"model = {_text(models[0])} # by drivers, number and speeds of the ports"]
    if models:
        return [f"# model = {_text(models[0])} # ports as of {' and of '.join(models)}: which one is it?"]
    return ['# model = "..." # no profile has these ports']


def _link_lines(
    name: str, ends: Sequence[PortReading], cabling: Cabling | None, machine: Machine, allowed: _Allowed
) -> list[str]:
    """A link is sold for what the slower of its ports can do."""
    most = [reading.most_bps for reading in ends if reading.most_bps is not None]
    negotiated = [
        speed for reading in ends if cabling and (speed := cabling.speeds_bps.get(reading.port.port_id)) is not None
    ]
    speed = min(most if len(most) == 2 else negotiated or most, default=None)
    lines = ["", "  [[device.link]]", f'  name = "{name}"']
    if speed is None:
        lines.append('  speed = "CHANGE-ME" # neither port says what it can do; write what the link is sold for')
    else:
        lines.append(f"  speed = {_text(format_speed(speed))}")
    for end, reading in zip("ab", ends, strict=True):
        lines.append(f"  {end} = {_end(reading.port, machine, allowed)} # {_comment(_what(reading))[2:]}")
    return lines


def _end(port: HostPort, machine: Machine, allowed: _Allowed) -> str:
    """The table of an end, with the permissions that it needs."""
    parts = [f"port = {_text(_reference(port))}"]
    if allowed.addressed and machine.refusals(port, allow_virtual=allowed.virtual):
        parts.append("allow_addressed = true")
    if port.virtual:
        parts.append("allow_virtual = true")
    return f"{{ {', '.join(parts)} }}"


def _what(reading: PortReading) -> str:
    return f"{reading.port.name}, {reading.port.driver or 'no driver'}"


def _comment(text: str) -> str:
    return "# " + "".join(each if each.isprintable() else "?" for each in text)


def _text(value: str) -> str:
    """A TOML basic string: JSON's, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
