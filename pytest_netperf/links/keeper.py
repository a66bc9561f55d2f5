"""The keeper: the process that owns links, namespaces and everything that runs in them.

    pytest (or an xdist worker) --socketpair--> guard (outer) --fork--> keeper (pid 1 of its own PID namespace)

* End of file on the socket, or the owner's pidfd becoming readable, means that the owner is gone: the keeper exits.
* When pid 1 of a PID namespace ends, for whatever reason, the kernel kills every process in it: no child, grandchild
  or daemon survives. The anonymous network namespaces go with the last process and descriptor.
* The guard only waits for the keeper, so that the owner has a child to reap; the keeper dies with the guard.
* Without root, the guard enters a user namespace first, while it is single-threaded; the owner is not touched.

Requests and answers are one JSON object per packet of a SOCK_SEQPACKET socket; descriptors travel beside them.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_netperf.errors import LinkError, NetperfError
from pytest_netperf.links import kernel
from pytest_netperf.links.simulated import SimulatedPair

__all__ = ["PACKET_BYTES", "main"]

PACKET_BYTES = 1 << 20
_MAX_FDS = 8
_NETNS_FOLDER = "/run/netns"


def main() -> None:
    """Entry point: ``python -m pytest_netperf.links.keeper FD OWNER_PID``."""
    control = socket.socket(fileno=int(sys.argv[1]))
    owner = os.pidfd_open(int(sys.argv[2]))
    if os.getppid() != int(sys.argv[2]):
        return  # the owner died before we could watch it
    os.setsid()
    try:
        _isolate()
    except OSError:
        control.send(json.dumps({"error": kernel.user_namespace_advice(), "kind": "KeeperError"}).encode())
        return
    child = os.fork()
    if child:
        control.close()
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    kernel.die_with_parent(signal.SIGKILL)
    Keeper(control, owner).serve()


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


class Keeper:
    """Serves one owner until it goes."""

    def __init__(self, control: socket.socket, owner_pidfd: int) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, "request")
        self._selector.register(owner_pidfd, selectors.EVENT_READ, "owner gone")
        self._links: dict[str, SimulatedPair] = {}
        self._claims: dict[str, socket.socket] = {}
        self._children: dict[int, int] = {}  # pid -> descriptor that takes its exit code
        self._kept: list[str] = []
        self._operations: dict[str, Callable[..., Any]] = {
            "up": self._up,
            "down": self._down,
            "shape": self._shape,
            "counters": self._counters,
            "listening": self._listening,
            "spawn": self._spawn,
            "signal": self._signal,
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
        self._control.send(json.dumps({"ok": {"user_namespace": os.getuid() == 0 and not _real_root()}}).encode())
        import pyroute2  # noqa: F401 - 0.15 s that the owner need not wait for

        while True:
            for key, _ in self._selector.select():
                if key.data == "owner gone":
                    os._exit(0)
                if key.data == "child ended":
                    with contextlib.suppress(BlockingIOError):
                        os.read(reader, 4096)
                    self._reap()
                elif not self._answer():
                    os._exit(0)

    def _answer(self) -> bool:
        try:
            packet, fds, _, _ = socket.recv_fds(self._control, PACKET_BYTES, _MAX_FDS)
        except ConnectionError:
            return False
        if not packet:
            return False
        request = json.loads(packet)
        send_fds: list[int] = []
        try:
            answer = {"ok": self._operations[request.pop("op")](fds=fds, send_fds=send_fds, **request)}
        except NetperfError as error:
            answer = {"error": str(error), "kind": type(error).__name__}
        except Exception as error:  # noqa: BLE001 - the owner must learn of it; the keeper must live on
            answer = {"error": f"{type(error).__name__}: {error}", "kind": "LinkError"}
        finally:
            for fd in fds:
                if fd not in self._children.values():
                    os.close(fd)
        try:
            socket.send_fds(self._control, [json.dumps(answer).encode()], send_fds)
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
            fd = self._children.pop(pid, None)  # None: an orphan that pid 1 inherited
            if fd is not None:
                with contextlib.suppress(OSError):
                    os.write(fd, str(os.waitstatus_to_exitcode(status)).encode())
                os.close(fd)

    def _up(self, link: str, spec: dict[str, Any], keep: str | None = None, **_: Any) -> dict[str, Any]:
        index, claim = _claim_subnet()
        try:
            pair = SimulatedPair(index, spec)
        except BaseException:
            claim.close()
            raise
        self._links[link], self._claims[link] = pair, claim
        answer: dict[str, Any] = {
            "index": index,
            "ports": pair.ports,
            "facts": pair.facts,
            "burst_bits": pair.burst_bits,
            "namespaces": {end: namespace.inode for end, namespace in pair.ends.items()},
        }
        if keep:
            answer["kept"] = [
                _name_namespace(f"{keep}-{index:x}{end}", namespace.fd) for end, namespace in pair.ends.items()
            ]
        return answer

    def _down(self, link: str, **_: Any) -> None:
        self._links.pop(link).close()
        self._claims.pop(link).close()

    def _shape(self, link: str, packet_bytes: int, **_: Any) -> dict[str, float | None]:
        return self._links[link].shape(packet_bytes)

    def _counters(self, link: str, **_: Any) -> dict[str, dict[str, int]]:
        return self._links[link].counters()

    def _listening(self, link: str, end: str, port: int, **_: Any) -> bool:
        return port in self._links[link].ends[end].listening_ports()

    def _spawn(self, link: str, end: str, argv: list[str], env: dict[str, str], fds: list[int], **_: Any) -> int:
        stdin, stdout, stderr, status = fds
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((stdin, stdout, stderr))]
        try:
            pid: int = (
                self._links[link]
                .ends[end]
                .call(
                    os.posix_spawnp,
                    argv[0],
                    argv,
                    env,
                    file_actions=actions,
                    setpgroup=0,
                    setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD],
                )
            )
        except OSError as error:
            raise LinkError(f"cannot run {argv[0]!r} in the namespace of end {end}: {error.strerror}") from None
        self._children[pid] = status
        return pid

    def _signal(self, pid: int, number: int, **_: Any) -> bool:
        if pid not in self._children:
            return False
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            return False
        return True

    def _socket(self, link: str, end: str, family: int, kind: int, send_fds: list[int], **_: Any) -> None:
        send_fds.append(self._links[link].ends[end].socket(family, kind).detach())


def _real_root() -> bool:
    """Whether uid 0 here is uid 0 of the machine (an identity mapping of the whole range)."""
    return Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]


def _claim_subnet() -> tuple[int, socket.socket]:
    """The first /30 of 198.18.0.0/15 that no other link of this host uses.

    The claim is an abstract UNIX socket name: exclusive between all users, and freed by the kernel with this process.
    """
    for index in range(1, 1 << 15):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0pytest-netperf/subnet/{index}")
        except OSError:
            claim.close()
            continue
        return index, claim
    raise LinkError("all 32767 lab subnets of 198.18.0.0/15 are in use on this host")


def _name_namespace(name: str, fd: int) -> str:
    """Give a namespace a name under /run/netns, as ``ip netns`` does, so that it outlives this process."""
    path = Path(_NETNS_FOLDER, name)
    try:
        path.parent.mkdir(exist_ok=True)
        path.touch(mode=0o444, exist_ok=False)
        kernel.bind_mount(f"/proc/self/fd/{fd}", str(path))
    except OSError as error:
        raise LinkError(
            f"--netperf-keep cannot name a namespace at {path}: {error.strerror}; it needs root and a free name"
        ) from None
    return name


if __name__ == "__main__":
    main()
