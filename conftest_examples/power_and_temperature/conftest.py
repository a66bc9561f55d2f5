"""The meters of this bench. Replace the two functions by ones that read yours (serial port, SNMP, HTTP ...)."""

import pytest

from pytest_netperf.quantities import register_quantity

# A quantity of our own, beside those that the plugin knows.
register_quantity("noise", "dBA", better="lower", description="sound level at 1 m", how="hand-held meter")


def read_power_w(loaded):
    return 25.4 if loaded else 13.5


def read_temperature_c(loaded):
    return 53.0 if loaded else 41.0


@pytest.fixture
def meters():
    return read_power_w, read_temperature_c
