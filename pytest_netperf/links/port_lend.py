"""The way out of a port: written down, then moved into a network namespace. The way home is `links.port_home`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_netperf.errors import LinkError
from pytest_netperf.links.host_files import files_before
from pytest_netperf.links.namespace import Namespace
from pytest_netperf.links.port_journal import PortJournal, boot_id
from pytest_netperf.links.port_state import read_port_state
from pytest_netperf.links.ports import HostPort
from pytest_netperf.links.wifi import move_radio

__all__ = ["begin_journal", "lend"]


def begin_journal(port: HostPort, home: Any, asked: Mapping[str, Any] | None = None) -> PortJournal:
    """Write down what a port of the calling thread's namespace is, whose IPRoute ``home`` is. Raises LinkError.

    ``asked`` are the settings of a test (`links.port_asked`): the files of the kernel that they change are written down
    too.
    """
    return PortJournal.begin(
        port.port_id,
        {
            "boot": boot_id(),
            "home": Path("/proc/thread-self/ns/net").stat().st_ino,
            "port": asdict(port),
            "state": read_port_state(home, port.index),
            "files": files_before(asked or {}, port.name),
        },
    )


def lend(port: HostPort, journal: PortJournal, home: Any, to: Namespace) -> None:
    """Move it. Raises LinkError; the move may have happened all the same."""
    from pyroute2.netlink.exceptions import NetlinkError

    journal.note("lend it to a network namespace of a run")
    try:
        if port.wifi:
            move_radio(port.index, to.fd)
        else:
            home.link("set", index=port.index, net_ns_fd=to.fd)
    except (NetlinkError, OSError) as error:
        reason = os.strerror(error.code if isinstance(error, NetlinkError) else error.errno or 0)
        raise LinkError(f"port {port.label} cannot be moved into a network namespace: {reason}") from None
