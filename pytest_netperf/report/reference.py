"""The tester reference in the words of a sheet. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_netperf.quantities import format_value
from pytest_netperf.record.schema import Row, TesterReference
from pytest_netperf.record.wording import moment_text

__all__ = ["reference_table", "reference_text", "tester_text"]


def reference_table(references: Iterable[TesterReference]) -> dict[str, str]:
    """Link and MTU of each reference of a run -> what the tester did, when and with what; or why that is not known."""
    return {f"{each.link}, MTU {each.mtu}": _reference(each) for each in references}


def _reference(reference: TesterReference) -> str:
    if reference.throughput_bps is None:
        return f"not measured: {reference.missing or 'no reason was given'}"
    parts = [
        f"{format_value(reference.throughput_bps, 'bit/s')} (TCP, 1 stream)",
        _measured(reference.measured_at, stored=reference.stored),
        f"host {reference.host}, kernel {reference.kernel}, {reference.software}",
        *([f"may be too low: {reference.note}"] if reference.note else []),
    ]
    return "; ".join(parts)


def tester_text(row: Row) -> str:
    """The reference that speaks for a throughput row, to stand beside its ceiling; "" for every other row."""
    known = row.evidence.facts.get("reference_bps")
    return format_value(known, "bit/s") if row.quantity == "throughput" and isinstance(known, int | float) else ""


def reference_text(row: Row) -> str:
    """The same with its origin, for the evidence of the row; "" for a row without traffic."""
    facts = row.evidence.facts
    if isinstance(missing := facts.get("reference_not_measured"), str):
        return f"tester reference not measured: {missing}"
    rate = facts.get("reference_bps")
    if not isinstance(rate, int | float):
        return ""
    parts = [
        f"tester reference {format_value(rate, 'bit/s')} ({facts.get('reference_link')}, "
        f"MTU {facts.get('reference_mtu')})",
        _measured(facts.get("reference_measured_at"), stored=facts.get("reference_stored") is True),
        f"kernel {facts.get('reference_kernel')}, {facts.get('reference_software')}",
        *([f"may be too low: {facts['reference_note']}"] if facts.get("reference_note") else []),
    ]
    return "; ".join(parts)


def _measured(moment: Any, *, stored: bool) -> str:
    when = moment_text(moment if isinstance(moment, str) else None)
    return f"measured {when} by {'an earlier run' if stored else 'this run'}"
