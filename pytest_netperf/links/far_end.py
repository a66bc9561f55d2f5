"""A link whose end b is on another host, as a test holds it: end a is a port of this machine, end b answers by ssh."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, NoReturn

from pytest_netperf.errors import ConfigError, LinkError
from pytest_netperf.links.link import Endpoint, Link, arguments_of
from pytest_netperf.links.owner import Owner
from pytest_netperf.links.process import Process
from pytest_netperf.observe.observation import FarLoad, PortCounters, PortFacts, TcpConnection
from pytest_netperf.remote.far_host import FarHost, FarPort, FarWork
from pytest_netperf.remote.far_process import start, supervised

__all__ = ["FarEndpoint", "RemoteLink"]


class FarEndpoint(Endpoint):
    """End b, on another host. Programs run there, as the user of the bench file, and end with us."""

    def __init__(self, host: FarHost, port: FarPort, address: str, address6: str | None, mtu: int) -> None:
        self.end = "b"
        self.interface, self.mac = port.interface, port.mac
        self.address, self.address6 = address, address6
        self.mtu = mtu
        self.namespace = 0
        self.iperf3_version = port.iperf3_version
        self._host, self._port = host, port

    def popen(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: int | None = None) -> Process:
        """Start a program on the far host; its output is captured. ``env`` is added to its environment there.

        Raises LinkError where it has no such program, SshError where the connection fails.
        """
        words = arguments_of(argv)
        if stdin is not None:
            raise ConfigError(
                f"cannot run {words[0]!r} at end b: it is on {self._host.name}, and stdin is of this machine"
            )
        if PurePath(words[0]).name == "iperf3":
            words[0] = self._port.iperf3
        else:
            self._require(words[0])
        if env:
            words = ["env", *(f"{name}={value}" for name, value in env.items()), *words]
        return self.supervise(self._host.command('exec "$@"', *words), called=words[0])

    def _require(self, program: str) -> None:
        if self._host.ask('command -v "$1" >/dev/null || echo missing', program).strip():
            raise LinkError(f"cannot run {program!r} at end b: {self._host.name} has no such program in its PATH")

    def supervise(self, words: list[str], *, called: str) -> Process:
        """Start a program that ends with us; ``called`` is its name in messages. Raises SshError."""
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        readers, writers = [read for read, _ in pipes], [write for _, write in pipes]
        try:
            control = start(self._host.connection, supervised(words), *writers)
        except BaseException:
            for fd in readers:
                os.close(fd)
            raise
        return Process(control, [called, *words[1:]], (0, 0), *readers)

    def socket(self, *_: Any, **__: Any) -> NoReturn:
        """Not there. Raises LinkError."""
        raise LinkError(f"end b is on {self._host.name}: this process cannot have a socket there")

    def is_listening(self, port: int) -> bool:
        """See `Endpoint`."""
        return port in self._host.listening_ports()

    def tcp_info(self, port: int) -> tuple[TcpConnection, ...]:  # noqa: ARG002 - that of this machine is asked for it
        """Not known there."""
        return ()


class RemoteLink(Link):
    """A link that is up and proved, with its end b on another host."""

    def __init__(
        self,
        owner: Owner,
        key: str,
        answer: dict[str, Any],
        far: FarEndpoint,
        host: FarHost,
        port: FarPort,
        **about: Any,
    ) -> None:
        there = {"interface": far.interface, "address": far.address, "address6": far.address6, "mac": far.mac}
        answer = {
            **answer,
            "ports": {**answer["ports"], "b": there},
            "namespaces": {**answer["namespaces"], "b": 0},
        }
        super().__init__(owner, key, answer, topology="remote", simulated=False, fault={}, **about)
        self.b = far
        self._host, self._far_port = host, port
        self.undo = contextlib.ExitStack()
        """What is put back at the far end, before the connection to it is closed."""
        self._work = self._work_before = FarWork()
        self.facts |= {
            "far_host": f"{port.host} ({host.name})",
            "far_kernel": port.kernel,
            "far_iperf3": port.iperf3_version,
            "far_clock_ahead_s": port.clock_ahead_s,
            "far_clock_within_s": port.clock_within_s,
            **({"far_namespace": host.namespace} if host.namespace is not None else {}),
        }

    def all_counters(self) -> dict[str, PortCounters]:
        """See `Link`. Raises SshError where the far host does not answer."""
        near = self._owner.call("counters", link=self._key)["a"]
        far, self._work = self._host.counters(self.b.interface)
        return {"a": PortCounters(**near), "b": PortCounters(**far)}

    def port_facts(self) -> tuple[PortFacts, PortFacts]:
        """See `Link`; of the far port what was seen when the link came up, and what may change as it is now.

        Raises LinkError where it has another MTU by now.
        """
        import msgspec

        near = self._owner.call("port_facts", link=self._key)["a"]
        far, now = self._far_port, self._host.read_port(self.b.interface)
        if now.mtu != self.mtu:
            raise LinkError(
                f"{self._host.name}: the MTU of its port {self.b.interface} is {now.mtu} and was {self.mtu} when the "
                "link came up: something there changed it, such as an earlier run that was cut off; run it again"
            )
        return msgspec.convert(near, PortFacts), PortFacts(
            driver=far.driver,
            version=far.driver_version,
            firmware=far.firmware,
            bus_address=far.bus_address,
            speed_bps=now.speed_bps,
            duplex=now.duplex,
            counters=dict(now.trouble),
        )

    def traffic_begins(self) -> None:
        """See `Link`."""
        self._work_before = self._work
        super().traffic_begins()

    def far_load(self) -> FarLoad:
        """See `Link`."""
        before, now = self._work_before, self._work
        busy = [
            round((now.cpus[cpu][0] - ticks) / (now.cpus[cpu][1] - total), 4)
            for cpu, (ticks, total) in before.cpus.items()
            if cpu in now.cpus and now.cpus[cpu][1] > total
        ]
        known = before.softnet_dropped is not None and now.softnet_dropped is not None
        dropped = (now.softnet_dropped or 0) - (before.softnet_dropped or 0)
        return FarLoad(cpu_busy=tuple(busy), softnet_dropped=dropped if known and dropped >= 0 else None)

    def close(self) -> None:
        """Take the link down, and put the far port back as it was. Raises LinkError."""
        try:
            super().close()
        finally:
            self.lost()

    @property
    def is_lost(self) -> bool:
        """See `Link`."""
        return not self._host.connection.is_open

    def lost(self) -> None:
        """The near end is gone already: end what runs at the far end, and the connection. Safe to repeat."""
        try:
            self.undo.close()
        finally:
            self._host.connection.close()
