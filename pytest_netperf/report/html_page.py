"""The sheet as one HTML file, from the template ``sheet.html.j2`` or one of the user's own."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from pytest_netperf.record.canonical import sha256
from pytest_netperf.record.schema import Sheet
from pytest_netperf.record.sheet_file import sealed, sheet_bytes
from pytest_netperf.report.form import SheetForm
from pytest_netperf.report.language import load_words
from pytest_netperf.report.logo import logo_address
from pytest_netperf.report.page import page_context, typeset
from pytest_netperf.report.qr import qr_svg
from pytest_netperf.report.template_cache import compiled_templates

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["sheet_html"]

_NAME = "sheet.html.j2"
OURS = "pytest_netperf"
"""Prefix of the built-in templates, for those that extend them."""


def sheet_html(
    sheet: Sheet,
    *,
    json_sha256: str | None = None,
    form: SheetForm | None = None,
) -> bytes:
    """The sheet as one HTML file: no script, nothing loaded from elsewhere, every text of a user escaped."""
    form = form or SheetForm()
    clean = sealed(sheet)
    digest = json_sha256 or sha256(sheet_bytes(clean))
    words = load_words(form.language, form.templates)
    context = page_context(clean, json_sha256=digest, words=words)
    context["logo"] = logo_address(form.logo) if form.logo is not None else None
    context["qr"] = Markup(qr_svg(context["id"], digest))
    return _template(form.templates).render(context).encode("utf-8", "replace")


@functools.cache
def _template(folder: Path | None) -> Template:
    import jinja2

    ours = jinja2.PackageLoader("pytest_netperf.report")
    loaders: list[jinja2.BaseLoader] = [] if folder is None else [jinja2.FileSystemLoader(folder)]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([*loaders, ours, jinja2.PrefixLoader({OURS: ours})]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_plain,
        bytecode_cache=compiled_templates() if folder is None else None,
    )
    environment.filters["typeset"] = typeset
    return environment.get_template(_NAME)


def _plain(value: Any) -> Any:
    """Take what would steer the reading direction or is no character of HTML out of a text; leave our own markup."""
    from pytest_netperf.record.wording import printable

    return printable(value) if type(value) is str else value
