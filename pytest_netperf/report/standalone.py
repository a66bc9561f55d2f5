"""A drawing of the page as one that stands alone: in a PDF, or as an image in a page of somebody else's."""

from __future__ import annotations

import base64
import functools
import re
from importlib import resources

__all__ = ["image_address", "standalone_svg"]

_WIDE_FONT = 7.5
"""Size of text whose font the reader's machine chooses: the widest ones must have room."""


def standalone_svg(svg: str, font: str, size: float = 9.5) -> str:
    """The drawing with its own style, in the colours of paper."""
    head, end, rest = str(svg).partition(">")
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"{head}{end}<style>{_style(font, size)}</style>{rest}"


def image_address(svg: str) -> str:
    """The drawing as the address of an HTML image."""
    drawn = standalone_svg(svg, "sans-serif", _WIDE_FONT).encode("utf-8", "replace")
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}"


@functools.cache
def _style(font: str, size: float) -> str:
    text = (resources.files("pytest_netperf.report") / "templates" / "drawing.css").read_text("utf-8")
    return text.replace("FONT", re.sub(r"[^\w .-]", "", font)).replace("SIZE", f"{size:g}").replace("\n", "")
