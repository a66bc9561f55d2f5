"""Does a bench file fit this machine? Everything that is wrong at once, without traffic and without a change."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from pytest_netperf.bench.bench_file import read_bench
from pytest_netperf.bench.device_os import commands_for
from pytest_netperf.bench.model import DEFAULT_MTU, Bench, Device, LinkSpec, Port
from pytest_netperf.bench.model_profile import ModelProfile, PortKind, load_profiles, serial_mistakes
from pytest_netperf.errors import BenchError, LinkError, StationError
from pytest_netperf.judge.doubt_bus import BUS_NEED, usb_bps
from pytest_netperf.judge.port_evidence import hop_bps, hop_text
from pytest_netperf.links.device_states import find_program
from pytest_netperf.links.machine import Machine
from pytest_netperf.links.port_journal import holder_of
from pytest_netperf.links.port_reading import PortReading
from pytest_netperf.links.port_rescue import where_lent
from pytest_netperf.links.ports import find_port
from pytest_netperf.links.wifi import ONE_RADIO
from pytest_netperf.observe.observation import PcieHop
from pytest_netperf.quantities import format_pair, format_speed, format_value, near_misses

__all__ = ["BenchCheck", "LinkCheck", "bus_problems", "check_bench"]

_NO_ROOT: Final = "physical ports need root: run this, and pytest, with sudo"
_NO_IPERF3: Final = "iperf3 is not installed (sudo apt-get install iperf3)"


@dataclass(slots=True, kw_only=True)
class LinkCheck:
    """One link of the bench file, held against this machine."""

    name: str
    """``SERIAL/link``, or ``station/link`` for a reference."""
    text: str
    """What it is, in words."""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is not wrong, and may be of use."""


@dataclass(slots=True, kw_only=True)
class BenchCheck:
    """Everything that was found."""

    problems: list[str] = field(default_factory=list)
    """Of the file, and of the machine as a whole."""
    links: list[LinkCheck] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems and not any(link.problems for link in self.links)


def check_bench(path: str | Path, folder: str | Path | None = None) -> BenchCheck:
    """Hold a bench file against this machine, and the models of its devices against their profiles.

    ``folder`` has profiles beside those of the bench file and of this package. Raises LinkError where nothing about
    ports can be read at all.
    """
    check = BenchCheck()
    try:
        bench, mistakes = read_bench(path)
    except BenchError as error:
        check.problems += str(error).splitlines()
        return check
    check.problems += mistakes
    try:
        profiles = load_profiles(bench.station.profiles, folder)
    except BenchError as error:
        check.problems += str(error).splitlines()
        profiles = {}
    check.problems += serial_mistakes(bench, profiles)
    if shutil.which("iperf3") is None:
        check.problems.append(_NO_IPERF3)
    links = list(_links(bench))
    if any(link.simulated for _, link in links):
        check.problems += _no_simulated_links()
    if any(link.physical_ports for _, link in links):
        with Machine() as machine:
            if not machine.root:
                check.problems.append(_NO_ROOT)
            _check_ports(check, links, machine, profiles)
    else:
        check.links += [LinkCheck(name=name, text=_words(link)) for name, link in _named(links)]
    for each, (_, link) in zip(check.links, links, strict=True):
        reason = link.unsupported_reason()
        if reason is not None and (link.simulated or link.physical_ports):  # a port that is missing is in the mistakes
            each.problems.append(reason)
        if link.a is not None and link.b is not None and link.b.ssh is not None:
            _check_far_end(each, link.a, link.b)
    for each, (device, link) in zip(check.links, links, strict=True):
        if device is not None and link.simulated and link.topology == "routed":
            each.problems += _missing_programs(device)
        if device is not None and not link.simulated:
            each.problems += _cannot_be_told(device)
    return check


def _check_far_end(check: LinkCheck, near: Port, far: Port) -> None:
    """Log in to the host at the far end, and see what it has."""
    from pytest_netperf.links.remote import look_at_far_end

    try:
        check.text += f", b = {far.port} ({look_at_far_end(near, far)})"
    except StationError as error:
        check.text += f", b = {far.port} at {far.ssh}"
        check.problems.append(f"b: {error}")


def _cannot_be_told(device: Device) -> list[str]:
    """Why a real device would not be put into one of its states by what the bench file says."""
    problems = []
    for state in device.states:
        try:
            commands_for(device, state)
        except LinkError as error:
            problems.append(str(error))
    if device.ssh is not None and importlib.util.find_spec("asyncssh") is None:
        problems.append("its states are told over ssh, which needs asyncssh: pip install 'pytest-netperf[remote]'")
    return problems


def _missing_programs(device: Device) -> list[str]:
    """What the states of a simulated device need and this machine does not have, once for each program."""
    problems = []
    for program in dict.fromkeys(program for state in device.states for program in state.programs):
        try:
            find_program(program)
        except LinkError as error:
            problems.append(str(error))
    return problems


def _links(bench: Bench) -> Iterator[tuple[Device | None, LinkSpec]]:
    for link in bench.station.reference:
        yield None, link
    for device in bench.devices:
        for link in device.links:
            yield device, link


def _named(links: list[tuple[Device | None, LinkSpec]]) -> Iterator[tuple[str, LinkSpec]]:
    for device, link in links:
        yield f"{'station' if device is None else device.serial}/{link.name}", link


def _words(link: LinkSpec, found: Mapping[str, PortReading] | None = None) -> str:
    parts = [format_speed(link.speed_bps) if link.speed_bps else "unshaped"]
    parts += [f"MTU {link.mtu}"] if link.mtu else []
    if link.simulated:
        return ", ".join([*parts, "simulated"])
    for end, port in link.physical_ports.items():
        reading = (found or {}).get(end)
        parts.append(f"{end} = {port.port} ({_short(reading)})" if reading else f"{end} = {port.port}")
    return ", ".join(parts)


def _short(reading: PortReading) -> str:
    port = reading.port
    return f"{port.name}, {port.driver or port.kind or 'no driver'}"


def _no_simulated_links() -> list[str]:
    """Why this machine cannot make one, from the process that would; it makes one and takes it down again."""
    from pytest_netperf.links.owner import Owner

    try:
        owner = Owner()
    except StationError as error:
        return [f"simulated links cannot be made here: {error}"]
    try:
        owner.call("up", link="check", spec={"mtu": DEFAULT_MTU, "speed_bps": 1e9, "fault": {}}, keep=None)
        owner.call("down", link="check")
    except StationError as error:
        return [f"simulated links cannot be made here: {error}"]
    finally:
        owner.close()
    return []


def _check_ports(
    check: BenchCheck,
    links: list[tuple[Device | None, LinkSpec]],
    machine: Machine,
    profiles: Mapping[str, ModelProfile],
) -> None:
    used: dict[int, str] = {}
    of_kind: dict[tuple[str, str], set[int]] = {}
    for (device, link), (name, _) in zip(links, _named(links), strict=True):
        found: dict[str, PortReading] = {}
        each = LinkCheck(name=name, text="")
        for end, wanted in link.physical_ports.items():
            if not wanted.port:
                continue  # a mistake of the file
            try:
                port = find_port(wanted.port, machine.ports)
            except LinkError as error:
                each.problems.append(f"{end}: {_away(wanted.port) or error}")
                continue
            if port.index in used:
                each.problems.append(
                    f"{end}: {port.name} is {used[port.index]} already; a port is in one cable, so write it once"
                )
            used.setdefault(port.index, f"end {end} of {name}")
            try:
                reading = found[end] = machine.read(port)
                allowed = {"allow_addressed": wanted.allow_addressed, "allow_virtual": wanted.allow_virtual}
                reasons = machine.refusals(port, **allowed)
            except LinkError as error:  # it went a moment ago
                each.problems.append(f"{end}: {error}")
                continue
            each.problems += [f"{end}: {port.name} is refused: {reason}" for reason in reasons]
            advice = port.advice(wanted.port)
            each.notes += [f"{end}: {advice}"] if advice is not None else []
            held = holder_of(port.port_id)
            each.problems += [f"{end}: {held}"] if held is not None else []
            each.problems += [f"{end}: {port.name} {problem}" for problem in _cannot(link, end, reading)]
        if len({reading.port.wifi for reading in found.values()}) == 2:
            each.problems += [f"{end}: {ONE_RADIO}" for end, reading in found.items() if reading.port.wifi]
        each.problems += _carrier(found)
        each.notes += _not_known(link, found)
        if device is not None and device.model is not None:
            profile = profiles.get(device.model)
            if profile is not None:
                each.problems += _against_profile(link, found, profile, of_kind, device.serial)
            elif hint := near_misses(device.model, profiles):
                each.notes.append(f"there is no profile of a model {device.model!r}{hint}")
        each.text = _words(link, found)
        check.links.append(each)


def _away(text: str) -> str | None:
    """Where a port is that is not here: with a run, or left behind by one."""
    try:
        return where_lent(text)
    except LinkError as error:
        return str(error)


def _cannot(link: LinkSpec, end: str, reading: PortReading) -> Iterator[str]:
    """What the link needs and this port, or its bus, does not have."""
    speed, mtu = link.port_speed_bps(end), link.mtu or DEFAULT_MTU
    if speed is not None and reading.most_bps is not None and reading.most_bps < speed:
        yield (
            f"supports {format_speed(reading.most_bps)} at most, below the {format_speed(speed)} of the link; correct "
            "the speed, or choose another port"
        )
    elif speed is not None and reading.speed_bps is not None and reading.speed_bps < speed:
        yield (
            f"has negotiated {format_speed(reading.speed_bps)}, below the {format_speed(speed)} of the link; look at "
            "the cable, at both its ends, and at what the other port advertises"
        )
    if reading.most_mtu is not None and mtu > reading.most_mtu:
        yield f"allows an MTU of {reading.most_mtu} at most, and the link has {mtu}; lower the mtu of the link"
    if reading.least_mtu is not None and mtu < reading.least_mtu:
        yield f"allows an MTU of {reading.least_mtu} at least, and the link has {mtu}; raise the mtu of the link"
    if speed is not None:
        yield from bus_problems(speed, reading)


def bus_problems(speed_bps: float, reading: PortReading) -> Iterator[str]:
    """The rule of the doubts PCIe below need and USB below need, for one direction."""
    for fields in reading.pcie:
        hop = msgspec.convert(fields, PcieHop)
        carries = hop_bps(hop.speed_gtps, hop.width)
        if carries is not None and carries < BUS_NEED * speed_bps:
            has, needs = format_pair(carries, speed_bps, "bit/s")
            yield (
                f"is behind a PCI Express link that carries {has} for {needs} ({hop_text(hop)}); use a slot with more "
                "or faster lanes, or seat the card again"
            )
    if reading.usb_bps is not None and usb_bps(reading.usb_bps) < BUS_NEED * speed_bps:
        has, needs = format_pair(usb_bps(reading.usb_bps), speed_bps, "bit/s")
        yield f"is on a USB that carries {has} for {needs}; use a faster socket, without a hub"


def _carrier(found: Mapping[str, PortReading]) -> Iterator[str]:
    """Both ends are up, so a cable between them would show."""
    names = [reading.port.name for reading in found.values() if not reading.carrier and not reading.port.wifi]
    if len(found) == 2 and names and all(reading.up for reading in found.values()):
        yield f"no carrier at {' and '.join(names)}, though both ports are up: look at the cable and the modules"


def _not_known(link: LinkSpec, found: Mapping[str, PortReading]) -> Iterator[str]:
    if link.without_hardware:
        yield "without hardware: its rows are SIMULATED"
        return
    down = [f"{end} ({reading.port.name})" for end, reading in found.items() if not reading.carrier]
    if down:
        yield f"what {' and '.join(down)} will negotiate is known only when both ports are up"


def _against_profile(
    link: LinkSpec,
    found: Mapping[str, PortReading],
    profile: ModelProfile,
    of_kind: dict[tuple[str, str], set[int]],
    serial: str,
) -> Iterator[str]:
    """A link of a device holds at least one port of it, and its speed is one that the model is sold with."""
    if link.without_hardware or link.speed_bps is None:
        return
    kinds = [kind for kind in profile.ports if kind.speed_bps == link.speed_bps]
    if not kinds:
        speeds = ", ".join(dict.fromkeys(format_speed(kind.speed_bps) for kind in profile.ports))
        yield (
            f"a {profile.model} has no port of {format_speed(link.speed_bps)}, but of {speeds}; correct the speed, or "
            "the model of the device"
        )
        return
    if not found:
        return
    matched = [(kind, reading) for reading in found.values() for kind in kinds if reading.port.driver in kind.drivers]
    if not matched:
        have = ", ".join(_short(reading) for reading in found.values())
        drivers = " or ".join(driver for kind in kinds for driver in kind.drivers)
        yield (
            f"the {format_speed(link.speed_bps)} ports of a {profile.model} have the driver {drivers}, and here are "
            f"{have}; correct the ports, or the model of the device"
        )
    for kind, reading in matched:
        ports = of_kind.setdefault((serial, kind.name), set())
        fresh = reading.port.index not in ports
        ports.add(reading.port.index)
        if fresh and len(ports) == kind.count + 1:
            yield _too_many(kind, profile)
    limits = [kind.max_mtu for kind, _ in matched if kind.max_mtu is not None]
    mtu = link.mtu or DEFAULT_MTU
    if limits and mtu > min(limits):
        yield f"the port of a {profile.model} allows an MTU of {min(limits)} at most, and the link has {mtu}"


def _too_many(kind: PortKind, profile: ModelProfile) -> str:
    return (
        f"a {profile.model} has {format_value(kind.count, '1')} {kind.name} ports, and the links of this device use "
        "more; correct the ports, or the model of the device"
    )
