"""For all tests: those that need pytest-xdist are left out where it is not installed (tox's noxdist environments)."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if find_spec("xdist") is not None:
        return
    left_out = [item for item in items if _needs_xdist(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _needs_xdist(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    workers = callspec.params.get("workers") if callspec is not None else None
    return bool(workers) or item.get_closest_marker("needs_xdist") is not None
