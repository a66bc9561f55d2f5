"""Doubts about the sockets of a TCP run: whether the windows of the tester held the sender back. Pure.

The kernel counts for how long a sender had nothing else to wait for than the receiver's window (rwnd_limited) or room
in its own send buffer (sndbuf_limited), as a share of the time it was busy (struct tcp_info). With buffers of the
default size, measured on simulated links, both together are 0 to 1 % on good, lossy and slow links alike, 5 % without
any shaper; with window= of 4 to 64 KiB, one stream and no fault, they are 54 to 80 %.

But a small window is exhausted behind a slow device too: there the bytes wait in the queue of the device, and the
round-trip time says so. What is in flight (rate x round-trip time, Little's law) would fill the link if nothing queued:

    rate x rtt / shortest rtt >= what the link delivers     the device held the traffic, the window excuses nothing

The shortest round-trip time counts as 50 us at least: so long hosts take to answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.scene import Scene, near
from pytest_netperf.observe.observation import TcpTimes
from pytest_netperf.quantities import format_value
from pytest_netperf.traffic.result import Flow

__all__ = ["DOUBTS", "RULES"]

_QUEUE: Final = (
    "What was in flight would not have filled the link even without a queue on the way (rate x round-trip time / "
    "shortest round-trip time)."
)
RWND_LIMITED: Final = KnownDoubt(
    name="Receive window limited",
    kind="tester",
    sign="A rate stayed below what the link delivers, and in 30 % of its busy time or more the sending TCP waited for "
    f"the receiver's window or its own send buffer, for the window most. {_QUEUE}",
    meaning="The receiver's socket buffer is too small for this link, or its program reads too slowly.",
    next_step="Leave out window=, enlarge it or net.ipv4.tcp_rmem and net.core.rmem_max, and look at the receiver's "
    "CPU.",
)
SNDBUF_LIMITED: Final = KnownDoubt(
    name="Send buffer limited",
    kind="tester",
    sign="A rate stayed below what the link delivers, and in 30 % of its busy time or more the sending TCP waited for "
    f"its own send buffer or the receiver's window, for the buffer most. {_QUEUE}",
    meaning="The sender's socket buffer is too small for this link: both windows allowed more.",
    next_step="Leave out window=, or enlarge it or net.ipv4.tcp_wmem and net.core.wmem_max.",
)
WINDOW: Final = KnownDoubt(
    name="Window limited",
    kind="tester",
    sign="Only where the kernel's account is missing: a rate stayed below what the link delivers, and the window that "
    "the test asked for, or one of at most 256 KiB a stream that the receiver offered, allows less than that: window x "
    "8 / smallest round-trip time.",
    meaning="The sender had to wait for acknowledgements: the socket buffers are too small for this link.",
    next_step="Leave out window=, or enlarge it or net.ipv4.tcp_rmem and tcp_wmem.",
)
DOUBTS: Final = (RWND_LIMITED, SNDBUF_LIMITED, WINDOW)

_LIMITED_SHARE: Final = 0.3
_LEAST_BUSY_S: Final = 0.5
_HOSTS_ANSWER_S: Final = 50e-6
_SMALL_WINDOW: Final = 256 * 1024
_WINDOW_SLACK: Final = 1.1  # a smoothed round-trip time is no exact one


def waited_for_buffers(scene: Scene) -> Iterator[Doubt]:
    """By the kernel's own account of the sending end."""
    for flow in scene.result.flows:
        times = _times(scene, flow)
        if times is None or near(flow.received_bps, scene.reachable(flow)):
            continue
        window, buffer = times.rwnd_limited, times.sndbuf_limited
        if window + buffer < _LIMITED_SHARE or _queued_on_the_way(scene, flow, times):
            continue
        known = RWND_LIMITED if window >= buffer else SNDBUF_LIMITED
        yield known.seen(
            f"{flow.direction.capitalize()}, TCP was busy for {format_value(times.busy_s, 's', 3)}"
            f"{' (all streams together)' if times.connections > 1 else ''}, and "
            f"{format_value(window, 'ratio', 2)} of it waited for the receiver's window, "
            f"{format_value(buffer, 'ratio', 2)} for room in its send buffer; round trips took "
            f"{format_value(times.rtt_s, 's', 2)}{_shortest(times)}."
        )


def _shortest(times: TcpTimes) -> str:
    return "" if times.min_rtt_s is None else f", the shortest {format_value(times.min_rtt_s, 's', 2)}"


def _queued_on_the_way(scene: Scene, flow: Flow, times: TcpTimes) -> bool:
    """Whether enough was in flight to fill the link, had it not waited in a queue: then the path is slow."""
    full = scene.reachable(flow) or scene.ceiling_bps
    if full is None or flow.received_bps is None or times.min_rtt_s is None:
        return False
    return flow.received_bps * times.rtt_s / max(times.min_rtt_s, _HOSTS_ANSWER_S) >= full


def _times(scene: Scene, flow: Flow) -> TcpTimes | None:
    """The account of a direction, unless it is of its first moments only: there every window is still small."""
    seen = scene.observation.tcp if scene.observation is not None else ()
    own = (times for times in seen if times.direction == flow.direction)
    return next((times for times in own if times.busy_s >= _LEAST_BUSY_S * times.connections), None)


def window_limited(scene: Scene) -> Iterator[Doubt]:
    """A window that is empty before the first acknowledgement comes back. Rate = window / round-trip time."""
    workload = scene.result.workload
    for flow in scene.result.flows:
        reachable, tcp = scene.reachable(flow), flow.tcp
        if _times(scene, flow) is not None:
            continue
        if tcp is None or not tcp.min_rtt_s or reachable is None or near(flow.received_bps, reachable):
            continue
        offered, asked = tcp.max_peer_window_bytes, workload.window_bytes
        small = offered is not None and offered <= _SMALL_WINDOW * workload.streams
        window = offered if offered is not None and small else asked * workload.streams if asked is not None else None
        if window is None or window * 8 / tcp.min_rtt_s >= reachable * _WINDOW_SLACK:
            continue
        allowed = format_value(window * 8 / tcp.min_rtt_s, "bit/s", 3)
        yield WINDOW.seen(
            f"A window of {format_value(window, 'B')} and a round-trip time of {format_value(tcp.min_rtt_s, 's', 3)} "
            f"allow {allowed} {flow.direction}, the link {format_value(reachable, 'bit/s')}."
        )


RULES: Final = (waited_for_buffers, window_limited)
