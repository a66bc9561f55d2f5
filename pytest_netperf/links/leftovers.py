"""Namespaces that ``--netperf-keep`` gave a name, and nothing else: what has no name cannot be left over."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from pytest_netperf.errors import LinkError
from pytest_netperf.links import kernel

__all__ = ["kept_namespaces", "name_namespace", "remove_namespace"]

_NAME = re.compile(r"netperf-\d+-[0-9a-f]+[abd]")
_FOLDER = Path("/run/netns")


def kept_namespaces() -> list[str]:
    """Names under /run/netns that have the form we give: netperf-PID-INDEX and the end: a, b, or d for a device."""
    if not _FOLDER.is_dir():
        return []
    return sorted(path.name for path in _FOLDER.iterdir() if _NAME.fullmatch(path.name))


def name_namespace(name: str, fd: int) -> str:
    """Give a namespace a name under /run/netns, as ``ip netns`` does, so that it outlives its keeper.

    Raises LinkError, and leaves nothing behind then.
    """
    path = _FOLDER / name
    try:
        path.parent.mkdir(exist_ok=True)
        path.touch(mode=0o444, exist_ok=False)
    except OSError as error:
        raise LinkError(
            f"--netperf-keep cannot name a namespace at {path}: {error.strerror}; it needs root and a free name"
        ) from None
    try:
        kernel.bind_mount(f"/proc/self/fd/{fd}", os.fspath(path))
    except OSError as error:
        path.unlink()
        raise LinkError(f"--netperf-keep cannot name a namespace at {path}: {error.strerror}; it needs root") from None
    return name


def remove_namespace(name: str) -> None:
    """Remove a kept namespace, and with it its link. Raises LinkError."""
    path = _FOLDER / name
    try:
        try:
            kernel.unmount(os.fspath(path))
        except OSError as error:
            if error.errno != errno.EINVAL:  # not mounted any more: only the file is left
                raise
        path.unlink()
    except OSError as error:
        raise LinkError(f"cannot remove {path}: {error.strerror}; it needs root (sudo)") from None
