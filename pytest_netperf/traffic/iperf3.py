"""The iperf3 program as a traffic engine."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_netperf.errors import MarkError, TrafficError
from pytest_netperf.traffic.ends import run_between

if TYPE_CHECKING:
    from pytest_netperf.links.link import Link
    from pytest_netperf.traffic.engine import Watch
    from pytest_netperf.traffic.result import Result, Workload

__all__ = ["Iperf3Engine", "client_arguments", "installed_version", "server_arguments"]

_STEER_FROM_BPS = 5e9

# Option of a workload -> (iperf3 flag, first version that knows it). Sources: iperf3's release notes.
_NEEDS = {
    "bidirectional": ("--bidir", (3, 7)),
    "dscp": ("--dscp", (3, 2)),
    "congestion": ("-C", (3, 1)),
}
_OLDEST = (3, 1)
_JSON_STREAM = (3, 17)


def parse_version(text: str) -> tuple[int, ...] | None:
    """(3, 12) from "iperf 3.12 (cJSON 1.7.15)"; None when there is no version in it."""
    found = re.search(r"\biperf\s+(\d+(?:\.\d+)+)", text)
    return tuple(int(part) for part in found[1].split(".")) if found else None


@functools.lru_cache(maxsize=8)
def installed_version(path: str, _modified: float) -> str:
    """What ``iperf3 --version`` says, e.g. "iperf 3.12". Raises TrafficError when it is no iperf3."""
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TrafficError(f"{path} --version failed: {error}") from None
    version = parse_version(answer.stdout)
    if version is None or version[0] != 3:
        said = (answer.stdout or answer.stderr).strip().splitlines()
        raise TrafficError(f"{path} is not iperf3: asked for its version it said {said[:1] or 'nothing'}")
    return "iperf " + ".".join(map(str, version))


class Iperf3Engine:
    """Runs ``iperf3`` at both ends: a fresh one-off server on a fresh port for every run."""

    name = "iperf3"
    can_stop = True

    def __init__(self) -> None:
        path = shutil.which("iperf3")
        if path is None:
            raise TrafficError(
                "iperf3 is not installed (not found in PATH): `sudo apt-get install iperf3`, or choose the library "
                "with --netperf-engine libiperf"
            )
        self._path = path
        self.version = installed_version(path, Path(path).stat().st_mtime)
        self._version = parse_version(self.version) or (0,)

    def check(self, workload: Workload) -> None:
        """Raise MarkError for an option that the installed version does not know."""
        asked = {
            "bidirectional": workload.direction == "bidirectional",
            "dscp": workload.dscp is not None,
            "congestion": workload.congestion is not None,
        }
        if self._version < _OLDEST:
            raise TrafficError(
                f"{self.version} is too old: iperf3 3.1 or newer is needed; install one (sudo apt-get install iperf3), "
                "or choose the library with --netperf-engine libiperf"
            )
        for option, wanted in asked.items():
            flag, needed = _NEEDS[option]
            if wanted and self._version < needed:
                version = ".".join(map(str, needed))
                raise MarkError(f"{option} needs iperf3 {version} or newer ({flag}); this machine has {self.version}")
        check_congestion(workload.congestion)

    def run(self, link: Link, workload: Workload, watch: Watch | None = None) -> Result:
        """See `traffic.engine.Engine`."""
        self.check(workload)
        there = link.b.iperf3_version or self.version
        if there != self.version:
            self._check_far_end(workload, there)
        port = link.next_port()
        address = target_address(link, workload)
        client = [self._path, *client_arguments(workload, address, port, affinity=affinity_for(link))]
        server = [self._path, *server_arguments(workload, address, port)]
        if min(self._version, parse_version(there) or (0,)) >= _JSON_STREAM:
            # each end prints what it receives, as soon as an interval is over
            for command in (client, server):
                command[command.index("-J")] = "--json-stream"
        return run_between(
            link,
            workload,
            engine=self.name,
            port=port,
            server_command=server,
            client_command=client,
            client_version=self.version.removeprefix("iperf "),
            server_version=there.removeprefix("iperf "),
            watch=watch,
        )

    def _check_far_end(self, workload: Workload, there: str) -> None:
        """Raise TrafficError where another host has an iperf3 that cannot do its part."""
        needed = _NEEDS["bidirectional"][1] if workload.direction == "bidirectional" else _OLDEST
        if (parse_version(there) or (0,)) < needed:
            version = ".".join(map(str, needed))
            raise TrafficError(
                f"the far end has {there}, and {workload.direction} runs need iperf3 {version} or newer at both ends: "
                "install a newer one there"
            )


def target_address(link: Link, workload: Workload) -> str:
    """The address of end b in the workload's IP version. Raises MarkError where the link has none."""
    address = link.b.address6 if workload.ip_version == 6 else link.b.address
    if address is None:
        raise MarkError(f"ip_version=6: link {link.name} has no IPv6 addresses (IPv6 is off, or its MTU is below 1280)")
    return address


def affinity_for(link: Link) -> tuple[int, int] | None:
    """CPUs for client and server where pinning helps: fast shaped links on a machine with two CPUs or more.

    An unshaped link is 2 % faster where the scheduler may choose.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if link.simulated and len(cpus) >= 2 and (link.speed_bps or 0.0) >= _STEER_FROM_BPS:
        return cpus[0], cpus[1]
    return None


def server_arguments(workload: Workload, address: str, port: int) -> list[str]:
    """Arguments of the one-off server."""
    return [
        "-s",
        "-1",
        "-J",
        f"-{workload.ip_version}",
        "-B",
        address,
        "-p",
        str(port),
        "-i",
        f"{workload.interval_s:g}",
    ]


def client_arguments(
    workload: Workload, address: str, port: int, *, affinity: tuple[int, int] | None = None
) -> list[str]:
    """Arguments of the client that ask for exactly this workload."""
    arguments = ["-c", address, "-p", str(port), "-J", f"-{workload.ip_version}"]
    arguments += ["-t", f"{workload.duration_s:g}", "-i", f"{workload.interval_s:g}"]
    if workload.omit_s:
        arguments += ["-O", f"{workload.omit_s:g}"]
    if workload.protocol == "udp":
        arguments += ["-u"]
    if workload.direction == "reverse":
        arguments += ["-R"]
    if workload.direction == "bidirectional":
        arguments += ["--bidir"]
    if workload.streams > 1:
        arguments += ["-P", str(workload.streams)]
    if workload.bitrate_bps is not None:  # iperf3's -b is per stream
        arguments += ["-b", f"{workload.bitrate_bps / workload.streams:.0f}"]
    if workload.length_bytes is not None:
        arguments += ["-l", str(workload.length_bytes)]
    if workload.mss_bytes is not None:
        arguments += ["-M", str(workload.mss_bytes)]
    if workload.window_bytes is not None:
        arguments += ["-w", str(workload.window_bytes)]
    if workload.congestion is not None:
        arguments += ["-C", workload.congestion]
    if workload.dscp is not None:
        arguments += ["--dscp", str(workload.dscp)]
    if workload.zerocopy:
        arguments += ["-Z"]
    if affinity is not None:
        arguments += ["-A", f"{affinity[0]},{affinity[1]}"]
    return arguments


def check_congestion(name: str | None) -> None:
    """Raise MarkError when the kernel does not offer this congestion control (``None`` is the kernel's default)."""
    if name is None:
        return
    offered = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    if name not in offered:
        raise MarkError(
            f"congestion={name!r}: this kernel offers {', '.join(offered)}; `sudo modprobe tcp_{name}` may add it"
        )
