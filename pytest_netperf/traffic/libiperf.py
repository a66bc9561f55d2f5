"""libiperf as a traffic engine, through the PyPI package ``iperf3``; for machines that have the library but no program.

Neither the package nor the library is loaded into the pytest process: both ends of a run, and the question what is
installed, are child processes (`libiperf_child`, which also says what of the package is avoided and why).
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_netperf.errors import MarkError, TrafficError
from pytest_netperf.traffic.ends import run_between
from pytest_netperf.traffic.iperf3 import affinity_for, check_congestion, parse_version, target_address

if TYPE_CHECKING:
    from pytest_netperf.links.link import Link
    from pytest_netperf.traffic.engine import Watch
    from pytest_netperf.traffic.result import Result, Workload

__all__ = ["LibiperfEngine", "Library", "client_settings", "installed_library", "server_settings"]

_INSTALL = (
    "it needs the Python package (`pip install iperf3`, or the extra pytest-netperf[libiperf]) and the library "
    "(`sudo apt-get install libiperf0`); the iperf3 program needs neither (--netperf-engine iperf3)"
)
_OLDEST = (3, 1)
_PROBE_SECONDS = 30.0
_INT_MAX = 2**31 - 1

# Field of a workload -> the library's functions for it that the package does not offer.
_FUNCTIONS = {
    "interval_s": ("iperf_set_test_reporter_interval", "iperf_set_test_stats_interval"),
    "direction": ("iperf_set_test_bidirectional",),
    "mss_bytes": ("iperf_set_test_mss",),
    "window_bytes": ("iperf_set_test_socket_bufsize",),
    "congestion": ("iperf_set_test_congestion_control",),
    "dscp": ("iperf_set_test_tos",),
}
_ONE_OFF = "iperf_set_test_one_off"


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """What is installed on this machine."""

    version: str
    """For example "3.12"."""
    functions: frozenset[str]
    """Those of the functions we use that this library has."""
    zerocopy: bool


@functools.lru_cache(maxsize=1)
def installed_library() -> Library:
    """Ask a child process that loads package and library. Raises TrafficError when one of them is missing."""
    wanted = sorted({_ONE_OFF, *(name for names in _FUNCTIONS.values() for name in names)})
    try:
        child = subprocess.run(
            _command({"probe": wanted}),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
        answer = json.loads(child.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TrafficError(f"the libiperf engine could not be tried: {error}") from None
    except json.JSONDecodeError:
        words = child.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise TrafficError(
            f"the libiperf engine could not be tried: {words[0]} (exit code {child.returncode}); {_INSTALL}"
        ) from None
    if "missing" in answer:
        what = "Python package iperf3" if answer["missing"] == "package" else "library libiperf"
        raise TrafficError(f"the libiperf engine cannot load the {what} ({answer['error']}): {_INSTALL}")
    library = msgspec.convert(answer, Library)
    if (parse_version(f"iperf {library.version}") or (0,)) < _OLDEST:
        raise TrafficError(f"libiperf says it is version {library.version!r}: 3.1 or newer is needed")
    return library


class LibiperfEngine:
    """Runs libiperf at both ends: one fresh process each, a fresh port for every run."""

    name = "libiperf"
    can_stop = False  # the library has no way to say "that is enough"; only the program handles SIGINT

    def __init__(self) -> None:
        self._library = installed_library()
        self.version = f"libiperf {self._library.version}"

    def check(self, workload: Workload) -> None:
        """Raise MarkError for what the installed library cannot be told to do."""
        for field in _asked(workload):
            missing = [name for name in _FUNCTIONS[field] if name not in self._library.functions]
            if missing:
                argument = f"{field.removesuffix('_bytes').removesuffix('_s')}={getattr(workload, field)!r}"
                raise MarkError(
                    f"{argument}: {self.version} cannot do it (it has no {missing[0]}); "
                    "choose the iperf3 program (--netperf-engine iperf3)"
                )
        if workload.zerocopy and not self._library.zerocopy:
            raise MarkError(f"zerocopy=True: {self.version} was built without it; leave it out")
        if workload.window_bytes is not None and workload.window_bytes > _INT_MAX:
            raise MarkError(f"window={workload.window_bytes}: libiperf takes at most {_INT_MAX} bytes")
        for name, seconds in (("duration", workload.duration_s), ("omit", workload.omit_s)):
            if seconds != int(seconds):
                raise MarkError(f"{name}={seconds!r}: libiperf takes whole seconds")
        if workload.protocol == "udp" and workload.bitrate_bps is None:
            raise MarkError("bitrate=None: libiperf would send UDP as fast as it can; say how much, e.g. '900 Mbps'")
        check_congestion(workload.congestion)

    def run(self, link: Link, workload: Workload, watch: Watch | None = None) -> Result:
        """See `traffic.engine.Engine`."""
        self.check(workload)
        if link.b.iperf3_version is not None:
            raise TrafficError(
                f"end b of link {link.name} is on another host, where the libiperf engine cannot be started; choose "
                "the iperf3 program (--netperf-engine iperf3)"
            )
        port = link.next_port()
        address = target_address(link, workload)
        client_cpu, server_cpu = affinity_for(link) or (None, None)
        server = server_settings(workload, address, port, cpu=server_cpu)
        if _ONE_OFF not in self._library.functions:
            del server["functions"][_ONE_OFF]  # each process runs once anyway
        return run_between(
            link,
            workload,
            engine=self.name,
            port=port,
            server_command=_command(server),
            client_command=_command(client_settings(workload, address, port, cpu=client_cpu)),
            client_version=self._library.version,
            server_version=self._library.version,
            environment=_environment(),
            watch=watch,
        )


def server_settings(workload: Workload, address: str, port: int, *, cpu: int | None = None) -> dict[str, Any]:
    """What the child is told for a one-off server: attributes of the package's object, functions of the library."""
    functions: dict[str, Any] = {_ONE_OFF: 1}
    functions |= dict.fromkeys(_FUNCTIONS["interval_s"], float(workload.interval_s))
    return {"role": "s", "properties": {"port": port, "bind_address": address}, "functions": functions, "cpu": cpu}


def client_settings(workload: Workload, address: str, port: int, *, cpu: int | None = None) -> dict[str, Any]:
    """What the child is told for a client that does exactly this workload."""
    properties: dict[str, Any] = {"server_hostname": address, "port": port}
    properties["protocol"] = workload.protocol  # before blksize, whose setter looks at it
    properties["duration"] = int(workload.duration_s)
    properties["omit"] = int(workload.omit_s)
    properties["num_streams"] = workload.streams
    if workload.direction == "reverse":
        properties["reverse"] = True
    if workload.zerocopy:
        properties["zerocopy"] = True
    if workload.bitrate_bps is not None:  # libiperf's rate is per stream
        properties["bandwidth"] = round(workload.bitrate_bps / workload.streams)
    if workload.length_bytes is not None:
        properties["blksize"] = workload.length_bytes
    elif workload.protocol == "udp":
        properties["blksize"] = 0  # from the path's MSS, as the program does; the package would send 65,507 bytes
    functions: dict[str, Any] = {}
    for field, value in _asked(workload).items():
        functions |= dict.fromkeys(_FUNCTIONS[field], value)
    return {"role": "c", "properties": properties, "functions": functions, "cpu": cpu}


def _asked(workload: Workload) -> dict[str, int | float | str]:
    """The fields of the workload that need a function of the library, each with what the function is given."""
    values: dict[str, int | float | str | None] = {
        "interval_s": float(workload.interval_s),
        "direction": 1 if workload.direction == "bidirectional" else None,
        "mss_bytes": workload.mss_bytes,
        "window_bytes": workload.window_bytes,
        "congestion": workload.congestion,
        "dscp": None if workload.dscp is None else workload.dscp << 2,  # the upper six bits of the TOS byte
    }
    return {field: value for field, value in values.items() if value is not None}


def _command(settings: dict[str, Any]) -> list[str]:
    # -P: a file of the user's named iperf3.py must not be taken for the package
    module = "pytest_netperf.traffic.libiperf_child"
    return [sys.executable, "-P", "-m", module, json.dumps(settings, separators=(",", ":"))]


def _environment() -> dict[str, str]:
    """This process's environment, in which the child finds this very package, installed or not."""
    root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH")
    # Last, because it may be the folder of all installed packages, and what the user put before those stays before.
    return {**os.environ, "PYTHONPATH": os.pathsep.join([inherited, root] if inherited else [root])}
