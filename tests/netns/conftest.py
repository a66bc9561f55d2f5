"""Shared by the tests that need network namespaces: one keeper for all of them, and links that it brings up."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import newer_iperf3 as newer
import pytest

from pytest_netperf.errors import KeeperError
from pytest_netperf.links.kernel import user_namespace_advice
from pytest_netperf.links.link import Endpoint, Link, bring_up
from pytest_netperf.links.owner import Owner


@pytest.fixture(scope="session")
def owner() -> Iterator[Owner]:
    """A keeper of this test session's own. Skips where the kernel lets this user make no namespaces."""
    try:
        owner = Owner()
    except KeeperError as error:
        if str(error) == user_namespace_advice():
            pytest.skip(str(error))
        raise
    yield owner
    owner.close()


@pytest.fixture(scope="session")
def _link_numbers() -> Iterator[int]:
    return itertools.count()


@pytest.fixture
def make_link(owner: Owner, _link_numbers: Iterator[int]) -> Iterator[Callable[..., Link]]:
    """``make_link(speed_bps=1e9, mtu=1500, fault=None)``: a link that is up and proved, taken down after the test."""
    made: list[Link] = []

    def make(speed_bps: float | None = 1e9, mtu: int = 1500, fault: dict[str, object] | None = None) -> Link:
        key = f"test-{next(_link_numbers)}"
        made.append(bring_up(owner, key, name=key, speed_bps=speed_bps, mtu=mtu, fault=fault))
        return made[-1]

    yield make
    for link in made:
        link.close()


@pytest.fixture(scope="session")
def newer_iperf3() -> Callable[[str], Path]:
    """``newer_iperf3("trixie")``: the folder with the ``iperf3`` of that Debian suite, fetched where it is missing."""

    def find(suite: str) -> Path:
        try:
            return newer.newer_iperf3(suite)
        except newer.FetchError as error:
            pytest.fail(str(error), pytrace=False)

    return find


@pytest.fixture
def processes_in() -> Callable[[Endpoint], list[int]]:
    """``processes_in(endpoint)``: the process ids, as this process sees them, that live in the endpoint's namespace."""

    def find(endpoint: Endpoint) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    inode = os.stat(entry / "ns" / "net").st_ino  # noqa: PTH116 - follows the magic link
                except OSError:  # ended, a zombie, or not ours to look at
                    continue
                if inode == endpoint.namespace:
                    found.append(int(entry.name))
        return found

    return find
