"""One guest for all tests of the lab, what they run in it, and the list of what was survived at the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lab_guest import PAIRS, Guest
from lab_kernel import guest_kernel
from lab_suite import Pair, Suite, wait_until

_SURVIVED = pytest.StashKey[list[str]]()
_BOOT = pytest.StashKey[str]()
_NAMES = "cd /sys/class/net && for name in *; do echo $name $(cat $name/address); done"


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
            lines = lab.run(["sh", "-c", _NAMES]).check().splitlines()
            by_mac = {mac: name for name, mac in (line.split() for line in lines if " " in line)}
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
        line = what
        if before is not None and after is not None:
            from stand_in import unequal

            left = unequal(before, after)
            assert left == [], f"after {what} the ports are not as they were"
            fields = sum(len(port or ()) for port in before.values())
            line += f": before = after, {fields} fields of {' and '.join(before)}"
        request.config.stash.setdefault(_SURVIVED, []).append(line)

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _BOOT in config.stash:
        terminalreporter.section("the lab")
        terminalreporter.line(config.stash[_BOOT])
    for line in config.stash.get(_SURVIVED, []):
        terminalreporter.line(f"survived  {line}")
