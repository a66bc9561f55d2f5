"""The host at the far end of a link: what it is, what its port counts, and what listens there. Asked by plain sh.

It needs nothing installed but iperf3: a POSIX shell, /sys and /proc, and `ip` for the addresses, as OpenWrt has them.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pytest_netperf.errors import LinkError
from pytest_netperf.remote.ssh import SshConnection

__all__ = ["FarHost", "FarPort", "FarWork", "PortReading"]

Duplex = Literal["full", "half"] | None

_SECONDS: Final = 10.0
_PATHS: Final = "LC_ALL=C PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; export LC_ALL PATH\n"

_FIND: Final = """
cd /sys/class/net || exit 3
p=
case $1 in
mac-*) for n in *; do [ "$(cat $n/address 2>/dev/null)" = "${1#mac-}" ] && p=$n && break; done ;;
pci-*) for n in *; do case $(readlink -f $n/device) in */"${1#pci-}") p=$n; break ;; esac; done ;;
altname-*) p=$(ip -o link show dev "${1#altname-}" 2>/dev/null | sed 's/^[0-9]*: \\([^:@]*\\).*/\\1/') ;;
*) [ -d "$1" ] && p=$1 ;;
esac
echo "port=$p"
for n in *; do echo "has=$n"; done
"""
_LOOK: Final = (
    _FIND
    + """
echo "kernel=$(uname -sr)"
echo "host=$(uname -n)"
echo "iperf3_path=$(command -v "$2")"
echo "iperf3=$("$2" --version 2>/dev/null | head -n 1)"
echo "iperf=$(command -v iperf)"
if [ -n "$p" ]; then
    for f in address mtu operstate carrier speed duplex; do echo "$f=$(cat $p/$f 2>/dev/null)"; done
    [ -r $p/statistics/rx_bytes ] && echo counts=yes
    echo "driver=$(readlink $p/device/driver | sed 's|.*/||')"
    ethtool -i $p 2>/dev/null | sed 's/^/ethtool_/; s/: */=/'
    ip -o addr show dev $p 2>/dev/null | while read -r i n f a rest; do echo "$f=$a"; done
fi
"""
)
_READ: Final = """
cd "/sys/class/net/$1" || exit 3
for f in mtu speed duplex; do echo "$f=$(cat $f 2>/dev/null)"; done
echo "rx_missed=$(cat statistics/rx_missed_errors 2>/dev/null)"
echo "rx_crc_errors=$(cat statistics/rx_crc_errors 2>/dev/null)"
"""
_COUNT: Final = """
cd "/sys/class/net/$1/statistics" || exit 3
for f in rx_bytes tx_bytes rx_packets tx_packets rx_errors tx_errors rx_dropped tx_dropped; do
    read -r v < $f; echo "$f=$v"
done
read -r v < ../carrier_changes; echo "carrier_changes=$v"
grep '^Udp:' /proc/net/snmp
grep '^Udp6RcvbufErrors' /proc/net/snmp6
grep '^cpu[0-9]' /proc/stat
sed 's/^/softnet /' /proc/net/softnet_stat 2>/dev/null
exit 0
"""
_HOLD_MTU: Final = """
p=/sys/class/net/$1/mtu
read -r old < $p && echo "$2" > $p || exit 1
trap 'echo "$old" > $p; kill $z; exit 0' HUP TERM
sleep 86400 >/dev/null 2>&1 & z=$!
echo held
while :; do wait $z; done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FarPort:
    """What was seen of the far host and its port."""

    interface: str
    mac: str
    mtu: int
    carrier: bool
    address: str | None
    """IPv4 and IPv6 with prefix length; None where it has none, or several and nobody said which."""
    address6: str | None
    addresses: tuple[str, ...]
    """All of them but link-local ones."""
    kernel: str
    host: str
    iperf3: str
    """Path there."""
    iperf3_version: str
    """As its first line says, without what is in brackets: "iperf 3.12"."""
    driver: str | None
    driver_version: str | None
    firmware: str | None
    bus_address: str | None
    speed_bps: float | None
    duplex: Duplex
    clock_ahead_s: float | None
    """How far its clock of the day is ahead of ours, in s; None where it does not say fractions of a second."""
    clock_within_s: float
    """How exactly that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortReading:
    """What is true of a far port at one moment; None is not known."""

    mtu: int
    speed_bps: float | None
    duplex: Duplex
    trouble: Mapping[str, int]
    """What its driver counted so far: rx_missed, rx_crc_errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FarWork:
    """What the far host had to do since it was started."""

    cpus: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """CPU -> its ticks that were busy, and all of them."""
    softnet_dropped: int | None = None
    """Packets that it dropped because the queue of a CPU was full."""


class FarHost:
    """Asks over a connection that somebody else opens and closes."""

    def __init__(self, connection: SshConnection, namespace: str | None = None) -> None:
        self.connection = connection
        self.namespace = namespace
        self.name = str(connection.target)

    def command(self, script: str, *arguments: str) -> list[str]:
        """The words that run a script there, in the far namespace where there is one."""
        words = ["sh", "-c", _PATHS + script, "sh", *arguments]
        if self.namespace is None:
            return words
        return ["sh", "-c", _PATHS + 'exec ip netns exec "$@"', "sh", self.namespace, *words]

    def ask(self, script: str, *arguments: str) -> str:
        """What a script prints there. Raises SshError or LinkError."""
        answer = self.connection.run(self.command(script, *arguments), timeout=_SECONDS, called="what we asked it")
        if answer.status:
            said = (answer.stderr or answer.stdout).strip()[-300:] or f"status {answer.status}"
            where = "" if self.namespace is None else f" in its network namespace {self.namespace!r}"
            raise LinkError(f"{self.name}: the host cannot be asked{where}: {said}")
        return answer.stdout

    def look(self, port: str, iperf3: str) -> FarPort:
        """What there is. Raises LinkError where the port, its counters or an iperf3 is missing."""
        found: dict[str, str] = {}
        lists: dict[str, list[str]] = {"has": [], "inet": [], "inet6": []}
        for line in self.ask(_LOOK, port.lower() if port.startswith("mac-") else port, iperf3).splitlines():
            key, _, value = line.partition("=")
            if key in lists:
                lists[key].append(value)
            else:
                found[key] = value
        if not found.get("port"):
            ports = ", ".join(name for name in lists["has"] if name not in ("lo", "bonding_masters")) or "none"
            where = "" if self.namespace is None else f" in its namespace {self.namespace!r}"
            raise LinkError(f"{self.name}: there is no port {port!r}{where}; it has {ports}")
        if found.get("counts") != "yes":
            raise LinkError(
                f"{self.name}: its port {port} has no counters in /sys/class/net, and without them nothing proves that "
                "the data crossed this link; a far end must be a Linux host whose /sys can be read"
            )
        version = self._version(found, iperf3)
        all4 = tuple(lists["inet"])
        all6 = tuple(each for each in lists["inet6"] if not ipaddress.ip_interface(each).is_link_local)
        speed_bps, duplex = _speed_and_duplex(found.get("speed", ""), found.get("duplex", ""))
        ahead, within = self._clock()
        return FarPort(
            interface=found["port"],
            mac=found["address"],
            mtu=int(found["mtu"]),
            carrier=found.get("carrier") == "1",
            address=all4[0] if len(all4) == 1 else None,
            address6=all6[0] if len(all6) == 1 else None,
            addresses=(*all4, *all6),
            kernel=found["kernel"],
            host=found["host"],
            iperf3=found["iperf3_path"],
            iperf3_version=version,
            driver=found.get("ethtool_driver") or found.get("driver") or None,
            driver_version=found.get("ethtool_version") or None,
            firmware=found.get("ethtool_firmware-version") or None,
            bus_address=found.get("ethtool_bus-info") or None,
            speed_bps=speed_bps,
            duplex=duplex,
            clock_ahead_s=ahead,
            clock_within_s=within,
        )

    def _version(self, found: dict[str, str], iperf3: str) -> str:
        if not found.get("iperf3_path"):
            other = "; it has an iperf, which is version 2 and another program" if found.get("iperf") else ""
            raise LinkError(
                f"{self.name}: there is no {iperf3}{other}. Install iperf3 there, or say where it is: "
                'iperf3 = "/path/to/iperf3" at this end of the bench file'
            )
        words = found.get("iperf3", "").split()
        if len(words) < 2 or words[0] != "iperf" or words[1].partition(".")[0] != "3":
            raise LinkError(
                f"{self.name}: {found['iperf3_path']} is not iperf3: asked for its version it says "
                f"{found.get('iperf3') or 'nothing'!r}, and both ends need iperf 3; install iperf3 there, or say "
                'where it is: iperf3 = "/path/to/iperf3" at this end of the bench file'
            )
        return " ".join(words[:2])

    def _clock(self) -> tuple[float | None, float]:
        """As the middle of the question; half of its way there and back may be on either side."""
        before, begun = time.time(), time.monotonic()
        said = self.connection.run("date +%s.%N", timeout=_SECONDS).stdout.strip()
        took = time.monotonic() - begun
        try:
            return round(float(said) - before - took / 2, 4), round(took / 2, 4)
        except ValueError:
            return None, round(took / 2, 4)

    def counters(self, interface: str) -> tuple[dict[str, int], FarWork]:
        """The counters of a port, as `observe.observation.PortCounters` names them, and what the host did."""
        counted: dict[str, int] = {"udp_buffer_errors": 0}
        cpus: dict[str, tuple[int, int]] = {}
        udp: list[list[str]] = []
        dropped: int | None = None
        for line in self.ask(_COUNT, interface).splitlines():
            key, _, value = line.partition("=")
            words = line.split()
            if line.startswith("Udp:"):
                udp.append(words)
            elif line.startswith("Udp6RcvbufErrors"):
                counted["udp_buffer_errors"] += int(words[1])
            elif line.startswith("softnet "):
                dropped = (dropped or 0) + int(words[2], 16)
            elif line.startswith("cpu"):
                ticks = [int(word) for word in words[1:9]]
                cpus[words[0]] = sum(ticks) - ticks[3] - ticks[4], sum(ticks)
            else:
                counted[key] = int(value)
        if len(udp) == 2:
            counted["udp_buffer_errors"] += int(dict(zip(*udp, strict=True)).get("RcvbufErrors", 0))
        return counted, FarWork(cpus=cpus, softnet_dropped=dropped)

    def read_port(self, interface: str) -> PortReading:
        """What a port is at this moment beside its counters of traffic."""
        found = dict(line.partition("=")[::2] for line in self.ask(_READ, interface).splitlines())
        speed_bps, duplex = _speed_and_duplex(found.get("speed", ""), found.get("duplex", ""))
        trouble = {name: int(found[name]) for name in ("rx_missed", "rx_crc_errors") if found.get(name)}
        return PortReading(mtu=int(found["mtu"]), speed_bps=speed_bps, duplex=duplex, trouble=trouble)

    def has_carrier(self, interface: str) -> bool:
        """Whether a port has a carrier now; one that is down has none."""
        return self.ask('cat "/sys/class/net/$1/carrier" 2>/dev/null; exit 0', interface).strip() == "1"

    def listening_ports(self) -> set[int]:
        """TCP ports somebody listens on there."""
        lines = self.ask("cat /proc/net/tcp /proc/net/tcp6 2>/dev/null; exit 0").splitlines()
        fields = [line.split() for line in lines]
        return {int(each[1].rpartition(":")[2], 16) for each in fields if len(each) > 3 and each[3] == "0A"}

    def hold_mtu(self, interface: str, mtu: int) -> list[str]:
        """The words of a program that gives a port an MTU, says "held", and takes it back when it ends."""
        return self.command(_HOLD_MTU, interface, str(mtu))


def _speed_and_duplex(speed: str, duplex: str) -> tuple[float | None, Duplex]:
    """As the kernel's files say them: Mbit/s, -1 or nothing without a carrier."""
    known: Duplex = "full" if duplex == "full" else "half" if duplex == "half" else None
    return (int(speed) * 1e6 if speed.isdecimal() and int(speed) > 0 else None), known
