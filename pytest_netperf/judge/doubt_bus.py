"""Doubts about the bus of a port: PCI Express or USB that cannot carry what the port can, or sleeps too deeply. Pure.

A bus is part of a machine, and so is the card in it: in a pair both may be the device under test (a mini-PC with a
2.5G port on one slow lane is sold like that), or the card may be it and the slot the tester's. Nothing in a run tells
which. These doubts are therefore of the kind "device": they say why a row failed, and excuse nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.port_evidence import ReadPort, hop_bps, hop_text, ports_read
from pytest_netperf.judge.scene import Scene
from pytest_netperf.observe.observation import PcieHop
from pytest_netperf.quantities import format_pair, format_value

__all__ = ["BUS_NEED", "DOUBTS", "RULES", "usb_bps"]

PCIE_BELOW: Final = KnownDoubt(
    name="PCIe below what both ends can",
    kind="device",
    sign="A PCI Express link on the way to a port ran slower, or with fewer lanes, than both its ends can.",
    meaning="It trained down: a bad contact, a slot that is wired narrower, a riser, or a setting of the firmware.",
    next_step="Seat the card again, try another slot, and look at the PCIe settings of the firmware.",
)
PCIE_NEED: Final = KnownDoubt(
    name="PCIe below need",
    kind="device",
    sign="A PCI Express link on the way to a port carries less than 1.2 times its line rate, after the line encoding. "
    "Ports behind one link need it together when both send.",
    meaning="The bus cannot carry what the port can, whatever the port does.",
    next_step="Use a slot with more or faster lanes; if both ends can do more, find out why they do not.",
)
USB_NEED: Final = KnownDoubt(
    name="USB below need",
    kind="device",
    sign="The USB that a port is on carries less than 1.2 times its line rate, after the line encoding. At 480 Mbit/s "
    "and below both directions share it.",
    meaning="The bus cannot carry what the port can, whatever the port does.",
    next_step="Use a faster USB socket and a cable that is made for it, without a hub.",
)
ASPM: Final = KnownDoubt(
    name="ASPM on a card known for it",
    kind="device",
    sign="PCIe power saving (ASPM) is enabled at a port of the driver igc (I225, I226) or r8169, r8168, r8125 "
    "(Realtek), and a rate stayed below what the link delivers.",
    meaning="These cards are known to lose much of one direction when their bus sleeps (Dasharo/coreboot#814).",
    next_step="Boot with pcie_aspm.policy=performance, or write 0 to link/l1_aspm of the card in sysfs, and run it "
    "again: if the rate comes back, it was that.",
)
DOUBTS: Final = (PCIE_BELOW, PCIE_NEED, USB_NEED, ASPM)

BUS_NEED: Final = 1.2
"""How much more than the line rate of its port a bus must carry."""
_KNOWN_FOR_IT: Final = frozenset({"igc", "r8169", "r8168", "r8125"})
_USB_SHARED_BPS: Final = 480e6
_USB_ENCODING: Final = ((_USB_SHARED_BPS, 1.0), (5e9, 8 / 10), (float("inf"), 128 / 132))


def pcie(scene: Scene) -> Iterator[Doubt]:
    """Every hop between the root and a port: what it could do, and what the port needs."""
    ports = list(ports_read(scene.observation))
    for port in ports:
        for hop in dict.fromkeys((*(port.before.pcie or ()), *(port.after.pcie or ()))):  # it may train again
            now, most = hop_bps(hop.speed_gtps, hop.width), _most_bps(hop)
            if now is None:
                continue
            if most is not None and now < most:
                yield PCIE_BELOW.seen(f"Port {port.name}, {hop_text(hop)}.")
            need, who = _need_bps(scene, ports, port, hop)
            if need is not None and now < BUS_NEED * need:
                has, needs = format_pair(now, need, "bit/s")
                yield PCIE_NEED.seen(f"Port {port.name}, {hop_text(hop)}, carries {has} for {needs}{who}.")


def _most_bps(hop: PcieHop) -> float | None:
    """What both ends of a hop can do; an end that does not say counts for nothing."""
    speeds = [speed for speed in (hop.upper_max_speed_gtps, hop.lower_max_speed_gtps) if speed is not None]
    widths = [width for width in (hop.upper_max_width, hop.lower_max_width) if width is not None]
    return hop_bps(min(speeds, default=None), min(widths, default=None))


def _need_bps(scene: Scene, ports: list[ReadPort], port: ReadPort, hop: PcieHop) -> tuple[float | None, str]:
    """What one direction of a hop must carry."""
    line = _line_bps(scene, port)
    both = all(any(other.upper == hop.upper for other in each.before.pcie or ()) for each in ports)
    if line is not None and both and len(ports) == 2 and scene.result.workload.direction == "bidirectional":
        return 2 * line, ", of both ports"
    return line, ""


def _line_bps(scene: Scene, port: ReadPort) -> float | None:
    """The line rate of a port: what it is rated for, or else what it runs at."""
    return port.before.speed_bps if scene.simulated or scene.speed_bps is None else scene.speed_bps


def usb(scene: Scene) -> Iterator[Doubt]:
    """A USB that is slower than its port."""
    for port in ports_read(scene.observation):
        signalling, line = port.before.usb_bps, _line_bps(scene, port)
        if signalling is None or line is None:
            continue
        shared = signalling <= _USB_SHARED_BPS and scene.result.workload.direction == "bidirectional"
        carries = usb_bps(signalling)
        need = 2 * line if shared else line
        if carries < BUS_NEED * need:
            has, needs = format_pair(carries, need, "bit/s")
            yield USB_NEED.seen(
                f"Port {port.name} is on a USB of {format_value(signalling, 'bit/s')}, which carries {has} for {needs}"
                f"{', of both directions' if shared else ''}."
            )


def usb_bps(signalling: float) -> float:
    """What is left of the signalling rate of a USB after its line encoding, in bit/s."""
    return signalling * next(share for up_to, share in _USB_ENCODING if signalling <= up_to)


def aspm(scene: Scene) -> Iterator[Doubt]:
    """Power saving of the bus at a card that suffers from it: where both directions are fast, it does not."""
    if scene.rate_explained:
        return
    for port in ports_read(scene.observation):
        if port.before.driver in _KNOWN_FOR_IT and port.before.aspm:
            policy = f", policy {port.before.aspm_policy}" if port.before.aspm_policy else ""
            yield ASPM.seen(f"Port {port.name} ({port.before.driver}) has {', '.join(port.before.aspm)}{policy}.")


RULES: Final = (pcie, usb, aspm)
