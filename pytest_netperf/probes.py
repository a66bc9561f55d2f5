"""Probes for the hook ``pytest_netperf_probes``: what else is read around the traffic of a test.

from pytest_netperf.probes import hwmon, snmp_cpu

def pytest_netperf_probes(device, link):
    return [hwmon(), snmp_cpu("192.0.2.1")]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_netperf.bench.ssh_target import SshTarget
from pytest_netperf.errors import ConfigError
from pytest_netperf.observe.over_ssh import ssh_cpu, ssh_temperature
from pytest_netperf.observe.probe import Probe
from pytest_netperf.observe.sensors import hwmon, sensors
from pytest_netperf.observe.snmp import snmp, snmp_cpu, snmp_temperature

if TYPE_CHECKING:
    import pytest

    from pytest_netperf.collection import ItemPlan

__all__ = [
    "Probe",
    "SshTarget",
    "hwmon",
    "probes_of",
    "sensors",
    "snmp",
    "snmp_cpu",
    "snmp_temperature",
    "ssh_cpu",
    "ssh_temperature",
]


def probes_of(item: pytest.Item, plan: ItemPlan) -> tuple[Probe, ...]:
    """What the hooks of a run ask for around the traffic of one test. Raises ConfigError for what is no probe."""
    from pytest_netperf.judge.values import TRAFFIC_QUANTITIES

    if plan.link is None or not plan.measures_traffic:
        return ()
    try:
        # The hooks that this test sees: conftest files of other folders are not among them.
        hook = item.ihook.pytest_netperf_probes
        answers = hook(config=item.config, device=plan.device, link=plan.link.link)
    except ConfigError as error:
        raise ConfigError(f"pytest_netperf_probes: {error}") from None
    except Exception as error:  # noqa: BLE001 - a user's hook
        raise ConfigError(f"pytest_netperf_probes raised {type(error).__name__}: {error}") from None
    found: list[Probe] = []
    for answer in answers:
        if not isinstance(answer, list | tuple) or not all(isinstance(each, Probe) for each in answer):
            raise ConfigError(f"pytest_netperf_probes returned {answer!r}; it must be a list of Probe, or None")
        found += answer
    for probe in found:
        if probe.quantity in TRAFFIC_QUANTITIES:
            raise ConfigError(
                f"pytest_netperf_probes: {probe.quantity} is measured by the traffic itself; a probe reads something "
                "else, or a quantity of your own (register_quantity)"
            )
    return tuple(found)
