"""A simulated link gets its speed by the token bucket filter; a kernel without it is told from other refusals."""

from __future__ import annotations

import errno

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from pytest_netperf.errors import LinkError
from pytest_netperf.links.simulated import SimulatedPair


class Refusing:
    """A kernel of which no other can be had here."""

    def __init__(self, number: int) -> None:
        self.number, self.ipr = number, self

    def tc(self, *_: object, **__: object) -> None:
        raise NetlinkError(self.number, "Specified qdisc kind is unknown")


def refused(number: int, **port: object) -> SimulatedPair:
    pair = SimulatedPair.__new__(SimulatedPair)
    pair.ends, pair.ports = {"a": Refusing(number)}, {"a": {"index": 2, **port}}
    pair._fault, pair.speed_bps = None, 1e9
    return pair


def test_a_kernel_without_a_token_bucket_is_told_with_the_way_out():
    with pytest.raises(LinkError, match=r"no token bucket filter.*sudo modprobe sch_tbf.*linux-modules-extra"):
        refused(errno.ENOENT)._shape_end("a", 1500)


@pytest.mark.parametrize(("number", "port"), [(errno.EINVAL, {}), (errno.ENOENT, {"shaped": True})])
def test_what_else_it_refuses_is_not_taken_for_that(number, port):
    with pytest.raises(NetlinkError):
        refused(number, **port)._shape_end("a", 1500)
