"""Runs and the counters around them, honest and otherwise, for the tests of doubts."""

from __future__ import annotations

import msgspec

from pytest_netperf.judge.doubts import Findings, examine
from pytest_netperf.observe.observation import Observation, PortCounters
from pytest_netperf.physics import goodput_ceiling_bps
from pytest_netperf.traffic.result import Flow, Interval, Result, Workload

SPEED_BPS = 2.5e9
CEILING_BPS = goodput_ceiling_bps(SPEED_BPS, 1500)
NOTHING = PortCounters(rx_bytes=1000, tx_bytes=1000, rx_packets=10, tx_packets=10, carrier_changes=2)
SUPER_FRAME = 65_226  # payload of 45 segments and the headers of one
REPLACE = msgspec.structs.replace


def tcp_flow(direction="forward", rate_bps=CEILING_BPS * 0.999, seconds=10.0, omit=1.0, **known) -> Flow:
    count = int(rate_bps * seconds / 8)
    second = int(rate_bps / 8)
    intervals = [Interval(start_s=0, seconds=1, bytes=second, omitted=True)] if omit else []
    intervals += [Interval(start_s=start, seconds=1, bytes=second) for start in range(int(seconds))]
    values = {
        "received_bytes": count,
        "received_seconds": seconds,
        "received_bps": rate_bps,
        "sent_bytes": count + 200_000,
        "sent_seconds": seconds,
        "sent_bps": rate_bps,
        "retransmits": 0,
        "intervals": tuple(intervals),
        "intervals_from": "receiver",
    }
    return Flow(direction=direction, **{**values, **known})


def udp_flow(rate_bps=2e9, lost=0, seconds=10.0, length=1448, **known) -> Flow:
    packets = int(rate_bps * seconds / 8 / length)
    got = (packets - lost) * length
    values = {
        "received_bytes": got,
        "received_seconds": seconds,
        "received_bps": got * 8 / seconds,
        "sent_bytes": packets * length,
        "sent_seconds": seconds,
        "sent_bps": rate_bps,
        "packets": packets,
        "lost_packets": lost,
        "frame_loss_ratio": lost / packets,
        "jitter_s": 1e-5,
        "intervals": tuple(Interval(start_s=i, seconds=1, bytes=got // int(seconds)) for i in range(int(seconds))),
        "intervals_from": "receiver",
    }
    return Flow(direction="forward", **{**values, **known})


def run(*flows: Flow, **known) -> Result:
    workload = known.pop("workload", Workload())
    values = {
        "trusted": True,
        "reason": "good",
        "engine": "iperf3",
        "client_version": "3.12",
        "server_version": "3.12",
    }
    return Result(workload=workload, flows=flows or (tcp_flow(),), **{**values, **known})


UDP = Workload(protocol="udp", bitrate_bps=2e9, length_bytes=1448, omit_s=0)


def ports(forward: float = 0, reverse: float = 0, packets: int = 0, **known) -> Observation:
    """Counters of a link over which so many bytes went each way; ``a`` and ``b`` add counts to one port."""
    observation = {}
    for name, sent, received in (("a", forward, reverse), ("b", reverse, forward)):
        after = REPLACE(
            NOTHING,
            rx_bytes=NOTHING.rx_bytes + int(received),
            tx_bytes=NOTHING.tx_bytes + int(sent),
            rx_packets=NOTHING.rx_packets + (packets if received else packets // 2),
            tx_packets=NOTHING.tx_packets + (packets if sent else packets // 2),
        )
        more = known.pop(name, {})
        observation[f"{name}_before"] = NOTHING
        observation[f"{name}_after"] = REPLACE(
            after, **{key: getattr(after, key) + value for key, value in more.items()}
        )
    return Observation(**{"cpu_busy": (0.5, 0.3), **observation, **known})


def fair(result: Result, framing: float = 1514 / 1448, payload: int = 1448) -> Observation:
    """The counters of an honest run: all payload, the omitted second, and framing as single frames have it."""
    sums = {"forward": 0.0, "reverse": 0.0}
    packets = 0
    for flow in result.flows:
        omitted = sum(interval.bytes for interval in flow.intervals if interval.omitted)
        total = max(flow.received_bytes or 0, flow.sent_bytes or 0) + omitted
        sums[flow.direction] += total * framing
        packets += total // payload
    if len(result.flows) == 1 and result.workload.protocol == "tcp":  # acknowledgements
        sums["reverse" if result.flows[0].direction == "forward" else "forward"] += packets // 2 * 66
    return ports(sums["forward"], sums["reverse"], packets=packets)


def look(result: Result | None = None, observation: Observation | None = None, **known) -> Findings:
    result = result or run()
    options = {
        "speed_bps": SPEED_BPS,
        "mtu_bytes": 1500,
        "simulated": True,
        "faulted": False,
        "ceiling_bps": CEILING_BPS,
    }
    return examine(result, observation or fair(result), **{**options, **known})
