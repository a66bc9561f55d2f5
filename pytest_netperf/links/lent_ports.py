"""Two physical ports as a link: whose turn it is, and how long to wait for it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pytest_netperf.bench.model import Port, Topology
from pytest_netperf.errors import LinkError
from pytest_netperf.links.link import Link
from pytest_netperf.links.owner import Owner
from pytest_netperf.links.port_journal import PortClaim, PortHeldError

__all__ = ["bring_up_ports", "claim_in_turn", "lend_ports"]

_ANOTHER_RUN_SECONDS: Final = 15.0
_BY_ANOTHER_NAME: Final = ". Another link of the bench file has it by another name: call the port the same in both"
_POLL_SECONDS: Final = 0.1
_LONGEST_COMMAND: Final = 200


def bring_up_ports(
    owner: Owner,
    key: str,
    *,
    name: str,
    speed_bps: float | None,
    mtu: int,
    ports: Mapping[str, Port],
    asked: Mapping[str, Any],
    topology: Topology = "pair",
    translates: bool = False,
) -> Link:
    """Claim, lend, set and prove two physical ports. Raises LinkError or KeeperError.

    ``ports`` has the ports of ends a and b, ``asked`` the settings of both (`links.port_asked`). What is between them
    is that of the ``topology``; ``translates`` says that a device there must translate addresses. A port that another
    worker of the same run holds is waited for, as long as it takes; one of another run no longer than a killed run
    needs to bring it home.
    """
    spec = {"mtu": mtu, "ports": ports, "asked": dict(asked), "topology": topology, "translates": translates}
    answer = lend_ports(owner, key, spec)
    about: dict[str, Any] = {"name": name, "topology": topology, "speed_bps": speed_bps, "mtu": mtu}
    return Link(owner, key, answer, simulated=False, fault={}, **about)


def lend_ports(owner: Owner, key: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The keeper's answer to a link of ports of this machine, which are waited for. Raises LinkError or KeeperError.

    ``spec`` is that of the link's class in the keeper, with each of ``ports`` as a `Port`.
    """
    turn = _Turn()
    ports = {end: asdict(port) for end, port in spec["ports"].items()}
    spec = {**spec, "ports": ports, "holder": turn.holder}
    owner.be_patient()
    while True:
        answer: dict[str, Any] = owner.call("up", link=key, spec=spec)
        if "held" not in answer:
            return answer
        turn.wait(answer["held"], answer["holder"])


def claim_in_turn(port_id: str) -> PortClaim:
    """The right to a port that no keeper holds, which is waited for like the others. Raises LinkError."""
    turn = _Turn()
    while True:
        try:
            return PortClaim(port_id, turn.holder)
        except PortHeldError as error:
            turn.wait(str(error), error.holder)


class _Turn:
    """Waits for a port, as long as that makes sense."""

    def __init__(self) -> None:
        self._run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"process {os.getpid()}"
        self._deadline = time.monotonic() + _ANOTHER_RUN_SECONDS
        self.holder = {"pid": os.getpid(), "command": _command_line(), "run": self._run}

    def wait(self, held: str, holder: Mapping[str, Any]) -> None:
        """A moment; raises LinkError when that will not help."""
        ours = holder.get("pid") == os.getpid()
        if (ours or holder.get("run") != self._run) and time.monotonic() > self._deadline:
            raise LinkError(f"{held}{_BY_ANOTHER_NAME if ours else ''}")
        time.sleep(_POLL_SECONDS)


def _command_line() -> str:
    """Of this process, for whoever finds a port held by it."""
    words = Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    text = " ".join(word.decode("utf-8", "replace") for word in words)
    return text if len(text) <= _LONGEST_COMMAND else f"{text[:_LONGEST_COMMAND]}..."
