"""What exists on a bench: the station, the devices on it, their ports and the links between these. Pure data.

Every value is frozen, hashable and picklable: test parameters are made of them, and with pytest-xdist each worker must
make the same ones. Rates are in bit/s, sizes in bytes, losses are fractions 0..1. Plain dataclasses, because this
module is loaded at the collection of every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from pytest_netperf.quantities import format_speed, format_value

__all__ = [
    "DEFAULT_MTU",
    "FAULT_DIRECTIONS",
    "MTU_RANGE",
    "TOPOLOGIES",
    "Bench",
    "Device",
    "Fault",
    "FaultDirection",
    "LinkSpec",
    "Port",
    "Station",
    "Topology",
]

Topology = Literal["pair", "routed", "switched", "remote"]
FaultDirection = Literal["both", "a-to-b", "b-to-a"]

TOPOLOGIES: Final[tuple[Topology, ...]] = get_args(Topology)
FAULT_DIRECTIONS: Final[tuple[FaultDirection, ...]] = get_args(FaultDirection)

DEFAULT_MTU: Final = 1500
MTU_RANGE: Final = (68, 65535)
"""What a port may be asked for, in bytes of IP packet: RFC 791's smallest to Linux' largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One end of a link, named by something that survives a reboot."""

    port: str
    """``pci-0000:04:00.0``, ``pci-0000:04:00.0/1`` (second port of the card), ``mac-…`` or ``altname-…``."""
    address: str | None = None
    """With its prefix length: ``198.18.1.2/24``."""
    gateway: str | None = None
    namespace: str | None = None
    """The network namespace in which the port waits; None is the one in which pytest runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a simulated link on purpose, so that the product can prove that it rejects."""

    rate_bps: float | None = None
    """The rate at which bits leave, instead of the speed of the link."""
    loss_ratio: float | None = None
    """The share of frames that get lost, 0 < ratio < 1."""
    direction: FaultDirection = "both"

    @property
    def label(self) -> str:
        """Short, without spaces, for test ids: ``fault-rate1.9G-a-to-b``."""
        parts = ["fault"]
        if self.rate_bps is not None:
            parts.append(f"rate{format_speed(self.rate_bps)}".replace(" ", ""))
        if self.loss_ratio is not None:
            parts.append(f"loss{format_value(self.loss_ratio, 'ratio', digits=10)}".replace(" ", ""))
        if self.direction != "both":
            parts.append(self.direction)
        return "-".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """One link of a device: which ports, how joined, and what it is supposed to carry."""

    name: str
    topology: Topology = "pair"
    speed_bps: float | None
    """The speed that the link is sold or simulated for; None only when it is unshaped."""
    mtu: int | None = None
    """None: nobody said, `DEFAULT_MTU` is used."""
    media: str | None = None
    simulated: bool = False
    shaped: bool = True
    """False: a simulated link that runs as fast as this machine can copy memory, whatever its speed says."""
    fault: Fault | None = None
    a: Port | None = None
    b: Port | None = None

    @property
    def line_rate_bps(self) -> float | None:
        """The rate from which a ceiling may be computed: the speed, or None when nothing limits an unshaped link."""
        return self.speed_bps if self.shaped else None

    def unsupported_reason(self) -> str | None:
        """Why this version cannot bring the link up, or None when it can."""
        if not self.simulated:
            return (
                f"link {self.name!r} has physical ports, and this version can bring up simulated links only; "
                "write simulated = true in the bench file to run the same tests on a simulated link"
            )
        if self.topology != "pair":
            return (
                f"link {self.name!r} has the topology {self.topology!r}, and this version can simulate only 'pair' "
                "(two ports joined by one cable)"
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """The place where devices are tested: this machine with its ports, cables and tools."""

    name: str
    location: str | None = None
    reference: tuple[LinkSpec, ...] = ()
    """Links of the tester itself that are a cable only: what it can do over them is its reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The thing under test. Its serial number names its acceptance sheet."""

    serial: str
    model: str | None = None
    batch: str | None = None
    links: tuple[LinkSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Everything that a bench file says, or the built-in bench when there is no file."""

    station: Station
    devices: tuple[Device, ...]
    path: str | None = None
    """The file as it was named; None for the built-in bench."""
    sha256: str | None = None
    """Of the file's bytes, for the sheet."""
    elastic: bool = False
    """True for the built-in bench: its device has a simulated link of whatever speed a test asks for."""
