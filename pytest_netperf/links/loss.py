"""Random loss of single frames in one direction of a veth link: the fault `loss = "0.5 %"` of a simulated link.

    sender [ a ] == TBF == cut into frames == veth == clsact: draw < ratio x 2^32 ? drop : accept == [ b ] receiver

Two changes make it the loss of a wire:

- The sending end is told that it cannot segment (`tx-tcp-segmentation` and its kin off). TCP and the shaper go on
  handling super-packets of up to 64 kB, the kernel cuts them after the shaper, and every draw decides on one frame.
  gso_max_segs 1 looks like the same, but makes TCP itself send single segments: that alone took half the throughput
  of a 1 Gbit/s link on which no frame was lost.
- A classic BPF classifier on the receiving end drops a frame with a probability of round(ratio x 2^32) / 2^32, within
  0.02 % of the ratio from LOWEST_RATIO up. Any frame: ARP and acknowledgements too, as on a bad cable. The counters of
  both ports still count it, as they would for a frame that a device loses behind its port.

Classic BPF, because its random load (SKF_AD_RANDOM) and the classifier's direct action need CAP_NET_ADMIN in the
namespace only: one way for root and for an ordinary user in a user namespace, where loading eBPF is refused.

Not netem, not even where the kernel has it: as a queue of the sender it draws before super-packets are cut (sch_netem.c
cuts them only to corrupt), so each loss would be one of up to 64 kB.

What it cannot do: TCP with a round trip of some 100 us recovers at once, so that 0.5 % of loss costs bbr little more
than 0.5 % of the throughput. A limit on `retransmits` or `frame_loss_ratio` sees it.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_netperf.errors import ConfigError, LinkError
from pytest_netperf.links.namespace import Namespace

__all__ = ["HIGHEST_RATIO", "LOWEST_RATIO", "LossCounts", "LossFault", "apply_loss", "loss_threshold"]

LOWEST_RATIO = 1e-6
HIGHEST_RATIO = 0.5

# linux/filter.h: struct sock_filter is { u16 code; u8 jt; u8 jf; u32 k; }
_SOCK_FILTER = struct.Struct("=HBBI")
_LOAD_WORD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JUMP_IF_GREATER_OR_EQUAL = 0x35  # BPF_JMP | BPF_JGE | BPF_K, unsigned
_RETURN = 0x06  # BPF_RET | BPF_K
_RANDOM = 0xFFFFF000 + 56  # SKF_AD_OFF + SKF_AD_RANDOM: a uniform 32-bit number

# linux/pkt_cls.h, linux/pkt_sched.h, linux/if_ether.h
_ACCEPT = 0  # TC_ACT_OK
_DROP = 2  # TC_ACT_SHOT
_DIRECT_ACTION = 1  # TCA_BPF_FLAG_ACT_DIRECT: what the program returns is the action
_INGRESS = 0xFFFFFFF2  # TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)
_ETH_P_ALL = 0x0003
_PRIORITY = 1
_HANDLE = 1

_CUTS_IN_SOFTWARE = "tx-generic-segmentation"  # what is left when the interface cannot do it; costs nothing on its own


class LossCounts(NamedTuple):
    """Frames that arrived since the fault was first set, and how many of them it dropped. The kernel counts to 2^32."""

    frames: int
    dropped: int


@dataclass(frozen=True)
class LossFault:
    """A loss fault in force at the receiving end of one direction. It lives as long as the link."""

    ratio: float
    receiver: Namespace
    receiver_index: int

    def counts(self) -> LossCounts:
        """What the fault has done so far. Raises LinkError when the link or the fault is gone."""
        for qdisc in self.receiver.call(_qdiscs, self.receiver.ipr, self.receiver_index):
            if qdisc.get_attr("TCA_KIND") == "clsact":
                stats = qdisc.get_attr("TCA_STATS2")
                return LossCounts(
                    stats.get_attr("TCA_STATS_BASIC")["packets"], stats.get_attr("TCA_STATS_QUEUE")["drops"]
                )
        raise LinkError(f"the loss fault of interface {self.receiver_index} in namespace {self.receiver.name} is gone")


def loss_threshold(ratio: float) -> int:
    """The number below which a uniform 32-bit draw loses the frame. Raises ConfigError for what is no loss ratio."""
    is_number = isinstance(ratio, int | float) and not isinstance(ratio, bool)
    if not is_number or not LOWEST_RATIO <= ratio <= HIGHEST_RATIO:
        raise ConfigError(
            f"loss ratio {ratio!r}: expected a share from {LOWEST_RATIO:g} to {HIGHEST_RATIO:g} (0.005 is 0.5 %); "
            "for a link without loss leave the fault out"
        )
    return round(ratio * 2**32)


def apply_loss(
    sender: Namespace, sender_index: int, receiver: Namespace, receiver_index: int, ratio: float
) -> LossFault:
    """Lose each frame from ``sender`` to ``receiver`` with probability ``ratio``. Call it once per direction.

    The indices are those of the link's two interfaces. Open connections are affected too; a second call changes the
    ratio. Best set after the link was proved, because ARP and neighbour discovery are lost like everything else.

    Raises ConfigError for a ratio that is no loss ratio, LinkError when the kernel refuses or knows no cls_bpf.
    """
    threshold = loss_threshold(ratio)
    _run(sender, _switch_off, sender_index, _is_segmentation, what="segmentation offloads off")
    _run(receiver, _switch_off, receiver_index, _is_coalescing, what="receive offload off")
    _run(receiver, _drop_below, receiver_index, threshold, what="the classifier cls_bpf")
    return LossFault(ratio, receiver, receiver_index)


def _run(namespace: Namespace, function: Callable[..., None], index: int, argument: Any, *, what: str) -> None:
    from pyroute2.ethtool.ioctl import NotSupportedError
    from pyroute2.netlink.exceptions import NetlinkError

    where = f"loss fault on interface {index} in namespace {namespace.name}"
    try:
        namespace.call(function, namespace.ipr, index, argument)
    except (NetlinkError, NotSupportedError, OSError) as error:
        number = getattr(error, "code", None) or getattr(error, "errno", None)
        if function is _drop_below and number in (errno.ENOENT, errno.EOPNOTSUPP):
            raise LinkError(
                f"{where}: this kernel does not have the clsact queue or the cls_bpf classifier ({error}). Run "
                "`sudo modprobe -a sch_ingress cls_bpf`, or use a kernel with CONFIG_NET_SCH_INGRESS and "
                "CONFIG_NET_CLS_BPF, or take the loss fault off this link"
            ) from error
        raise LinkError(f"{where}: the kernel refused {what}: {error}") from error


def _is_segmentation(feature: str) -> bool:
    return feature.endswith("-segmentation") and feature != _CUTS_IN_SOFTWARE


def _is_coalescing(feature: str) -> bool:
    return feature in ("rx-gro", "rx-gro-hw", "rx-lro")


def _switch_off(ipr: Any, index: int, unwanted: Callable[[str], bool]) -> None:
    """Switch off the features whose ethtool name is ``unwanted``, and make sure of it."""
    from pyroute2.ethtool.ioctl import IoctlEthtool

    (link,) = ipr.link("get", index=index)
    port = IoctlEthtool(link.get_attr("IFLA_IFNAME"))
    try:
        features = port.get_features()
        active = [name for name in features.keys() if unwanted(name) and features[name]]  # noqa: SIM118 - no mapping
        if not active:
            return
        for name in active:
            features[name] = False
        port.set_features(features)
        after = port.get_features()
        if left := [name for name in active if after[name]]:
            raise OSError(errno.EOPNOTSUPP, f"{', '.join(left)} stayed on")
    finally:
        port.close()


def _drop_below(ipr: Any, index: int, threshold: int) -> None:
    """Put the classifier on the ingress of the interface, or give the one that is there a new threshold."""
    from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST
    from pyroute2.netlink.rtnl import RTM_NEWTFILTER

    if not any(qdisc.get_attr("TCA_KIND") == "clsact" for qdisc in _qdiscs(ipr, index)):
        ipr.tc("add", "clsact", index)
    program = _program(threshold)
    message = _filter_message()
    message["index"] = index
    message["parent"] = _INGRESS
    message["handle"] = _HANDLE  # a fixed number: the next call changes this program instead of adding one
    message["info"] = _PRIORITY << 16 | socket.htons(_ETH_P_ALL)
    options = [
        ("TCA_BPF_OPS_LEN", len(program) // _SOCK_FILTER.size),
        ("TCA_BPF_OPS", program),
        ("TCA_BPF_FLAGS", _DIRECT_ACTION),
    ]
    message["attrs"] = [("TCA_KIND", "bpf"), ("TCA_OPTIONS", {"attrs": options})]
    message["header"]["type"] = RTM_NEWTFILTER
    message["header"]["flags"] = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
    ipr.nlm_request_batch([message])  # pyroute2 0.9.7: nlm_request of a synchronous IPRoute ends in a KeyError


def _program(threshold: int) -> bytes:
    instructions = (
        (_LOAD_WORD, 0, 0, _RANDOM),
        (_JUMP_IF_GREATER_OR_EQUAL, 1, 0, threshold),
        (_RETURN, 0, 0, _DROP),
        (_RETURN, 0, 0, _ACCEPT),
    )
    return b"".join(_SOCK_FILTER.pack(*instruction) for instruction in instructions)


def _filter_message() -> Any:
    """An empty tc message that can carry a classic BPF program; pyroute2's own declares TCA_BPF_OPS as one number."""
    from pyroute2.netlink import nla, nlmsg
    from pyroute2.netlink.rtnl.tcmsg import tcmsg

    class BpfOptions(nla):  # type: ignore[misc] # pyroute2 is untyped
        nla_map = (
            (4, "TCA_BPF_OPS_LEN", "uint16"),
            (5, "TCA_BPF_OPS", "cdata"),
            (8, "TCA_BPF_FLAGS", "uint32"),
        )

    class FilterMessage(nlmsg):  # type: ignore[misc]
        fields = tcmsg.fields
        nla_map = ((1, "TCA_KIND", "asciiz"), (2, "TCA_OPTIONS", "bpf_options"))
        bpf_options = BpfOptions

    return FilterMessage()


def _qdiscs(ipr: Any, index: int) -> list[Any]:
    return list(ipr.get_qdiscs(index=index))
