"""The ports of this machine for a command that changes nothing: what each is, could do, and why not to take it.

For the main thread of a process: it reads /sys as this process has it, so that it works without root.
"""

from __future__ import annotations

import os
from typing import Self

from pytest_netperf.links.kernel import has_capabilities
from pytest_netperf.links.port_reading import PortReading, read_port
from pytest_netperf.links.port_refusal import MachineUse, read_machine_use, refusals
from pytest_netperf.links.ports import HostPort, list_ports

__all__ = ["Machine"]


class Machine:
    """Every port, read when it is asked for. A context manager. Raises LinkError."""

    def __init__(self) -> None:
        from pyroute2 import IPRoute

        self.root = has_capabilities()
        self.sysfs = os.open("/sys", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._ipr = IPRoute(ext_ack=True)
        self.ports: list[HostPort] = list_ports(self._ipr, None if self.root else self.sysfs)
        self._readings: dict[str, PortReading] = {}
        self._use: MachineUse | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ipr.close()
        os.close(self.sysfs)

    def read(self, port: HostPort) -> PortReading:
        """What a port is and could do."""
        if port.name not in self._readings:
            self._readings[port.name] = read_port(port, self._ipr, self.sysfs)
        return self._readings[port.name]

    def refusals(self, port: HostPort, *, allow_addressed: bool = False, allow_virtual: bool = False) -> list[str]:
        """Why it must not be taken."""
        if self._use is None:
            self._use = read_machine_use(self._ipr)
        return refusals(port, self._ipr, self._use, allow_addressed=allow_addressed, allow_virtual=allow_virtual)
