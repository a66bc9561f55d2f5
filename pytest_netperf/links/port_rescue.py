"""Ports that a run left changed because it was killed, and its keeper with it: found wherever they are, brought home.

The kernel brings a port back by itself when the last process of its namespace has gone: up to two minutes later,
because data of a cut connection may hold the namespace, and with every setting as the run left it. Its journal knows
better.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_netperf.links.namespace import Namespace
from pytest_netperf.links.port_home import NOWHERE, Trip, bring_home, locate
from pytest_netperf.links.port_journal import PortClaim, PortHeldError, PortJournal, boot_id, holder_of, journals
from pytest_netperf.links.ports import HostPort, list_ports

__all__ = ["Rescued", "rescue_left_ports", "rescue_ports", "where_lent"]

_NET: Final = "net:["
_LOST: Final = (
    "it is in no network namespace that can be seen: either a namespace that has ended still holds it (for up to two "
    "minutes, while unsent data of a cut connection is given up), or the card is gone; run pytest-netperf clean again"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescued:
    """What became of one journal."""

    port_id: str
    label: str
    """All names of the port."""
    problems: tuple[str, ...] = ()
    """What could not be put back; the journal is there as long as there is something."""
    note: str = ""
    journal: str = ""
    """Path of the journal."""

    @property
    def text(self) -> str:
        """For people."""
        if self.problems:
            return f"port {self.label} is not as it was: {'; '.join(self.problems)}; journal: {self.journal}"
        return f"port {self.label}: {self.note}"


def rescue_ports(home: Any, holder: Mapping[str, Any], *, dry_run: bool = False) -> list[Rescued]:
    """Bring every port home that a journal knows and no process holds. Raises LinkError.

    ``home`` is an IPRoute of the calling thread's network namespace.
    """
    found = []
    for journal in journals():
        try:
            with contextlib.closing(PortClaim(journal.port_id, holder)):
                if journal.path.exists():  # whoever held it a moment ago may have brought it home
                    found.append(_rescue(journal, home, dry_run))
        except PortHeldError:
            continue
    return found


def rescue_left_ports(*, dry_run: bool = False) -> list[Rescued]:
    """As `rescue_ports`, for a process that has nothing to do with pyroute2 when there is no journal."""
    if not any(True for _ in journals()):
        return []
    from pyroute2 import IPRoute

    with IPRoute(ext_ack=True) as home:
        return rescue_ports(home, {"pid": os.getpid(), "command": "pytest-netperf clean"}, dry_run=dry_run)


def where_lent(text: str) -> str | None:
    """Who has the port that this text means, or left it, when it is not here; None when no journal knows it.

    Raises LinkError, as `journals` does.
    """
    for journal in journals():
        if HostPort.of_record(journal.before["port"]).is_called(text):
            held = holder_of(journal.port_id)
            return str(held) if held else f"port {text!r} is where a killed run left it; run pytest-netperf clean"
    return None


def _rescue(journal: PortJournal, home: Any, dry_run: bool) -> Rescued:
    label = HostPort.of_record(journal.before["port"]).label
    result: dict[str, Any] = {"port_id": journal.port_id, "label": label, "journal": os.fspath(journal.path)}
    if journal.before["boot"] != boot_id():
        if not dry_run:
            journal.end()
        return Rescued(**result, note="the machine was started anew since; there is nothing to put back")
    if dry_run:
        return Rescued(**result, note="left changed by a run that was killed")
    with contextlib.ExitStack() as stack:
        namespaces = dict(_namespaces(stack))
        here = _inode(Path("/proc/thread-self/ns/net"))
        at_home = here == journal.before["home"]
        if not at_home and journal.before["home"] not in namespaces:
            return Rescued(**result, problems=("the network namespace that it came from is gone",))
        away = None
        if locate(list_ports(home), journal.before) is None or not at_home:
            away = _where(journal.before, namespaces, stack)
        trip = Trip(journal, away)
        if at_home:
            problems = bring_home([trip], home)[journal.port_id]
        else:
            origin = _enter(namespaces[journal.before["home"]], stack)
            problems = origin.call(lambda: bring_home([trip], origin.ipr))[journal.port_id]
    problems = [_LOST if problem == NOWHERE else problem for problem in problems]
    return Rescued(**result, problems=tuple(problems), note="" if problems else "brought home, as it was")


def _where(before: dict[str, Any], namespaces: Mapping[int, int], stack: contextlib.ExitStack) -> Namespace | None:
    """The namespace, other than its home, in which the port is now."""
    for inode, fd in namespaces.items():
        if inode == before["home"]:
            continue
        with contextlib.suppress(Exception):  # one that we may not enter, or that is going away
            namespace = _enter(fd, stack)
            if namespace.call(lambda there=namespace: locate(list_ports(there.ipr), before)) is not None:
                return namespace
    return None


def _enter(fd: int, stack: contextlib.ExitStack) -> Namespace:
    namespace = Namespace("rescue", join=fd)
    stack.callback(namespace.close)
    namespace.wait_started()
    return namespace


def _namespaces(stack: contextlib.ExitStack) -> Iterator[tuple[int, int]]:
    """Inode and descriptor of every network namespace that a process lives in, holds open or gave a name."""
    seen = set()
    for path in _places():
        try:
            inode = _inode(path)
            if inode in seen:
                continue
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        stack.callback(os.close, fd)
        seen.add(inode)
        yield inode, fd


def _places() -> Iterator[Path]:
    yield from Path("/proc").glob("[0-9]*/task/[0-9]*/ns/net")
    yield from Path("/run/netns").glob("*")
    for fd in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.fspath(fd.readlink()).startswith(_NET):
                yield fd


def _inode(path: Path) -> int:
    return path.stat().st_ino
