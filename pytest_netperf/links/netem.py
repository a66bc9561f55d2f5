"""netem, the kernel's own network emulator, at the receiving end of a veth link, where frames are single ones.

    port b: clsact, every frame --> [ ifb ] netem: a draw for each --> the stack, as if it had just arrived at port b

netem is a queue in front of an interface that sends. An intermediate device (ifb) has one, and hands what it "sends" to
the stack of the port that the frame came in by, which has counted it already. Not every kernel has netem: this machine
may do the same by a classifier (`links.classifier.lose`).

Every function here runs in the thread of the namespace that it works on.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import Any, Final

from pytest_netperf.links.classifier import EVERY_FRAME, divert, qdiscs

__all__ = ["build_netem", "lose_by_netem", "netem_drops"]

_ROOT: Final = 0xFFFFFFFF
_HANDLE: Final = 0x10000000  # handle 1000:
_LIMIT_FRAMES: Final = 1_000_000  # nothing is held up, so none of them is ever full
_ABSENT: Final = (errno.ENOENT, errno.EOPNOTSUPP)  # no such queue, no such kind of interface


def build_netem(ipr: Any, index: int) -> int | None:
    """Send every frame that arrives at an interface through netem; the index of the device that it is a queue of.

    Nothing is lost yet. A second call finds what is there. None where the kernel has no netem, no ifb, or no classifier
    to lead there; then nothing has changed. Raises what the kernel refuses for another reason.
    """
    from pyroute2.netlink.exceptions import NetlinkError

    (port,) = ipr.link("get", index=index)
    name = f"{port.get_attr('IFLA_IFNAME')}i"
    with contextlib.suppress(OSError):
        return socket.if_nametoindex(name)
    try:
        ipr.link("add", ifname=name, kind="ifb", txqlen=_LIMIT_FRAMES)
    except NetlinkError as error:
        if error.code in _ABSENT:
            return None
        raise
    device = socket.if_nametoindex(name)
    try:
        _netem(ipr, "add", device, 0)
        ipr.link("set", index=device, state="up")
        divert(ipr, index, EVERY_FRAME, device, stage="queue")
    except NetlinkError as error:
        ipr.link("del", index=device)
        if error.code in _ABSENT:
            return None
        raise
    return device


def lose_by_netem(ipr: Any, device: int, threshold: int) -> None:
    """Lose a frame whose uniform 32-bit draw is below ``threshold``; 0 is the end of it."""
    _netem(ipr, "change", device, threshold)


def netem_drops(ipr: Any, device: int) -> int:
    """How many frames it has lost so far."""
    (queue,) = (qdisc for qdisc in qdiscs(ipr, device) if qdisc.get_attr("TCA_KIND") == "netem")
    return int(queue.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")["drops"])


def _netem(ipr: Any, what: str, device: int, threshold: int) -> None:
    """sch_netem loses a frame when its draw is not above ``loss``, unless that is 0; pyroute2 wants it in per cent."""
    percent = max(0, threshold - 0.5) / (2**32 - 1) * 100
    ipr.tc(what, "netem", device, _HANDLE, parent=_ROOT, loss=percent, limit=_LIMIT_FRAMES)
