"""Who this is, and what the kernel lets such a user do: namespaces, with root's rights or without them."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pytest_netperf.doctor.finding import Finding, good, note

__all__ = ["privileges", "user_namespaces"]

_SWITCHES: Final = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor keeps them from it, as Ubuntu 23.10 and newer do (24.04 LTS too)",
        "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "the kernel keeps them from it, as older Debian does",
        "sudo sysctl kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "no user namespace may be made at all, as in RHEL 7 and hardened machines",
        "sudo sysctl user.max_user_namespaces=15000",
    ),
)


def privileges() -> Iterator[Finding]:
    """Who this is, and what that means for ports."""
    from pytest_netperf.links.kernel import has_capabilities

    if has_capabilities():
        yield good("links", "privileges", "root: simulated links and physical ports")
    else:
        yield good(
            "links", "privileges", "an ordinary user: simulated links in a user namespace; physical ports need sudo"
        )
    yield user_namespaces(_read)


def user_namespaces(read: Callable[[str], str | None]) -> Finding:
    """Whether ordinary users may make user namespaces, in which they make links without root."""
    for path, closed, seen, command in _SWITCHES:
        if read(path) == closed:
            return note(
                "links",
                "user namespaces",
                f"ordinary users cannot make links without root: {seen}",
                f"{command} (kept after a reboot in a file of /etc/sysctl.d), or run as root",
            )
    if read("/proc/self/ns/user") is None:
        return note(
            "links", "user namespaces", "this kernel has none, so links need root", f"another kernel than {_kernel()}"
        )
    return good("links", "user namespaces", "ordinary users may make links too")


def _kernel() -> str:
    return platform.release()


def _read(path: str) -> str | None:
    if path.startswith("/proc/self/ns"):
        return "" if Path(path).is_symlink() else None
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
