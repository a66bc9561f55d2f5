"""What the HTML sheet shows, prepared: the template only lays it out. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from markupsafe import Markup

from pytest_netperf.judge.run_to_run import SOURCE
from pytest_netperf.judge.verdict import Verdict, has_a_say
from pytest_netperf.quantities import format_value
from pytest_netperf.record.evidence_store import attached_files
from pytest_netperf.record.schema import Attempt, Row, Sheet
from pytest_netperf.record.wording import (
    conditions_text,
    differing_rules,
    limit_text,
    margin_text,
    measured_text,
    moment_text,
    port_text,
    printable,
    quantity_text,
    uncertainty_text,
    value_text,
    zero_loss_text,
)
from pytest_netperf.report.certificate import certificate, report_id
from pytest_netperf.report.language import DEFAULT_LANGUAGE, Words, load_words
from pytest_netperf.report.legend import device_legend, row_legend, verdict_class
from pytest_netperf.report.plots import bullet_graph, throughput_plot
from pytest_netperf.report.reference import reference_table, reference_text, tester_text
from pytest_netperf.report.soak_plot import soak_sections
from pytest_netperf.report.state_section import state_sections
from pytest_netperf.report.sweep_section import sweep_sections

__all__ = ["page_context", "typeset"]

_NOTES_IN_FRONT = 12
_ROWS_NAMED = 6
_FACTS_SHOWN = 12
_FACTS_OF_U = frozenset({"intervals", "n_eff", "correlation_time_s", "margin_over_uncertainty", SOURCE})
"""Facts that have their own line."""
_UNITS = (("_bps", "bit/s"), ("_ratio", "ratio"), ("_seconds", "s"), ("_bytes", "B"), ("_watts", "W"), ("_s", "s"))


def page_context(sheet: Sheet, *, json_sha256: str, words: Words | None = None) -> dict[str, Any]:
    """Everything that the templates ``sheet.html.j2`` and ``sheet.typ`` name."""
    w = words or load_words(DEFAULT_LANGUAGE)
    notes = _notes(sheet, w)
    number_of = {id(row): note["number"] for note in notes for row in note["rows"]}
    required = [row for row in sheet.rows if has_a_say(row)]
    return {
        "sheet": sheet,
        "w": w,
        "word": w.of("device", f"{sheet.verdict.value}.word", sheet.verdict.value),
        "id": report_id(sheet),
        "certificate": [(label, typeset(text)) for label, text in certificate(sheet, w)],
        "look": verdict_class(sheet.verdict),
        "sentence": typeset(w.sentence(sheet.sentence)),
        "in_english": w.language != DEFAULT_LANGUAGE and not all(map(w.sentence.knows, _sentences(sheet))),
        "started": moment_text(sheet.started_at),
        "finished": moment_text(sheet.finished_at),
        "station": sheet.station.name or "-",
        "passed": sum(row.verdict is Verdict.PASS for row in required),
        "required": len(required),
        "notes": notes[:_NOTES_IN_FRONT],
        "further_notes": notes[_NOTES_IN_FRONT:],
        "rows": [_table_row(row, number_of.get(id(row)), w) for row in sheet.rows],
        "rules_differ": differing_rules(sheet),
        "rules": list(dict.fromkeys((row.rule, typeset(row.risk)) for row in sheet.rows if row.rule and row.risk)),
        "runs": list(_runs(sheet.rows, w)),
        "sweeps": sweep_sections(sheet.rows, w),
        "soaks": soak_sections(sheet.rows, w),
        "states": [
            {**section, "table": [list(map(typeset, line)) for line in section["table"]]}
            for section in state_sections(sheet.rows, w)
        ],
        "tables": [
            (title, _flat(table, w))
            for title, table in (
                (w("tables.procedure"), _plain(sheet.procedure)),
                (w("tables.conditions"), sheet.conditions),
                (w("tables.station"), _plain(sheet.station)),
                (w("tables.software"), sheet.software),
                (w("tables.files"), _files(sheet)),
                (w("tables.reference"), reference_table(sheet.reference, w)),
            )
            if table
        ],
        "row_legend": [(v.value, verdict_class(v), meaning, step) for v, meaning, step in row_legend(w)],
        "device_legend": [(v.value, verdict_class(v), meaning, step) for v, meaning, step in device_legend(w)],
        "json_sha256": json_sha256,
        "journal_sha256": sheet.journal.sha256 if sheet.journal is not None else None,
        "footer": _css_string(
            f"{_shortened(sheet.device.serial)}  \u00b7  {sheet.verdict.value}  \u00b7  "
            + w("sheet.run", run=_shortened(sheet.run_id))
        ),
        "page_of": Markup(
            " ".join(
                {"page": "counter(page)", "pages": "counter(pages)"}.get(part, _css_string(part))
                for part in re.split(r"\{(pages?)\}", w("sheet.page"))
                if part
            )
        ),
        "marks": "   ".join(["SIMULATED"] * sheet.simulated + ["INCOMPLETE"] * (not sheet.complete)),
    }


def _notes(sheet: Sheet, w: Words) -> list[dict[str, Any]]:
    """The rows that are not PASS; those with the same verdict, reason and way out share one note."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in sheet.rows:
        if row.verdict is not Verdict.PASS:
            groups.setdefault((row.verdict.value, row.reason, row.next_step or ""), []).append(row)
    steps = {verdict.value: step for verdict, _, step in row_legend(w)}
    return [
        {
            "number": number,
            "verdict": verdict,
            "word": w.of("row", f"{verdict}.word", verdict),
            "look": verdict_class(group[0].verdict),
            "required": any(row.required for row in group),
            "reason": w.sentence(reason),
            "next_step": w.sentence(next_step) or steps[verdict],
            "rows": group,
            "count": len(group),
            "names": [_name(row, w) + _information(row, group, w) for row in group[:_ROWS_NAMED]],
            "doctor": _doctor(group),
            "waivers": [
                w("waiver.note", who=waiver.who, until=waiver.until, why=waiver.why)
                for waiver in sheet.waivers
                if any(row.waived and row.id in waiver.covers for row in group)
            ],
            "more": max(0, len(group) - _ROWS_NAMED),
            "single": _table_row(group[0], number, w) if len(group) == 1 else None,
        }
        for number, ((verdict, reason, next_step), group) in enumerate(groups.items(), start=1)
    ]


def _files(sheet: Sheet) -> dict[str, str]:
    """What the result rests on, and what tests attached, as it is called beside the sheet."""
    files = {f"{each.what} {each.name}": each.sha256 for each in sheet.files}
    return files | {f"{each.what} {name}": each.sha256 for name, each in attached_files(sheet.rows).items()}


def _sentences(sheet: Sheet) -> Iterable[str]:
    """What of the record is shown as it was written."""
    yield sheet.sentence
    yield from sheet.remarks
    for row in sheet.rows:
        yield from row.evidence.doubts
        if row.verdict is not Verdict.PASS:
            yield from (row.reason, row.next_step or "", *(attempt.reason for attempt in row.attempts))


def _information(row: Row, group: list[Row], w: Words) -> str:
    """Said of a row that is information only, where others of the same note are required."""
    return f" ({w('notes.information')})" if not row.required and any(each.required for each in group) else ""


def _doctor(group: Iterable[Row]) -> list[str]:
    """What the doctor saw on the machine when these rows came out as they did."""
    lines = (line for row in group for line in row.evidence.facts.get("doctor", ()) if isinstance(line, str))
    return list(dict.fromkeys(map(printable, lines)))


def _table_row(row: Row, note: int | None, w: Words) -> dict[str, Any]:
    return {
        "port": port_text(row) or _test_name(row),
        "conditions": conditions_text(row),
        "test": _test_name(row) if row.link else "",
        "quantity": _quantity(row, w),
        "value": measured_text(row),
        "uncertainty": uncertainty_text(row) or typeset(zero_loss_text(row)),
        "has_value": row.value is not None,
        "limit": typeset(limit_text(row)),
        "expected": value_text(row.expected, row.unit) if row.expected is not None else "",
        "rule": row.rule,
        "ceiling": value_text(row.ceiling, row.unit),
        "tester": tester_text(row),
        "margin": margin_text(row.margin).replace("-", "\u2212") if row.margin is not None else "-",
        "verdict": row.verdict.value,
        "word": w.of("row", f"{row.verdict.value}.word", row.verdict.value),
        "look": verdict_class(row.verdict),
        "required": row.required,
        "waived": row.waived,
        "simulated": row.simulated,
        "note": note,
        "graph": Markup(
            bullet_graph(
                row.value,
                row.unit,
                limit_low=row.limit_low,
                limit_high=row.limit_high,
                ceiling=row.ceiling,
                uncertainty=row.uncertainty,
                style=verdict_class(row.verdict),
                words=w,
            )
        ),
    }


def _runs(rows: Iterable[Row], w: Words) -> Iterable[dict[str, Any]]:
    """The measurements with something to show beyond their row; a series that several rows share is drawn once."""
    drawn: set[Any] = set()
    ordered = sorted(rows, key=lambda row: row.unit != "bit/s")  # a throughput row brings its limit and ceiling
    show = {id(row): bool(row.evidence.series) for row in rows}
    for row in ordered:
        key = (row.test, row.link, row.conditions.get("direction"), row.evidence.series)
        if key in drawn:
            show[id(row)] = False
        drawn.add(key)
    for row in rows:
        evidence = row.evidence
        if not (show[id(row)] or evidence.doubts or row.attempts):
            continue
        bounds = row.unit == "bit/s"
        facts = [
            (name, value)
            for name, value in evidence.facts.items()
            if isinstance(value, (int, float, str, bool))
            and not (name in _FACTS_OF_U or name.startswith(("uncertainty_", "reference_")))
        ]
        yield {
            "row": _table_row(row, None, w),
            "plot": Markup(
                throughput_plot(
                    evidence.series,
                    limit_low=row.limit_low if bounds else None,
                    limit_high=row.limit_high if bounds else None,
                    ceiling=row.ceiling if bounds else None,
                    style=verdict_class(row.verdict),
                    title=f"{w('plot.over_time')}, {printable(_name(row, w))}",
                    words=w,
                    others=[run.evidence.series for run in evidence.runs if run.evidence.series != evidence.series],
                )
                if show[id(row)]
                else ""
            ),
            "series_from": evidence.series_from if show[id(row)] else None,
            "facts": [_fact(name, value, w) for name, value in facts[:_FACTS_SHOWN]],
            "more_facts": max(0, len(facts) - _FACTS_SHOWN),
            "repeated": _repeated(row, w),
            "uncertainty": _uncertainty(row, w),
            "reference": reference_text(row, w),
            "doubts": evidence.doubts,
            "attempts": [_attempt(item, row.unit, w) for item in row.attempts],
        }


def _repeated(row: Row, w: Words) -> str:
    """The runs of a repeated measurement, in their order; the thick line of the plot is the slowest of them."""
    runs, facts = row.evidence.runs, row.evidence.facts
    if not runs:
        return ""
    shown = ", ".join(
        w("repeated.no_value") if run.throughput_bps is None else value_text(run.throughput_bps, "bit/s")
        for run in runs
    )
    between = w.of("repeated", str(facts.get("between_runs", "connection")), "")
    asked = facts.get("runs_asked", len(runs))
    return w("repeated.runs", number=len(runs), asked=asked, between=between, shown=shown)


def _uncertainty(row: Row, w: Words) -> str:
    """U, its parts and how far off the limit is in U; "" for a row that has none."""
    facts = row.evidence.facts
    if row.uncertainty is not None and isinstance(basis := facts.get("uncertainty_from"), str):
        return w("uncertainty.known", value=format_value(row.uncertainty, row.unit, 2), basis=basis)
    within, resolution = (facts.get(f"uncertainty_{part}_bps") for part in ("within", "resolution"))
    n_eff, intervals, between = facts.get("n_eff"), facts.get("intervals"), facts.get("uncertainty_between")
    if row.uncertainty is None or not all(isinstance(part, (int, float)) for part in (within, resolution, n_eff)):
        missing = facts.get("uncertainty_not_known")
        return w("uncertainty.unknown", reason=missing) if isinstance(missing, str) else ""
    assert within is not None
    assert resolution is not None
    assert n_eff is not None
    runs = w("uncertainty.between_unknown")
    if isinstance(between, (int, float)):
        runs = w("uncertainty.between", value=format_value(between, "bit/s", 2))
    if isinstance(source := facts.get(SOURCE), str):
        runs += f" ({source})"
    parts = [
        w(
            "uncertainty.within",
            value=format_value(row.uncertainty, row.unit, 2),
            within=format_value(within, "bit/s", 2),
        ),
        runs,
        w("uncertainty.resolution", value=format_value(resolution, "bit/s", 2)),
        w("uncertainty.intervals", number=intervals, effective=f"{n_eff:.3g}"),
    ]
    if isinstance(distance := facts.get("margin_over_uncertainty"), (int, float)):
        parts.append(w("uncertainty.margin", number=f"{distance:+.3g}".replace("-", "\u2212")))
    note = facts.get("uncertainty_note")
    return ", ".join([*parts, *([note] if isinstance(note, str) else [])])


def _plain(struct: Any) -> dict[str, Any]:
    """A struct as a table, without what is empty."""
    table: dict[str, Any] = msgspec.to_builtins(struct)
    return {name: value for name, value in table.items() if value not in (None, [], ())}


def _attempt(item: Attempt, unit: str, w: Words) -> dict[str, Any]:
    return {
        "attempt": item.attempt,
        "verdict": item.verdict.value,
        "value": value_text(item.value, unit),
        "started_at": moment_text(item.started_at),
        "reason": w.sentence(item.reason),
    }


def _quantity(row: Row, w: Words) -> str:
    plain = row.quantity.replace("_", " ")
    return quantity_text(row).replace(plain, w.of("quantity", row.quantity, plain))


def _name(row: Row, w: Words) -> str:
    parts = [part for part in (port_text(row), conditions_text(row), _quantity(row, w)) if part]
    return ", ".join(parts)


def _test_name(row: Row) -> str:
    """The test function, without file and parameters: the row names those already."""
    return row.test.split("::", 1)[-1].split("[", 1)[0]


def typeset(text: str) -> str:
    """Signs instead of their ASCII stand-ins, and no line break between a number and its unit or inside brackets."""
    text = text.replace(">=", "\u2265").replace("<=", "\u2264")
    text = re.sub(r"(?<=[\d\u2264\u2265]) (?=[\d%A-Za-z]{1,6}(/s)?\b|%)", "\u00a0", text)
    return re.sub(r"\([^(),]{1,24}\)", lambda found: found[0].replace(" ", "\u00a0"), text)


def _fact(name: str, value: Any, w: Words) -> tuple[str, str]:
    """A fact as name and text; a unit at the end of the name moves to the number."""
    if isinstance(value, bool):
        return name.replace("_", " "), w("sheet.yes" if value else "sheet.no")
    if isinstance(value, str):
        return name.replace("_", " "), value if len(value) <= 120 else value[:117] + "..."
    for suffix, unit in _UNITS:
        if name.endswith(suffix):
            text = _grouped(value) + " B" if unit == "B" else format_value(value, unit)
            return (name if unit == "ratio" else name.removesuffix(suffix)).replace("_", " "), text
    return name.replace("_", " "), _grouped(value)


def _grouped(value: float) -> str:
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else f"{value:.4g}"


def _flat(table: dict[str, Any], w: Words, prefix: str = "") -> list[tuple[str, str]]:
    """A nested table as lines of name and text."""
    lines: list[tuple[str, str]] = []
    for name, value in table.items():
        label = f"{prefix}{str(name).replace('_', ' ')}"
        if isinstance(value, dict):
            lines += _flat(value, w, f"{label}: ")
        elif isinstance(value, (list, tuple)):
            plain = all(isinstance(item, (str, int, float)) for item in value)
            lines.append((label, ", ".join(map(str, value)) if plain else json.dumps(value, default=str)))
        elif value is not None:
            lines.append((label, w("sheet.yes" if value else "sheet.no") if isinstance(value, bool) else str(value)))
    return lines


def _shortened(text: str, most: int = 36) -> str:
    """The text, or its beginning and end: the foot of a page has one line."""
    return text if len(text) <= most else f"{text[: most - 12]}\u2026{text[-11:]}"


def _css_string(text: str) -> Markup:
    """The text as a CSS string. Everything but plain letters and digits is escaped: it stands inside <style>."""
    body = "".join(c if c.isascii() and c.isalnum() else f"\\{ord(c):x} " for c in printable(text))
    return Markup(f'"{body}"')
