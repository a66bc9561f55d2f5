"""A network namespace without a name, owned by one long-lived thread of the keeper.

The kernel destroys it when the thread and the file descriptor are gone, so it cannot leak. Sockets, netlink and
processes of the namespace are all made in its thread: an IPRoute opened in one namespace and used from another thread
works silently on the wrong one.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pytest_netperf.errors import KeeperError
from pytest_netperf.links.kernel import CLONE_NEWNET, setns, sysfs_of_this_thread, unshare, user_namespace_advice

__all__ = ["Namespace"]

T = TypeVar("T")

_TCP_LISTEN = 10
_ATF_COM = 0x2  # linux/if_arp.h: the entry is complete


class _Held(NamedTuple):
    fd: int
    inode: int
    ipr: Any


class Namespace:
    """One anonymous network namespace and the thread that lives in it. Raises KeeperError where the kernel refuses.

    With ``join``, the descriptor of a namespace that is there already, its thread lives in that one.
    """

    def __init__(self, name: str, join: int | None = None) -> None:
        self.name = name
        self._join = join
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._started: Future[_Held] = Future()
        self._thread = threading.Thread(target=self._live, name=f"netns-{name}", daemon=True)
        self._thread.start()

    def _live(self) -> None:
        from pyroute2 import IPRoute

        with contextlib.ExitStack() as stack:
            try:
                _enter(self._join)
                fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, fd)
                ipr = stack.enter_context(IPRoute(ext_ack=True))
                if self._join is None:
                    ipr.link("set", index=1, state="up")
            except BaseException as error:  # noqa: BLE001 - the thread has nobody else to tell
                self._started.set_exception(error)
                return
            self._started.set_result(_Held(fd, os.fstat(fd).st_ino, ipr))
            while (call := self._calls.get()) is not None:
                function, answer = call
                try:
                    answer.set_result(function())
                except BaseException as error:  # noqa: BLE001 - raised again in the caller by answer.result()
                    answer.set_exception(error)
                del call, function, answer  # the next call may be hours away

    def wait_started(self) -> None:
        """Wait until the namespace is there (two of them start faster side by side). Raises what kept it from it."""
        self._started.result()

    @property
    def fd(self) -> int:
        """The descriptor that holds the namespace; this, `inode` and `ipr` wait until it is there."""
        return self._started.result().fd

    @property
    def inode(self) -> int:
        """Inode number of the namespace, as in /proc/PID/ns/net."""
        return self._started.result().inode

    @property
    def ipr(self) -> Any:
        """pyroute2's IPRoute of the namespace, for use in its thread."""
        return self._started.result().ipr

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run ``function`` in the namespace's thread and give back what it returns or raises."""
        return self.submit(function, *args, **kwargs).result()

    def submit(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
        """As `call`, without waiting: two namespaces work side by side."""
        self.wait_started()
        answer: Future[T] = Future()
        self._calls.put((lambda: function(*args, **kwargs), answer))
        return answer

    def socket(self, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """A socket that lives in this namespace, usable from any thread."""
        return self.call(socket.socket, family, kind, protocol)

    def listening_ports(self) -> set[int]:
        """TCP ports somebody listens on here (a connect as a probe would end a one-off iperf3 server)."""
        return self.call(_listening_ports)

    def steer(self, interface: str, cpu: int) -> bool:
        """Process what ``interface`` receives on one CPU (RPS), so that nothing is reordered. False: not possible."""
        return self.call(_steer, interface, cpu)

    @staticmethod
    def neighbours_here() -> dict[str, str]:
        """IPv4 address -> MAC address of every neighbour that answered, seen from the thread that asks."""
        lines = Path("/proc/thread-self/net/arp").read_text().splitlines()[1:]
        fields = [line.split() for line in lines]
        return {field[0]: field[3] for field in fields if int(field[2], 16) & _ATF_COM}

    def udp_buffer_errors(self) -> int:
        """Datagrams dropped here so far because a receive buffer was full."""
        return self.call(_udp_buffer_errors)

    def close(self) -> None:
        """Tell the thread to end; the namespace goes when its last process and descriptor have gone."""
        self._calls.put(None)


def _enter(join: int | None) -> None:
    if join is not None:
        setns(join)
        return
    try:
        unshare(CLONE_NEWNET)
    except OSError as error:
        raise KeeperError(user_namespace_advice(error.errno)) from None


def _listening_ports() -> set[int]:
    """By sock_diag, which looks at listeners only: /proc/net/tcp walks the whole hash of connections, 9 ms on a machine
    with 24 GB. The kernel's module for it may be missing."""
    from pyroute2 import DiagSocket

    try:
        with DiagSocket() as diag:
            return {
                found["idiag_sport"]
                for family in (socket.AF_INET, socket.AF_INET6)
                for found in diag.get_sock_stats(family=family, states=1 << _TCP_LISTEN)
            }
    except Exception:  # noqa: BLE001 - whatever kept it from answering, the table in /proc answers too
        return _listening_ports_in_proc()


def _listening_ports_in_proc() -> set[int]:
    ports = set()
    for table in ("/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A":
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


def _steer(interface: str, cpu: int) -> bool:
    try:
        folder = sysfs_of_this_thread()
    except OSError:
        return False
    try:
        file = os.open(f"class/net/{interface}/queues/rx-0/rps_cpus", os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.write(file, f"{1 << cpu:x}".encode())
        finally:
            os.close(file)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


def _udp_buffer_errors() -> int:
    names, values = (
        line.split()[1:]
        for line in Path("/proc/thread-self/net/snmp").read_text().splitlines()
        if line.startswith("Udp:")
    )
    total = int(values[names.index("RcvbufErrors")])
    with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
        for line in Path("/proc/thread-self/net/snmp6").read_text().splitlines():
            if line.startswith("Udp6RcvbufErrors"):
                total += int(line.split()[1])
    return total
