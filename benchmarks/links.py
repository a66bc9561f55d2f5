"""A simulated link up, proved and down again: this package against `ip` calls, `ip -batch` and raw netlink.

All four make the same: two namespaces, a veth pair of MTU 1500 with IPv4 and IPv6 addresses, a TBF on each end, a proof
(a packet of full MTU with DF each way, IPv4 and IPv6), and remove it. `ip` calls are one for each step, as a person
writes a script; `ip -batch` is as few processes as iproute2 allows. All give the two ends different interface indices:
with equal ones the kernel treats the carrier as not urgent, and link-up takes a second. Rounds are interleaved.

    python benchmarks/links.py [--smoke]        (root, iproute2)
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable

MTU = 1500
RATE_BYTES = round(1e9 / 8 * (MTU + 14) / (MTU + 38))
BURST, LIMIT = 369_000, 4_000_000
ADDRESSES = {"a": ("198.18.255.1", "2001:db8:ffff::1"), "b": ("198.18.255.2", "2001:db8:ffff::2")}
NAMES = {"a": "npbencha", "b": "npbenchb"}

_libc = ctypes.CDLL(None, use_errno=True)


def in_namespace(path_or_fd: str | int, work: Callable[[], object]) -> object:
    """Run work in a thread that entered the namespace."""
    answer: list[object] = []

    def enter() -> None:
        fd = os.open(path_or_fd, os.O_RDONLY) if isinstance(path_or_fd, str) else path_or_fd
        if _libc.setns(fd, 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")
        answer.append(work())
        if isinstance(path_or_fd, str):
            os.close(fd)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return answer[0]


def prove(namespaces: dict[str, str | int]) -> None:
    """The proof of `links.simulated`, for the links of the other three."""
    for family, which, headers in ((socket.AF_INET, 0, 28), (socket.AF_INET6, 1, 48)):
        for source, target in (("a", "b"), ("b", "a")):
            sender = in_namespace(namespaces[source], lambda f=family: socket.socket(f, socket.SOCK_DGRAM))
            receiver = in_namespace(namespaces[target], lambda f=family: socket.socket(f, socket.SOCK_DGRAM))
            option = (socket.IPPROTO_IP, 10, 3) if family == socket.AF_INET else (socket.IPPROTO_IPV6, 23, 3)
            sender.setsockopt(*option)
            receiver.bind((ADDRESSES[target][which], 0))
            receiver.setblocking(False)
            for _ in range(100):  # as in `links.simulated`: repeated, the first may be lost to neighbour discovery
                sender.sendto(bytes(MTU - headers), receiver.getsockname()[:2])
                if select.select([receiver], [], [], 0.1)[0]:
                    break
            assert len(receiver.recv(65535)) == MTU - headers
            sender.close()
            receiver.close()


def inside(end: str) -> list[str]:
    """What is set inside of one namespace."""
    return [
        "link set lo up",
        f"link set npv-{end} mtu {MTU}",
        f"addr add {ADDRESSES[end][0]}/30 dev npv-{end}",
        f"addr add {ADDRESSES[end][1]}/64 dev npv-{end} nodad",
        f"link set npv-{end} up",
    ]


def tbf(end: str) -> str:
    return f"qdisc add dev npv-{end} root tbf rate {RATE_BYTES * 8}bit burst {BURST} limit {LIMIT}"


def run(*command: str, text: str | None = None) -> None:
    subprocess.run(command, input=text, text=True, check=True)


def by_ip_calls() -> None:
    for name in NAMES.values():
        run("ip", "netns", "add", name)
    run("ip", "link", "add", "npv-a", "index", "1010", "type", "veth", "peer", "name", "npv-b", "index", "1011")
    for end, name in NAMES.items():
        run("ip", "link", "set", f"npv-{end}", "netns", name)
    for end, name in NAMES.items():
        for step in inside(end):
            run("ip", "-n", name, *step.split())
    for end, name in NAMES.items():
        run("tc", "-n", name, *tbf(end).split())
    prove({end: f"/run/netns/{name}" for end, name in NAMES.items()})
    for name in NAMES.values():
        run("ip", "netns", "del", name)


def by_ip_batch() -> None:
    outside = [f"netns add {name}" for name in NAMES.values()]
    outside += [
        f"link add npv-a index 1010 netns {NAMES['a']} type veth peer name npv-b index 1011 netns {NAMES['b']}",
    ]
    run("ip", "-batch", "-", text="\n".join(outside))
    for end, name in NAMES.items():
        run("ip", "-n", name, "-batch", "-", text="\n".join(inside(end)))
        run("tc", "-n", name, "-batch", "-", text=tbf(end))
    prove({end: f"/run/netns/{name}" for end, name in NAMES.items()})
    run("ip", "-batch", "-", text="\n".join(f"netns del {name}" for name in NAMES.values()))


# ---- raw netlink: the least that the kernel asks for -----------------------------------------------------------------


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("HH", len(data) + 4, kind) + data + b"\0" * (-len(data) % 4)


def request(sock: socket.socket, kind: int, flags: int, body: bytes) -> None:
    sock.send(struct.pack("IHHII", 16 + len(body), kind, 0x5 | flags, 1, 0) + body)
    answer = sock.recv(8192)
    (code,) = struct.unpack_from("i", answer, 16)
    if code:
        raise OSError(-code, os.strerror(-code))


def raw_namespace(answer: dict[str, object], end: str) -> threading.Thread:
    ready = threading.Event()
    done = threading.Event()

    def live() -> None:
        _libc.unshare(0x40000000)
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        sock.bind((0, 0))
        answer[end] = (os.open("/proc/thread-self/ns/net", os.O_RDONLY), sock, done)
        ready.set()
        done.wait()

    thread = threading.Thread(target=live)
    thread.start()
    ready.wait()
    return thread


def by_raw_netlink() -> None:
    ends: dict[str, tuple[int, socket.socket, threading.Event]] = {}
    threads = [raw_namespace(ends, end) for end in NAMES]
    fd_b = ends["b"][0]
    peer = struct.pack("BxHiII", 0, 0, 11, 0, 0) + attribute(3, b"npv-b\0") + attribute(4, struct.pack("I", MTU))
    peer += attribute(28, struct.pack("I", fd_b))
    info = attribute(1, b"veth\0") + attribute(2, attribute(1, peer))
    request(
        ends["a"][1],
        16,
        0x600,
        struct.pack("BxHiII", 0, 0, 10, 0, 0)
        + attribute(3, b"npv-a\0")
        + attribute(4, struct.pack("I", MTU))
        + attribute(18, info),
    )
    for end, (_, sock, _) in ends.items():
        index = {"a": 10, "b": 11}[end]
        request(sock, 16, 0, struct.pack("BxHiII", 0, 0, 1, 1, 1))
        four = socket.inet_aton(ADDRESSES[end][0])
        request(sock, 20, 0x600, struct.pack("BBBBi", 2, 30, 0, 0, index) + attribute(2, four) + attribute(1, four))
        six = socket.inet_pton(socket.AF_INET6, ADDRESSES[end][1])
        request(sock, 20, 0x600, struct.pack("BBBBi", 10, 64, 2, 0, index) + attribute(1, six))
        request(sock, 16, 0, struct.pack("BxHiII", 0, 0, index, 1, 1))
        ticks = round(BURST / RATE_BYTES * 15.625e6)
        rate = struct.pack("BBHhHI", 0, 1, 0, 0, 0, RATE_BYTES)
        parameters = rate + b"\0" * 12 + struct.pack("III", LIMIT, ticks, 0)
        options = attribute(1, parameters) + attribute(6, struct.pack("I", BURST))
        body = struct.pack("BxxxiIII", 0, index, 0x10000000, 0xFFFFFFFF, 0)
        request(sock, 36, 0x600, body + attribute(1, b"tbf\0") + attribute(2, options))
    prove({end: fd for end, (fd, _, _) in ends.items()})
    for fd, sock, done in ends.values():
        done.set()
        sock.close()
        os.close(fd)
    for thread in threads:
        thread.join()


def main() -> None:
    from pytest_netperf.links.link import bring_up
    from pytest_netperf.links.owner import Owner

    rounds = 3 if "--smoke" in sys.argv else 40
    owner = Owner()
    number = 0

    def ours() -> None:
        nonlocal number
        number += 1
        bring_up(owner, f"bench-{number}", name="bench", speed_bps=1e9, mtu=MTU).close()

    ours()  # pyroute2 is loaded once
    variants = {
        "raw netlink": by_raw_netlink,
        "pytest-netperf": ours,
        "ip -batch": by_ip_batch,
        "ip calls": by_ip_calls,
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, variant in variants.items():
            started = time.perf_counter()
            variant()
            times[name].append(time.perf_counter() - started)
            time.sleep(0.1)  # the kernel's own clean-up of the last one
    owner.close()
    medians = {name: statistics.median(values) for name, values in times.items()}
    ours_s = medians["pytest-netperf"]
    print(f"a link up, proved and down, median of {rounds} interleaved rounds")
    for name, median in medians.items():
        print(f"  {name:<16}{median * 1e3:8.1f} ms   {median / ours_s:6.2f} x of ours")
    print(f"  ours / raw netlink: {ours_s / medians['raw netlink']:.2f} (goal <= 3.5)")
    print(f"  ip -batch / ours:   {medians['ip -batch'] / ours_s:.2f} (goal >= 2)")
    print(f"  ip calls / ours:    {medians['ip calls'] / ours_s:.2f} (goal >= 5)")


if __name__ == "__main__":
    main()
