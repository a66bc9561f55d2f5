"""Hooks that other plugins and conftest files may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_netperf.record.schema import DeviceInfo, Row, Sheet

__all__ = ["pytest_netperf_row", "pytest_netperf_sheet"]


@pytest.hookspec
def pytest_netperf_row(config: pytest.Config, row: Row) -> None:
    """Called once for each row, as soon as it is judged and in the journal.

    Under pytest-xdist it is called in the controller, for the rows of all workers. ``row`` is read-only; what a hook
    returns is ignored.
    """


@pytest.hookspec
def pytest_netperf_sheet(config: pytest.Config, device: DeviceInfo, sheet: Sheet) -> Path | None:
    """Called once for each device at the end of the run, in the controller; emits its sheet in some form.

    Return the path of what was written, to have it named at the end of the run, or None. The sheets in HTML and JSON
    are the first implementation.
    """
