"""The physical ports of this machine: known problems of cards, sleep, buses, and who else looks after them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_netperf.doctor.finding import Finding, good, note, problem
from pytest_netperf.errors import LinkError

if TYPE_CHECKING:
    from pytest_netperf.links.machine import Machine
    from pytest_netperf.links.port_reading import PortReading
    from pytest_netperf.links.ports import HostPort

__all__ = ["is_early_i225", "narrow_bus", "ports", "sleep"]

_SLEEPERS: Final = frozenset({"igc", "r8169", "r8168", "r8125"})
"""Drivers of cards that are known to lose data when their bus or their link sleeps (doubts ASPM and EEE)."""
_I225: Final = frozenset({"0x15f2", "0x15f3"})
_I225_MENDED: Final = 3
_PCI_DEVICES: Final = Path("/sys/bus/pci/devices")


def ports() -> Iterator[Finding]:
    """A line for each port with hardware behind it."""
    from pytest_netperf.links.machine import Machine

    try:
        with Machine() as machine:
            real = [port for port in machine.ports if not port.virtual and port.name != "lo"]
            for port in real:
                yield from _of_port(machine, port)
    except (LinkError, OSError) as error:
        yield note("ports", "physical ports", f"they cannot be read: {error}")
        return
    if not real:
        yield good("ports", "physical ports", "none; everything runs on simulated links")
    yield good("ports", "firewall", "rules of this host do not reach into the namespaces in which traffic runs")


def _of_port(machine: Machine, port: HostPort) -> Iterator[Finding]:
    reading = machine.read(port)
    yield _itself(reading, machine.refusals(port))
    if is_early_i225(port):
        yield problem(
            "ports",
            port.name,
            "an I225 of an early stepping (V1 or V2, revision below 3), which loses frames at 2.5G",
            "its FAIL is the card's; use it at 1G, or another card, where it is the tester",
        )
    if port.driver in _SLEEPERS:
        from pytest_netperf.links.bus import bus_of
        from pytest_netperf.links.ethtool import Ethtool

        with Ethtool(port.name) as driver:
            yield from sleep(port.name, bus_of(port.name, machine.sysfs)["aspm"], driver.eee()["eee_active"])
    yield from narrow_bus(reading)


def _itself(reading: PortReading, refused: Sequence[str]) -> Finding:
    from pytest_netperf.quantities import format_speed

    port = reading.port
    words = [port.label]
    words += [f"firmware {reading.firmware}"] if reading.firmware else []
    words += [f"up to {format_speed(reading.most_bps)}"] if reading.most_bps else []
    words += [f"now {format_speed(reading.speed_bps)}"] if reading.carrier and reading.speed_bps else []
    words += [] if reading.carrier else ["no carrier"]
    if refused:
        return note("ports", port.name, "; ".join(words), f"not to be taken: {'; '.join(refused)}")
    return good("ports", port.name, "; ".join(words))


def sleep(name: str, aspm: Sequence[str] | None, eee_active: bool | None) -> Iterator[Finding]:
    """Power saving of bus and link, at a card that is known to lose data by it."""
    if aspm:
        yield note(
            "ports",
            name,
            f"its bus may sleep ({', '.join(aspm)}), which costs these cards much of one direction",
            "boot with pcie_aspm.policy=performance, or write 0 to link/l1_aspm of the card in sysfs",
        )
    if eee_active:
        yield note(
            "ports",
            name,
            "Energy-Efficient Ethernet is active, which is known to lose frames on some of these cards",
            f"ethtool --set-eee {name} eee off, or a test with netperf_link(eee=...)",
        )


def narrow_bus(reading: PortReading) -> Iterator[Finding]:
    """A slot or a USB socket that carries less than the fastest link of its port."""
    if reading.most_bps is None:
        return
    from pytest_netperf.bench_check import bus_problems

    for text in bus_problems(reading.most_bps, reading):
        seen, _, todo = text.rpartition("; ")
        yield note("ports", reading.port.name, seen, f"for links of that speed: {todo}")


def is_early_i225(port: HostPort) -> bool:
    """Whether it is an I225 of the steppings B1 or B2, whose gap between frames is too short at 2.5 Gbit/s."""
    if port.driver != "igc" or port.pci is None:
        return False
    folder = _PCI_DEVICES / port.pci
    try:
        is_i225 = (folder / "device").read_text().strip() in _I225
        return is_i225 and int((folder / "revision").read_text(), 16) < _I225_MENDED
    except (OSError, ValueError):
        return False
