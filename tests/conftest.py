"""For all tests: a state folder of their own; those that need pytest-xdist are left out where it is not installed.

(That is so in tox's noxdist environments.)
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from newer_iperf3 import why_not


@pytest.fixture(scope="session", autouse=True)
def state_folder() -> Iterator[None]:
    """No test reads or writes the tester references of the user who runs the tests; a run that needs one shares it."""
    with tempfile.TemporaryDirectory(prefix="netperf-state-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", folder)
        yield


def pytest_report_header() -> str | None:
    reason = why_not()
    return f"iperf3: newer versions than the installed one are not tested: {reason}" if reason else None


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
