"""iperf3 and its library: which are there, and which faults they are known for."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_netperf.doctor.finding import Finding, good, note, problem
from pytest_netperf.errors import NetperfError, TrafficError

if TYPE_CHECKING:
    from pytest_netperf.traffic.engine import Engine

__all__ = ["iperf3"]

_INSTALL = "install iperf3 (sudo apt-get install iperf3), or use the library: --netperf-engine libiperf"


def _cannot(engine: Engine) -> Iterator[str]:
    """What came with a later release."""
    from pytest_netperf.traffic.result import Workload

    try:
        engine.check(Workload(direction="bidirectional"))
    except NetperfError as error:
        yield str(error)


def iperf3() -> Iterator[Finding]:
    """The program, the library where it is installed, and what TCP does by itself."""
    from pytest_netperf.judge.doubt_iperf3 import faults_of
    from pytest_netperf.traffic.engine import make_engine
    from pytest_netperf.traffic.iperf3 import parse_version
    from pytest_netperf.traffic.result import Workload

    try:
        engine = make_engine("iperf3")
        said = engine.version
        engine.check(Workload())
    except TrafficError as error:
        yield problem("iperf3", "program", str(error), _INSTALL)
    else:
        faults = [*faults_of(parse_version(said) or ()), *_cannot(engine)]
        if faults:
            yield note(
                "iperf3",
                "program",
                f"{said}; known faults: {'; '.join(faults)}",
                "rows that meet one say so; iperf3 3.18 or newer has none of them",
            )
        else:
            yield good("iperf3", "program", f"{said}, no known fault")
    if find_spec("iperf3") is not None:
        try:
            yield good("iperf3", "library", make_engine("libiperf").version)
        except TrafficError as error:
            yield note("iperf3", "library", str(error), "it is needed with --netperf-engine libiperf only")
    algorithm = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    try:
        yield good("iperf3", "congestion control", f"{algorithm.read_text().strip()}, unless a test asks for another")
    except OSError:
        yield note("iperf3", "congestion control", "the kernel does not say")
