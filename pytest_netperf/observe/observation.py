"""What was seen around one traffic run. Pure data; taken by `links` and `observe`, judged by `judge`."""

from __future__ import annotations

import msgspec

__all__ = ["Observation", "PortCounters"]


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


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of both ports before and after the traffic, and the load of this machine during it."""

    a_before: PortCounters
    a_after: PortCounters
    b_before: PortCounters
    b_after: PortCounters
    cpu_busy: tuple[float, ...] = ()
    """Busy fraction 0..1 of each CPU of the tester over the run (user, system, irq, softirq, steal)."""
    cpu_steal: float = 0.0
    """The largest steal fraction of any CPU: time a hypervisor took away."""
