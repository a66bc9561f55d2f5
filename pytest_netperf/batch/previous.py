"""What earlier batch pages decided by ISO 2859-1, read from their batch.json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from pytest_netperf.batch.folder import BATCH_FILE
from pytest_netperf.batch.summary import SamplingCheck
from pytest_netperf.errors import ConfigError

__all__ = ["previous_checks"]


class _Page(msgspec.Struct, frozen=True):
    sampling: tuple[SamplingCheck, ...]


def previous_checks(pages: Sequence[Path]) -> list[SamplingCheck]:
    """The check of each page, in the order of the pages. ConfigError for one that has none, or cannot be read."""
    return [_check(page / BATCH_FILE if page.is_dir() else page) for page in pages]


def _check(path: Path) -> SamplingCheck:
    try:
        page = msgspec.json.decode(path.read_bytes(), type=_Page)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"--previous {path}: is no {BATCH_FILE} that can be read: {why}") from None
    found = [check for check in page.sampling if check.inspection is not None]
    if not found:
        raise ConfigError(
            f"--previous {path}: this page was not held against ISO 2859-1; make it again with --aql and --lot-size"
        )
    return found[0]
