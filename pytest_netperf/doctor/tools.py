"""iperf3 and its library: which are there, and which faults they are known for."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from pytest_netperf.doctor.finding import Finding, good, note, problem
from pytest_netperf.errors import TrafficError

__all__ = ["iperf3"]

_INSTALL = "install iperf3 (sudo apt-get install iperf3), or use the library: --netperf-engine libiperf"


def iperf3() -> Iterator[Finding]:
    """The program, the library where it is installed, and what TCP does by itself."""
    from pytest_netperf.judge.doubt_iperf3 import faults_of
    from pytest_netperf.traffic.engine import make_engine
    from pytest_netperf.traffic.iperf3 import parse_version

    try:
        said = make_engine("iperf3").version
    except TrafficError as error:
        yield problem("iperf3", "program", str(error), _INSTALL)
    else:
        version = parse_version(said) or ()
        faults = faults_of(version)
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
