"""Suricata on a simulated device, where this machine has it: inline by NFQUEUE, at one port or at both.

    FORWARD, -i or -o the port at side a  -->  queue 0 (table mangle)  --> suricata -q 0 -q 1
    FORWARD, -i or -o the port at side b  -->  queue 1 (table filter)  -->

A packet that a queue accepts leaves its table, so each side has one of its own, and on both sides each packet is
inspected twice. Without a Suricata that takes them, packets are dropped: none passes uninspected.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.device_states import cross, find_program, run_on_device
from pytest_netperf.remote.suricata import PATTERN, Suricata

if TYPE_CHECKING:
    from pytest_netperf.links.through_device import ThroughDevice

__all__ = ["DeviceSuricata"]

_QUEUES: Final = {"a": ("mangle", 0), "b": ("filter", 1)}
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SETTLE_S: Final = 0.05


class _Shell:
    """Commands in the namespace of the device."""

    def __init__(self, path: ThroughDevice) -> None:
        self._path = path

    def run(self, command: str, *, timeout: float = 30.0, stdin: str = "") -> _Answer:
        found = os.environ.get("PATH", "")
        with tempfile.TemporaryFile() as output:  # a daemon keeps a pipe open, and nobody would see its end
            try:
                done = self._path.device.call(
                    subprocess.run,
                    ["/bin/sh", "-c", command],
                    input=stdin.encode(),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=timeout,
                    check=False,
                    env={**os.environ, "PATH": f"{found}:{_PATH}"},
                )
            except subprocess.TimeoutExpired:
                raise LinkError(f"device state: `{command}` did not end within {timeout:g} s") from None
            output.seek(0)
            return _Answer(done.returncode, output.read().decode("utf-8", "replace"))


class _Answer:
    def __init__(self, status: int, stdout: str) -> None:
        self.status, self.stdout, self.stderr = status, stdout, ""


class DeviceSuricata:
    """Of one device: `enter`, `report` after each traffic run, `close`."""

    def __init__(self, path: ThroughDevice, side: str, config: str) -> None:
        self._path = path
        self._sides = "ab" if side == "both" else side
        self._folder = tempfile.mkdtemp(prefix="netperf-suricata-")
        self._seen = 0
        queues = [_QUEUES[each][1] for each in self._sides]
        self._suricata = Suricata(
            _Shell(path), capture="nfqueue", queues=queues, config=config, folder=self._folder
        )  # fmt: skip

    def enter(self) -> str:
        """Start it, send every packet through it, and prove that it drops what its rule names and nothing else."""
        proof = self._suricata.start()
        families = {"iptables-restore": socket.AF_INET, "ip6tables-restore": socket.AF_INET6}
        if any(port["address6"] is None for port in self._path.ports.values()):
            del families["ip6tables-restore"]
        for program, family in families.items():
            run_on_device(self._path, [find_program(program), "--noflush"], self._rules())
            before = self._packets()
            if cross(self._path, b"nothing that it knows", family=family) is None:
                raise LinkError("device state: Suricata lets nothing pass")
            if cross(self._path, f"..{PATTERN}..".encode(), family=family, patience=1) is not None:
                raise LinkError(
                    "device state: Suricata is not in force: a packet that its rule names passes the device"
                )
            if self._packets() < before + len(self._sides) + 1:  # what is dropped reaches no second queue
                raise LinkError("device state: the packets of the device do not pass the queues of Suricata")
        self._seen = self._packets()
        return f"{proof}; it dropped the packet that our rule names, others pass, at side {' and '.join(self._sides)}"

    def report(self) -> dict[str, Any]:
        """What it inspected since the last report. Raises LinkError when it does not run any more."""
        self._suricata.check()
        seen, self._seen = self._seen, self._packets()
        if self._seen <= seen:
            raise LinkError("device state: Suricata saw no packet of the traffic")
        return {"device_suricata_packets": self._seen - seen}

    def close(self) -> None:
        """End it, and remove what is ours."""
        with contextlib.suppress(OSError, ValueError):
            pid = int(Path(self._folder, "pid").read_text())
            os.kill(pid, signal.SIGKILL)
            time.sleep(_SETTLE_S)
        for file in Path(self._folder).glob("**/*"):
            with contextlib.suppress(OSError):
                file.unlink()
        with contextlib.suppress(OSError):
            Path(self._folder).rmdir()

    def _rules(self) -> str:
        lines = []
        for side in self._sides:
            table, queue = _QUEUES[side]
            port = self._path.ports[f"device_{side}"]["interface"]
            ways = [f"-A FORWARD {way} {port} -j NFQUEUE --queue-num {queue}" for way in ("-i", "-o")]
            lines += [f"*{table}", *ways, "COMMIT"]
        return "\n".join([*lines, ""])

    def _packets(self) -> int:
        """That went through its queues so far."""
        lines = self._path.device.call(Path("/proc/thread-self/net/netfilter/nfnetlink_queue").read_text).splitlines()
        return sum(int(line.split()[7]) for line in lines)
