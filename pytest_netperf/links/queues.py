"""The queueing disciplines of a port, and which of them limit what leaves it."""

from __future__ import annotations

import struct
from typing import Any, Final

from pytest_netperf.links.netlink import ROUTE, attributes, exchange

__all__ = ["queues_of"]

# linux/rtnetlink.h, linux/pkt_sched.h
_GETQDISC, _GETTCLASS = 38, 42
_TCMSG: Final = struct.Struct("=BxxxiIII")  # family, index, handle, parent, info
_KIND, _OPTIONS = 1, 2
_ROOT: Final = 0xFFFFFFFF
_INGRESS: Final = 0xFFFFFFF1  # also of clsact
_TBF_PARMS, _TBF_RATE64 = 1, 4
_HTB_PARMS, _HTB_CEIL64 = 1, 7
_CAKE_RATE64: Final = 2
_FQ_FLOW_MAX_RATE, _FQ_UNLIMITED = 7, 0xFFFFFFFF
_RATE_AT: Final = 8  # in struct tc_ratespec
_CEIL_AT: Final = 12 + _RATE_AT  # struct tc_htb_opt has two of them
_LIMITING: Final = frozenset({"tbf", "htb", "hfsc", "cbq", "cake", "netem", "plug", "etf", "taprio"})


def queues_of(index: int, own: int | None = None) -> list[dict[str, Any]] | None:
    """Each queue behind which frames leave the interface, the root first; None where the kernel does not answer.

    ``limits``: whether it can hold back or lose what a port could send; ``rate_bps``: at which rate, where it says so.
    ``own`` is the handle of a queue of our making.
    """
    try:
        answer = exchange(ROUTE, _GETQDISC, _TCMSG.pack(0, index, 0, 0, 0), dump=True)
        found = []
        for message in answer:
            _, at, handle, parent, _ = _TCMSG.unpack_from(message)
            if at != index or parent == _INGRESS:
                continue
            known = dict(attributes(message[_TCMSG.size :]))
            kind = known.get(_KIND, b"").rstrip(b"\0").decode("ascii", "replace")
            limits, rate_bps = _limit(kind, known.get(_OPTIONS, b""), index)
            found.append(
                {
                    "kind": kind,
                    "root": parent == _ROOT,
                    "limits": limits,
                    "rate_bps": rate_bps,
                    "ours": own is not None and handle == own,
                }
            )
    except OSError:
        return None
    return sorted(found, key=lambda queue: not queue["root"])


def _limit(kind: str, options: bytes, index: int) -> tuple[bool, float | None]:
    """Whether a queue limits, and its rate in bit/s; None where it does not say or has several."""
    if kind == "htb":
        rates = _htb_rates(index)
        return bool(rates), rates[0] if len(rates) == 1 else None  # without a class everything passes
    inside = {} if kind == "netem" else dict(attributes(options))  # netem's begin with a structure
    if kind == "tbf":
        return True, _rate(inside, _TBF_RATE64, _TBF_PARMS, _RATE_AT)
    if kind == "cake":
        rate = _rate(inside, _CAKE_RATE64)
        return bool(rate), rate or None
    if kind == "fq":
        return inside.get(_FQ_FLOW_MAX_RATE, b"\xff" * 4) != struct.pack("=I", _FQ_UNLIMITED), None  # of each flow
    return kind in _LIMITING, None


def _htb_rates(index: int) -> list[float]:
    """What each class of an HTB may reach (ceil)."""
    rates = []
    for message in exchange(ROUTE, _GETTCLASS, _TCMSG.pack(0, index, 0, 0, 0), dump=True):
        known = dict(attributes(message[_TCMSG.size :]))
        if known.get(_KIND) == b"htb\0":
            rate = _rate(dict(attributes(known.get(_OPTIONS, b""))), _HTB_CEIL64, _HTB_PARMS, _CEIL_AT)
            rates += [] if rate is None else [rate]
    return rates


def _rate(inside: dict[int, bytes], wide: int, parameters: int | None = None, at: int = 0) -> float | None:
    """bit/s from bytes/s in 64 bits where there are, or else in 32 bits inside the parameters."""
    if len(value := inside.get(wide, b"")) == 8:
        return float(struct.unpack("=Q", value)[0]) * 8
    value = b"" if parameters is None else inside.get(parameters, b"")
    return float(struct.unpack_from("=I", value, at)[0]) * 8 if len(value) >= at + 4 else None
