"""A veth pair that stands in for two network cards and the cable between them, in this process's own namespace.

Names, addresses and routes are of one test only: others may run on this machine at the same time. What a port is, is
read here by `ip`, `ethtool` and /proc, not by the code under test.
"""

from __future__ import annotations

import json
import secrets
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VOLATILE = {"ifindex", "link_index", "link_netnsid", "link", "operstate", "tentative", "dynamic"}
LIFETIMES = {"valid_life_time", "preferred_life_time"}
SYSCTLS = ("ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh")


def sh(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@dataclass
class StandIn:
    """Two ports, ``a`` with everything that can be set on it, ``b`` as a new port is."""

    tag: str = field(default_factory=lambda: secrets.token_hex(3))

    def __post_init__(self) -> None:
        self.a, self.b, self.altname = f"npt{self.tag}a", f"npt{self.tag}b", f"port-of-{self.tag}"
        self.mac = {end: f"02:00:5e:{self.tag[:2]}:{self.tag[2:4]}:{self.tag[4:5]}{end}" for end in "ab"}
        number = int(self.tag, 16)
        self.address4 = f"203.0.113.{number % 32 * 8 + 1}/29"
        self.route4 = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255 & ~3}/30"
        self.gateway4 = f"203.0.113.{number % 32 * 8 + 2}"
        self.net6 = f"2001:db8:{number >> 8:x}:{number & 255:x}"

    def make(self) -> None:
        sh("ip", "link", "add", self.a, "address", self.mac["a"], "type", "veth",
           "peer", "name", self.b, "address", self.mac["b"])  # fmt: skip

    def set_everything(self) -> None:
        """Nothing on port a is what a new port has."""
        a = self.a
        sh("ip", "link", "set", a, "mtu", "1600", "txqueuelen", "777", "alias", "uplink of rack 7", "group", "5")
        sh("ip", "link", "property", "add", "dev", a, "altname", self.altname)
        sh("ethtool", "-K", a, "tso", "off", "gso", "off")
        sh("sysctl", "-qw", f"net.ipv4.conf.{a}.rp_filter=2", f"net.ipv6.conf.{a}.accept_ra=0")
        sh("sysctl", "-qw", f"net.ipv4.neigh.{a}.gc_stale_time=77", f"net.ipv6.conf.{a}.hop_limit=77")
        sh("ip", "link", "set", self.b, "up")
        sh("ip", "link", "set", a, "up", "promisc", "on", "allmulticast", "on")
        sh("ip", "address", "add", self.address4, "dev", a, "valid_lft", "5000", "preferred_lft", "4000")
        sh("ip", "address", "add", f"{self.net6}::1/64", "dev", a, "nodad", "noprefixroute")
        sh("ip", "route", "add", self.route4, "via", self.gateway4, "dev", a, "metric", "77", "mtu", "1300")
        sh("ip", "route", "add", f"{self.net6}:8000::/80", "dev", a, "metric", "78", "table", "777")
        sh("ip", "neigh", "add", self.gateway4, "lladdr", "02:00:5e:00:00:99", "nud", "permanent", "dev", a)

    def remove(self) -> None:
        for name in (self.a, self.b):
            subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)

    def view(self) -> dict[str, Any]:
        """Both ports as everybody sees them; None for one that is not here."""
        return {name: view(name) for name in (self.a, self.b)}


def view(name: str) -> dict[str, Any] | None:
    found = subprocess.run(
        ["ip", "-json", "-details", "address", "show", "dev", name], capture_output=True, text=True, check=False
    )
    if found.returncode:
        return None
    (link,) = json.loads(found.stdout)
    seen: dict[str, Any] = {key: value for key, value in link.items() if key not in VOLATILE | {"addr_info"}}
    seen["flags"] = sorted(set(link["flags"]) - {"LOWER_UP", "NO-CARRIER", "M-DOWN"})
    seen["addresses"] = [_address(each) for each in link["addr_info"]]
    for family in ("-4", "-6"):
        routes = json.loads(sh("ip", family, "-json", "route", "show", "table", "all", "dev", name) or "[]")
        seen[f"routes{family}"] = sorted(
            json.dumps({key: value for key, value in each.items() if key not in ("flags", "pref")}, sort_keys=True)
            for each in routes
            if each.get("protocol") != "kernel" and each.get("type") not in ("multicast", "anycast")
        )
    seen["neighbours"] = sh("ip", "neigh", "show", "dev", name, "nud", "permanent")
    seen["offloads"] = sh("ethtool", "-k", name)
    for option in ("-l", "-g", "-c", "-a", "--show-eee"):
        asked = subprocess.run(["ethtool", option, name], capture_output=True, text=True, check=False)
        seen[f"ethtool {option}"] = asked.stdout
    seen["negotiation"] = _negotiation(name)
    for kind in SYSCTLS:
        for path in sorted((Path("/proc/sys/net") / kind / name).glob("*")):
            try:
                seen[f"{kind}/{path.name}"] = path.read_text()
            except OSError:  # stable_secret that nobody set
                continue
    return seen


def _negotiation(name: str) -> list[str]:
    """What is set of it, not what came of it, from ``ethtool``."""
    said = subprocess.run(["ethtool", name], capture_output=True, text=True, check=False).stdout
    entries = said.replace("\n\t  ", " ").splitlines()  # a list goes on in lines that are indented further
    return [" ".join(each.split()) for each in entries if each.startswith(("\tAdvertised", "\tAuto-", "\tWake-on"))]


def _address(each: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in each.items() if key not in VOLATILE | LIFETIMES | {"protocol"}}
    kept["lifetime"] = {key: each[key] // 100 if each[key] < 10**6 else "forever" for key in LIFETIMES}
    return kept


def unequal(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Field by field, with lifetimes that may be a step lower, and link-local addresses that follow the carrier."""
    found = []
    for name, was in before.items():
        now = after[name]
        if now is None or was is None:
            found.append(f"{name}: was {'there' if was else 'away'}, is {'there' if now else 'away'}")
            continue
        for key in sorted(was.keys() | now.keys()):
            if key == "addresses":
                old, new = (_comparable(side[key]) for side in (was, now))
            else:
                old, new = was.get(key), now.get(key)
            if old != new:
                found.append(f"{name} {key}: was {old!r}, is {new!r}")
    return found


def _comparable(addresses: list[dict[str, Any]]) -> list[str]:
    kept = []
    for each in addresses:
        if each.get("scope") == "link":
            continue
        lifetime = {
            key: value if value == "forever" else round(value / 10) for key, value in each["lifetime"].items()
        }  # in steps of 1000 s
        kept.append(json.dumps({**each, "lifetime": lifetime}, sort_keys=True))
    return kept
