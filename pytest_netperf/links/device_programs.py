"""Programs that a simulated device runs beside forwarding: passive inspection, and what a traffic graph reads.

    dpi         ndpiReader (Debian: libndpi-bin) looks at each packet of the device's ports, without holding it up
    monitoring  `links.monitoring_program` reads counters and connections, so many times a second
    cpu_limit   the share of one CPU that these may take together (`links.cpu_group`)
    suricata    inline, where this machine has it (`links.device_suricata`)

They run from the moment in which the state is entered until the link goes. Each is proved by packets of our own before
it is used, and after each traffic run it is asked what it saw; then it starts afresh.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.cpu_group import CpuGroup
from pytest_netperf.links.device_states import cross, find_program
from pytest_netperf.links.device_suricata import DeviceSuricata

if TYPE_CHECKING:
    from pytest_netperf.links.through_device import ThroughDevice

__all__ = ["DevicePrograms"]

_QUESTION: Final = bytes.fromhex("000100002112a442") + b"netperf-test"
"""A binding request of STUN (RFC 8489, section 5), which nDPI knows by what is in it, at any port."""
_PROTOCOL: Final = "STUN"
_TRIES: Final = 4
_LEAST_SEEN: Final = 0.001
_ALL_PROTOCOLS: Final = 3  # ETH_P_ALL
_START_S: Final = 5.0
_LAST_WORDS_S: Final = 5.0
_LOOK_S: Final = 0.005
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")


class _NotSeenError(LinkError):
    """Packets that passed are not among what a program saw."""


class _Program:
    """One program, in the namespace of the device."""

    part: ClassVar[str]
    """The key of the state."""
    settle_s: ClassVar[float] = 0.1
    """How long after the last packet it may still not know of it."""

    def __init__(self, path: ThroughDevice, argv: list[str]) -> None:
        self._path, self._argv = path, argv
        self._process: subprocess.Popen[bytes] | None = None
        self._output = -1
        self.cpu: list[tuple[float, float]] = []
        """(monotonic s, CPU s) when traffic began and ended."""

    def start(self, group: CpuGroup | None) -> None:
        """Start it and wait until it works; only then it is limited, so that it starts as fast as it can."""
        self._output = os.memfd_create("netperf-device-program")
        self.cpu = []
        try:
            process: subprocess.Popen[bytes] = self._path.device.call(
                subprocess.Popen[bytes],
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise LinkError(f"the simulated device cannot run {self._argv[0]}: {error}") from None
        self._process = process
        deadline = time.monotonic() + _START_S
        while not self._works():
            if process.poll() is not None or time.monotonic() > deadline:
                raise LinkError(f"device state: {self.part}: {self._argv[0]} did not start: {self._last_line()}")
            time.sleep(_LOOK_S)
        if group is not None:
            group.add(process.pid)

    def _works(self) -> bool:
        raise NotImplementedError

    def mark(self) -> None:
        """Traffic begins, or ends: how much CPU time it used so far."""
        self.cpu.append((time.monotonic(), self._cpu_s()))

    def stop(self) -> str:
        """End it and return what it printed. Raises LinkError when it had ended already, or does not end well."""
        process = self._process
        assert process is not None
        if process.poll() is not None:
            raise LinkError(
                f"device state: {self.part}: {self._argv[0]} ended while the link was up, so the device was not in "
                f"this state: {self._last_line()}"
            )
        process.send_signal(signal.SIGINT)
        try:
            code = process.wait(_LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            raise LinkError(f"device state: {self.part}: {self._argv[0]} does not end") from None
        text = self._text()
        self.kill()
        if code:
            raise LinkError(f"device state: {self.part}: {self._argv[0]} ended with {code}")
        return text

    def kill(self) -> None:
        """End it, whatever it does."""
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
            self._process = None
        if self._output >= 0:
            os.close(self._output)
            self._output = -1

    def saw(self, text: str) -> dict[str, Any]:
        """What it printed at its end, as facts. Raises LinkError when it saw nothing."""
        raise NotImplementedError

    def proof(self, text: str) -> str:
        """The same of our own packets, as a sentence. Raises LinkError when it did not see them."""
        raise NotImplementedError

    def share(self) -> float | None:
        """Of one CPU, between the last two marks."""
        if len(self.cpu) < 2:
            return None
        (first_s, first), (last_s, last) = self.cpu[-2:]
        return round((last - first) / (last_s - first_s), 4) if last_s > first_s else None

    def _cpu_s(self) -> float:
        assert self._process is not None
        try:  # the process as /proc knows it, which is that of the machine, not of our PID namespace
            pidfd = os.pidfd_open(self._process.pid)
            try:
                told = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
            finally:
                os.close(pidfd)
            pid = re.search(r"^Pid:\s*(\d+)", told, re.MULTILINE)
            fields = Path(f"/proc/{pid[1]}/stat").read_text().rpartition(")")[2].split() if pid else []
            return (int(fields[11]) + int(fields[12])) * _TICK_S
        except (OSError, IndexError, ValueError):
            return 0.0  # it has ended; `stop` will say so

    def _text(self) -> str:
        return os.pread(self._output, 1 << 20, 0).decode("utf-8", "replace")

    def _last_line(self) -> str:
        return (self._text().strip().splitlines() or ["it says nothing"])[-1]


class _Dpi(_Program):
    part = "dpi"
    settle_s = 0.65  # it is handed its packets every half second

    def __init__(self, path: ThroughDevice, side: str) -> None:
        self._ends = [f"device_{end}" for end in ("ab" if side == "both" else side)]
        ports = ",".join(path.ports[end]["interface"] for end in self._ends)
        super().__init__(path, [find_program("ndpiReader"), "-i", ports])
        self._side = side
        self._listening = 0
        self._passed = 0

    def start(self, group: CpuGroup | None) -> None:
        self._listening = self._path.device.call(_packet_sockets)
        super().start(group)
        self._passed = self._packets()

    def _works(self) -> bool:
        """Whether it captures at every port."""
        return self._path.device.call(_packet_sockets) >= self._listening + len(self._ends)

    def _packets(self) -> int:
        counters = self._path.counters()
        return sum(counters[end]["rx_packets"] + counters[end]["tx_packets"] for end in self._ends)

    def saw(self, text: str) -> dict[str, Any]:
        counted = re.search(r"of (\d+) packets total", text)
        if counted is None:
            raise _NotSeenError("device state: dpi: ndpiReader saw no packet of the traffic")
        passed = self._packets() - self._passed
        if int(counted[1]) < _LEAST_SEEN * passed:
            raise _NotSeenError(f"device state: dpi: ndpiReader saw {counted[1]} of {passed} packets of its ports")
        found = re.findall(r"^\t(\S.*?)\s+packets: (\d+)", text.partition("Detected protocols:")[2], re.MULTILINE)
        return {
            "device_dpi_packets": int(counted[1]),
            "device_dpi_seen": round(min(1.0, int(counted[1]) / passed), 4) if passed > 0 else None,
            "device_dpi_protocols": {name: int(packets) for name, packets in found},
        }

    def proof(self, text: str) -> str:
        protocols = self.saw(text)["device_dpi_protocols"]
        if not protocols.get(_PROTOCOL):
            raise _NotSeenError(
                f"device state: dpi: ndpiReader did not find our packet of {_PROTOCOL}; it found {protocols}"
            )
        where = "both ports" if self._side == "both" else f"the port at side {self._side}"
        return f"ndpiReader at {where} saw our packets, and found {_PROTOCOL} in {protocols[_PROTOCOL]}"


class _Monitoring(_Program):
    part = "monitoring"

    def __init__(self, path: ThroughDevice, per_second: int) -> None:
        program = Path(__file__).with_name("monitoring_program.py")
        super().__init__(path, [sys.executable, "-I", "-S", str(program), str(per_second)])
        self._per_second = per_second

    def _works(self) -> bool:
        return "reading" in self._text()

    def saw(self, text: str) -> dict[str, Any]:
        try:
            said = json.loads(text.splitlines()[-1])
            rate = said["readings"] / said["seconds"]
            packets = sum(said["packets"].values())
        except (ValueError, KeyError, TypeError, IndexError, ZeroDivisionError):
            raise LinkError(f"device state: monitoring: the program did not end well: {text.strip()[-200:]}") from None
        if packets <= 0:
            raise _NotSeenError("device state: monitoring: the counters that it read did not rise with the traffic")
        return {
            "device_monitoring_per_second": round(rate, 1),
            "device_monitoring_packets": packets,
            "device_monitoring_connections": said["connections"],
        }

    def proof(self, text: str) -> str:
        facts = self.saw(text)
        return (
            f"{facts['device_monitoring_per_second']:g} readings a second of {self._per_second} that are asked for; "
            f"the counters rose by {facts['device_monitoring_packets']} of our packets"
        )


class DevicePrograms:
    """All of one device. Raises LinkError when one is missing, does not start, or sees nothing."""

    def __init__(self, path: ThroughDevice, state: Mapping[str, Any]) -> None:
        self._path = path
        self._programs: list[_Program] = []
        self._group: CpuGroup | None = None
        self._limit: float | None = state.get("cpu_limit")
        self._throttled: list[int] = []
        self._suricata: DeviceSuricata | None = None
        if state.get("suricata_side"):
            self._suricata = DeviceSuricata(path, state["suricata_side"], state["suricata_config"])
        if state.get("dpi_side"):
            self._programs.append(_Dpi(path, state["dpi_side"]))
        if state.get("monitoring_per_second"):
            self._programs.append(_Monitoring(path, state["monitoring_per_second"]))

    def enter(self) -> dict[str, str]:
        """Start all, prove each; returns part -> how it was proved."""
        if self._limit is not None:
            self._group = CpuGroup(f"{self._path.index:x}", self._limit)
        inline = {} if self._suricata is None else {"suricata": self._suricata.enter()}
        for tries_left in reversed(range(_TRIES)):
            try:
                proofs = self._prove()
                break
            except _NotSeenError:  # it may have come too early, while the program was still making ready
                if not tries_left:
                    raise
        self._start()
        if self._limit is not None:
            proofs["cpu_limit"] = f"the kernel says a quota of {self._limit:.0%} of one CPU for {' and '.join(proofs)}"
        return inline | proofs

    def _prove(self) -> dict[str, str]:
        if not self._programs:
            return {}
        try:
            for program in self._programs:
                program.start(None)
            if cross(self._path, _QUESTION) is None:
                raise LinkError("device state: a packet of ours does not pass the device")
            time.sleep(max(program.settle_s for program in self._programs))
            return {program.part: program.proof(program.stop()) for program in self._programs}
        finally:
            for program in self._programs:
                program.kill()

    def _start(self) -> None:
        if self._group is not None:
            self._group.hold()
        for program in self._programs:
            program.start(self._group)

    def traffic_begins(self) -> None:
        """Take the time."""
        if self._group is not None:
            self._throttled.append(self._group.throttled().throttled)
        for program in self._programs:
            program.mark()

    traffic_ends = traffic_begins

    def report(self) -> dict[str, Any]:
        """What they saw since they were started, and the CPU time that the last traffic cost; they start afresh.

        Raises LinkError when one of them had ended, or saw nothing: then the device was not in its state.
        """
        facts: dict[str, Any] = {}
        try:
            if self._group is not None:
                facts["device_cpu_limit"] = self._limit
                facts["device_cpu_limited"] = self._throttled[-1] - self._throttled[-2]
                self._group.lift()  # what is left to do is no part of the measurement
            if self._suricata is not None:
                facts |= self._suricata.report()
            time.sleep(max((program.settle_s for program in self._programs), default=0.0))
            for program in self._programs:
                facts |= {**program.saw(program.stop()), f"device_{program.part}_cpu": program.share()}
        finally:
            for program in self._programs:
                program.kill()
            self._start()
        return facts

    def close(self) -> None:
        """End all."""
        if self._suricata is not None:
            self._suricata.close()
        for program in self._programs:
            program.kill()
        if self._group is not None:
            self._group.close()


def _packet_sockets() -> int:
    """Those that capture everything, of the namespace of the thread that asks; one that is still being made does not.

    (libpcap binds its socket to no protocol until its ring is there.)
    """
    rows = [line.split() for line in Path("/proc/thread-self/net/packet").read_text().splitlines()[1:]]
    return sum(int(row[3], 16) == _ALL_PROTOCOLS and row[5] == "1" for row in rows)
