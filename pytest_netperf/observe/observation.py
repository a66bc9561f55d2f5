"""What was seen around one traffic run. Pure data; taken by `links` and `observe`, judged by `judge`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = [
    "BusyProcess",
    "FarLoad",
    "Host",
    "Latency",
    "Moment",
    "Observation",
    "PcieHop",
    "PortCounters",
    "PortFacts",
    "PortQueue",
    "ProbeReading",
    "TcpConnection",
    "TcpTimes",
]


class PortCounters(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel's counters of one port at one moment (rtnl_link_stats64 and carrier_changes)."""

    rx_bytes: int
    tx_bytes: int
    rx_packets: int
    tx_packets: int
    rx_errors: int = 0
    tx_errors: int = 0
    rx_dropped: int = 0
    tx_dropped: int = 0
    carrier_changes: int = 0
    udp_buffer_errors: int = 0
    """Datagrams that reached this end and were thrown away because the program did not read fast enough: the tester's
    fault (UdpRcvbufErrors of the namespace)."""


class PortQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queueing discipline behind which frames leave a port."""

    kind: str
    root: bool
    """Whether it is the one next to the port's own name, not one inside another."""
    limits: bool
    """Whether it can hold back or lose what the port could send."""
    rate_bps: float | None
    """At which rate it does; None where it does not limit, does not say, or has several."""
    ours: bool
    """The shaper of a simulated link."""


class PcieHop(msgspec.Struct, frozen=True, kw_only=True):
    """One PCI Express link between the root and a port: two PCI functions that are joined. None is not known."""

    upper: str
    """PCI address of the function nearer to the CPU."""
    lower: str
    speed_gtps: float
    """What the lanes run at now, in GT/s."""
    width: int | None
    """How many lanes are in use."""
    upper_max_speed_gtps: float | None
    upper_max_width: int | None
    lower_max_speed_gtps: float | None
    lower_max_width: int | None


class PortFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of one port at one moment, beside its counters. None is not known, or not there."""

    driver: str | None = None
    version: str | None = None
    firmware: str | None = None
    bus_address: str | None = None
    """PCI address, or place on the USB."""
    speed_bps: float | None = None
    """What the link runs at; None without a carrier. A veth always says 10 Gbit/s."""
    duplex: Literal["full", "half"] | None = None
    autoneg: bool | None = None
    offloads: dict[str, Literal["on", "off", "cannot"]] = {}
    """Of tso, gso, gro, lro, tx-checksum, rx-checksum, scatter-gather. "off": it could be switched on; "cannot": asking
    for it changes nothing."""
    pause_autoneg: bool | None = None
    pause_rx: bool | None = None
    """Whether the port obeys pause frames; this, ``pause_autoneg`` and ``pause_tx`` are settings."""
    pause_tx: bool | None = None
    eee_supported: bool | None = None
    eee_enabled: bool | None = None
    eee_active: bool | None = None
    """Whether both ends of the link agreed on Energy Efficient Ethernet."""
    counters: dict[str, float] = {}
    """What the driver counted so far, under our names: rx_pause and tx_pause (frames), rx_pause_s and tx_pause_s,
    rx_crc_errors, rx_missed (frames that the machine did not fetch in time); without those that it does not count."""
    queues: tuple[PortQueue, ...] | None = None
    """The root first."""
    pcie: tuple[PcieHop, ...] | None = None
    """From the root to the port; empty for a port that is not on PCI Express."""
    aspm: tuple[str, ...] | None = None
    """States of PCIe power saving that are enabled: l0s_aspm, l1_aspm, l1_1_aspm, l1_2_aspm, l1_1_pcipm, l1_2_pcipm."""
    aspm_policy: str | None = None
    """The kernel's policy for them: default, performance, powersave, powersupersave."""
    usb_bps: float | None = None
    """Signalling rate of the USB that the port is on; None for one that is not."""


class BusyProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process of this machine that is not part of the run, or several of one name, and the CPU time it took."""

    name: str
    cpu_s: float


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to this machine around the traffic, from just before to just after. None is not known."""

    seconds: float
    """Length of the observation on the clock that no one can set."""
    clock_step_s: float = 0.0
    """How far the clock of the day was set forward (or back, below zero) meanwhile."""
    suspended_s: float = 0.0
    """How long the machine slept meanwhile."""
    softnet_dropped: int | None = None
    """Packets that this machine dropped because the queue of a CPU was full (net.core.netdev_max_backlog)."""
    softnet_squeezed: int | None = None
    """How often a CPU stopped receiving with packets left, because its budget or time was used up."""
    throttle_events: int | None = None
    """How often a CPU of this machine was slowed because of heat."""
    temperature_c: float | None = None
    """The hottest sensor of this machine at the end, in degrees Celsius."""
    governors: tuple[str, ...] = ()
    """The frequency governors of its CPUs."""
    others: tuple[BusyProcess, ...] = ()
    """The busiest other processes, busiest first."""


class FarLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to the host at the far end meanwhile, where that is another one."""

    cpu_busy: tuple[float, ...] = ()
    """Busy fraction 0..1 of each of its CPUs."""
    softnet_dropped: int | None = None
    """Packets that it dropped because the queue of a CPU was full; None is not known."""


class TcpConnection(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel of the end that was asked says of one TCP connection, since it was opened (struct tcp_info)."""

    local_port: int
    remote_port: int
    busy_s: float
    """How long there was anything to send, or to be acknowledged."""
    rwnd_limited_s: float
    """Of this, how long the sender waited only because the receiver's window was full."""
    sndbuf_limited_s: float
    """Of this, how long it waited only because its send buffer held too little: both windows allowed more."""
    rtt_s: float
    """Smoothed round-trip time now."""
    min_rtt_s: float | None
    """Smallest round-trip time of late; None when there is none yet."""
    retransmits: int
    acked_bytes: int
    delivery_bps: float
    """Rate at which the latest data arrived."""
    mss_bytes: int
    """Payload of the largest segment that is sent now."""


class TcpTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What made the sending TCP of one direction wait: all its data connections together, from their opening to the
    last look while traffic ran. Times are sums over the connections."""

    direction: Literal["forward", "reverse"]
    connections: int
    busy_s: float
    """How long there was anything to send, or to be acknowledged."""
    rwnd_limited_s: float
    """Of this, how long the receiver's window was full."""
    sndbuf_limited_s: float
    """Of this, how long the send buffer held too little."""
    rtt_s: float
    """Smoothed round-trip time at the last look, the mean of the connections."""
    min_rtt_s: float | None
    """Smallest round-trip time of any connection; None when there is none yet."""
    mss_bytes: int
    """The smallest segment payload of any connection at the last look."""

    @property
    def rwnd_limited(self) -> float:
        """Share 0..1 of the busy time in which the receiver's window was full."""
        return self.rwnd_limited_s / self.busy_s if self.busy_s > 0 else 0.0

    @property
    def sndbuf_limited(self) -> float:
        """Share 0..1 of the busy time in which the send buffer held too little."""
        return self.sndbuf_limited_s / self.busy_s if self.busy_s > 0 else 0.0


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Round-trip times beside the traffic, in s. None: too few to tell, or lost."""

    baseline_p50_s: float | None
    """Median on the idle link, just before."""
    p50_s: float | None
    p99_s: float | None
    mean_s: float | None
    """Of those that were answered."""
    buffer_delay: float | None
    """How much longer the mean is than the baseline, as a share of it (RFC 6349)."""
    asked: int
    """Questions under load, one every 10 ms."""
    lost: int
    """Of these, without an answer."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One second of the course of a long run."""

    at_s: float
    """After the traffic began, omitted seconds included."""
    cpu_busy: float
    """Of the busiest CPU of the tester, since the moment before."""
    errors: int
    """Receive and transmit errors of both ports since the traffic began."""
    carrier_changes: int
    temperature_c: float | None
    """The hottest sensor of this machine, at most 10 s old; None where it has none."""


class ProbeReading(msgspec.Struct, frozen=True, kw_only=True):
    """What one probe (`observe.probe`) said of one run."""

    quantity: str
    name: str
    value: float | None
    """In the unit of the quantity: the worst of the samples, or what the probe made of two readings."""
    samples: tuple[tuple[float, float], ...] = ()
    """(seconds after the traffic began, value in the unit of the quantity); what was read before it is at 0 s."""
    missed: int = 0
    """Readings that failed while traffic ran."""
    error: str | None = None
    """Why there is no value."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of both ports before and after the traffic, and the load of this machine during it."""

    a_before: PortCounters
    a_after: PortCounters
    b_before: PortCounters
    b_after: PortCounters
    device_before: dict[str, PortCounters] = {}
    """Of the ports of a simulated device in the middle ("device_a", "device_b"); empty where there is none."""
    device_after: dict[str, PortCounters] = {}
    device_state_lost: str | None = None
    """Why a real device was not in its state any more when the run was over, in its own words; None: it was, as far as
    anybody can ask it."""
    device_programs: dict[str, Any] = {}
    """What the programs of a simulated device saw (`links.device_programs`), as facts; empty where none runs."""
    cpu_busy: tuple[float, ...] = ()
    """Busy fraction 0..1 of each CPU of the tester over the run (user, system, irq, softirq, steal)."""
    cpu_steal: float = 0.0
    """The largest steal fraction of any CPU: time a hypervisor took away."""
    cpu_softirq: tuple[float, ...] = ()
    """Fraction 0..1 of each CPU that went into the kernel's packet handling (irq and softirq)."""
    host: Host | None = None
    far: FarLoad | None = None
    """Of the host at end b; None where it is this one."""
    tcp: tuple[TcpTimes, ...] = ()
    """Of each direction of a TCP run, forward first; empty where nobody looked while traffic ran."""
    temperatures_c: tuple[float, ...] = ()
    """The hottest sensor of this machine, every 10 s of the traffic; empty where it has none."""
    probes: tuple[ProbeReading, ...] = ()
    course: tuple[Moment, ...] = ()
    """Of a long run, and of a soak: one a second."""
    latency: Latency | None = None
    """None: nobody asked for it."""
    a_port_before: PortFacts | None = None
    """Of both ports, just before and just after the traffic; None where nobody looked."""
    a_port_after: PortFacts | None = None
    b_port_before: PortFacts | None = None
    b_port_after: PortFacts | None = None
