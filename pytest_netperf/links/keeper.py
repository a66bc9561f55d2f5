"""The keeper: the process that owns links, namespaces and everything that runs in them.

    pytest (or an xdist worker) --socketpair--> guard (outer) --fork--> keeper (pid 1 of its own PID namespace)

* End of file on the socket, or the owner's pidfd becoming readable, means that the owner is gone: the keeper exits.
* When pid 1 of a PID namespace ends, for whatever reason, the kernel kills every process in it: no child, grandchild
  or daemon survives. The anonymous network namespaces go with the last process and descriptor.
* The guard gives the owner a child to reap, and kills a keeper that does not end although the owner has gone (busy, or
  frozen); the keeper dies with the guard.
* A keeper that holds physical ports brings them home before it ends: when the owner has gone, or the guard. So then it
  does not die with the guard, and the guard gives it longer.
* Without root, the guard enters a user namespace first, while it is single-threaded; the owner is not touched.

Each request carries a number, and its answer the same one (see `links.channel` for the form).
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import select
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from pytest_netperf.errors import LinkError, NetperfError
from pytest_netperf.links import kernel
from pytest_netperf.links.channel import Channel
from pytest_netperf.links.leftovers import name_namespace, remove_namespace
from pytest_netperf.links.simulated import SimulatedPair, has_spare_namespaces, prepare_namespaces
from pytest_netperf.links.subnet_claim import claim_subnet, free
from pytest_netperf.links.tcp_info import tcp_connections

if TYPE_CHECKING:
    from pytest_netperf.links.physical import PhysicalPair

__all__ = ["main"]

_LAST_CHANCE_SECONDS = 0.5
_WAY_HOME_SECONDS = 30.0
_IDLE_SECONDS = 0.02


def main() -> None:
    """Entry point; the arguments are the descriptor of the socket and the owner's process id."""
    number, parent = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(number, False)
    channel = Channel(socket.socket(fileno=number))
    if os.getppid() != parent:
        return  # the owner died before we could watch it
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    with contextlib.suppress(OSError):  # the owner died a moment ago
        owner = os.pidfd_open(parent)
        try:
            _isolate()
        except OSError as error:
            channel.send({"request": 0, "error": kernel.user_namespace_advice(error.errno), "kind": "KeeperError"})
            return
        guard, has_ports = os.pidfd_open(os.getpid()), mmap.mmap(-1, 1)  # the memory is shared by both
        child = os.fork()
        if child:
            _guard(child, owner, has_ports)
        kernel.die_with_parent(signal.SIGKILL)
        Keeper(channel, owner, guard, has_ports).serve()


def _isolate() -> None:
    """Enter a PID namespace (for the next fork), and a user namespace where privileges are missing."""
    if kernel.has_capabilities():
        kernel.unshare(kernel.CLONE_NEWPID)
        return
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID | kernel.CLONE_NEWNS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def _guard(keeper: int, owner: int, has_ports: mmap.mmap) -> NoReturn:
    """Wait for the keeper to end, and end with its status (128 + n: killed by signal n)."""
    ended = os.pidfd_open(keeper)
    ready, _, _ = select.select([owner, ended], [], [])
    if ended not in ready:
        patience = _WAY_HOME_SECONDS if has_ports[0] else _LAST_CHANCE_SECONDS
        if not select.select([ended], [], [], patience)[0]:
            os.kill(keeper, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(keeper, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


class _Child(NamedTuple):
    link: str
    born: int
    """Number that no other child has; the kernel may give its process id again."""
    status: int
    """Descriptor that takes its exit code."""


class Keeper:
    """Serves one owner until it goes."""

    def __init__(self, channel: Channel, owner_pidfd: int, guard_pidfd: int, has_ports: mmap.mmap) -> None:
        self._channel = channel
        self._owner, self._guard, self._has_ports = owner_pidfd, guard_pidfd, has_ports
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ, "request")
        self._selector.register(owner_pidfd, selectors.EVENT_READ, "owner gone")
        self._selector.register(guard_pidfd, selectors.EVENT_READ, "owner gone")
        self._links: dict[str, SimulatedPair | PhysicalPair] = {}
        self._claims: dict[str, list[socket.socket]] = {}
        self._children: dict[int, _Child] = {}
        self._births = itertools.count()
        self._kept: set[str] = set()
        self._operations: dict[str, Callable[..., Any]] = {
            "up": self._up,
            "down": self._down,
            "shape": self._shape,
            "bounce": self._bounce,
            "traffic": self._traffic,
            "device_report": self._device_report,
            "counters": self._counters,
            "port_facts": self._port_facts,
            "listening": self._listening,
            "tcp_info": self._tcp_info,
            "spawn": self._spawn,
            "signal": self._signal,
            "end": self._end,
            "socket": self._socket,
        }

    def serve(self) -> None:
        """Answer requests until the owner is gone; then the kernel takes everything down with this process."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        self._selector.register(reader, selectors.EVENT_READ, "child ended")
        self._channel.send({"request": 0, "ok": {"pid": _outer_pid(), "user_namespace": not _real_root()}})
        prepare_namespaces()  # loads pyroute2 too, 0.15 s that the owner need not wait for

        while True:
            ready = self._selector.select(None if has_spare_namespaces() else _IDLE_SECONDS)
            if not ready:
                prepare_namespaces()  # while nobody waits for us
            for key, _ in ready:
                if key.data == "owner gone":
                    self._leave()
                if key.data == "child ended":
                    with contextlib.suppress(BlockingIOError):
                        os.read(reader, 4096)
                    self._reap()
                elif not self._answer():
                    self._leave()

    def _leave(self) -> NoReturn:
        """End everything that runs here, bring physical ports home, and exit; the kernel takes down the rest."""
        if self._has_ports[0]:
            with contextlib.suppress(OSError):
                os.kill(-1, signal.SIGKILL)  # as pid 1: every process of this PID namespace
            for pair in self._links.values():
                if not isinstance(pair, SimulatedPair):
                    try:
                        pair.close()
                    except Exception as error:  # noqa: BLE001 - the other links must come home all the same
                        with contextlib.suppress(OSError):  # whoever could read it has gone too
                            print(f"ERROR: pytest-netperf: {error}", file=sys.stderr, flush=True)
        if (groups := sys.modules.get("pytest_netperf.links.cpu_group")) is not None:
            groups.remove_all()  # behind the ports, which matter more
        os._exit(0)

    def _is_abandoned(self) -> bool:
        """Whether owner or guard has gone while a request is being worked on."""
        return bool(select.select([self._owner, self._guard], [], [], 0)[0])

    def _answer(self) -> bool:
        try:
            request, fds = self._channel.receive()
        except OSError:
            return False
        serial = request.pop("request")
        send_fds: list[int] = []
        try:
            answer = {"ok": self._operations[request.pop("op")](fds=fds, send_fds=send_fds, **request)}
        except NetperfError as error:
            answer = {"error": str(error), "kind": type(error).__name__}
        except Exception as error:  # noqa: BLE001 - the owner must learn of it; the keeper must live on
            answer = {"error": f"{type(error).__name__}: {error}", "kind": "LinkError"}
        finally:
            in_use = {child.status for child in self._children.values()}
            for fd in set(fds) - in_use:
                os.close(fd)
        try:
            self._channel.send({"request": serial, **answer}, send_fds)
        except OSError:
            return False
        finally:
            for fd in send_fds:
                os.close(fd)
        return True

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self._children.pop(pid, None)  # None: an orphan that pid 1 inherited
            if child is not None:
                with contextlib.suppress(OSError):
                    os.write(child.status, str(os.waitstatus_to_exitcode(status)).encode())
                os.close(child.status)

    def _link(self, link: str) -> SimulatedPair | PhysicalPair:
        try:
            return self._links[link]
        except KeyError:
            raise LinkError("this link was taken down") from None

    def _up(self, link: str, spec: dict[str, Any], keep: str | None = None, **_: Any) -> dict[str, Any]:
        index, claim = claim_subnet()
        claims = [claim]
        pair: SimulatedPair | PhysicalPair
        kept: list[str] = []
        try:
            if "ports" in spec:
                pair = self._lend_ports(index, spec)
            elif "device" in spec:
                far_index, claim = claim_subnet()
                claims.append(claim)
                pair = _with_a_device(index, {**spec, "far_index": far_index})
                kept = _name(pair, keep) if keep else []
            else:
                pair = SimulatedPair(index, spec)
                kept = _name(pair, keep) if keep else []
        except BaseException as error:
            free(claims)
            if (holder := getattr(error, "holder", None)) is not None:  # PortHeldError: the owner decides to wait
                return {"held": str(error), "holder": holder}
            raise
        self._links[link], self._claims[link] = pair, claims
        if kept:
            self._kept.add(link)
        return {
            "index": index,
            "ports": pair.ports,
            "facts": pair.facts,
            "burst_bits": pair.burst_bits,
            "namespaces": {end: namespace.inode for end, namespace in pair.ends.items()},
            "kept": kept,
        }

    def _lend_ports(self, index: int, spec: dict[str, Any]) -> PhysicalPair:
        """Ports of this machine. From the first change on, this process must not end without bringing them home."""
        if not _real_root():
            raise LinkError(
                "physical ports need root: they belong to the machine, and a user namespace may not take them; run "
                "pytest with sudo"
            )
        from pytest_netperf.links.port_links import take_ports

        kernel.die_with_parent(0)
        self._has_ports[0] = 1
        return take_ports(index, spec, self._is_abandoned)

    def _down(self, link: str, **_: Any) -> None:
        pair = self._link(link)
        for pid, child in self._children.items():
            if child.link == link:
                self._end(pid, child.born)
        if link in self._kept:
            return  # it stays as it is, and so does the claim on its index, which is in the names
        del self._links[link]
        try:
            pair.close()
        finally:
            free(self._claims.pop(link))

    def _shape(self, link: str, packet_bytes: int, **_: Any) -> dict[str, float | None]:
        return self._link(link).shape(packet_bytes)

    def _bounce(self, link: str, **_: Any) -> None:
        self._link(link).bounce()

    def _traffic(self, link: str, begins: bool, **_: Any) -> None:
        pair = self._link(link)
        if begins:
            pair.traffic_begins()
        else:
            pair.traffic_ends()

    def _device_report(self, link: str, **_: Any) -> dict[str, Any]:
        pair = self._link(link)
        return pair.device_report() if isinstance(pair, SimulatedPair) else {}

    def _counters(self, link: str, **_: Any) -> dict[str, dict[str, int]]:
        return self._link(link).counters()

    def _port_facts(self, link: str, **_: Any) -> dict[str, dict[str, Any]]:
        return self._link(link).port_facts()

    def _listening(self, link: str, end: str, port: int, **_: Any) -> bool:
        return port in self._link(link).ends[end].listening_ports()

    def _tcp_info(self, link: str, end: str, port: int, **_: Any) -> list[dict[str, Any]]:
        return self._link(link).ends[end].call(tcp_connections, port)

    def _spawn(
        self,
        link: str,
        end: str,
        program: str,
        argv: list[str],
        env: dict[str, str],
        cwd: str,
        fds: list[int],
        **_: Any,
    ) -> tuple[int, int]:
        stdin, stdout, stderr, status = fds
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((stdin, stdout, stderr))]
        namespace = self._link(link).ends[end]
        try:
            os.chdir(cwd)  # posix_spawn cannot; nothing else here depends on it
            pid: int = namespace.call(
                os.posix_spawn,
                program,
                argv,
                env,
                file_actions=actions,
                setpgroup=0,
                setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD],
            )
        except OSError as error:
            raise LinkError(f"cannot run {argv[0]!r} in the namespace of end {end}: {error.strerror}") from None
        self._children[pid] = _Child(link, next(self._births), status)
        return pid, self._children[pid].born

    def _signal(self, pid: int, born: int, number: int, **_: Any) -> bool:
        child = self._children.get(pid)
        if child is None or child.born != born:
            return False
        os.killpg(pid, number)
        return True

    def _end(self, pid: int, born: int, **_: Any) -> None:
        """Kill a process and what is left of its group; as long as something is, its id is not given again."""
        child = self._children.get(pid)
        if child is None or child.born == born:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def _socket(self, link: str, end: str, family: int, kind: int, send_fds: list[int], **_: Any) -> None:
        try:
            send_fds.append(self._link(link).ends[end].socket(family, kind).detach())
        except OSError as error:
            raise LinkError(
                f"cannot make a socket of family {family} and kind {kind} at end {end}: {error.strerror}"
            ) from None


def _outer_pid() -> int:
    """This process's id as the machine sees it; in its own PID namespace it is 1."""
    return int(Path("/proc/self").readlink().name)  # /proc is the machine's


def _real_root() -> bool:
    """Whether uid 0 here is uid 0 of the machine (an identity mapping of the whole range)."""
    return Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]


def _with_a_device(index: int, spec: dict[str, Any]) -> SimulatedPair:
    from pytest_netperf.links.routed import RoutedPath
    from pytest_netperf.links.switched import SwitchedPath

    return RoutedPath(index, spec) if spec["device"] == "routed" else SwitchedPath(index, spec)


def _name(pair: SimulatedPair, prefix: str) -> list[str]:
    """Name each namespace after the first letter of its end, or none, and then the link is gone."""
    names: list[str] = []
    try:
        for letter, namespace in {end[0]: namespace for end, namespace in pair.ends.items()}.items():
            names.append(name_namespace(f"{prefix}-{pair.index:x}{letter}", namespace.fd))
    except BaseException:
        for name in names:
            remove_namespace(name)
        pair.close()
        raise
    return names
