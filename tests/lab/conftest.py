"""A guest for each worker of the lab, what its tests run in it, and at the end the list of what was survived.

A worker hands its rows to the controller with the reports of its tests, so that they are there whoever ran them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lab_guest import PAIRS, Guest
from lab_kernel import CACHE, guest_kernel
from lab_suite import Pair, Suite, no_keeper, wait_until

_SURVIVED, _BOOT, _SHEET = "lab survived", "lab guest", "lab sheet"  # user properties of reports
_SAID = pytest.StashKey[dict[str, list[Any]]]()
_LONGEST = (
    "test_runs_that_are_killed",
    "test_a_pulled_cable",
    "test_a_run_over_drivers",
    "test_a_port_that_two_runs_want",
    "test_settings_of_a_test",
    "test_netem_and_the_classifier",
    "test_two_radios",
    "test_radios_of_a_killed_keeper",
)
_COLUMNS = ("survived", "ports", "before = after")
_NAMES = "grep . /sys/class/net/*/address"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: then the guests end at nearly the same time. What leaves another guest behind comes last."""
    places = {name: place for place, name in enumerate(_LONGEST)}

    def place(item: pytest.Item) -> int:
        if item.get_closest_marker("last"):
            return len(places) + 1
        return min((at for name, at in places.items() if item.name.startswith(name)), default=len(places))

    items.sort(key=place)


@pytest.fixture(scope="session")
def lab() -> Iterator[Guest]:
    """The guest, with a pair of each model."""
    guest = Guest(guest_kernel(), list(PAIRS.values()))
    guest.start()
    yield guest
    guest.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """The last words of the guest's kernel are a part of every failure."""
    report = yield
    guest = getattr(item, "funcargs", {}).get("lab")
    if guest is not None:
        report.user_properties.append((_BOOT, f"kernel {guest.release}, up after {guest.boot_seconds:.0f} s"))
        if report.failed:
            report.sections.append(("console of the guest", guest.console()))
    return report


class _Said:
    """Gathers what the reports of the tests bring, in the process that prints the end of the run."""

    def __init__(self, config: pytest.Config) -> None:
        self.by_name: dict[str, list[Any]] = config.stash.setdefault(_SAID, {})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":  # it has those of the other phases too
            for name, value in report.user_properties:
                if value not in (known := self.by_name.setdefault(name, [])):
                    known.append(value)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last: runs behind all others, because it leaves another guest behind")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Said(config))


@pytest.fixture
def pair(lab: Guest) -> Callable[[str], Pair]:
    """``pair("e1000e")``: the ports of that model, by the names they have now."""

    def find(model: str) -> Pair:
        cards = lab.pairs[model]
        wanted = [port.mac for port in cards.ports]

        def there() -> list[str]:
            lines = lab.run(["sh", "-c", _NAMES]).stdout.splitlines()  # a port may go while they are read
            by_mac = {mac: path.split("/")[4] for path, _, mac in (line.partition(":") for line in lines)}
            return [by_mac[mac] for mac in wanted] if all(mac in by_mac for mac in wanted) else []

        return Pair(lab, cards, *wait_until(there, f"both cards {model} are in the namespace of the guest"))

    return find


@pytest.fixture
def suite(lab: Guest, request: pytest.FixtureRequest) -> Iterator[Suite]:
    """Each test's own folder in the guest. What a test left running does not disturb the next."""
    yield Suite(lab, request.node.name.replace("[", "-").rstrip("]").replace(" ", "-"))
    if lab.end_commands():
        no_keeper(lab)


@pytest.fixture
def survived(request: pytest.FixtureRequest) -> Callable[..., None]:
    """``survived(what, before, after)``: asserts that they are equal, field by field, and puts it on the list."""

    def note(what: str, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None) -> None:
        ports, compared = "", ""
        if before is not None and after is not None:
            from stand_in import unequal

            left = unequal(before, after)
            assert left == [], f"after {what} the ports are not as they were"
            ports, compared = " ".join(before), f"{sum(len(port or ()) for port in before.values())} fields"
        request.node.user_properties.append((_SURVIVED, [what, ports, compared]))

    return note


@pytest.fixture
def keep_sheet(request: pytest.FixtureRequest) -> Callable[[Suite, str], None]:
    """``keep_sheet(suite, serial)``: the sheet stays after the guest has gone, where the end of the run says."""

    def keep(suite: Suite, serial: str) -> None:
        (folder,) = (suite.guest.pull(suite.path) / "netperf-results" / serial).iterdir()
        kept = CACHE / "sheet"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept)
        request.node.user_properties.append((_SHEET, str(kept)))

    return keep


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    said = config.stash.get(_SAID, {})
    if boots := said.get(_BOOT):
        terminalreporter.section("the lab")
        terminalreporter.line("; ".join(boots))
    rows = said.get(_SURVIVED, [])
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]
    for row in (_COLUMNS, *rows) if rows else ():
        words = (word.ljust(width) for word, width in zip(row, widths, strict=True))
        terminalreporter.line("  ".join(words).rstrip())
    for sheet in said.get(_SHEET, []):
        terminalreporter.line(f"sheet of these ports: {sheet}")
