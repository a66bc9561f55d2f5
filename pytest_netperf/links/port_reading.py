"""What a port is and could do, as far as that can be read without touching it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.bus import bus_of
from pytest_netperf.links.ethtool import Ethtool
from pytest_netperf.links.ports import HostPort

__all__ = ["PortReading", "link_modes", "most_speed_bps", "read_port"]

# linux/ethtool.h: speed in Mbit/s -> the numbers of its link modes
_MODES: Final[dict[int, tuple[int, ...]]] = {
    10: (0, 1, 92, 99, 100, 101),
    100: (2, 3, 67, 90, 91),
    1_000: (4, 5, 17, 41, 68),
    2_500: (15, 47),
    5_000: (48,),
    10_000: (12, 18, 19, *range(42, 47)),
    20_000: (21, 22),
    25_000: (31, 32, 33),
    40_000: (23, 24, 25, 26),
    50_000: (34, 35, 40, *range(52, 57)),
    56_000: (27, 28, 29, 30),
    100_000: (*range(36, 40), *range(57, 62), *range(75, 80)),
    200_000: (*range(62, 67), *range(80, 85)),
    400_000: (*range(69, 74), *range(85, 90)),
    800_000: tuple(range(93, 99)),
}
_NEWEST: Final = 101
_HALF: Final = frozenset({0, 2, 4, 100, 101})
_NO_DEVICE: Final = frozenset({"veth"})  # its speed is a constant of the kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class PortReading:
    """One port of this machine. None is not known."""

    port: HostPort
    firmware: str | None
    up: bool
    carrier: bool
    speed_bps: float | None
    """What it negotiated."""
    most_bps: float | None
    """The fastest link mode that it supports."""
    least_mtu: int | None
    most_mtu: int | None
    """What its driver allows, in bytes."""
    pcie: list[dict[str, Any]]
    """Fields of `observe.observation.PcieHop`."""
    usb_bps: float | None


def read_port(port: HostPort, ipr: Any, sysfs: int) -> PortReading:
    """Read a port of the calling thread's namespace; ``ipr`` and ``sysfs`` are of the same one. Raises LinkError."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        (link,) = ipr.link("get", index=port.index)
    except NetlinkError as error:
        raise LinkError(f"port {port.label} is gone ({os.strerror(error.code)})") from None
    with Ethtool(port.name) as driver:
        firmware, negotiated = driver.driver()["firmware"], driver.link()["speed_bps"]
        most = most_speed_bps(driver.supported_link_modes())
    bus = bus_of(port.name, sysfs)
    up = link["state"] == "up"
    return PortReading(
        port=port,
        firmware=None if firmware in (None, "N/A") else firmware,
        up=up,
        carrier=up and bool(link.get_attr("IFLA_CARRIER")),
        speed_bps=None if port.kind in _NO_DEVICE else negotiated,
        most_bps=most,
        least_mtu=link.get_attr("IFLA_MIN_MTU") or None,
        most_mtu=link.get_attr("IFLA_MAX_MTU") or None,
        pcie=bus["pcie"] or [],
        usb_bps=bus["usb_bps"],
    )


def most_speed_bps(modes: int) -> float | None:
    """The fastest speed among these link modes (a bit for each); None without one, or with a newer one."""
    if modes >> (_NEWEST + 1):
        return None
    speeds = [mbps for mbps, numbers in _MODES.items() if any(modes >> number & 1 for number in numbers)]
    return max(speeds) * 1e6 if speeds else None


def link_modes(mbps: int | None, duplex: str | None) -> int:
    """The link modes of a speed in Mbit/s and a duplex ("full", "half"), a bit for each; None is any."""
    return sum(
        1 << number
        for speed, numbers in _MODES.items()
        for number in numbers
        if mbps in (None, speed) and duplex in (None, "half" if number in _HALF else "full")
    )
