"""What exists on a bench: the station, the devices on it, their ports and the links between these. Pure data.

Every value is frozen, hashable and picklable: test parameters are made of them, and with pytest-xdist each worker must
make the same ones. Rates are in bit/s, sizes in bytes, losses are fractions 0..1. Plain dataclasses, because this
module is loaded at the collection of every run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from pytest_netperf.bench.device_state import DeviceState
from pytest_netperf.bench.ssh_target import SshTarget
from pytest_netperf.quantities import format_speed, format_value

__all__ = [
    "DEFAULT_MTU",
    "FAULT_DIRECTIONS",
    "FAULT_SHARES",
    "LOSS_MEANS",
    "MOST_DIVERTED",
    "MTU_RANGE",
    "PHYSICAL_TOPOLOGIES",
    "SIMULATED_TOPOLOGIES",
    "TOPOLOGIES",
    "Bench",
    "Device",
    "Fault",
    "FaultDirection",
    "LinkSpec",
    "LossMeans",
    "Port",
    "Station",
    "Topology",
]

Topology = Literal["pair", "routed", "switched", "remote"]
FaultDirection = Literal["both", "a-to-b", "b-to-a"]
LossMeans = Literal["netem", "classifier"]

TOPOLOGIES: Final[tuple[Topology, ...]] = get_args(Topology)
SIMULATED_TOPOLOGIES: Final[tuple[Topology, ...]] = ("pair", "routed", "switched")
PHYSICAL_TOPOLOGIES: Final[tuple[Topology, ...]] = ("pair", "routed", "switched", "remote")
FAULT_DIRECTIONS: Final[tuple[FaultDirection, ...]] = get_args(FaultDirection)
LOSS_MEANS: Final[tuple[LossMeans, ...]] = get_args(LossMeans)

DEFAULT_MTU: Final = 1500
MTU_RANGE: Final = (68, 65535)
"""What a port may be asked for, in bytes of IP packet: RFC 791's smallest to Linux' largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One end of a link."""

    port: str
    """``pci-0000:04:00.0``, ``pci-0000:04:00.0/1`` (second port of the card), ``mac-…`` or ``altname-…``; or the name
    that the kernel gave it, which a reboot may give to another. Empty: a port of a simulated link."""
    address: str | None = None
    """With its prefix length: ``198.18.1.2/24``; None: one of the run's own."""
    gateway: str | None = None
    """Of the device in the middle, in the network of this end."""
    address6: str | None = None
    """The same of IPv6, where ``address`` is one of IPv4."""
    gateway6: str | None = None
    speed_bps: float | None = None
    """Of a port of a link with a device in the middle; None: that of the link."""
    device_mtu: int | None = None
    """MTU of the port of the simulated device at this end; None: that of the link."""
    vlan: int | None = None
    """VLAN that the port of a simulated switch at this end is in, untagged; None: the switch knows no VLANs."""
    namespace: str | None = None
    """The network namespace in which the port waits; None is the one in which pytest runs, or a login on its host."""
    allow_addressed: bool = False
    """Whether it may be taken although it has addresses, which come back after the run."""
    allow_virtual: bool = False
    """Whether an end of a veth pair may stand in for a port; then the link proves the bench, not a device."""
    ssh: SshTarget | None = None
    """The host that has the port, at end b of a remote link; None: this machine."""
    iperf3: str = "iperf3"
    """Name or path of iperf3 on that host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a simulated link on purpose, so that the product can prove that it rejects.

    Without ``after_s`` and ``for_s`` it is there as long as the link; with one of them, a while in each measurement.
    """

    rate_bps: float | None = None
    """The rate at which bits leave, instead of the speed of the link."""
    loss_ratio: float | None = None
    """The share of frames that get lost."""
    burst_frames: int | None = None
    """How many frames in a row each loss takes; None: each frame has its own draw."""
    loss_by: LossMeans | None = None
    """What draws for each frame; None: netem, and where the kernel has none a classifier."""
    duplicate_ratio: float | None = None
    """The share of frames that arrive twice."""
    reorder_ratio: float | None = None
    """The share of frames that arrive after later ones."""
    mtu_hole_bytes: int | None = None
    """Larger IP packets vanish without a word."""
    stall: bool = False
    """Nothing passes; the carrier stays."""
    flap: bool = False
    """The carrier goes down and comes back."""
    after_s: float | None = None
    """Seconds from the beginning of the traffic until the fault; None is at once."""
    for_s: float | None = None
    """How many seconds it lasts; None is until the end of the traffic."""
    direction: FaultDirection = "both"

    @property
    def scheduled(self) -> bool:
        """Whether it comes and goes with each measurement, instead of with the link."""
        return self.after_s is not None or self.for_s is not None

    @property
    def takes_single_frames(self) -> bool:
        """Whether it decides on each frame by itself, so that none may be joined with others."""
        return bool(self.loss_ratio or self.duplicate_ratio or self.reorder_ratio or self.mtu_hole_bytes)

    @property
    def only_rate_bps(self) -> float | None:
        """The rate, when nothing else is wrong and it is always there: then it says what the link still delivers."""
        return self.rate_bps if replace(self, rate_bps=None, direction="both") == Fault() else None

    @property
    def label(self) -> str:
        """Short, without spaces, for test ids: ``fault-rate1.9G-a-to-b``."""
        parts = ["fault"]
        if self.rate_bps is not None:
            parts.append(f"rate{format_speed(self.rate_bps)}")
        for what, share in (
            ("loss", self.loss_ratio),
            ("duplicate", self.duplicate_ratio),
            ("reorder", self.reorder_ratio),
        ):
            if share is not None:
                parts.append(f"{what}{format_value(share, 'ratio', digits=10)}")
        if self.loss_by is not None:
            parts.append(f"by-{self.loss_by}")
        for what, count in (("burst", self.burst_frames), ("hole", self.mtu_hole_bytes)):
            if count is not None:
                parts.append(f"{what}{count}")
        parts += [what for what, there in (("stall", self.stall), ("flap", self.flap)) if there]
        for what, seconds in (("after", self.after_s), ("for", self.for_s)):
            if seconds is not None:
                parts.append(f"{what}{seconds:g}s")
        if self.direction != "both":
            parts.append(self.direction)
        return "-".join(parts).replace(" ", "")

    def problem(self, speed_bps: float | None, mtu: int) -> tuple[str, str] | None:
        """The key and the reason why this fault cannot be on a link of this speed and MTU, or None when it can."""
        if self.rate_bps is not None and speed_bps is not None and self.rate_bps >= speed_bps:
            return "rate", (
                f"{format_speed(self.rate_bps)} is not below the speed of the link ({format_speed(speed_bps)}), so "
                "nothing would be faulty"
            )
        if self.mtu_hole_bytes is not None and self.mtu_hole_bytes >= mtu:
            return "mtu_hole", (
                f"{self.mtu_hole_bytes} bytes are not below the MTU of the link ({mtu}), so nothing would vanish"
            )
        for key, share in (("duplicate", self.duplicate_ratio), ("reorder", self.reorder_ratio)):
            if share is None:
                continue
            if speed_bps is None:
                return key, "needs a link with a speed: nobody can say how many frames an unshaped one would hold up"
            frames = share * speed_bps / 8 / (mtu + 38)
            if frames > MOST_DIVERTED:
                most = format_value(MOST_DIVERTED / frames * share, "ratio", 2)
                return key, (
                    f"{format_value(share, 'ratio', 6)} of the frames of a {format_speed(speed_bps)} link at MTU {mtu} "
                    f"are {frames:.0f} each second, and this works up to {MOST_DIVERTED}: at most {most} here"
                )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """One link of a device: which ports, how joined, and what it is supposed to carry."""

    name: str
    topology: Topology = "pair"
    speed_bps: float | None
    """The speed that the link is sold or simulated for, of its slower port; None only when it is unshaped."""
    mtu: int | None = None
    """None: nobody said, `DEFAULT_MTU` is used."""
    media: str | None = None
    cable: str | None = None
    """Which cable or transceiver joins the ports."""
    simulated: bool = False
    shaped: bool = True
    """False: a simulated link that runs as fast as this machine can copy memory, whatever its speed says."""
    fault: Fault | None = None
    device_mtu: int | None = None
    """MTU of the simulated device in the middle; None: that of both ends."""
    a: Port | None = None
    b: Port | None = None

    @property
    def line_rate_bps(self) -> float | None:
        """The rate from which a ceiling may be computed: the speed, or None when nothing limits an unshaped link."""
        return self.speed_bps if self.shaped else None

    def port_speed_bps(self, end: str) -> float | None:
        """The speed of the port at end "a" or "b"."""
        port = self.a if end == "a" else self.b
        return self.speed_bps if port is None or port.speed_bps is None else port.speed_bps

    @property
    def simulated_device(self) -> dict[str, Any]:
        """What a simulated device in the middle has beside its state, as plain data for the keeper."""
        ends = {"a": self.a, "b": self.b}
        mtus = {end: (port and port.device_mtu) or self.device_mtu for end, port in ends.items()}
        speeds = {end: self.port_speed_bps(end) for end in ends} if self.shaped else {}
        vlans = {end: port and port.vlan for end, port in ends.items()}
        return {"device_mtus": mtus, "port_speeds_bps": speeds, "vlans": vlans}

    @property
    def physical_ports(self) -> dict[str, Port]:
        """End -> the port of this machine that it occupies while it is up; none for a simulated link."""
        ends = {} if self.simulated else {"a": self.a, "b": self.b}
        return {end: port for end, port in ends.items() if port is not None and port.ssh is None}

    @property
    def occupies(self) -> frozenset[str]:
        """Names of the ports that nobody else can use while it is up: those of this machine, and a far one."""
        far = self.b
        there = {f"{far.ssh.host}/{far.port}"} if far is not None and far.ssh is not None else set()
        return frozenset({port.port.lower() for port in self.physical_ports.values()} | there)

    @property
    def without_hardware(self) -> bool:
        """Whether no device and no cable are behind it: what is measured on it is SIMULATED."""
        return self.simulated or any(port is not None and port.allow_virtual for port in (self.a, self.b))

    def unsupported_reason(self) -> str | None:
        """Why this version cannot bring the link up, or None when it can."""
        known = SIMULATED_TOPOLOGIES if self.simulated else PHYSICAL_TOPOLOGIES
        if self.topology not in known:
            what = "simulate" if self.simulated else "bring up"
            return (
                f"link {self.name!r} has the topology {self.topology!r}, and this version can {what} only "
                f"{', '.join(map(repr, known))}"
            )
        if self.simulated:
            return None
        for end, port in (("a", self.a), ("b", self.b)):
            if port is None:
                return f"link {self.name!r} has no port at its end {end}"
            if port.namespace is not None and port.ssh is None:
                return (
                    f"link {self.name!r} gives a namespace for its end {end}, and this version takes ports from the "
                    "network namespace in which pytest runs only; remove it"
                )
        return None


FAULT_SHARES: Final = (1e-6, 0.5)
"""The smallest and the largest share of frames that a fault can concern."""
MOST_DIVERTED: Final = 5000
"""How many frames a second a fault can hold up or copy: each goes through a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """The place where devices are tested: this machine with its ports, cables and tools."""

    name: str
    location: str | None = None
    reference: tuple[LinkSpec, ...] = ()
    """Links of the tester itself that are a cable only: what it can do over them is its reference."""
    baselines: tuple[str, ...] = ()
    """Files and folders of baselines, as absolute paths."""
    profiles: str | None = None
    """Folder with profiles of models, as an absolute path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The thing under test. Its serial number names its acceptance sheet."""

    serial: str
    model: str | None = None
    batch: str | None = None
    part_number: str | None = None
    hardware_revision: str | None = None
    macs: tuple[str, ...] = ()
    """Of its ports, in small letters."""
    firmware: str | None = None
    bios: str | None = None
    nic_stepping: str | None = None
    links: tuple[LinkSpec, ...] = ()
    states: tuple[DeviceState, ...] = ()
    """Those that the bench file describes; `bench.plan.states_of` has all."""
    ssh: SshTarget | None = None
    """How the device itself is told to change its state."""
    system: str | None = None
    """Its operating system, one of those with ready commands (`bench.device_os`)."""
    sides: tuple[str, str] | None = None
    """What it calls its own interfaces at ends a and b of its links."""


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
