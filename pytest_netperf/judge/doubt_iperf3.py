"""Doubts about iperf3 itself: versions with known faults, and its threads. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from pytest_netperf.judge.doubt import Doubt, KnownDoubt
from pytest_netperf.judge.scene import Scene, iperf3_versions, release
from pytest_netperf.traffic.result import Workload

__all__ = ["DOUBTS", "KNOWN_FAULTS", "RULES", "faults_of"]

VERSIONS_DIFFER: Final = KnownDoubt(
    name="Different iperf3 versions",
    kind="note",
    sign="The client is another version than the server.",
    meaning="Two releases may count differently.",
    next_step="Use the same version at both ends.",
)
KNOWN_FAULT: Final = KnownDoubt(
    name="Known fault of this iperf3",
    kind="note",
    sign="The versions and what was asked of them meet one of the faults listed below.",
    meaning="The figure concerned is the tool's, not the device's.",
    next_step="Install iperf3 3.18 or newer at both ends.",
)
ONE_THREAD: Final = KnownDoubt(
    name="One thread for all streams",
    kind="note",
    sign="Several streams with an iperf3 before 3.16, and a rate stayed below what the link delivers.",
    meaning="It serves all streams in one thread, so more streams do not use more CPUs.",
    next_step="Use iperf3 3.16 or newer.",
)
DOUBTS: Final = (VERSIONS_DIFFER, KNOWN_FAULT, ONE_THREAD)

_THREAD_PER_STREAM: Final = (3, 16)


class _Fault(NamedTuple):
    """A fault of some versions: of which (client, server), in which workloads, and what it does."""

    versions: Callable[[tuple[int, ...], tuple[int, ...]], bool]
    asked: Callable[[Workload], bool]
    what: str


def _is_before_3_11(client: tuple[int, ...], server: tuple[int, ...]) -> bool:
    return min(client, server) < (3, 11)


KNOWN_FAULTS: Final = (
    _Fault(
        lambda *both: any((3, 16) <= version < (3, 18) for version in both),
        lambda workload: workload.bitrate_bps is not None,
        "iperf3 3.16 and 3.17 keep a CPU fully busy when their bitrate is limited (esnet/iperf#1741)",
    ),
    _Fault(
        lambda client, server: client >= (3, 14) and server < (3, 14),
        lambda workload: workload.protocol == "udp" and not workload.omit_s,
        "a client of 3.14 or newer reports no UDP loss with a server of 3.13 or older (esnet/iperf#2055)",
    ),
    _Fault(
        _is_before_3_11,
        lambda workload: workload.protocol == "udp",
        "iperf3 before 3.11 reports only the sent rate of UDP",
    ),
    _Fault(
        _is_before_3_11,
        lambda workload: workload.direction == "bidirectional",
        "iperf3 before 3.11 writes both directions of --bidir under the same keys",
    ),
)


def faults_of(version: tuple[int, ...]) -> list[str]:
    """The known faults of a release that runs at both ends, such as (3, 16)."""
    return [fault.what for fault in KNOWN_FAULTS if fault.versions(version, version)]


def versions_differ(scene: Scene) -> Iterator[Doubt]:
    """Two releases of iperf3 may count differently."""
    client, server = iperf3_versions(scene.result)
    if client and server and client != server:
        yield VERSIONS_DIFFER.seen(f"The client is iperf3 {client}, the server {server}.")


def known_faults(scene: Scene) -> Iterator[Doubt]:
    """Faults of released versions that concern this run."""
    client, server = map(release, iperf3_versions(scene.result))
    if client is None or server is None:
        return
    for fault in KNOWN_FAULTS:
        if fault.versions(client, server) and fault.asked(scene.result.workload):
            yield KNOWN_FAULT.seen(fault.what[0].upper() + fault.what[1:] + ".")


def one_thread(scene: Scene) -> Iterator[Doubt]:
    """Streams that share a thread share a CPU."""
    streams = scene.result.workload.streams
    versions = [*map(release, iperf3_versions(scene.result))]
    old = [version for version in versions if version is not None and version < _THREAD_PER_STREAM]
    if streams > 1 and old and not scene.rate_explained:
        shown = ".".join(map(str, min(old)))
        yield ONE_THREAD.seen(f"iperf3 {shown} ran {streams} streams.")


RULES: Final = (versions_differ, known_faults, one_thread)
