"""Probes over SNMP: any number that the device publishes, its CPU load and its temperatures. Needs the extra ``snmp``.

How a probe is let in are the fields of `observe.snmp_agent.SnmpAgent`, by name: ``community="secret"``, or
``user="lab", auth_key="...", privacy_key="..."`` for version 3.

CPU load comes from counters (UCD-SNMP-MIB, ssCpuRaw...), read before and after the traffic: the mean over the run,
without asking the device meanwhile. Where a device has none of them, name an object of its own with `snmp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Unpack

from pytest_netperf.errors import ConfigError
from pytest_netperf.observe.probe import Probe
from pytest_netperf.observe.snmp_agent import Access, SnmpAgent

__all__ = ["snmp", "snmp_cpu", "snmp_temperature"]

_UCD_CPU: Final = "1.3.6.1.4.1.2021.11"
_BUSY: Final = {"user": 50, "nice": 51, "system": 52, "kernel": 55, "interrupt": 56, "steal": 64, "softirq": 61}
_PARTS_OF_SYSTEM: Final = ("kernel", "interrupt", "softirq")
_IDLE: Final = {"idle": 53, "wait": 54}
_LM_TEMPERATURES: Final = "1.3.6.1.4.1.2021.13.16.2.1.3"
"""LM-SENSORS-MIB lmTempSensorsValue, in thousandths of a degree Celsius."""


def snmp(
    quantity: str,
    host: str,
    oid: str,
    unit: str,
    *,
    scale: float = 1.0,
    during: bool = False,
    every_s: float = 10.0,
    **access: Unpack[Access],
) -> Probe:
    """A number that a device publishes: the object ``oid`` times ``scale``, in ``unit``."""
    agent = SnmpAgent(host=host, **access)
    parts = str(oid).strip(".").split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"SNMP: {oid!r} is no object identifier; write numbers and dots, as in 1.3.6.1.2.1.1.3.0")

    def read() -> float:
        (value,) = agent.numbers([oid]).values()
        return value * scale

    name = f"SNMP {oid} of {host}"
    return Probe(quantity=quantity, read=read, unit=unit, name=name, during=during, every_s=every_s)


def snmp_cpu(host: str, *, quantity: str = "dut_cpu", **access: Unpack[Access]) -> Probe:
    """Mean CPU load of a device over the traffic, all its CPUs together (UCD-SNMP-MIB, ssCpuRawUser to ssCpuRawIdle).

    Net-SNMP reads its counters every 5 s or so: the traffic should be a few times as long.
    """
    agent = SnmpAgent(host=host, **access)
    oids = {name: f"{_UCD_CPU}.{number}.0" for name, number in {**_BUSY, **_IDLE}.items()}

    def read() -> Mapping[str, float]:
        found = agent.numbers(list(oids.values()), missing_is_fine=True)
        ticks = {name: found[oid] for name, oid in oids.items() if oid in found}
        if "idle" not in ticks or not ticks.keys() & _BUSY.keys():
            raise RuntimeError(f"{host} publishes no CPU counters ({_UCD_CPU}); name an object of its own with snmp()")
        return ticks

    def between(first: Mapping[str, float], last: Mapping[str, float], seconds: float) -> float:  # noqa: ARG001 - ticks have no unit
        gained = {name: (last[name] - ticks) % 2**32 for name, ticks in first.items() if name in last}
        # UCD-SNMP-MIB: ssCpuRawSystem is the sum of kernel, interrupt and softirq where these are given, too.
        system = max(gained.get("system", 0.0), sum(gained.get(name, 0.0) for name in _PARTS_OF_SYSTEM))
        busy = system + sum(gained.get(name, 0.0) for name in ("user", "nice", "steal"))
        total = busy + gained["idle"] + gained.get("wait", 0.0)
        if total <= 0:
            raise RuntimeError(f"the CPU counters of {host} did not move; measure for longer")
        return busy / total

    return Probe(quantity=quantity, read=read, between=between, unit="ratio", name=f"SNMP CPU counters of {host}")


def snmp_temperature(
    host: str,
    *,
    quantity: str = "temperature",
    during: bool = False,
    every_s: float = 10.0,
    **access: Unpack[Access],
) -> Probe:
    """The hottest sensor that a device publishes in LM-SENSORS-MIB, in degrees Celsius."""
    agent = SnmpAgent(host=host, **access)

    def read() -> float:
        found = agent.numbers_below(_LM_TEMPERATURES)
        if not found:
            raise RuntimeError(f"{host} publishes no temperature ({_LM_TEMPERATURES}); name an object with snmp()")
        return max(found) / 1000

    name = f"SNMP temperatures of {host}"
    return Probe(quantity=quantity, read=read, unit="degC", name=name, during=during, every_s=every_s)
