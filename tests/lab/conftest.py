"""One guest for all tests of the lab, what they run in it, and the list of what was survived at the end of the run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lab_guest import PAIRS, Guest
from lab_kernel import CACHE, guest_kernel
from lab_suite import Pair, Suite, wait_until

_SURVIVED = pytest.StashKey[list[tuple[str, str, str]]]()
_BOOT = pytest.StashKey[str]()
_SHEET = pytest.StashKey[str]()
_COLUMNS = ("survived", "ports", "before = after")
_NAMES = "grep . /sys/class/net/*/address"


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[Guest]:
    """The guest, with a pair of each model."""
    guest = Guest(guest_kernel(), list(PAIRS.values()))
    guest.start()
    request.config.stash[_BOOT] = f"kernel {guest.release}, up after {guest.boot_seconds:.0f} s"
    yield guest
    guest.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """The last words of the guest's kernel are a part of every failure."""
    report = yield
    guest = getattr(item, "funcargs", {}).get("lab")
    if report.failed and guest is not None:
        report.sections.append(("console of the guest", guest.console()))
    return report


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
def suite(lab: Guest, request: pytest.FixtureRequest) -> Suite:
    """Each test's own folder in the guest."""
    return Suite(lab, request.node.name.replace("[", "-").rstrip("]").replace(" ", "-"))


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
        request.config.stash.setdefault(_SURVIVED, []).append((what, ports, compared))

    return note


@pytest.fixture
def keep_sheet(request: pytest.FixtureRequest) -> Callable[[Suite, str], None]:
    """``keep_sheet(suite, serial)``: the sheet stays after the guest has gone, where the end of the run says."""

    def keep(suite: Suite, serial: str) -> None:
        (folder,) = (suite.guest.pull(suite.path) / "netperf-results" / serial).iterdir()
        kept = CACHE / "sheet"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept)
        request.config.stash[_SHEET] = str(kept)

    return keep


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _BOOT in config.stash:
        terminalreporter.section("the lab")
        terminalreporter.line(config.stash[_BOOT])
    rows = config.stash.get(_SURVIVED, [])
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]
    for row in (_COLUMNS, *rows) if rows else ():
        words = (word.ljust(width) for word, width in zip(row, widths, strict=True))
        terminalreporter.line("  ".join(words).rstrip())
    if _SHEET in config.stash:
        terminalreporter.line(f"sheet of these ports: {config.stash[_SHEET]}")
