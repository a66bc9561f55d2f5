"""A simulated pair: two namespaces joined by veth, shaped to the goodput of the wire it stands for.

    netns a [ npXXXXa ] ====== veth ====== [ npXXXXb ] netns b
              TBF ->                          <- TBF

A TBF on each end runs at R x (S + 14) / (S + 38), where S is the size of the IP packets that will be sent: veth counts
S + 14 bytes of a frame, a real wire carries S + 38 (FCS, preamble and inter-frame gap besides). So the goodput is that
of the wire (`physics`), while segmentation offload stays on and the CPU is spared.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_netperf.errors import LinkError
from pytest_netperf.links.faults import LinkFault
from pytest_netperf.links.namespace import Namespace
from pytest_netperf.links.pair import Pair, lab_addresses
from pytest_netperf.links.port_asked import AskedSettings

if TYPE_CHECKING:
    from pytest_netperf.links.device_programs import DevicePrograms

__all__ = ["SimulatedPair", "has_spare_namespaces", "port_names", "prepare_namespaces"]

_ROOT = 0x10000000  # handle 1000:
# Interface index of end a, another than b will get: with equal ones the kernel does not hurry to report the carrier,
# and link-up may take a second.
INDEX_OF_A = 1000
_BURST_SECONDS = 0.003
_BURST_FLOOR = 128_000
_QUEUE_SECONDS = 0.02
_QUEUE_FLOOR = 4_000_000
_TBF_LIMIT_BPS = 34e9  # 32-bit bytes/s in the kernel's old rate table; pyroute2 has no RATE64
_STEER_FROM_BPS = 5e9
_NO_TBF = (
    "this kernel has no token bucket filter, by which a simulated link gets its speed: `sudo modprobe sch_tbf`, and "
    "where there is no such module install the other modules of the kernel (Ubuntu: linux-modules-extra, Fedora: "
    "kernel-modules-extra); links of physical ports do not need it. `pytest-netperf doctor` tries each part"
)


_spare: dict[str, Namespace] = {}


def prepare_namespaces() -> None:
    """Start the two namespaces of the next link, in the background: they are a third of the time of its making."""
    if not _spare:
        _spare.update({end: Namespace(end) for end in ("a", "b")})


def has_spare_namespaces() -> bool:
    """Whether the namespaces of the next link are there."""
    return bool(_spare)


def _take_namespaces() -> dict[str, Namespace]:
    prepare_namespaces()
    taken = dict(_spare)
    _spare.clear()
    return taken


def port_names(index: int, end: str, host: int) -> dict[str, str]:
    """Interface and MAC address (locally administered) of a port of link ``index``."""
    mac = f"02:00:5e:{index >> 8:02x}:{index & 0xFF:02x}:{host:02x}"
    return {"interface": f"np{index:04x}{end}", "mac": mac}


class SimulatedPair(Pair):
    """Two namespaces joined by veth. Made, shaped, proved and closed inside the keeper."""

    programs: DevicePrograms | None = None
    """What a device in the middle runs beside forwarding (`links.device_states`); None: nothing."""

    def __init__(self, index: int, spec: dict[str, Any]) -> None:
        super().__init__(index, spec["mtu"])
        self.speed_bps: float | None = spec.get("speed_bps")
        self._fault = LinkFault(self, spec["fault"]) if spec.get("fault") else None
        self._asked: dict[str, Any] = spec.get("asked") or {}
        self._packet_bytes = self.mtu
        self.ports = self._plan_ports(spec)
        try:
            self.ends = _take_namespaces()
            self._build()
            self._steer()
            if self._asked:
                self.facts["settings"] = {end: self.ends[end].call(self._set_asked, end) for end in ("a", "b")}
            self.prove()
            self._after_proof(spec)
            if self._fault is not None:
                self._fault.prepare()  # after the proof, which would meet the fault too
                if self._fault.loss_by is not None:
                    self.facts["loss_by"] = self._fault.loss_by
        except BaseException:
            self.close()
            raise

    def _plan_ports(self, spec: Mapping[str, Any]) -> dict[str, dict[str, Any]]:  # noqa: ARG002 - of other shapes
        """The ports that the link will have."""
        addresses = lab_addresses(self.index)
        return {end: {**port_names(self.index, end, host), **addresses[end]} for end, host in (("a", 1), ("b", 2))}

    def _after_proof(self, spec: Mapping[str, Any]) -> None:
        """What is done to the link once it works."""

    def _build(self) -> None:
        a, b = self.ends["a"], self.ends["b"]
        for namespace in (a, b):
            namespace.wait_started()
        a.call(
            a.ipr.link,
            "add",
            ifname=self.ports["a"]["interface"],
            index=INDEX_OF_A,
            address=self.ports["a"]["mac"],
            kind="veth",
            mtu=self.mtu,
            peer={
                "ifname": self.ports["b"]["interface"],
                "address": self.ports["b"]["mac"],
                "mtu": self.mtu,
                "net_ns_fd": b.fd,
            },
        )
        self.both(self._configure)

    def _steer(self) -> None:
        """Fast links: receive on the CPU that the receiving iperf3 is pinned to; without it TCP sees reordering."""
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2 or (self.speed_bps is not None and self.speed_bps < _STEER_FROM_BPS):
            return
        self.facts["steered_to_cpu"] = {
            end: cpu if namespace.steer(self.ports[end]["interface"], cpu) else None
            for (end, namespace), cpu in zip(self.ends.items(), cpus, strict=False)
        }

    def _configure(self, end: str) -> None:
        ipr, port = self.ends[end].ipr, self.ports[end]
        port["index"] = socket.if_nametoindex(port["interface"])
        self.add_addresses(end)
        ipr.link("set", index=port["index"], state="up")

    def _set_asked(self, end: str) -> str:
        asked = AskedSettings(self.ports[end]["interface"], end, self._asked)
        asked.write_up()
        return asked.verify()

    def bounce(self) -> None:
        """Both ports down and up again. A faulted link is only waited for: its proof would meet the fault."""
        self.both(lambda end: self.ends[end].ipr.link("set", index=self.ports[end]["index"], state="down"))
        self.both(self.up_again)
        if self._fault is None:
            self.prove()
        else:
            self.wait_for_carriers()

    def shape(self, packet_bytes: int) -> dict[str, float | None]:
        """Set both shapers for IP packets of ``packet_bytes``. Returns the rate in bit/s per end (None: unshaped)."""
        self._packet_bytes = packet_bytes
        return self.both(lambda end: self._shape_end(end, packet_bytes))

    def _shape_end(self, end: str, packet_bytes: int) -> float | None:
        rate = self._rate_bps(end)
        if rate is None:
            return None
        shaped = rate * (packet_bytes + 14) / max(packet_bytes + 38, 84)
        if shaped > _TBF_LIMIT_BPS:
            return None  # the kernel's TBF cannot count that fast; the machine is far below it anyway
        from pyroute2.netlink.exceptions import NetlinkError

        port = self.ports[end]
        try:
            self.ends[end].ipr.tc(
                "change" if port.get("shaped") else "add",
                "tbf",
                port["index"],
                _ROOT,
                parent=0xFFFFFFFF,
                rate=round(shaped / 8),
                burst=max(_BURST_FLOOR, round(shaped / 8 * _BURST_SECONDS)),
                limit=max(_QUEUE_FLOOR, round(shaped / 8 * _QUEUE_SECONDS)),
            )
        except NetlinkError as error:
            if error.code == errno.ENOENT and not port.get("shaped"):
                raise LinkError(_NO_TBF) from None
            raise
        port["shaped"] = True
        return rate

    def _rate_bps(self, end: str) -> float | None:
        """At which rate bits leave a port; None where nothing limits it."""
        return self._fault_rate_bps(end) or self.speed_bps

    def _fault_rate_bps(self, end: str) -> float | None:
        return self._fault.rate_bps(end) if self._fault is not None else None

    def reshape(self) -> None:
        """Set both shapers again, for the packets of the last time."""
        self.shape(self._packet_bytes)

    def set_carrier(self, *, up: bool) -> None:
        """Pull the cable at end b, or plug it in again: port a loses its carrier, port b is down."""
        b = self.ends["b"]
        if up:
            b.call(self.up_again, "b")
        else:
            b.call(b.ipr.link, "set", index=self.ports["b"]["index"], state="down")

    def traffic_begins(self) -> None:
        """A measurement begins: a fault that comes and goes starts its clock."""
        if self._fault is not None:
            self._fault.traffic_begins()
        if self.programs is not None:
            self.programs.traffic_begins()

    def traffic_ends(self) -> None:
        """It is over: the link is as it was before. Raises LinkError when its fault could not be made."""
        if self.programs is not None:
            self.programs.traffic_ends()
        if self._fault is not None:
            self._fault.traffic_ends()

    def device_report(self) -> dict[str, Any]:
        """What programs of a device in the middle saw of the traffic that is over, as facts; {} where none runs."""
        return {} if self.programs is None else self.programs.report()

    @property
    def burst_bits(self) -> float:
        """What a full token bucket lets through above the rate, once."""
        return max(_BURST_FLOOR * 8, (self.speed_bps or 0.0) * _BURST_SECONDS)

    def has_carrier(self, end: str) -> None:
        """Shape it now, and not earlier: the request waits for the lock under which the kernel puts the port's queue to
        work."""
        if self._shape_end(end, self.mtu) is None:
            self.ends[end].ipr.link("get", index=self.ports[end]["index"])

    def own_queue(self, end: str) -> int | None:
        """See `Pair`."""
        return _ROOT if self.ports[end].get("shaped") else None

    def close(self) -> None:
        """Let both namespaces go; the kernel removes the link with them, in its own time and without making us wait."""
        if self.programs is not None:
            self.programs.close()
        if self._fault is not None:
            self._fault.close()
        for namespace in self.ends.values():
            namespace.close()
        self.ends.clear()
