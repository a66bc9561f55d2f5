"""In which form sheets are written: which files, and how they look. What cannot be made here is said before the run."""

from __future__ import annotations

import importlib.util
from typing import Final

import msgspec

from pytest_netperf.errors import ConfigError

__all__ = ["DEFAULT_FORMATS", "FORMATS", "SheetForm", "check_form", "read_formats"]

FORMATS: Final = ("html", "pdf", "csv", "json")
"""Every format, that for people first: the first one that is written is named at the end of a run."""
DEFAULT_FORMATS: Final = ("html", "json")


class SheetForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form of all sheets of a run."""

    formats: tuple[str, ...] = DEFAULT_FORMATS
    """Of `FORMATS`, in that order, always with json."""


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
    """Raise ConfigError when sheets of this form cannot be made here: a package is missing."""
    if "pdf" in form.formats:
        missing = [name for name in ("typst", "segno") if importlib.util.find_spec(name) is None]
        if missing:
            raise ConfigError(
                f"pdf needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed here: "
                "pip install 'pytest-netperf[pdf]', or leave pdf out"
            )
