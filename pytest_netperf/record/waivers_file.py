"""Reads a waivers file."""

from __future__ import annotations

from pathlib import Path

from pytest_netperf.errors import ConfigError
from pytest_netperf.record.schema import Waiver
from pytest_netperf.record.waivers import parse_waivers

__all__ = ["read_waivers"]


def read_waivers(path: Path) -> tuple[Waiver, ...]:
    """The waivers of a file. Raises ConfigError with every mistake when it cannot be read or understood."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"waivers file {path} cannot be read: {reason}") from None
    return parse_waivers(text, str(path))
