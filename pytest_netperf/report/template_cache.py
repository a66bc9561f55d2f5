"""Compiled templates, kept as Python keeps compiled modules: to compile them takes a fifth of the time of a short run.

They lie beside our templates, are checked against these, and are written only where Python may write such files too.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

__all__ = ["compiled_templates"]

FOLDER = Path(__file__).with_name("templates") / "__pycache__"


def compiled_templates(folder: Path = FOLDER) -> jinja2.BytecodeCache:
    """The cache of jinja2 in that folder; where it cannot be read or written, templates are compiled each time."""
    from jinja2.bccache import Bucket, FileSystemBytecodeCache

    class Beside(FileSystemBytecodeCache):
        def load_bytecode(self, bucket: Bucket) -> None:
            try:
                super().load_bytecode(bucket)
            except Exception:  # noqa: BLE001 - a damaged file may raise anything; the template itself is there
                bucket.reset()

        def dump_bytecode(self, bucket: Bucket) -> None:
            if not sys.dont_write_bytecode:
                with contextlib.suppress(OSError):
                    folder.mkdir(exist_ok=True)
                    super().dump_bytecode(bucket)

    return Beside(str(folder), f"%s.{sys.implementation.cache_tag}.jinja")
