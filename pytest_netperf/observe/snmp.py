"""Probes over SNMP: any number that the device publishes, its CPU load and its temperatures. Needs the extra ``snmp``.

CPU load comes from counters (UCD-SNMP-MIB, ssCpuRaw...), read before and after the traffic: the mean over the run,
without asking the device meanwhile. Where a device has none of them, name an object of its own with `snmp`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Literal

from pytest_netperf.errors import ConfigError
from pytest_netperf.observe.probe import Probe

__all__ = ["snmp", "snmp_cpu", "snmp_temperature"]

Version = Literal["1", "2c"]
_TIMEOUT_S: Final = 2.0
_RETRIES: Final = 1
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
    community: str = "public",
    version: Version = "2c",
    port: int = 161,
    during: bool = False,
    every_s: float = 10.0,
) -> Probe:
    """A number that a device publishes: the object ``oid`` times ``scale``, in ``unit``."""
    _require_pysnmp()
    _check(host, oid, version, port)

    def read() -> float:
        (value,) = _get(host, port, community, version, [oid]).values()
        return float(value) * scale

    name = f"SNMP {oid} of {host}"
    return Probe(quantity=quantity, read=read, unit=unit, name=name, during=during, every_s=every_s)


def snmp_cpu(
    host: str,
    *,
    quantity: str = "dut_cpu",
    community: str = "public",
    version: Version = "2c",
    port: int = 161,
) -> Probe:
    """Mean CPU load of a device over the traffic, all its CPUs together (UCD-SNMP-MIB, ssCpuRawUser to ssCpuRawIdle).

    Net-SNMP reads its counters every 5 s or so: the traffic should be a few times as long.
    """
    _require_pysnmp()
    _check(host, _UCD_CPU, version, port)
    oids = {name: f"{_UCD_CPU}.{number}.0" for name, number in {**_BUSY, **_IDLE}.items()}

    def read() -> Mapping[str, float]:
        found = _get(host, port, community, version, list(oids.values()), missing_is_fine=True)
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
    community: str = "public",
    version: Version = "2c",
    port: int = 161,
    during: bool = False,
    every_s: float = 10.0,
) -> Probe:
    """The hottest sensor that a device publishes in LM-SENSORS-MIB, in degrees Celsius."""
    _require_pysnmp()
    _check(host, _LM_TEMPERATURES, version, port)

    def read() -> float:
        found = asyncio.run(_walk(host, port, community, version, _LM_TEMPERATURES))
        if not found:
            raise RuntimeError(f"{host} publishes no temperature ({_LM_TEMPERATURES}); name an object with snmp()")
        return max(found) / 1000

    name = f"SNMP temperatures of {host}"
    return Probe(quantity=quantity, read=read, unit="degC", name=name, during=during, every_s=every_s)


def _require_pysnmp() -> None:
    import importlib.util

    if importlib.util.find_spec("pysnmp") is None:
        raise ConfigError("SNMP needs pysnmp, which is not installed: pip install 'pytest-netperf[snmp]'")


def _check(host: str, oid: str, version: str, port: int) -> None:
    parts = str(oid).strip(".").split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"SNMP: {oid!r} is no object identifier; write numbers and dots, as in 1.3.6.1.2.1.1.3.0")
    if version not in ("1", "2c"):
        raise ConfigError(f"SNMP: version {version!r} is not known here; write '1' or '2c'")
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535:
        raise ConfigError(f"SNMP: port {port!r} is not a port from 1 to 65535")
    if not isinstance(host, str) or not host.strip():
        raise ConfigError("SNMP: the host is empty")


def _get(
    host: str, port: int, community: str, version: str, oids: list[str], *, missing_is_fine: bool = False
) -> dict[str, float]:
    """Object -> its number. Raises RuntimeError for no answer, and for an object that is not there or is no number."""
    found = asyncio.run(_ask(host, port, community, version, oids))
    numbers: dict[str, float] = {}
    for oid in oids:
        value = found.get(oid.strip("."))
        try:
            numbers[oid] = float(str(value))
        except ValueError:
            if not missing_is_fine:
                what = "is not there" if value is None else f"is {str(value)!r}, which is no number"
                raise RuntimeError(f"object {oid} of {host} {what}") from None
    return numbers


async def _ask(host: str, port: int, community: str, version: str, oids: list[str]) -> dict[str, Any]:
    from pysnmp.hlapi.v3arch.asyncio import ContextData, ObjectIdentity, ObjectType, get_cmd

    engine, auth, target = await _target(host, port, community, version)
    try:
        error, status, _, bindings = await get_cmd(
            engine, auth, target, ContextData(), *(ObjectType(ObjectIdentity(oid)) for oid in oids), lookupMib=False
        )
    finally:
        engine.close_dispatcher()
    if error or (status and version != "1"):
        raise RuntimeError(f"{host} port {port} gives no answer by SNMP: {error or status.prettyPrint()}")
    return {str(name): _value(value) for name, value in bindings}


async def _walk(host: str, port: int, community: str, version: str, oid: str) -> list[float]:
    from pysnmp.hlapi.v3arch.asyncio import ContextData, ObjectIdentity, ObjectType, walk_cmd

    engine, auth, target = await _target(host, port, community, version)
    found = []
    try:
        async for error, status, _, bindings in walk_cmd(
            engine,
            auth,
            target,
            ContextData(),
            ObjectType(ObjectIdentity(oid)),
            lookupMib=False,
            lexicographicMode=False,
        ):
            if error or status:
                if error:
                    raise RuntimeError(f"{host} port {port} gives no answer by SNMP: {error}")
                break
            found += [
                float(value) for _, value in ((name, _value(value)) for name, value in bindings) if value is not None
            ]
    finally:
        engine.close_dispatcher()
    return found


async def _target(host: str, port: int, community: str, version: str) -> tuple[Any, Any, Any]:
    from pysnmp.hlapi.v3arch.asyncio import CommunityData, SnmpEngine, UdpTransportTarget

    engine = SnmpEngine()
    auth = CommunityData(community, mpModel=0 if version == "1" else 1)
    return engine, auth, await UdpTransportTarget.create((host, port), timeout=_TIMEOUT_S, retries=_RETRIES)


def _value(value: Any) -> Any:
    """None for an object that is not there (noSuchObject, noSuchInstance, endOfMibView)."""
    return None if type(value).__name__ in ("NoSuchObject", "NoSuchInstance", "EndOfMibView", "Null") else value
