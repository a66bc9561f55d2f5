"""The user's logo: an SVG, PNG or JPEG file that becomes part of each sheet."""

from __future__ import annotations

import base64
from pathlib import Path

from pytest_netperf.errors import ConfigError

__all__ = ["logo_address", "read_logo"]

_MOST_BYTES = 1_000_000


def read_logo(path: Path) -> tuple[bytes, str]:
    """Content and format ("svg", "png" or "jpg") of a logo. Raises ConfigError for a file that cannot be one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the logo: {error.strerror or error}") from None
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{path}: the logo has {len(data)} bytes; it is part of every sheet, at most {_MOST_BYTES}")
    if data.startswith(b"\x89PNG\r\n"):
        return data, "png"
    if data.startswith(b"\xff\xd8\xff"):
        return data, "jpg"
    if b"<svg" in data[:4096]:
        return data, "svg"
    raise ConfigError(f"{path}: the logo is no SVG, PNG or JPEG image")


def logo_address(path: Path) -> str:
    """The logo as the address of an HTML image, in which no script of it runs. Raises ConfigError as `read_logo`."""
    data, kind = read_logo(path)
    mime = {"svg": "image/svg+xml", "png": "image/png", "jpg": "image/jpeg"}[kind]
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"
