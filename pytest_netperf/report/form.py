"""In which form sheets are written: which files, and how they look. What cannot be made here is said before the run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

import msgspec

from pytest_netperf.errors import ConfigError
from pytest_netperf.report.language import DEFAULT_LANGUAGE, load_words
from pytest_netperf.report.logo import read_logo

__all__ = ["DEFAULT_FORMATS", "FORMATS", "SheetForm", "check_form", "read_formats"]

FORMATS: Final = ("html", "pdf", "csv", "json")
"""Every format, that for people first: the first one that is written is named at the end of a run."""
DEFAULT_FORMATS: Final = ("html", "json")


class SheetForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form of all sheets of a run."""

    formats: tuple[str, ...] = DEFAULT_FORMATS
    """Of `FORMATS`, in that order, always with json."""
    language: str = DEFAULT_LANGUAGE
    """Language of the texts (`report.language`)."""
    templates: Path | None = None
    """Folder with templates, texts and fonts of the user's own."""
    logo: Path | None = None
    """Image that stands at the head of the sheet."""


def read_formats(text: str) -> tuple[str, ...]:
    """The formats of a list like "html,pdf". JSON is always among them, because it is the record.

    Raises ConfigError for an empty list or a format that does not exist.
    """
    names = [name.strip().lower() for name in text.split(",")]
    unknown = [name for name in names if name not in FORMATS]
    if unknown:
        raise ConfigError(
            f"there is no format {', '.join(map(repr, unknown))}; write a list with commas of {', '.join(FORMATS)} "
            "(json is always written)"
        )
    return tuple(name for name in FORMATS if name in (*names, "json"))


def check_form(form: SheetForm) -> None:
    """Raise ConfigError when sheets of this form cannot be made here: a package, font, text or file is missing."""
    if form.templates is not None and not form.templates.is_dir():
        raise ConfigError(f"{form.templates} is not a folder with templates")
    load_words(form.language, form.templates)
    if form.logo is not None:
        read_logo(form.logo)
    if "pdf" in form.formats:
        if importlib.util.find_spec("typst") is None:
            raise ConfigError(
                "pdf needs typst, which is not installed here: pip install 'pytest-netperf[pdf]', or leave pdf out"
            )
        from pytest_netperf.report.fonts import check_fonts

        check_fonts(load_words(form.language, form.templates), form.templates)
