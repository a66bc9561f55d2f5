"""The way home: a port goes back to where it was, and becomes what it was, field by field.

    in the namespace it was lent to:  settings back, down, names out of the way
    move                              (it may half succeed: after an error, look in both places)
    at home:                          name, MTU and the like, settings, sysctls, up, addresses, routes, neighbours
    read everything again             and say what differs; only when nothing does is the journal over

A port is never left to the kernel's own way back, which is late, leads to the first namespace of the machine whatever
the port's home was, and keeps every changed setting.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from pytest_netperf.errors import LinkError
from pytest_netperf.links.host_files import files_different, put_files_back
from pytest_netperf.links.namespace import Namespace
from pytest_netperf.links.port_journal import PortJournal
from pytest_netperf.links.port_records import ADDRESSES, ROUTES, give_back, has_run_out, take_away
from pytest_netperf.links.port_settings import PortSettings
from pytest_netperf.links.port_state import (
    ATTRIBUTES,
    FLAGS,
    RECORDS,
    differences,
    read_port_state,
    read_sysctls,
    sysctl_path,
)
from pytest_netperf.links.ports import HostPort, list_ports
from pytest_netperf.links.wifi import mode_back, move_radio

__all__ = ["NOWHERE", "Trip", "bring_home", "locate"]

NOWHERE: Final = "it is nowhere to be found"

_SETTLE_SECONDS: Final = 2.5
_POLL_SECONDS: Final = 0.02
_PYROUTE2_NAMES: Final = {
    "mac": "address",
    "txqueuelen": "txqlen",
    "alias": "ifalias",
    "gso_max_bytes": "gso_max_size",
    "gso_max_segments": "gso_max_segs",
    "gro_max_bytes": "gro_max_size",
}


class Trip(NamedTuple):
    """The way home of one port."""

    journal: PortJournal
    away: Namespace | None
    """Where it is expected, if not at home."""
    lent_index: int | None = None
    """Its index there, for one that can be told by its MAC address only, which the run may have changed."""


def locate(ports: Iterable[HostPort], before: dict[str, Any]) -> HostPort | None:
    """The port of a journal among these, by what stays the same, and never by a name: that may be another's now."""
    return next((port for port in ports if port.port_id == before["port_id"]), None)


def bring_home(trips: Sequence[Trip], home: Any) -> dict[str, list[str]]:
    """Bring ports back to the calling thread's namespace, whose IPRoute ``home`` is, from wherever they are.

    All of them come first, and are set up afterwards: two that are cabled to each other find their carrier as it was.
    Returns what could not be put back, by port id, a text for each; where there is nothing, the journal has ended.
    """
    on_the_way = {trip.journal.port_id: _attempted(_fetch, trip, home) for trip in trips}
    problems = {}
    for trip in trips:
        left = _attempted(_settle, trip, home)
        # A move that half succeeded has brought the port home all the same: then nothing is wrong.
        problems[trip.journal.port_id] = [*on_the_way[trip.journal.port_id], *left] if left else []
    return problems


def _attempted(work: Callable[[Trip, Any], list[str]], trip: Trip, home: Any) -> list[str]:
    try:
        return work(trip, home)
    except Exception as error:  # noqa: BLE001 - the other ports must come home all the same
        return [f"{type(error).__name__}: {error}"]


def _note(journal: PortJournal, what: str) -> None:
    """Say what is about to be done. What the port was is on disk already, so a full disk stops no way home."""
    with contextlib.suppress(LinkError):
        journal.note(what)


def _fetch(trip: Trip, home: Any) -> list[str]:
    if locate(list_ports(home), trip.journal.before) is None and trip.away is not None:
        return _leave(trip, trip.away, home)
    return []


def _settle(trip: Trip, home: Any) -> list[str]:
    """Make a port what it was. Returns what differs in the end, with the kernel's reasons."""
    journal = trip.journal
    port = locate(list_ports(home), journal.before)
    if port is None:
        return [NOWHERE]
    _note(journal, "set everything as it was")
    state, deadline = journal.before["state"], time.monotonic() + _SETTLE_SECONDS
    before = {**state, ADDRESSES: [each for each in state[ADDRESSES] if not has_run_out(each)]}
    files: dict[str, str] = journal.before.get("files", {})
    while True:
        said = [*_put_back(before, home, port), *put_files_back(files)]
        left = [*differences(before, read_port_state(home, port.index)), *files_different(files)]
        if not left:
            journal.end()
            return []
        if time.monotonic() > deadline:
            return [*left, *said]
        time.sleep(_POLL_SECONDS)  # the kernel makes some of it by itself, a moment later


def _leave(trip: Trip, away: Namespace, home: Any) -> list[str]:
    """The part in the namespace that the port was lent to, up to the move. What goes wrong here is seen at home."""
    journal, before = trip.journal, trip.journal.before
    there = away.call(lambda: list_ports(away.ipr))
    port = locate(there, before) or next((each for each in there if each.index == trip.lent_index), None)
    if port is None:
        return []
    _note(journal, "put its settings back, and take it down")
    put_files_back(before.get("files", {}))
    away.call(_settings_back, before["state"], port.name)
    with contextlib.suppress(Exception):
        away.call(away.ipr.link, "set", index=port.index, state="down")
    if port.mac != before["state"]["mac"]:
        with contextlib.suppress(Exception):
            away.call(away.ipr.link, "set", index=port.index, address=before["state"]["mac"])
    taken = {name for other in list_ports(home) for name in (other.name, *other.altnames)}
    for altname in taken & set(port.altnames):
        _note(journal, f"drop the alternative name {altname}, which another interface has now")
        with contextlib.suppress(Exception):
            away.call(away.ipr.link, "property_del", index=port.index, altname=altname)
    if port.name in taken:
        free = _free_name(taken)
        _note(journal, f"rename it to {free}: another interface is called {port.name} now")
        with contextlib.suppress(Exception):
            away.call(away.ipr.link, "set", index=port.index, ifname=free)
    _note(journal, "move it home")
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if port.wifi:
            away.call(move_radio, port.index, here)
        else:
            away.call(away.ipr.link, "set", index=port.index, net_ns_fd=here)
    except Exception as error:  # noqa: BLE001 - the move may have happened all the same
        return [f"the move home failed: {error}"]
    finally:
        os.close(here)
    return []


def _free_name(taken: set[str]) -> str:
    return next(name for number in range(len(taken) + 1) if (name := f"netperf{number}") not in taken)


def _put_back(before: dict[str, Any], ipr: Any, port: HostPort) -> list[str]:
    """Write what differs, in the order that works. Returns why something was refused."""
    said: list[str] = []

    def attempt(what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - what is left is found by reading, this is its reason
            number = getattr(error, "code", None) or getattr(error, "errno", None)
            said.append(f"({what}: {os.strerror(number) if number else error})")

    index = port.index
    now = read_port_state(ipr, index)
    _names_back(before, now, ipr, index, attempt)
    name = socket.if_indextoname(index)
    if now["mac"] != before["mac"] and now["flags"]["up"]:
        attempt("down", ipr.link, "set", index=index, state="down")  # many drivers change it only then
    if now["wifi_mode"] != (mode := before.get("wifi_mode")) and mode is not None:
        attempt("down", ipr.link, "set", index=index, state="down")
        attempt("Wi-Fi mode", mode_back, index, mode)
    for field in ATTRIBUTES:
        if now[field] != before[field]:
            value = "" if before[field] is None and field == "alias" else before[field]
            attempt(field, ipr.link, "set", index=index, **{_PYROUTE2_NAMES.get(field, field): value})
    said += _settings_back(before, name)
    for key, value in read_sysctls(name).items():
        if key in before["sysctls"] and value != before["sysctls"][key]:
            attempt(f"sysctl {key}", sysctl_path(key, name).write_text, before["sysctls"][key])
    now = read_port_state(ipr, index)
    if now["flags"] != before["flags"]:
        bits = sum(bit for flag, bit in FLAGS.items() if before["flags"][flag])
        attempt("flags", ipr.link, "set", index=index, flags=bits, change=sum(FLAGS.values()))
        now = read_port_state(ipr, index)
    wanted = {each["key"]: each["is"] for each in before[ADDRESSES]}
    for address in now[ADDRESSES]:  # with another label: it was named after a name that the port had for a while
        if address["key"] not in wanted and address["is"] in wanted.values():
            attempt(f"address {address['is']}", take_away, ADDRESSES, address, index)
    for what in RECORDS:
        there = {record["key"] for record in now[what]}
        for record in before[what]:
            if record["key"] not in there:
                attempt(f"{what} {record['is']}", _give_back, what, record, index)
    return said


def _give_back(what: str, record: dict[str, Any], index: int) -> None:
    try:
        give_back(what, record, index)
    except OSError as error:
        if error.errno != errno.EEXIST or what == ROUTES:  # the kernel was faster with an address of its own
            raise


def _names_back(
    before: dict[str, Any], now: dict[str, Any], ipr: Any, index: int, attempt: Callable[..., None]
) -> None:
    """Name and alternative names; also after udev took the old name for an alternative one."""
    wanted = set(before["altnames"])
    for altname in set(now["altnames"]) - wanted:
        attempt(f"altname {altname}", ipr.link, "property_del", index=index, altname=altname)
    if now["name"] != before["name"]:
        if now["flags"]["up"]:
            attempt("down", ipr.link, "set", index=index, state="down")
        attempt(f"name {before['name']}", ipr.link, "set", index=index, ifname=before["name"])
    for altname in wanted - set(now["altnames"]):
        attempt(f"altname {altname}", ipr.link, "property_add", index=index, altname=altname)


def _settings_back(before: dict[str, Any], name: str) -> list[str]:
    """What ethtool sets, group by group, only where it differs. Returns why something was refused."""
    said = []
    with PortSettings(name) as settings:
        now = settings.read()
        for group, wanted in before["settings"].items():
            if wanted is not None and wanted != now[group]:
                try:
                    settings.write(group, wanted)
                except OSError as error:
                    said.append(f"({group}: {error.strerror or error})")
    return said
