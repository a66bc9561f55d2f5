"""Which ports are cabled to each other: each is lent to a namespace of its own, and sends a few frames of our own.

What passes a cable and no bridge is in `links.probe_frames`. In namespaces of their own the ports are seen by no
service of this machine, and their way home is that of every run.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.ethtool import Ethtool
from pytest_netperf.links.namespace import Namespace
from pytest_netperf.links.port_home import Trip, bring_home
from pytest_netperf.links.port_journal import PortClaim, PortJournal
from pytest_netperf.links.port_lend import begin_journal, lend
from pytest_netperf.links.port_refusal import read_machine_use, refusals
from pytest_netperf.links.port_rescue import rescue_ports, where_lent
from pytest_netperf.links.ports import HostPort, find_port, list_ports
from pytest_netperf.links.probe_frames import TOKEN_BYTES, open_frames, received_tokens, send_token

__all__ = ["Cabling", "find_cables"]

_POLL_SECONDS: Final = 0.05
_SEND_SECONDS: Final = 0.5
_STOPPED_BY: Final = {signal.SIGINT, signal.SIGTERM}


@dataclass(slots=True)
class Cabling:
    """What was found between some ports. Ports are named by their ``port_id``."""

    pairs: list[tuple[str, str]] = field(default_factory=list)
    """Each hears the other, and nobody else."""
    shared: list[tuple[str, ...]] = field(default_factory=list)
    """More than two that hear each other, or one that hears itself: something that is no cable is between them."""
    alone: list[str] = field(default_factory=list)
    """A carrier, but none of the others at its end."""
    dark: list[str] = field(default_factory=list)
    """No carrier."""
    speeds_bps: dict[str, float] = field(default_factory=dict)
    """What each negotiated, where it did."""
    rescued: list[str] = field(default_factory=list)
    """Ports of killed runs that were brought home first, in words."""


def find_cables(
    wanted: Sequence[str], *, allow_addressed: bool = False, allow_virtual: bool = False, seconds: float = 12.0
) -> Cabling:
    """Take these ports up, find out which are cabled to each other, and put each back as it was.

    Called in the only thread of a process, in the ports' namespace. It ends as soon as every port has its partner, or
    after ``seconds``; Ctrl-C and SIGTERM end it early, and come when the ports are home. Raises LinkError for
    a port that may not be taken (PortHeldError where another run has it), and when one is not as it was.
    """
    from pyroute2 import IPRoute

    with _undisturbed(), IPRoute(ext_ack=True) as home:
        probe = _Probe(home)
        try:
            probe.begin(wanted, allow_addressed, allow_virtual)
            found = probe.look(seconds)
        except BaseException as error:
            problems = probe.end()
            if problems:
                raise LinkError(f"{error or type(error).__name__}; and {_not_restored(problems)}") from error
            raise
        problems = probe.end()
        if problems:
            raise LinkError(_not_restored(problems))
    return found


class _Probe:
    """The ports while they are away, by port id."""

    def __init__(self, home: Any) -> None:
        self._home = home
        self._holder = {"pid": os.getpid(), "command": "pytest-netperf bench init"}
        self._ports: dict[str, HostPort] = {}
        self._claims: list[PortClaim] = []
        self._journals: dict[str, PortJournal] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._rescued: list[str] = []

    def begin(self, wanted: Sequence[str], allow_addressed: bool, allow_virtual: bool) -> None:
        self._rescued = [each.text for each in rescue_ports(self._home, self._holder)]
        found = self._find(wanted)
        for port_id in sorted({port.port_id for port in found}):
            self._claims.append(PortClaim(port_id, self._holder))
        found = self._find(wanted)  # again: whoever held them may have had them elsewhere
        twice = sorted({port.name for port in found if found.count(port) > 1})
        if twice:
            raise LinkError(f"port {', '.join(twice)} is named more than once; name each port once")
        use = read_machine_use(self._home)
        reasons = [
            f"port {port.label}: {reason}"
            for port in found
            for reason in refusals(port, self._home, use, allow_addressed=allow_addressed, allow_virtual=allow_virtual)
        ]
        reasons += [f"port {port.label}: it is Wi-Fi, to which no cable leads" for port in found if port.wifi]
        if reasons:
            raise LinkError("; ".join(reasons))
        self._ports = {port.port_id: port for port in found}
        for port_id in self._ports:
            self._namespaces[port_id] = Namespace("probe")
        for port_id, port in self._ports.items():
            journal = self._journals[port_id] = begin_journal(port, self._home)
            lend(port, journal, self._home, self._namespaces[port_id])
            journal.note("take it up")
            self._namespaces[port_id].call(self._up, port_id)

    def _find(self, wanted: Sequence[str]) -> list[HostPort]:
        there = list_ports(self._home)
        found, wrong = [], []
        for text in wanted:
            try:
                found.append(find_port(text, there))
            except LinkError as error:
                wrong.append(str(where_lent(text) or error))
        if wrong:
            raise LinkError("\n".join(wrong))
        return found

    def _up(self, port_id: str) -> None:
        name, ipr = self._ports[port_id].name, self._namespaces[port_id].ipr
        ipr.link("set", index=socket.if_nametoindex(name), state="up")

    def look(self, seconds: float) -> Cabling:
        """Send and listen until every port has its partner, or the time is over."""
        deadline, next_sent, complete = time.monotonic() + seconds, 0.0, False
        tokens = {secrets.token_bytes(TOKEN_BYTES): port_id for port_id in self._ports}
        heard: dict[str, set[str]] = {port_id: set() for port_id in self._ports}
        with contextlib.ExitStack() as stack:
            sockets = {port_id: stack.enter_context(self._socket(port_id)) for port_id in self._ports}
            while True:
                now = time.monotonic()
                if now >= next_sent:
                    for token, port_id in tokens.items():
                        send_token(sockets[port_id], token)
                    next_sent = now + _SEND_SECONDS
                for port_id, listening in sockets.items():
                    heard[port_id] |= {tokens[token] for token in received_tokens(listening) if token in tokens}
                if now >= deadline or signal.sigpending() & _STOPPED_BY:
                    break
                if not complete and all(len(mutual) == 1 for mutual in _mutual(heard).values()):
                    complete, deadline = (
                        True,
                        min(deadline, now + 1.5 * _SEND_SECONDS),
                    )  # once more: a third may hear it
                time.sleep(_POLL_SECONDS)
        speeds, dark = {}, set()
        for port_id in self._ports:
            speed, carrier = self._namespaces[port_id].call(self._link, port_id)
            if speed is not None:
                speeds[port_id] = speed
            if not carrier:
                dark.add(port_id)
        found = sort_out(heard, dark)
        found.speeds_bps, found.rescued = speeds, self._rescued
        return found

    def _socket(self, port_id: str) -> socket.socket:
        return self._namespaces[port_id].call(open_frames, self._ports[port_id].name)

    def _link(self, port_id: str) -> tuple[float | None, bool]:
        name, ipr = self._ports[port_id].name, self._namespaces[port_id].ipr
        (link,) = ipr.link("get", index=socket.if_nametoindex(name))
        with Ethtool(name) as port:
            return port.link()["speed_bps"], bool(link.get_attr("IFLA_CARRIER"))

    def end(self) -> list[str]:
        """Bring every port home. Returns what is not as it was."""
        trips = [Trip(journal, self._namespaces.get(port_id)) for port_id, journal in self._journals.items()]
        left = bring_home(trips, self._home)
        for namespace in self._namespaces.values():
            namespace.close()
        for claim in self._claims:
            claim.close()
        return [f"port {self._ports[port_id].label}: {each}" for port_id, said in left.items() for each in said]


def sort_out(heard: Mapping[str, set[str]], dark: set[str]) -> Cabling:
    """What follows from who heard whom (port -> those that it heard)."""
    found, left = Cabling(), set(heard)
    near = {port: others | {other for other in heard if port in heard[other]} for port, others in heard.items()}
    for port in sorted(heard):
        if port not in left:
            continue
        group, grows = {port}, True
        while grows:
            wider = group.union(*(near[each] for each in group))
            group, grows = wider, wider != group
        left -= group
        if len(group) == 2 and all(heard[each] == group - {each} for each in group):
            found.pairs.append((min(group), max(group)))
        elif len(group) > 1 or near[port]:
            found.shared.append(tuple(sorted(group)))
        else:
            (found.dark if port in dark else found.alone).append(port)
    return found


def _mutual(heard: Mapping[str, set[str]]) -> dict[str, set[str]]:
    return {port: {other for other in others if port in heard[other]} for port, others in heard.items()}


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until this is over, and are then what they are.

    Threads that are made meanwhile take this over: through one that does not, a signal would reach the process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPED_BY)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _not_restored(problems: Sequence[str]) -> str:
    return f"a port is not as it was: {'; '.join(problems)}; see to what keeps it, then run pytest-netperf clean"
