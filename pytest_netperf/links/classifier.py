"""Classic BPF classifiers on the receiving end of a veth link: what they drop, take out of the way, or copy.

The faults of simulated links are made of them, in this order (the kernel asks the classifiers by priority):

    frame -> stop it?            (nothing passes, or it is too long)
          -> lose it?            (the draw decides)
          -> take it away?       (to another interface, see `links.detour`)
          -> copy it there?
          -> through a queue?    (all of them, see `links.netem`)
          -> the stack of the receiving end

Classic BPF, because its random load (SKF_AD_RANDOM) and the classifier need CAP_NET_ADMIN in the namespace only: one
way for root and for an ordinary user in a user namespace, where loading eBPF is refused.

Every function here runs in the thread of the namespace that it works on.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeVar

from pytest_netperf.errors import LinkError
from pytest_netperf.links.namespace import Namespace

__all__ = ["CLASSIFIER", "EVERY_FRAME", "cut_into_frames", "divert", "lose", "qdiscs", "run_for_fault", "stop", "undo"]

T = TypeVar("T")

CLASSIFIER: Final = "the classifier cls_bpf"
EVERY_FRAME: Final = 1 << 32
"""As a threshold: every draw is below it."""

Stage = Literal["stop", "lose", "take", "copy", "queue"]
_PRIORITY: Final[dict[Stage, int]] = {"stop": 1, "lose": 2, "take": 3, "copy": 4, "queue": 5}

# linux/filter.h: struct sock_filter is { u16 code; u8 jt; u8 jf; u32 k; }
_SOCK_FILTER = struct.Struct("=HBBI")
_LOAD_WORD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_LOAD_LENGTH = 0x80  # BPF_LD | BPF_W | BPF_LEN: of the frame with its Ethernet header
_JUMP_IF_GREATER = 0x25  # BPF_JMP | BPF_JGT | BPF_K, unsigned
_JUMP_IF_GREATER_OR_EQUAL = 0x35  # BPF_JMP | BPF_JGE | BPF_K, unsigned
_RETURN = 0x06  # BPF_RET | BPF_K
_RANDOM = 0xFFFFF000 + 56  # SKF_AD_OFF + SKF_AD_RANDOM: a uniform 32-bit number
_ETHERNET_BYTES = 14

# linux/pkt_cls.h, linux/pkt_sched.h, linux/if_ether.h, linux/tc_act/tc_mirred.h
_GO_ON = 0xFFFFFFFF  # TC_ACT_UNSPEC: ask the next classifier; of a program without direct action: it matches
_NO_MATCH = 0
_DROP = 2  # TC_ACT_SHOT
_PIPE, _STOLEN = 3, 4
_DIRECT_ACTION = 1  # TCA_BPF_FLAG_ACT_DIRECT: what the program returns is the action
_INGRESS = 0xFFFFFFF2  # TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)
_ETH_P_ALL = 0x0003
_HANDLE = 1
_TO_EGRESS, _COPY_TO_EGRESS, _TO_INGRESS = 1, 2, 3  # of tc_mirred
_MIRRED = struct.Struct("=IIiiiiI")
_ACT_KIND, _ACT_OPTIONS, _MIRRED_PARMS = 1, 2, 2

_CUTS_IN_SOFTWARE = "tx-generic-segmentation"  # what is left when the interface cannot do it; costs nothing on its own

_Instruction = tuple[int, int, int, int]


def stop(ipr: Any, index: int, above_bytes: int | None = None) -> None:
    """Drop everything that arrives at an interface, or IP packets above a size."""
    program: list[_Instruction] = [(_RETURN, 0, 0, _DROP)]
    if above_bytes is not None:
        longest = above_bytes + _ETHERNET_BYTES
        program = [(_LOAD_LENGTH, 0, 0, 0), (_JUMP_IF_GREATER, 0, 1, longest), *program, (_RETURN, 0, 0, _GO_ON)]
    _replace(ipr, index, "stop", program, [("TCA_BPF_FLAGS", _DIRECT_ACTION)])


def lose(ipr: Any, index: int, threshold: int) -> None:
    """Drop a frame whose uniform 32-bit draw is below ``threshold``. A second call changes the threshold."""
    program = [*_draw(threshold, otherwise=_GO_ON), (_RETURN, 0, 0, _DROP)]
    _replace(ipr, index, "lose", program, [("TCA_BPF_FLAGS", _DIRECT_ACTION)])


def divert(
    ipr: Any, index: int, threshold: int, target: int, *, stage: Stage = "take", into_ingress: bool = False
) -> None:
    """Send a frame whose 32-bit draw is below ``threshold`` out of interface ``target``; at stage "copy" a copy.

    ``into_ingress``: it goes to the stack, as if it had arrived at ``target``.
    """
    program: list[_Instruction] = [] if threshold >= EVERY_FRAME else [*_draw(threshold, otherwise=_NO_MATCH)]
    program.append((_RETURN, 0, 0, _GO_ON))
    copy = stage == "copy"
    where = _TO_INGRESS if into_ingress else _COPY_TO_EGRESS if copy else _TO_EGRESS
    parameters = _MIRRED.pack(0, 0, _PIPE if copy else _STOLEN, 0, 0, where, target)
    action = _attribute(_ACT_KIND, b"mirred\0") + _attribute(_ACT_OPTIONS, _attribute(_MIRRED_PARMS, parameters))
    _replace(ipr, index, stage, program, [("TCA_BPF_ACT", _attribute(1, action))])


def undo(ipr: Any, index: int, stage: Stage) -> None:
    """Take a classifier away again."""
    from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST
    from pyroute2.netlink.rtnl import RTM_DELTFILTER

    _send(ipr, index, stage, RTM_DELTFILTER, NLM_F_REQUEST | NLM_F_ACK, [("TCA_KIND", "bpf")])


def cut_into_frames(fault: str, sender: Namespace, sender_index: int, receiver: Namespace, receiver_index: int) -> None:
    """Let each frame from ``sender`` to ``receiver`` arrive by itself, so that a classifier decides on one frame.

    The sending end is told that it cannot segment (`tx-tcp-segmentation` and its kin off). TCP and the shaper go on
    handling super-packets of up to 64 kB, the kernel cuts them after the shaper. gso_max_segs 1 looks like the same,
    but makes TCP itself send single segments: that alone took half the throughput of a 1 Gbit/s link.
    """
    run_for_fault(fault, sender, sender_index, "segmentation offloads off", _switch_off, _is_segmentation)
    run_for_fault(fault, receiver, receiver_index, "receive offload off", _switch_off, _is_coalescing)


def run_for_fault(
    fault: str,
    namespace: Namespace,
    index: int,
    what: str,
    function: Callable[..., T],
    *arguments: Any,
    **options: Any,
) -> T:
    """What ``function(ipr, index, ...)`` gives there. Raises LinkError that names the fault and what was refused."""
    from pyroute2.ethtool.ioctl import NotSupportedError
    from pyroute2.netlink.exceptions import NetlinkError

    where = f"{fault} fault on interface {index} in namespace {namespace.name}"
    try:
        return namespace.call(function, namespace.ipr, index, *arguments, **options)
    except (NetlinkError, NotSupportedError, OSError) as error:
        number = getattr(error, "code", None) or getattr(error, "errno", None)
        if function in (stop, lose, divert) and number in (errno.ENOENT, errno.EOPNOTSUPP):
            raise LinkError(
                f"{where}: this kernel does not have the clsact queue, the cls_bpf classifier or the act_mirred action "
                f"({error}). Run `sudo modprobe -a sch_ingress cls_bpf act_mirred`, or use a kernel with "
                "CONFIG_NET_SCH_INGRESS, CONFIG_NET_CLS_BPF and CONFIG_NET_ACT_MIRRED, or take the fault off this link"
            ) from error
        raise LinkError(f"{where}: the kernel refused {what}: {error}") from error


def qdiscs(ipr: Any, index: int) -> list[Any]:
    """The queueing disciplines of an interface, as pyroute2 reads them."""
    return list(ipr.get_qdiscs(index=index))


def _draw(threshold: int, otherwise: int) -> tuple[_Instruction, ...]:
    """Go on with the next instruction when the draw is below, else return ``otherwise``."""
    return (
        (_LOAD_WORD, 0, 0, _RANDOM),
        (_JUMP_IF_GREATER_OR_EQUAL, 0, 1, threshold),
        (_RETURN, 0, 0, otherwise),
    )


def _replace(
    ipr: Any, index: int, stage: Stage, instructions: Sequence[_Instruction], options: list[tuple[str, Any]]
) -> None:
    """Put a classifier on the ingress of the interface, or give the one that is there a new program."""
    from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST
    from pyroute2.netlink.rtnl import RTM_NEWTFILTER

    if not any(qdisc.get_attr("TCA_KIND") == "clsact" for qdisc in qdiscs(ipr, index)):
        ipr.tc("add", "clsact", index)
    program = b"".join(_SOCK_FILTER.pack(*instruction) for instruction in instructions)
    attributes = [("TCA_BPF_OPS_LEN", len(instructions)), ("TCA_BPF_OPS", program), *options]
    flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
    _send(
        ipr, index, stage, RTM_NEWTFILTER, flags, [("TCA_KIND", "bpf"), ("TCA_OPTIONS", {"attrs": attributes})], _HANDLE
    )


def _send(
    ipr: Any, index: int, stage: Stage, kind: int, flags: int, attributes: list[tuple[str, Any]], handle: int = 0
) -> None:
    message = _filter_message()
    message["index"] = index
    message["parent"] = _INGRESS
    message["handle"] = handle  # a fixed number: the next call changes this program instead of adding one
    message["info"] = _PRIORITY[stage] << 16 | socket.htons(_ETH_P_ALL)
    message["attrs"] = attributes
    message["header"]["type"] = kind
    message["header"]["flags"] = flags
    ipr.nlm_request_batch([message])  # pyroute2 0.9.7: nlm_request of a synchronous IPRoute ends in a KeyError


def _attribute(kind: int, value: bytes) -> bytes:
    """struct nlattr with its value, padded to 4 bytes."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _filter_message() -> Any:
    """An empty tc message that can carry a classic BPF program; pyroute2's own declares TCA_BPF_OPS as one number."""
    from pyroute2.netlink import nla, nlmsg
    from pyroute2.netlink.rtnl.tcmsg import tcmsg

    class BpfOptions(nla):  # type: ignore[misc] # pyroute2 is untyped
        nla_map = (
            (1, "TCA_BPF_ACT", "cdata"),
            (4, "TCA_BPF_OPS_LEN", "uint16"),
            (5, "TCA_BPF_OPS", "cdata"),
            (8, "TCA_BPF_FLAGS", "uint32"),
        )

    class FilterMessage(nlmsg):  # type: ignore[misc]
        fields = tcmsg.fields
        nla_map = ((1, "TCA_KIND", "asciiz"), (2, "TCA_OPTIONS", "bpf_options"))
        bpf_options = BpfOptions

    return FilterMessage()


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
