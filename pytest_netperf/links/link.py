"""What a test holds: a link with two endpoints, each in a network namespace of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from pytest_netperf.errors import ConfigError, LinkError
from pytest_netperf.links.owner import Owner
from pytest_netperf.links.process import Process
from pytest_netperf.observe.observation import FarLoad, PortCounters, PortFacts, TcpConnection

__all__ = ["Endpoint", "Link", "arguments_of"]


class Endpoint:
    """One end of a link: an interface in a namespace of its own."""

    iperf3_version: str | None = None
    """As "iperf 3.12", of the one that runs at this end; None: the one of this machine."""

    def __init__(
        self, owner: Owner, link_key: str, end: str, port: Mapping[str, Any], mtu: int, namespace: int
    ) -> None:
        self._owner = owner
        self._link_key = link_key
        self.end = end
        """"a" or "b"."""
        self.interface: str = port["interface"]
        self.address: str = port["address"]
        """IPv4 address without prefix length."""
        self.address6: str | None = port["address6"]
        """IPv6 address, or None where IPv6 is off or the MTU is below 1280."""
        self.mac: str = port["mac"]
        self.mtu = mtu
        self.namespace = namespace
        """Inode number of the network namespace, as in /proc/PID/ns/net."""

    def __repr__(self) -> str:
        return f"<Endpoint {self.end} {self.interface} {self.address}>"

    def popen(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: int | None = None) -> Process:
        """Start a program in this namespace, in this process's working directory; its output is captured.

        ``stdin`` is a file descriptor; left out, the program reads nothing. Raises LinkError when it cannot be started.
        """
        argv = arguments_of(argv)
        environment = dict(os.environ if env is None else env)
        program = shutil.which(argv[0], path=environment.get("PATH", os.defpath))
        if stdin is not None and not _is_open(stdin):
            raise ConfigError(f"cannot run {argv[0]!r}: stdin={stdin!r} is not an open file descriptor")
        if program is None:
            raise LinkError(
                f"cannot run {argv[0]!r} in the namespace of end {self.end}: there is no such program in PATH, or it "
                "is not executable"
            )
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        status_read, status_write = os.pipe2(os.O_CLOEXEC)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            born = self._owner.call(
                "spawn",
                (null if stdin is None else stdin, out_write, err_write, status_write),
                link=self._link_key,
                end=self.end,
                program=program,
                argv=argv,
                env=environment,
                cwd=str(Path.cwd()),
            )
        except BaseException:
            for fd in (out_read, err_read, status_read):
                os.close(fd)
            raise
        finally:
            for fd in (out_write, err_write, status_write, null):
                os.close(fd)
        return Process(self._owner, argv, born, out_read, err_read, status_read)

    def run(
        self, argv: Sequence[str], *, timeout: float = 60.0, check: bool = False, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in this namespace to its end, as `subprocess.run` with text output.

        Raises subprocess.TimeoutExpired after ``timeout`` seconds (the program is killed first), and
        subprocess.CalledProcessError when ``check`` is true and the exit code is not 0.
        """
        argv = arguments_of(argv)
        process = self.popen(argv, env=env)
        try:
            if not process.wait(timeout):
                process.end(grace=0.0)
                raise subprocess.TimeoutExpired(argv, timeout, process.stdout, process.stderr)
        except BaseException:
            process.end(grace=0.0)
            raise
        process.release()
        code = process.returncode
        completed = subprocess.CompletedProcess(
            argv, -signal.SIGKILL if code is None else code, process.stdout, process.stderr
        )
        if check:
            completed.check_returncode()
        return completed

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """A socket of this namespace, for use in the test's own process."""
        _, (fd,) = self._owner.call_with_fds(
            "socket", link=self._link_key, end=self.end, family=int(family), kind=int(kind)
        )
        return socket.socket(fileno=fd)

    def is_listening(self, port: int) -> bool:
        """Whether something listens on this TCP port here; asks the kernel's table, does not connect."""
        return bool(self._owner.call("listening", link=self._link_key, end=self.end, port=port))

    def tcp_info(self, port: int) -> tuple[TcpConnection, ...]:
        """The established TCP connections of this end that have this port at either end, with the kernel's account of
        each so far. It takes 1 to 3 ms. Raises LinkError where the kernel does not answer.
        """
        found = self._owner.call("tcp_info", link=self._link_key, end=self.end, port=port)
        return tuple(TcpConnection(**each) for each in found)


def arguments_of(argv: Sequence[str]) -> list[str]:
    """The words of a command. Raises ConfigError for what is none."""
    if isinstance(argv, str | bytes) or not argv:
        raise ConfigError(
            f"cannot run {argv!r}: expected a list of a program and its arguments, as ['ping', '-c1', 'HOST']"
        )
    return [os.fspath(argument) if isinstance(argument, os.PathLike) else str(argument) for argument in argv]


def _is_open(fd: object) -> bool:
    if isinstance(fd, int) and fd >= 0:
        with contextlib.suppress(OSError):
            os.fstat(fd)
            return True
    return False


class Link:
    """A link that is up and proved: two endpoints ``a`` and ``b``."""

    def __init__(
        self,
        owner: Owner,
        key: str,
        answer: Mapping[str, Any],
        *,
        name: str,
        topology: str,
        simulated: bool,
        speed_bps: float | None,
        mtu: int,
        fault: Mapping[str, Any],
    ) -> None:
        self._owner = owner
        self._key = key
        self.name = name
        self.topology = topology
        self.simulated = simulated
        self.speed_bps = speed_bps
        """Rated speed in bit/s; None for an unshaped simulated link."""
        self.mtu = mtu
        self.faulted = bool(fault)
        """Whether a fault was put into the link on purpose."""
        proofs = answer["facts"].get("device_state", {})
        self._runs_programs = any(part in proofs for part in ("dpi", "monitoring", "suricata"))
        self._hears_of_traffic = self._runs_programs or any(
            fault.get(when) is not None for when in ("after_s", "for_s")
        )
        self.index: int = answer["index"]
        self.facts: dict[str, Any] = dict(answer["facts"])
        self.kept: list[str] = list(answer.get("kept", ()))
        self.burst_bits: float = answer["burst_bits"] if speed_bps else 0.0
        self.a, self.b = (
            Endpoint(owner, key, end, answer["ports"][end], mtu, answer["namespaces"][end]) for end in ("a", "b")
        )
        self.device_ports: dict[str, Endpoint] = {
            end: Endpoint(owner, key, end, port, mtu, answer["namespaces"][end])
            for end, port in answer["ports"].items()
            if end not in ("a", "b")
        }
        """The ports of the simulated device between both ends: ``device_a`` and ``device_b``; none of a pair."""
        self._runs = 0

    def __repr__(self) -> str:
        return f"<Link {self.name} {self.a.address} - {self.b.address}>"

    @property
    def speed(self) -> float | None:
        """Rated speed in bit/s; None for an unshaped simulated link."""
        return self.speed_bps

    def ceiling(self, protocol: Literal["tcp", "udp"] = "tcp", **conditions: Any) -> float | None:
        """Goodput in bit/s that physics allows on this link (`physics.goodput_ceiling_bps`); None when unshaped."""
        from pytest_netperf.physics import goodput_ceiling_bps

        if self.speed_bps is None:
            return None
        return goodput_ceiling_bps(self.speed_bps, self.mtu, protocol=protocol, **conditions)

    def shape(self, packet_bytes: int) -> dict[str, float | None]:
        """Set a simulated link's shapers for IP packets of this size (see `links.simulated`)."""
        rates: dict[str, float | None] = self._owner.call("shape", link=self._key, packet_bytes=packet_bytes)
        return rates

    def bounce(self) -> None:
        """Take both ports down and up again, and wait until the link works. Raises LinkError when it does not."""
        self._owner.call("bounce", link=self._key)

    def traffic_begins(self) -> None:
        """Traffic is about to start: a fault with a time (`bench.model.Fault.scheduled`) starts its clock."""
        if self._hears_of_traffic:
            self._owner.call("traffic", link=self._key, begins=True)

    def traffic_ends(self) -> None:
        """Traffic is over: a fault with a time is taken back. Raises LinkError when it could not be made."""
        if self._hears_of_traffic:
            self._owner.call("traffic", link=self._key, begins=False)

    def device_report(self) -> dict[str, Any]:
        """What programs of a simulated device saw of the traffic that is over (`links.device_programs`), as facts.

        It takes a second; {} where none runs. Raises LinkError when one of them did not do its work.
        """
        return dict(self._owner.call("device_report", link=self._key)) if self._runs_programs else {}

    def summary(self) -> dict[str, Any]:
        """What the sheet says of this link: interfaces, addresses and how it was proved."""
        ends = {
            f"port_{endpoint.end}": ", ".join(
                str(each) for each in (endpoint.interface, endpoint.mac, endpoint.address, endpoint.address6) if each
            )
            for endpoint in (self.a, self.b, *self.device_ports.values())
        }
        return {**ends, **{f"link_{name}": value for name, value in self.facts.items()}}

    def counters(self) -> tuple[PortCounters, PortCounters]:
        """The kernel's counters of port a and port b, now."""
        a, b, *_ = self.all_counters().values()
        return a, b

    def all_counters(self) -> dict[str, PortCounters]:
        """As `counters`, and those of the device's ports where it has some: "a", "b", "device_a", "device_b"."""
        answer = self._owner.call("counters", link=self._key)
        return {end: PortCounters(**counted) for end, counted in answer.items()}

    def port_facts(self) -> tuple[PortFacts, PortFacts]:
        """What is true of port a and port b now beside their counters: driver, link, offloads, pause, queues, bus.

        It takes 1 to 3 ms.
        """
        answer = self._owner.call("port_facts", link=self._key)
        return msgspec.convert(answer["a"], PortFacts), msgspec.convert(answer["b"], PortFacts)

    def next_port(self) -> int:
        """A TCP/UDP port that no other link uses (below index 3000) and that this link has not used of late."""
        self._runs += 1
        return 10_000 + self.index % 3000 * 16 + self._runs % 16

    def far_load(self) -> FarLoad | None:
        """What happened to the host at end b between `traffic_begins` and the latest reading of its counters; None
        where it is this machine."""
        return None

    @property
    def is_lost(self) -> bool:
        """Whether it cannot be used any more, whatever the keeper knows."""
        return False

    def lost(self) -> None:
        """The keeper is gone, and the link with it: let go of what else belongs to it."""

    def close(self) -> None:
        """Take the link down."""
        self._owner.call("down", link=self._key)


def bring_up(
    owner: Owner,
    key: str,
    *,
    name: str,
    speed_bps: float | None,
    mtu: int,
    fault: Mapping[str, Any] | None = None,
    asked: Mapping[str, Any] | None = None,
    keep: str | None = None,
    topology: str = "pair",
    device: Mapping[str, Any] | None = None,
) -> Link:
    """Make, shape and prove a simulated link. Raises LinkError or KeeperError.

    ``fault`` has the fields of `bench.model.Fault` that are not at their default, ``asked`` the settings of both
    ports. ``device`` describes the device in the middle, of another ``topology`` than a pair (`links.routed`).
    """
    if mtu < 68 or mtu > 65535:
        raise LinkError(f"MTU {mtu} is not between 68 and 65535")
    spec: dict[str, Any] = {"mtu": mtu, "speed_bps": speed_bps, "fault": dict(fault or {}), "asked": dict(asked or {})}
    if topology != "pair":
        spec |= {"device": topology, **(device or {})}
    answer = owner.call("up", link=key, spec=spec, keep=keep)
    return Link(
        owner,
        key,
        answer,
        name=name,
        topology=topology,
        simulated=True,
        speed_bps=speed_bps,
        mtu=mtu,
        fault=fault or {},
    )
