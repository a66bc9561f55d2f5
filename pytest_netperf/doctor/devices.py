"""Simulated devices in the middle, and the programs that put them into states."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Final

from pytest_netperf.doctor.finding import Finding, good, note

__all__ = ["programs_of_states"]

_PROGRAMS: Final = (
    (("nft",), "NAT and packet filters", "nftables"),
    (("iptables-restore", "ip6tables-restore"), "inspection of packets", "iptables"),
    (("ndpiReader",), "nDPI", "libndpi-bin"),
    (("suricata", "suricatasc"), "Suricata", "suricata"),
    (("irtt",), "round-trip time under load (netperf_method(rtt=True))", "irtt"),
)
_SYSTEM: Final = "/usr/sbin:/sbin:/usr/local/sbin"


def programs_of_states(which: Callable[[str], str | None] | None = None) -> Iterator[Finding]:
    """One line for what is there, one for what is not: only some tests need it."""
    find = which or _which
    there, missing = [], []
    for programs, what, package in _PROGRAMS:
        lacking = [name for name in programs if find(name) is None]
        if lacking:
            missing.append((f"{what} ({', '.join(lacking)})", package))
        else:
            there.append(what)
    if there:
        yield good("links", "programs for tests that ask for them", ", ".join(there))
    if missing:
        yield note(
            "links",
            "programs that are not installed",
            f"{', '.join(what for what, _ in missing)}: tests that ask for it do not run",
            f"only where such tests run: sudo apt-get install {' '.join(package for _, package in missing)}",
        )


def _which(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_SYSTEM)
