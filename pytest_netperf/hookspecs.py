"""Hooks that other plugins and conftest files may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_netperf.bench.model import Device, LinkSpec
    from pytest_netperf.observe.probe import Probe
    from pytest_netperf.record.schema import DeviceInfo, Row, Section, Sheet
    from pytest_netperf.traffic.engine import Engine

__all__ = [
    "pytest_netperf_device_state",
    "pytest_netperf_engines",
    "pytest_netperf_probes",
    "pytest_netperf_row",
    "pytest_netperf_sheet",
    "pytest_netperf_sheet_sections",
]


@pytest.hookspec(firstresult=True)
def pytest_netperf_device_state(config: pytest.Config, device: Device, state: str) -> str | None:
    """Called to put a real device into a state that tests ask for (``netperf_link(device_state=...)``).

    Enter the state, undo what an earlier one left, and check that it is in force; return one sentence that says how
    that was proved, for the sheet. Return None for a device that is not yours; the first answer counts. Raise any
    exception when the state cannot be entered: the rows are ERROR with its text.

    Called only when the device is in another state, or nobody knows in which, before its link is brought up; at the end
    of the run once more, with ``plain``. A simulated device whose state the bench file describes needs no hook.
    """


@pytest.hookspec
def pytest_netperf_engines(config: pytest.Config) -> Mapping[str, Callable[[], Engine]] | None:
    """Called when ``--netperf-engine`` names neither iperf3 nor libiperf; returns the engines that you bring.

    The key is the name for the option, the value a class or function without arguments that makes the engine
    (`pytest_netperf.traffic.engine.Engine`); what it needs and cannot find it says by raising TrafficError. Called
    as pytest starts, so it must stand in a plugin or in the conftest.py of the rootdir or of a folder that is named on
    the command line.
    """


@pytest.hookspec
def pytest_netperf_probes(config: pytest.Config, device: Device, link: LinkSpec) -> list[Probe] | None:
    """Called for each test that measures traffic; returns what else is read around its traffic, or None.

    ``device`` and ``link`` are those of the bench file. The probes of all implementations are read, each before and
    after every traffic call (`pytest_netperf.probes`). Called at collection, when nothing is up yet: it must not read
    anything itself. What it raises is the error of the tests.
    """


@pytest.hookspec
def pytest_netperf_row(config: pytest.Config, row: Row) -> None:
    """Called once for each row, as soon as it is judged and in the journal.

    Under pytest-xdist it is called in the controller, for the rows of all workers. ``row`` is read-only; what a hook
    returns is ignored.
    """


@pytest.hookspec
def pytest_netperf_sheet(config: pytest.Config, device: DeviceInfo, sheet: Sheet) -> Path | None:
    """Called once for each device at the end of the run, in the controller; emits its sheet in some form.

    Return the path of what was written, to have it named at the end of the run, or None. The sheets of
    --netperf-sheet are the first implementation.
    """


@pytest.hookspec
def pytest_netperf_sheet_sections(config: pytest.Config, device: DeviceInfo, sheet: Sheet) -> list[Section] | None:
    """Called once for each device before its sheet is written; returns sections of your own, which stand behind ours.

    A section is a `pytest_netperf.record.schema.Section`, or a dict with its keys: ``title``, and any of ``text``,
    ``header`` and ``table``, all of texts. They become part of the record, sheet.json, and of every other format.
    """
