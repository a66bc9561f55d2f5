"""One setting of the command line or the ini file: from text to a value. Nothing heavy is imported before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    import pytest
    from sqlalchemy import URL

__all__ = [
    "Live",
    "Text",
    "Wrong",
    "as_engine",
    "as_folder",
    "as_formats",
    "as_live",
    "as_name",
    "as_path",
    "as_profile",
    "as_seconds",
    "as_share",
    "as_slots",
    "as_store",
    "as_switch",
]

Live = Literal["auto", "lines", "off"]
_MAX_TEXT: Final = 200
_MAX_SLOTS: Final = 1024


class Text(NamedTuple):
    """A setting as it was written, and where."""

    text: str
    written_as: str
    """``--netperf-duration 0`` or ``netperf_duration = 0 (ini file)``, for messages."""
    folder: Path
    """What a relative path in it starts from."""


class Wrong(ValueError):
    """One setting cannot be accepted; all of them are collected into one UsageError."""


def as_path(text: Text) -> Path:
    """A path, relative to the folder that its setting starts from. Raises Wrong."""
    if not text.text.strip():
        raise Wrong("the path is empty; give a file, or leave the option away")
    if "\0" in text.text:
        raise Wrong("the path contains a NUL character")
    return text.folder / Path(text.text).expanduser()


def as_folder(text: Text) -> Path:
    """A path below which a folder can be. Raises Wrong."""
    folder = as_path(text)
    for existing in (folder, *folder.parents):
        if existing.is_dir():
            return folder
        if existing.exists():
            raise Wrong(f"{existing} is not a folder; results cannot be written into it")
    return folder


def as_name(text: Text) -> str:
    """One line of printable text. Raises Wrong."""
    if not text.text.strip():
        raise Wrong("is empty (an environment variable that is not set?); give a name, or leave the option away")
    if not text.text.isprintable() or len(text.text) > _MAX_TEXT:
        raise Wrong(f"must be one line of at most {_MAX_TEXT} printable characters")
    return text.text.strip()


def as_profile(text: Text) -> str:
    """The name of a profile. Raises Wrong."""
    from pytest_netperf.errors import ConfigError
    from pytest_netperf.judge.profile import get_profile

    try:
        return get_profile(text.text.strip()).name
    except ConfigError as error:
        raise Wrong(str(error)) from None


def as_live(text: Text) -> Live:
    """How running measurements are shown. Raises Wrong."""
    match text.text.strip():
        case "auto" | "lines" | "off" as found:
            return found
    raise Wrong("must be auto, lines or off")


def as_store(text: Text) -> URL | None:
    """A database; off, or none, is none. Raises Wrong."""
    if text.text.strip() in ("off", "none"):
        return None
    from pytest_netperf.errors import ConfigError
    from pytest_netperf.store.database import parse_url

    try:
        return parse_url(text.text.strip(), text.folder)
    except ConfigError as error:
        raise Wrong(str(error)) from None


def as_formats(text: Text) -> tuple[str, ...]:
    """The formats of a sheet. Raises Wrong."""
    from pytest_netperf.errors import ConfigError
    from pytest_netperf.report.form import read_formats

    try:
        return read_formats(text.text)
    except ConfigError as error:
        raise Wrong(str(error)) from None


def as_share(text: Text) -> float:
    """A share from 0 % to below 100 %. Raises Wrong."""
    from pytest_netperf.errors import QuantityError
    from pytest_netperf.quantities import parse_ratio

    try:
        share = float(parse_ratio(text.text))
    except QuantityError as error:
        raise Wrong(str(error)) from None
    if not 0 <= share < 1:
        raise Wrong("must be a share from 0 % to below 100 %")
    return share


def as_switch(text: Text) -> bool:
    """on or off. Raises Wrong."""
    if text.text.strip() not in ("on", "off"):
        raise Wrong("must be on or off")
    return text.text.strip() == "on"


def as_engine(text: Text, config: pytest.Config) -> str:
    """The name of a traffic engine that there is. Raises Wrong."""
    from pytest_netperf.engines import refuse_unknown_engine
    from pytest_netperf.errors import ConfigError

    try:
        refuse_unknown_engine(text.text, config)
    except ConfigError as error:
        raise Wrong(str(error)) from None
    return text.text


def as_slots(text: Text) -> int:
    """A number of measurement slots. Raises Wrong."""
    number = text.text.strip()
    if not (number.isascii() and number.isdigit()) or not 1 <= int(number[:6]) <= _MAX_SLOTS:
        raise Wrong(f"must be a whole number from 1 to {_MAX_SLOTS}")
    return int(number)


def as_seconds(text: Text, low: int, high: int) -> float:
    """Whole seconds in a range. Raises Wrong."""
    from pytest_netperf.errors import QuantityError
    from pytest_netperf.quantities import parse_duration

    try:
        seconds = float(parse_duration(text.text))
    except QuantityError as error:
        raise Wrong(str(error)) from None
    # iperf3 reads -t and -O with atoi: 0.5 would become 0, which for -t is "run for ever".
    if not low <= seconds <= high or seconds != int(seconds):
        raise Wrong(f"must be a whole number of seconds from {low} to {high}, because iperf3 counts whole seconds")
    return seconds
