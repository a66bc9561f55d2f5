"""Probes over ssh: CPU load and temperatures of a device that publishes neither. Needs the extra ``remote``.

A login costs a small device as much as the traffic does, so one connection lasts from the reading before the traffic to
the one after it: between them nothing is asked, unless a temperature is read ``during`` the run.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pytest_netperf.bench.ssh_target import SshTarget
from pytest_netperf.errors import ConfigError
from pytest_netperf.observe.probe import Probe
from pytest_netperf.observe.sensors import hottest_of_sensors

if TYPE_CHECKING:
    from pytest_netperf.remote.ssh import SshConnection

__all__ = ["ssh_cpu", "ssh_temperature"]

_TICKS: Final = "head -n 1 /proc/stat 2>/dev/null || sysctl -n kern.cp_time"
"""Linux: cpu user nice system idle iowait irq softirq steal ...; FreeBSD: user nice system interrupt idle."""
_HEAT: Final = "if command -v sensors >/dev/null; then sensors -j; else cat /sys/class/hwmon/hwmon*/temp*_input; fi"
_ANSWER_S: Final = 8.0


def ssh_cpu(target: SshTarget | str, *, quantity: str = "dut_cpu") -> Probe:
    """Mean CPU load of a device over the traffic, all its CPUs together, from the counters of Linux or FreeBSD.

    ``target``: ``"root@192.0.2.1"``, or an `SshTarget` with key, port, known hosts.
    """
    device = _Device(target)

    def read() -> Mapping[str, int]:
        return _ticks(device.ask(_TICKS), device.name)

    def between(first: Mapping[str, int], last: Mapping[str, int], seconds: float) -> float:  # noqa: ARG001 - ticks have no unit
        busy, total = (last[name] - first[name] for name in ("busy", "total"))
        if total <= 0:
            raise RuntimeError(f"the CPU counters of {device.name} did not move; measure for longer")
        return busy / total

    return Probe(
        quantity=quantity, read=read, between=between, unit="ratio", name=f"CPU counters of {device.name}, by ssh"
    )  # fmt: skip


def ssh_temperature(
    target: SshTarget | str,
    *,
    quantity: str = "temperature",
    chip: str | None = None,
    during: bool = False,
    every_s: float = 10.0,
) -> Probe:
    """The hottest sensor of a device, in degrees Celsius: by ``sensors -j`` there, or else by its hwmon files.

    ``chip``: only those of this one, such as "coretemp"; it needs ``sensors``. ``target`` as for `ssh_cpu`.
    """
    device = _Device(target)

    def read() -> float:
        said = device.ask(_HEAT)
        if said.lstrip().startswith("{"):
            return hottest_of_sensors(said, chip, f"sensors -j of {device.name} prints")
        found = [int(word) / 1000 for word in said.split() if word.lstrip("-").isdecimal()]
        if not found or chip is not None:
            of = f" of chip {chip!r}" if chip else ""
            raise RuntimeError(
                f"{device.name} shows no temperature{of}; install lm-sensors there, or use another probe"
            )
        return max(found)

    name = f"sensors of {device.name}, by ssh{f', {chip}' if chip else ''}"
    return Probe(quantity=quantity, read=read, unit="degC", name=name, during=during, every_s=every_s)


class _Device:
    """Asked again and again; every second answer ends the connection: one before the traffic, one after it."""

    def __init__(self, target: SshTarget | str) -> None:
        if importlib.util.find_spec("asyncssh") is None:
            raise ConfigError(
                "probes over ssh need asyncssh, which is not installed: pip install 'pytest-netperf[remote]'"
            )
        if isinstance(target, str):
            user, at, host = target.rpartition("@")
            if not host or (at and not user) or any(letter.isspace() for letter in target):
                raise ConfigError(f"probes over ssh: {target!r} is no target; write 'USER@HOST', or an SshTarget")
            target = SshTarget(host=host, user=user or None)
        self._target = target
        self._connection: SshConnection | None = None
        self.name = target.host

    def ask(self, command: str) -> str:
        """What a command prints. Raises SshError, and RuntimeError when the command fails."""
        from pytest_netperf.remote.ssh import connect

        connection, self._connection = self._connection, None
        is_last = connection is not None and connection.is_open
        if connection is None or not connection.is_open:
            connection = connect(self._target)
        try:
            answer = connection.run(command, timeout=_ANSWER_S)
            if answer.status:
                said = (answer.stderr.strip() or answer.stdout.strip() or "it says nothing").splitlines()[0]
                raise RuntimeError(f"{self.name}: `{command}` ended with {answer.status}: {said}")
        except BaseException:
            connection.close()
            raise
        if is_last:
            connection.close()
        else:
            self._connection = connection
        return answer.stdout


def _ticks(said: str, host: str) -> dict[str, Any]:
    words = said.split()
    try:
        if words[0] == "cpu":
            numbers = [int(word) for word in words[1:9]]  # guest time is in user already
            idle = numbers[3] + numbers[4]
        else:
            numbers = [int(word) for word in words]
            idle = numbers[4]
    except (IndexError, ValueError):
        raise RuntimeError(
            f"{host} answers {said.strip()[:60]!r} for its CPU counters, which is not known here"
        ) from None
    return {"busy": sum(numbers) - idle, "total": sum(numbers)}
