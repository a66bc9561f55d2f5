"""The sheet as PDF/A-3b with sheet.json attached, set by typst from the template ``sheet.typ``.

The same record makes the same bytes: its moment is that of the record, its fonts come from packages.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from pytest_netperf.errors import RecordError
from pytest_netperf.record.canonical import sha256
from pytest_netperf.record.schema import Sheet
from pytest_netperf.record.sheet_file import sealed, sheet_bytes
from pytest_netperf.record.wording import printable
from pytest_netperf.report.fonts import all_texts, families, fonts_for, without_glyph
from pytest_netperf.report.form import SheetForm
from pytest_netperf.report.language import load_words
from pytest_netperf.report.logo import read_logo
from pytest_netperf.report.page import page_context
from pytest_netperf.report.qr import qr_svg
from pytest_netperf.report.standalone import standalone_svg

__all__ = ["ATTACHMENT", "sheet_pdf"]

ATTACHMENT = "sheet.json"
_NAME = "sheet.typ"
_COLOURS = {"pass": "#0d4f2a", "fail": "#8c1410", "unproven": "#6b4500"}
_SHOWN = (
    "word", "look", "sentence", "started", "finished", "station", "passed", "required", "id", "certificate", "notes",
    "further_notes", "rows", "sweeps", "soaks", "states", "rules_differ", "rules", "runs", "tables", "row_legend",
    "device_legend", "json_sha256", "journal_sha256", "marks",
    "in_english",
)  # fmt: skip


def sheet_pdf(sheet: Sheet, *, form: SheetForm | None = None) -> bytes:
    """The sheet as PDF. Raises RecordError when typst refuses the template, ConfigError for a wrong form."""
    import typst

    form = form or SheetForm()
    clean = sealed(sheet)
    record = sheet_bytes(clean)
    words = load_words(form.language, form.templates)
    context = page_context(clean, json_sha256=sha256(record), words=words)
    data = _plain({name: context[name] for name in _SHOWN}, families(words)[0])
    data |= {
        "w": words.texts,
        "language": words.language,
        "fonts": families(words),
        "colours": _COLOURS,
        "qr": qr_svg(context["id"], context["json_sha256"]).replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"'),
        "logo": None,
        **_of_sheet(clean),
    }
    missing = without_glyph("".join(all_texts(data)), words, form.templates)
    data = _replaced(data, dict.fromkeys(map(ord, missing), "?"))
    if form.logo is not None:
        content, kind = read_logo(form.logo)
        data["logo"] = {"format": kind, "bytes": list(content)}
    try:
        return typst.compile(
            _template(form.templates),
            sys_inputs={"data": json.dumps(data), ATTACHMENT: record.decode()},
            font_paths=fonts_for(form.templates),
            ignore_system_fonts=True,
            pdf_standards=["a-3b"],
            timestamp=_moment(clean),
        )
    except typst.TypstError as error:
        raise RecordError(f"typst refused the template {_NAME}: {error.diagnostic.strip()}") from None


def _of_sheet(sheet: Sheet) -> dict[str, Any]:
    return {
        "verdict": sheet.verdict.value,
        "serial": printable(sheet.device.serial),
        "model": printable(sheet.device.model or "-"),
        "batch": printable(sheet.device.batch or "-"),
        "operator": printable(sheet.operator or "-"),
        "run_id": printable(sheet.run_id),
        "simulated": sheet.simulated,
        "complete": sheet.complete,
        "counts": list(sheet.counts.items()),
        "schema_version": sheet.schema_version,
        "has_reference": bool(sheet.reference),
        "digest": sheet.digest,
        "seal": msgspec.to_builtins(sheet.journal),
        "sections": _plain(msgspec.to_builtins(sheet.sections), ""),
    }


def _template(folder: Path | None) -> bytes:
    if folder is not None and (folder / _NAME).is_file():
        return (folder / _NAME).read_bytes()
    return (resources.files("pytest_netperf.report") / "templates" / _NAME).read_bytes()


def _plain(value: Any, font: str) -> Any:
    """Data of the page as JSON has it. A drawing becomes one that stands alone; rows that a note names are numbered."""
    if isinstance(value, str):
        if value.startswith("<svg "):
            return standalone_svg(value, font)
        return printable(value)
    if isinstance(value, dict):
        return {name: _plain(item, font) for name, item in value.items() if name != "rows" or "names" not in value}
    if isinstance(value, list | tuple):
        return [_plain(item, font) for item in value]
    return value


def _replaced(value: Any, table: dict[int, str]) -> Any:
    if isinstance(value, str):
        return value.translate(table) if table else value
    if isinstance(value, dict):
        return {name: _replaced(item, table) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, table) for item in value]
    return value


def _moment(sheet: Sheet) -> datetime:
    """The moment of the record, which a PDF made again has too."""
    try:
        moment = datetime.fromisoformat(sheet.finished_at or sheet.started_at)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return moment.astimezone(UTC).replace(microsecond=0) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
