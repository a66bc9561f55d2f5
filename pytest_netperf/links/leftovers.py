"""Namespaces that ``--netperf-keep`` gave a name, and nothing else: what has no name cannot be left over."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

from pytest_netperf.errors import LinkError

__all__ = ["KEPT_PREFIX", "kept_namespaces", "remove_namespace"]

KEPT_PREFIX = "netperf-"
_NAME = re.compile(r"netperf-\d+-[0-9a-f]+[ab]")
_FOLDER = Path("/run/netns")
_MNT_DETACH = 2


def kept_namespaces() -> list[str]:
    """Names under /run/netns that have the form we give."""
    if not _FOLDER.is_dir():
        return []
    return sorted(path.name for path in _FOLDER.iterdir() if _NAME.fullmatch(path.name))


def remove_namespace(name: str) -> None:
    """Remove a kept namespace, and with it its link. Raises LinkError."""
    path = _FOLDER / name
    if ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(path), _MNT_DETACH) != 0:
        number = ctypes.get_errno()
        raise LinkError(f"cannot unmount {path}: {os.strerror(number)}; it needs root")
    path.unlink()
