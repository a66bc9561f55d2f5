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
from typing import Any, TypeVar

from pytest_netperf.links.kernel import CLONE_NEWNET, sysfs_of_this_thread, unshare

__all__ = ["Namespace"]

T = TypeVar("T")


class Namespace:
    """One anonymous network namespace and the thread that lives in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._live, args=(started,), name=f"netns-{name}", daemon=True)
        self._thread.start()
        started.result()

    def _live(self, started: Future[None]) -> None:
        from pyroute2 import IPRoute

        try:
            unshare(CLONE_NEWNET)
            self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            self.inode = os.fstat(self.fd).st_ino
            self.ipr = IPRoute(ext_ack=True)
            self.ipr.link("set", index=1, state="up")
        except BaseException as error:  # noqa: BLE001 - the thread has nobody else to tell
            started.set_exception(error)
            return
        started.set_result(None)
        while (call := self._calls.get()) is not None:
            function, answer = call
            try:
                answer.set_result(function())
            except BaseException as error:  # noqa: BLE001 - raised again in the caller by answer.result()
                answer.set_exception(error)
        self.ipr.close()
        os.close(self.fd)

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run ``function`` in the namespace's thread and give back what it returns or raises."""
        answer: Future[T] = Future()
        self._calls.put((lambda: function(*args, **kwargs), answer))
        return answer.result()

    def socket(self, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """A socket that lives in this namespace, usable from any thread."""
        return self.call(socket.socket, family, kind, protocol)

    def listening_ports(self) -> set[int]:
        """TCP ports somebody listens on here (a connect as a probe would end a one-off iperf3 server)."""
        return self.call(_listening_ports)

    def steer(self, interface: str, cpu: int) -> bool:
        """Process what ``interface`` receives on one CPU (RPS), so that nothing is reordered. False: not possible."""
        return self.call(_steer, interface, cpu)

    def udp_buffer_errors(self) -> int:
        """Datagrams dropped here so far because a receive buffer was full."""
        return self.call(_udp_buffer_errors)

    def close(self) -> None:
        """End the thread; the namespace goes when its last process and descriptor have gone."""
        self._calls.put(None)
        self._thread.join()


def _listening_ports() -> set[int]:
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
