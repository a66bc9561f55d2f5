"""The value of each quantity that one traffic run measured. Pure.

A bidirectional run has one value per quantity too: that of the worse direction. Both are in the evidence.
"""

from __future__ import annotations

from pytest_netperf.judge.port_evidence import NO_LINE, ReadPort, ports_read
from pytest_netperf.judge.wire import forwarding_rate, wire_rates
from pytest_netperf.observe.observation import Observation
from pytest_netperf.traffic.result import Result

__all__ = ["RTT_QUANTITIES", "TRAFFIC_QUANTITIES", "traffic_values"]

TRAFFIC_QUANTITIES = frozenset(
    {
        "throughput", "mtu", "link_speed", "retransmits", "frame_loss_ratio", "jitter", "tester_cpu", "errors",
        "carrier_changes", "frame_rate", "wire_rate", "drift", "drops", "crc_errors", "missed", "pause_forward",
        "pause_reverse", "eee_ports", "forwarding_rate",
    }
)  # fmt: skip
"""What a traffic run can measure: the keys that `traffic_values` may have."""
RTT_QUANTITIES = frozenset({"rtt_p50", "rtt_p99", "buffer_delay"})
"""And what it measures with ``rtt=True``."""


def traffic_values(
    result: Result, observation: Observation | None, *, mtu_bytes: int, speed_bps: float | None
) -> dict[str, float | None]:
    """Quantity name -> value in the quantity's unit; None where the run does not say. Absent: not measured at all."""
    workload = result.workload
    values: dict[str, float | None] = {
        "throughput": result.throughput_bps,
        "mtu": float(mtu_bytes),
    }
    if speed_bps is not None:
        values["link_speed"] = _negotiated_bps(observation, speed_bps)
    if workload.protocol == "tcp":
        values["retransmits"] = None if result.retransmits is None else float(result.retransmits)
    else:
        values["frame_loss_ratio"] = result.frame_loss_ratio
        values["jitter"] = result.jitter_s
    if observation is not None:
        if observation.cpu_busy:
            values["tester_cpu"] = max(observation.cpu_busy)
        pairs = ((observation.a_before, observation.a_after), (observation.b_before, observation.b_after))
        values["errors"] = float(
            sum(last.rx_errors + last.tx_errors - first.rx_errors - first.tx_errors for first, last in pairs)
        )
        values["drops"] = float(
            sum(last.rx_dropped + last.tx_dropped - first.rx_dropped - first.tx_dropped for first, last in pairs)
        )
        values["carrier_changes"] = float(max(last.carrier_changes - first.carrier_changes for first, last in pairs))
        values |= _driver_values(observation)
    if observation is not None and observation.latency is not None:
        rtt = observation.latency
        values |= {"rtt_p50": rtt.p50_s, "rtt_p99": rtt.p99_s, "buffer_delay": rtt.buffer_delay}
    wire = wire_rates(result, observation, mtu_bytes=mtu_bytes)
    if wire is not None:
        values |= {"frame_rate": wire.frame_rate, "wire_rate": wire.wire_rate}
        forwarded = forwarding_rate(result, observation, wire.frame_rate)
        if forwarded is not None:
            values["forwarding_rate"] = forwarded[0]
    return values


def _driver_values(observation: Observation) -> dict[str, float | None]:
    """What only drivers know, of both ports; None where one does not say."""
    ports = {port.name: port for port in ports_read(observation)}
    if len(ports) < 2:
        return {}

    def gained(end: str, counter: str) -> float | None:
        return 0.0 if _has_no_line(ports[end]) else ports[end].gained(counter)

    def of_both(counter: str) -> float | None:
        counts = [gained(end, counter) for end in ports]
        return None if None in counts else float(sum(filter(None, counts)))

    def stopped(end: str, by: str) -> float | None:
        """What the one received is what the other one sent: either count will do."""
        known = [count for count in (gained(end, "rx_pause"), gained(by, "tx_pause")) if count is not None]
        return max(known, default=None)

    active = [_eee(port) for port in ports.values()]
    return {
        "crc_errors": of_both("rx_crc_errors"),
        "missed": of_both("rx_missed"),
        "pause_forward": stopped("a", by="b"),
        "pause_reverse": stopped("b", by="a"),
        "eee_ports": None if None in active else float(sum(map(bool, active))),
    }


def _has_no_line(port: ReadPort) -> bool:
    """Whether nothing can be damaged on its way, or asked to stop."""
    return port.before.driver in NO_LINE


def _eee(port: ReadPort) -> bool | None:
    """Whether EEE was active, before or after the traffic; None where the driver does not say."""
    if _has_no_line(port):
        return False
    seen = (port.before.eee_active, port.after.eee_active)
    return True if True in seen else None if None in seen else False


def _negotiated_bps(observation: Observation | None, rated_bps: float) -> float | None:
    """The lowest speed that a port of a driver had, before or after; without such a port, what the link stands for."""
    ports = [port for port in ports_read(observation) if port.before.driver not in NO_LINE]
    speeds = [seen.speed_bps for port in ports for seen in (port.before, port.after)]
    known = [speed for speed in speeds if speed is not None]
    if not speeds:
        return rated_bps
    return min(known) if len(known) == len(speeds) else None
