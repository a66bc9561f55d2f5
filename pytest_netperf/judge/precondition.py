"""What must be true of a physical link before any traffic: that it is what the bench file says it is sold for. Pure.

A link that trained below its speed, shares its line both ways, or sits behind a bus that cannot carry it, is not that
link, whatever a low limit would accept. The device may be at either end of it, so this is its FAIL. What is not known
(a driver that gives no speed) is no reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_netperf.judge.doubt_bus import usb_bps
from pytest_netperf.judge.port_evidence import NO_LINE, hop_bps, hop_text
from pytest_netperf.observe.observation import PcieHop, PortFacts
from pytest_netperf.quantities import format_pair, format_speed

__all__ = ["unmet_preconditions"]


def unmet_preconditions(
    ports: Mapping[str, PortFacts], speed_bps: float | None, *, duplex: str = "full"
) -> tuple[str, ...]:
    """What ports "a" and "b" are not, of a link of this speed in bit/s; a sentence for each."""
    return tuple(
        f"port {end} {problem}"
        for end, port in ports.items()
        if port.driver not in NO_LINE and speed_bps is not None
        for problem in _problems(port, speed_bps, duplex)
    )


def _problems(port: PortFacts, speed_bps: float, duplex: str) -> Iterator[str]:
    if port.speed_bps is not None and port.speed_bps < speed_bps:
        negotiated = f"{format_speed(port.speed_bps)}{f' {port.duplex} duplex' if port.duplex else ''}"
        yield f"negotiated {negotiated}, and the link is one of {format_speed(speed_bps)}"
    elif port.duplex is not None and port.duplex != duplex:
        yield f"negotiated {port.duplex} duplex, and the link is one of {duplex} duplex"
    for hop in port.pcie or ():
        carries, could = hop_bps(hop.speed_gtps, hop.width), _at_best(hop)
        if carries is not None and carries < speed_bps:
            has, needs = format_pair(carries, speed_bps, "bit/s")
            why = "both its ends can do more" if could is not None and could >= speed_bps else "its ends can do no more"
            yield f"is behind a PCI Express link that carries {has} for {needs}; {why} ({hop_text(hop)})"
    if port.usb_bps is not None and usb_bps(port.usb_bps) < speed_bps:
        has, needs = format_pair(usb_bps(port.usb_bps), speed_bps, "bit/s")
        yield f"is on a USB that carries {has} for {needs}"


def _at_best(hop: PcieHop) -> float | None:
    """What both ends of a hop could carry together."""
    speeds = [speed for speed in (hop.upper_max_speed_gtps, hop.lower_max_speed_gtps) if speed is not None]
    widths = [width for width in (hop.upper_max_width, hop.lower_max_width) if width is not None]
    return hop_bps(min(speeds, default=None), min(widths, default=None))
