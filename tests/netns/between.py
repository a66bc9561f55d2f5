"""A device that the plugin knows nothing about: a namespace of a test, cabled to two ports in this process's own.

    here:  [ a ] ==veth==  the box:  [ p   q ]  ==veth== [ b ]  :here

Names are of one test only; the addresses are in namespaces that nobody shares.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from stand_in import sh, view

ADDRESSES = {
    "a": {"address": "198.18.201.2/24", "gateway": "198.18.201.1"},
    "b": {"address": "198.18.202.2/24", "gateway": "198.18.202.1"},
}
ADDRESSES6 = {
    "a": {"address6": "2001:db8:201::2/64", "gateway6": "2001:db8:201::1"},
    "b": {"address6": "2001:db8:202::2/64", "gateway6": "2001:db8:202::1"},
}


class Box:
    """The device, and the two ports of the tester that are cabled to it."""

    def __init__(self, tag: str) -> None:
        self.a, self.b, self.p, self.q = (f"npb{tag}{end}" for end in "abpq")
        self.mac = {
            end: f"02:00:5e:{tag[:2]}:{tag[2:4]}:{tag[4:5]}{digit}" for end, digit in zip("abpq", "1289", strict=True)
        }
        for port, cabled in (("a", "p"), ("b", "q")):
            sh("ip", "link", "add", getattr(self, port), "address", self.mac[port], "type", "veth",
               "peer", "name", getattr(self, cabled), "address", self.mac[cabled])  # fmt: skip
        self._process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], start_new_session=True)
        here = os.stat("/proc/self/ns/net").st_ino  # noqa: PTH116 - follows the magic link
        while os.stat(f"/proc/{self._process.pid}/ns/net").st_ino == here:  # noqa: PTH116
            time.sleep(0.005)
        for port in (self.p, self.q):
            sh("ip", "link", "set", port, "netns", str(self._process.pid))

    @property
    def pid(self) -> int:
        """A process that lives in it."""
        return self._process.pid

    def run(self, command: str) -> str:
        """Run commands in it, one after the other."""
        return sh("nsenter", "-t", str(self.pid), "-n", "sh", "-ec", command)

    def route(self, *, mtu: int = 1500) -> None:
        """It forwards, with an address at each port."""
        self.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
        for end, port in (("a", self.p), ("b", self.q)):
            four, six = ADDRESSES[end]["gateway"], ADDRESSES6[end]["gateway6"]
            self.run(f"ip link set {port} mtu {mtu} up; ip addr add {four}/24 dev {port}")
            self.run(f"ip addr add {six}/64 dev {port} nodad")

    def switch(self, *, mtu: int = 1500) -> None:
        """It is a bridge."""
        self.run("ip link add br0 type bridge mcast_snooping 0; ip link set br0 up")
        for port in (self.p, self.q):
            self.run(f"ip link set {port} mtu {mtu} master br0 up")

    def nft(self, chain: str, body: str) -> None:
        """One chain of its packet filter."""
        rules = body.replace("; ", "\n")
        self.run(f"nft -f - <<'END'\ntable inet box {{\nchain {chain} {{\n{rules}\n}}\n}}\nEND")

    def sent_bytes(self) -> int:
        """Bytes that it sent towards b."""
        return int(self.run(f"cat /proc/net/dev | grep {self.q}").split()[9])

    def off(self) -> None:
        """Somebody pulls its plug: both ports lose their carrier."""
        self.run(f"ip link set {self.p} down; ip link set {self.q} down")

    def view(self) -> dict[str, Any]:
        """Both ports of the tester as everybody sees them; None for one that is not here."""
        return {name: view(name) for name in (self.a, self.b)}

    def remove(self) -> None:
        """The ports and the box."""
        for name in (self.a, self.b):
            subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)
        self._process.kill()
        self._process.wait()
        assert not any(Path("/sys/class/net", name).exists() for name in (self.a, self.b))
