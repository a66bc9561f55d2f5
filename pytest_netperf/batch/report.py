"""The batch page as files: batch.html for people, batch.json for programs, devices.csv and rows.csv for tables."""

from __future__ import annotations

import csv
import io
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pytest_netperf.batch.folder import BATCH_FILE
from pytest_netperf.batch.plots import histogram_plot, pareto_plot, trend_plot
from pytest_netperf.batch.summary import SIMULATED, Batch, Proportion
from pytest_netperf.errors import RecordError
from pytest_netperf.record.canonical import encode, sha256
from pytest_netperf.record.wording import moment_text, printable, value_text

__all__ = ["BatchPaths", "batch_html", "batch_json", "devices_csv", "rows_csv", "share_text", "write_batch"]

_UNITS_SHOWN = 1000
"""Lines of the table of devices; devices.csv has them all."""


class BatchPaths(msgspec.Struct, frozen=True):
    """Where a batch page was written."""

    html: Path
    json: Path


def batch_json(batch: Batch) -> bytes:
    """The figures as JSON, in UTF-8."""
    return msgspec.json.format(encode(batch), indent=2) + b"\n"


def devices_csv(batch: Batch) -> bytes:
    """A line for each device."""
    return _csv(batch.units)


def rows_csv(batch: Batch) -> bytes:
    """A line for each row, without its histogram."""
    return _csv(batch.rows)


def batch_html(batch: Batch) -> bytes:
    """The page as one HTML file: no script, nothing loaded from elsewhere, every text of a user escaped."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pytest_netperf.batch"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters.update(
        share=lambda share: share_text(share).replace(" %", "\u00a0%"), value=value_text, moment=moment_text, look=_look
    )
    page = environment.get_template("batch.html.j2").render(
        batch=batch,
        made_at=moment_text(batch.made_at),
        pareto=Markup(pareto_plot(batch.pareto[:20])),
        rows=[(row, Markup(histogram_plot(row))) for row in batch.rows],
        golden=[(line, Markup(trend_plot(line))) for line in batch.golden],
        units=sorted(batch.units, key=lambda unit: _ORDER.get(unit.last.removesuffix(SIMULATED), 1))[:_UNITS_SHOWN],
        hidden=max(0, len(batch.units) - _UNITS_SHOWN),
        json_sha256=sha256(batch_json(batch)),
    )
    return page.encode("utf-8", "replace")


def write_batch(batch: Batch, output: Path) -> BatchPaths:
    """Write all files into a new folder ``output/batch-NAME`` (``-2``, ``-3`` ... when taken) and say where.

    Raises RecordError when that fails.
    """
    name = "batch-" + (re.sub(r"[^\w.+@=,-]", "_", batch.batch or "unnamed").strip(".") or "unnamed")[:80]
    partial = output / f".{name}.{secrets.token_hex(4)}.partial-batch"
    try:
        partial.mkdir(parents=True)
        try:
            for file, data in (
                (BATCH_FILE, batch_json(batch)),
                ("batch.html", batch_html(batch)),
                ("devices.csv", devices_csv(batch)),
                ("rows.csv", rows_csv(batch)),
            ):
                (partial / file).write_bytes(data)
            folder = _claim(partial, output, name)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    except OSError as error:
        raise RecordError(
            f"{output / name}: cannot write the batch page: {error.strerror or error}; name another --output"
        ) from None
    return BatchPaths(folder / "batch.html", folder / BATCH_FILE)


def _claim(partial: Path, parent: Path, name: str) -> Path:
    number = 1
    while True:
        folder = parent / (name if number == 1 else f"{name}-{number}")
        if not os.path.lexists(folder):
            try:
                partial.rename(folder)
            except OSError:
                if not os.path.lexists(folder):
                    raise
            else:
                return folder
        number += 1


def share_text(share: Proportion) -> str:
    """As in "57 of 60 (95.0 %, 86.1 to 99.0 %)"."""
    if share.share is None or share.low is None or share.high is None:
        return "0 of 0"
    return f"{share.k} of {share.n} ({100 * share.share:.1f} %; {100 * share.low:.1f} to {100 * share.high:.1f} %)"


_ORDER = {"REJECTED": 0, "NOT PROVEN": 1, "ACCEPTED WITH WAIVER": 2, "ACCEPTED": 3}
"""Of the table of devices."""


def _look(verdict: str) -> str:
    """Shape and colour of a verdict; of a simulated device nothing looks accepted."""
    if verdict in ("ACCEPTED", "accept", "PASS"):
        return "pass"
    return "fail" if verdict.startswith("REJECTED") or verdict in ("reject", "FAIL") else "unproven"


def _csv(lines: Sequence[Any]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")  # RFC 4180
    if lines:
        names = [name for name in lines[0].__struct_fields__ if name != "histogram"]
        writer.writerow(names)
        for line in lines:
            writer.writerow([_cell(getattr(line, name)) for name in names])
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        # A spreadsheet takes a text that begins like this for a formula.
        return f"'{value}" if value[:1] in tuple("=+-@\t\r") else value
    if isinstance(value, Iterable):
        return " ".join(map(str, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else value
