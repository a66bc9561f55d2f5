"""For all tests: a state folder of their own, and what is left out where it cannot run.

Those that need pytest-xdist, where it is not installed (tox's noxdist environments); those of newer versions of iperf3,
where they cannot be fetched from Debian.
"""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from newer_iperf3 import why_not

# How long an example takes says how busy this machine is, and nothing about what is tested.
settings.register_profile("netperf", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("netperf")


@pytest.fixture(scope="session", autouse=True)
def state_folder() -> Iterator[None]:
    """No test reads or writes the tester references of the user who runs the tests; a run that needs one shares it.

    And no pytest that a test starts loads the plugin of hypothesis, which takes half of such a process's time, or has
    its tests shuffled where the outer one has (`tox -e random`).
    """
    with tempfile.TemporaryDirectory(prefix="netperf-state-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", folder)
        patch.setenv("PYTEST_ADDOPTS", "-pno:hypothesispytest -pno:randomly")
        yield


@pytest.fixture(autouse=True)
def kept_namespaces_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """What --netperf-keep left is the machine's: whoever makes such namespaces, or removes all, has them alone."""
    if request.node.get_closest_marker("kept_namespaces") is None:
        yield
        return
    with (Path(tempfile.gettempdir()) / "netperf-tests-kept-namespaces.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def pytest_report_header() -> str | None:
    reason = why_not()
    return f"iperf3: newer versions than the installed one are not tested: {reason}" if reason else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    no_xdist, no_newer = find_spec("xdist") is None, why_not() is not None
    left_out = [
        item
        for item in items
        if (no_xdist and _needs_xdist(item)) or (no_newer and item.get_closest_marker("newer_iperf3") is not None)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _needs_xdist(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    workers = callspec.params.get("workers") if callspec is not None else None
    return bool(workers) or item.get_closest_marker("needs_xdist") is not None
