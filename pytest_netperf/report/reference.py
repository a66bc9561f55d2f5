"""The tester reference in the words of a sheet. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_netperf.quantities import format_value
from pytest_netperf.record.schema import Row, TesterReference
from pytest_netperf.record.wording import moment_text
from pytest_netperf.report.language import Words

__all__ = ["reference_table", "reference_text", "tester_text"]


def reference_table(references: Iterable[TesterReference], w: Words) -> dict[str, str]:
    """Link and MTU of each reference of a run -> what the tester did, when and with what; or why that is not known."""
    return {f"{each.link}, MTU {each.mtu}": _reference(each, w) for each in references}


def _reference(reference: TesterReference, w: Words) -> str:
    if reference.throughput_bps is None:
        return w("reference.not_measured", reason=reference.missing or w("reference.no_reason"))
    parts = [
        w("reference.one_stream", rate=format_value(reference.throughput_bps, "bit/s")),
        _measured(reference.measured_at, w, stored=reference.stored),
        w("reference.made", host=reference.host, kernel=reference.kernel, software=reference.software),
        *([w("reference.too_low", reason=reference.note)] if reference.note else []),
    ]
    return "; ".join(parts)


def tester_text(row: Row) -> str:
    """The reference that speaks for a throughput row, to stand beside its ceiling; "" for every other row."""
    known = row.evidence.facts.get("reference_bps")
    return format_value(known, "bit/s") if row.quantity == "throughput" and isinstance(known, int | float) else ""


def reference_text(row: Row, w: Words) -> str:
    """The same with its origin, for the evidence of the row; "" for a row without traffic."""
    facts = row.evidence.facts
    if isinstance(missing := facts.get("reference_not_measured"), str):
        return w("reference.of_row_not_measured", reason=missing)
    rate = facts.get("reference_bps")
    if not isinstance(rate, int | float):
        return ""
    parts = [
        w(
            "reference.of_row",
            rate=format_value(rate, "bit/s"),
            link=facts.get("reference_link"),
            mtu=facts.get("reference_mtu"),
        ),
        _measured(facts.get("reference_measured_at"), w, stored=facts.get("reference_stored") is True),
        w("reference.made_of_row", kernel=facts.get("reference_kernel"), software=facts.get("reference_software")),
        *([w("reference.too_low", reason=facts["reference_note"])] if facts.get("reference_note") else []),
    ]
    return "; ".join(parts)


def _measured(moment: Any, w: Words, *, stored: bool) -> str:
    when = moment_text(moment if isinstance(moment, str) else None)
    return w("reference.earlier_run" if stored else "reference.this_run", when=when)
