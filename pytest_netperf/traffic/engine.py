"""What every traffic engine is: a workload and a link go in, a result comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_netperf.errors import ConfigError, TrafficError

if TYPE_CHECKING:
    from pytest_netperf.links.link import Link
    from pytest_netperf.traffic.result import Result, Workload

__all__ = ["Engine", "EngineFailure", "Look", "Watch", "make_engine"]


class Look(NamedTuple):
    """What there is to see of a run while its traffic flows."""

    port: int
    """The one that the server listens on; TCP connections of it are asked why they waited."""
    client: str
    """What the client printed since the look before: JSON lines of iperf3, and nothing of an engine that has none. Then
    what arrived is read from the counters of the ports."""
    server: str


Watch = Callable[[Look], bool]
"""Called once a second while traffic runs; True stops it."""


class EngineFailure(TrafficError):
    """A run that delivered no result: the tool is missing, refused, frozen or killed.

    ``documents`` holds what both ends printed until then, so that nothing measured is lost.
    """

    def __init__(self, message: str, documents: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.documents = documents or {}


class Engine(Protocol):
    """Drives one traffic tool. `pytest_netperf.conformance` tests one."""

    name: str
    """As ``--netperf-engine`` names it; every `Result` has it too."""
    version: str
    """Of the tool, e.g. "iperf 3.12". What the tester can do is measured anew when it changes."""
    can_stop: bool
    """Whether a run can be ended early, and still has a result."""

    def check(self, workload: Workload) -> None:
        """Raise MarkError when this engine, in its installed version, cannot do what the workload asks."""

    def run(self, link: Link, workload: Workload, watch: Watch | None = None) -> Result:
        """Run the workload over the link, to a clean end on both sides, whatever happens.

        ``watch`` looks on, and may stop the traffic where the engine ``can_stop``.

        Raises EngineFailure when there is no result to judge.
        """


def make_engine(name: str) -> Engine:
    """The engine of that name: "iperf3" or "libiperf"."""
    if name == "iperf3":
        from pytest_netperf.traffic.iperf3 import Iperf3Engine

        return Iperf3Engine()
    if name == "libiperf":
        from pytest_netperf.traffic.libiperf import LibiperfEngine

        return LibiperfEngine()
    raise ConfigError(f"unknown traffic engine {name!r}: choose 'iperf3' or 'libiperf'")
