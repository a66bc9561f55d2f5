"""The bench without a bench file: one simulated device that has a link of any speed that a test asks for."""

from __future__ import annotations

import platform

from pytest_netperf.bench.model import Bench, Device, LinkSpec, Station
from pytest_netperf.quantities import format_speed

__all__ = ["BUILTIN_SERIAL", "DEFAULT_SPEED_BPS", "builtin_bench", "host_name", "simulated_link"]

BUILTIN_SERIAL = "SIM-0001"
DEFAULT_SPEED_BPS = 1e9


def builtin_bench() -> Bench:
    """One device with one simulated 1G link; `elastic`, so a test that asks for another speed gets a link of that."""
    device = Device(serial=BUILTIN_SERIAL, model="simulated", links=(simulated_link(DEFAULT_SPEED_BPS),))
    return Bench(station=Station(name=host_name()), devices=(device,), elastic=True)


def host_name() -> str:
    """The name of this machine, for a station that has none of its own."""
    return platform.node() or "localhost"


def simulated_link(speed_bps: float) -> LinkSpec:
    """A simulated pair of this speed, named after it: ``sim-2.5G``."""
    return LinkSpec(name=f"sim-{format_speed(speed_bps)}".replace(" ", ""), speed_bps=speed_bps, simulated=True)
