"""What was read of both ports around a run, for the rules and as flat facts of a row. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pytest_netperf.observe.observation import Observation, PcieHop, PortFacts, PortQueue
from pytest_netperf.quantities import format_value

__all__ = ["NO_LINE", "ReadPort", "hop_bps", "hop_text", "port_facts_of", "ports_read", "queue_text"]

NO_LINE: Final = frozenset({"veth"})  # their speed is a constant of the kernel
_SETTINGS: Final = (
    "driver", "firmware", "autoneg", "pause_autoneg", "pause_rx", "pause_tx", "eee_supported", "eee_enabled",
    "eee_active", "aspm_policy", "usb_bps",
)  # fmt: skip
_ENCODING: Final = ((8.0, 8 / 10), (64.0, 128 / 130))  # of PCI Express: up to which GT/s, and the share that is data


class ReadPort(NamedTuple):
    """One port, before and after the traffic."""

    name: str
    before: PortFacts
    after: PortFacts

    def gained(self, counter: str) -> float | None:
        """What a counter of its driver gained over the run; None where the driver has none, or it was reset."""
        first, last = self.before.counters.get(counter), self.after.counters.get(counter)
        return None if first is None or last is None or last < first else last - first


def ports_read(observation: Observation | None) -> Iterator[ReadPort]:
    """Ports a and b, as far as they were read before and after."""
    for name in ("a", "b") if observation is not None else ():
        before, after = getattr(observation, f"{name}_port_before"), getattr(observation, f"{name}_port_after")
        if before is not None and after is not None:
            yield ReadPort(name, before, after)


def port_facts_of(observation: Observation) -> dict[str, Any]:
    """``port_a_driver`` and so on, as after the traffic; what counters gained; and the speed before, where it changed.

    What is not known is left out.
    """
    facts: dict[str, Any] = {}
    for port in ports_read(observation):
        prefix, seen = f"port_{port.name}", port.after
        known: dict[str, Any] = {name: getattr(seen, name) for name in _SETTINGS}
        known |= {"driver_version": seen.version, "bus": seen.bus_address}
        if seen.driver not in NO_LINE:
            for name in ("speed_bps", "duplex"):
                first, last = getattr(port.before, name), getattr(seen, name)
                known |= {name: last, **({f"{name}_before": first} if first != last else {})}
        for state in ("on", "off", "cannot"):
            known[f"offloads_{state}"] = sorted(name for name, value in seen.offloads.items() if value == state)
        known |= {name: port.gained(name) for name in sorted(seen.counters)}
        if seen.queues is not None:
            known["queues"] = [queue_text(queue) for queue in seen.queues]
        if seen.pcie is not None:
            known["pcie"] = [hop_text(hop) for hop in seen.pcie]
        if seen.aspm is not None:
            known["aspm"] = ", ".join(seen.aspm) or "none enabled"
        facts |= {f"{prefix}_{name}": value for name, value in known.items() if value is not None}
    return facts


def queue_text(queue: PortQueue) -> str:
    """``htb 100 Mbit/s``, and whether it is the shaper of a simulated link."""
    rate = "" if queue.rate_bps is None else f" {format_value(queue.rate_bps, 'bit/s')}"
    return f"{queue.kind}{rate}{', the shaper of this link' if queue.ours else ''}"


def hop_bps(speed_gtps: float | None, width: int | None) -> float | None:
    """Bits that a PCI Express link carries each way per second, after its line encoding (8b/10b below 8 GT/s, then
    128b/130b, none at 64 GT/s); packet headers still come off it. None where speed or width is not known."""
    if speed_gtps is None or width is None:
        return None
    share = next((part for below, part in _ENCODING if speed_gtps < below), 1.0)
    return speed_gtps * 1e9 * width * share


def hop_text(hop: PcieHop) -> str:
    """``0000:00:1c.0 - 0000:01:00.0: 5 GT/s x1 (can: 8 GT/s x4, 8 GT/s x4)``."""
    ends = [
        _lanes(speed, width)
        for speed, width in (
            (hop.upper_max_speed_gtps, hop.upper_max_width),
            (hop.lower_max_speed_gtps, hop.lower_max_width),
        )
    ]
    return f"{hop.upper} - {hop.lower}: {_lanes(hop.speed_gtps, hop.width)} (can: {', '.join(ends)})"


def _lanes(speed_gtps: float | None, width: int | None) -> str:
    if speed_gtps is None and width is None:
        return "not known"
    return f"{'?' if speed_gtps is None else format(speed_gtps, 'g')} GT/s x{'?' if width is None else width}"
