"""Which /30 of the lab's addresses a link has: no two links of a host have the same."""

from __future__ import annotations

import socket

from pytest_netperf.errors import LinkError

__all__ = ["claim_subnet", "free"]


def claim_subnet() -> tuple[int, socket.socket]:
    """The first /30 of 198.18.0.0/15 that no other link of this host uses.

    The claim is an abstract UNIX socket name: exclusive between all users, and freed by the kernel with this process.
    """
    for index in range(1, 1 << 15):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0pytest-netperf/subnet/{index}")
        except OSError:
            claim.close()
            continue
        return index, claim
    raise LinkError("all 32767 lab subnets of 198.18.0.0/15 are in use on this host")


def free(claims: list[socket.socket]) -> None:
    """Give claims back."""
    for claim in claims:
        claim.close()
