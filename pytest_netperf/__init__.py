"""pytest-netperf: network hardware acceptance testing with pytest and iperf3.

The names for annotations of tests and hooks, and what a conftest.py calls. Each is imported when it is first asked for:
every pytest run in an environment that has the plugin installed loads this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_netperf.bench.model import Device, LinkSpec
    from pytest_netperf.fixtures import Iperf3, Record
    from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
    from pytest_netperf.links.link import Endpoint, Link
    from pytest_netperf.observe.measure import Measurement
    from pytest_netperf.probes import Probe
    from pytest_netperf.quantities import register_quantity
    from pytest_netperf.record.schema import DeviceInfo, Row, Section, Sheet

__version__ = "0.1.0"

__all__ = [
    "Device",
    "DeviceInfo",
    "DeviceVerdict",
    "Endpoint",
    "Iperf3",
    "Link",
    "LinkSpec",
    "Measurement",
    "Probe",
    "Record",
    "Row",
    "Section",
    "Sheet",
    "Verdict",
    "__version__",
    "register_quantity",
]

_HOMES = {
    "bench.model": ("Device", "LinkSpec"),
    "fixtures": ("Iperf3", "Record"),
    "judge.verdict": ("DeviceVerdict", "Verdict"),
    "links.link": ("Endpoint", "Link"),
    "observe.measure": ("Measurement",),
    "probes": ("Probe",),
    "quantities": ("register_quantity",),
    "record.schema": ("DeviceInfo", "Row", "Section", "Sheet"),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
