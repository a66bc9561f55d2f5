"""Values and facts of what probes read around one traffic run. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_netperf.observe.observation import ProbeReading
from pytest_netperf.quantities import get_quantity

__all__ = ["probe_facts", "probe_values"]


def probe_values(readings: Iterable[ProbeReading]) -> tuple[dict[str, float | None], dict[str, str]]:
    """Quantity -> value, and quantity -> error. Of several probes of one quantity the worst; one that failed counts."""
    values: dict[str, float | None] = {}
    errors: dict[str, str] = {}
    for reading in readings:
        known = values.get(reading.quantity)
        if reading.error is not None or reading.value is None:
            why = reading.error or "it gave no value"
            errors.setdefault(reading.quantity, f"The probe {reading.name!r} of {reading.quantity} failed: {why}.")
            values[reading.quantity] = None
        elif reading.quantity in errors:
            continue
        elif known is None:
            values[reading.quantity] = reading.value
        else:
            worst = min if get_quantity(reading.quantity).better == "higher" else max
            values[reading.quantity] = worst(known, reading.value)
    return values, errors


def probe_facts(readings: Iterable[ProbeReading]) -> dict[str, Any]:
    """``measured_temperature``, ``temperature_from``, its samples as ``temperature_at_s`` and ``temperature_samples``.

    Of several probes of one quantity, the value is the worst, and the samples are those of the probe that it came from.
    """
    readings = tuple(readings)
    values, errors = probe_values(readings)
    facts: dict[str, Any] = {}
    for quantity, value in values.items():
        of_quantity = [each for each in readings if each.quantity == quantity]
        shown = next((each for each in of_quantity if each.value == value), of_quantity[0])
        facts[f"measured_{quantity}"] = value
        facts[f"{quantity}_from"] = ", ".join(each.name for each in of_quantity)
        facts[f"{quantity}_at_s"] = [at_s for at_s, _ in shown.samples]
        facts[f"{quantity}_samples"] = [sample for _, sample in shown.samples]
        if missed := sum(each.missed for each in of_quantity):
            facts[f"{quantity}_missed"] = missed
        if quantity in errors:
            facts[f"{quantity}_error"] = errors[quantity]
    return {name: fact for name, fact in facts.items() if fact is not None and fact != []}
