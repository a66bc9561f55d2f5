"""One iperf3 run from start to clean end: a one-off server at b, a client at a, and both their outputs as one result.

Shared by the engines, which differ only in the commands they start.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from pytest_netperf.errors import NetperfError
from pytest_netperf.traffic.both_ends import Readings, combine, combine_stopped
from pytest_netperf.traffic.engine import EngineFailure, Look, Watch
from pytest_netperf.traffic.result import Result, Workload

if TYPE_CHECKING:
    from pytest_netperf.links.link import Link
    from pytest_netperf.links.process import Process

__all__ = ["run_between"]

_READY_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0  # beyond the traffic itself; iperf3's own timeouts do not protect from a frozen peer
_SERVER_LAST_WORDS_SECONDS = 3.0
_LOOK_SECONDS = 1.0
_LOOK_LATE_SECONDS = 0.15  # the ends have counted their interval by then
_STOP_SECONDS = 3.0
_OPENINGS = 3
_OPEN_SECONDS = 2.0
_ENOUGH_DATAGRAMS = 12_800
_CONTROL_PACKETS = 60


def run_between(
    link: Link,
    workload: Workload,
    *,
    engine: str,
    port: int,
    server_command: Sequence[str],
    client_command: Sequence[str],
    client_version: str | None,
    server_version: str | None,
    environment: Mapping[str, str] | None = None,
    watch: Watch | None = None,
) -> Result:
    """Run a one-off server and a client to a clean end on both sides.

    A UDP run whose opening was lost is begun again, twice at most: iperf3 sends the datagram that opens a stream, and
    its answer, only once, and nothing was measured yet.

    ``environment`` is that of both processes; None is this process's own. ``watch`` looks at the run once a second, and
    may stop it. Raises EngineFailure when there is no result to judge; it says what happened and carries what both ends
    printed, their last words included.
    """
    run = functools.partial(
        _run, link, workload, engine, port, server_command, client_command, client_version, server_version, environment
    )
    for again in range(_OPENINGS):
        try:
            result = run(watch)
        except _NeverOpened:
            if again == _OPENINGS - 1:
                raise
            continue
        note = (f"The opening of the UDP streams was lost {again} time{'s' if again > 1 else ''}.",) if again else ()
        return msgspec.structs.replace(result, notes=(*result.notes, *note))
    raise AssertionError("unreachable")


class _NeverOpened(EngineFailure):
    """The datagram that opens a stream, or its answer, was lost."""


def _run(
    link: Link,
    workload: Workload,
    engine: str,
    port: int,
    server_command: Sequence[str],
    client_command: Sequence[str],
    client_version: str | None,
    server_version: str | None,
    environment: Mapping[str, str] | None,
    watch: Watch | None,
) -> Result:
    if link.b.is_listening(port):  # or the client would talk to whoever that is
        raise EngineFailure(
            f"port {port} is in use in the namespace of end b of link {link.name}: something else listens there"
        )
    carriers = _carrier_changes(link)
    started = time.monotonic()
    server = link.b.popen(server_command, env=environment)
    client: Process | None = None
    problem = ""

    def failure(message: str, kind: type[EngineFailure] = EngineFailure) -> EngineFailure:
        documents = {"server": server.stdout + server.stderr}
        if client is not None:
            documents["client"] = client.stdout + client.stderr
        return kind(message, documents)

    try:
        while not problem and not link.b.is_listening(port):
            if server.wait(0.002):
                problem = f"the iperf3 server ended before it listened: {_last_words(server)}"
            elif time.monotonic() - started > _READY_SECONDS:
                problem = f"the iperf3 server did not listen on port {port} within {_READY_SECONDS:g} s"
        lingering = True
        stopped = never_opened = False
        if not problem:
            client = link.a.popen(client_command, env=environment)
            traffic_s = workload.duration_s + workload.omit_s
            opened = _opened(link, workload)
            ended, stopped = _wait(client, server, traffic_s + _PATIENCE_SECONDS, port, watch, opened)
            if ended:
                lingering = not server.wait(_SERVER_LAST_WORDS_SECONDS)
            elif not opened():
                never_opened = True
                problem = f"no UDP traffic flowed within {_OPEN_SECONDS:g} s, in each of {_OPENINGS} openings"
            elif stopped:
                problem = f"the iperf3 client was told to stop, and did not end within {_STOP_SECONDS:g} s"
            else:
                problem = (
                    f"the iperf3 client did not end within {traffic_s + _PATIENCE_SECONDS:g} s "
                    f"({traffic_s:g} s of traffic were asked)"
                )
    finally:
        for process in (client, server):
            if process is not None:
                process.end()
    if problem and client is not None:
        problem += f": {_stall(workload, client, server)}{_carriers_since(link, carriers)}"
    if problem or client is None:
        raise failure(problem, _NeverOpened if never_opened else EngineFailure)
    if client.returncode is not None and client.returncode < 0:
        raise failure(f"the iperf3 client was killed by {_signal_name(client.returncode)}")
    if server.returncode is not None and server.returncode < 0 and not lingering:
        raise failure(f"the iperf3 server was killed by {_signal_name(server.returncode)}")
    readings = (combine_stopped if stopped else combine)(workload, client, server)
    if not readings.flows:
        raise failure(f"iperf3 delivered no result: {readings.reason}")
    return Result(
        workload=msgspec.structs.replace(workload, duration_s=readings.seconds) if stopped else workload,
        planned_duration_s=workload.duration_s if stopped else None,
        trusted=readings.trusted,
        reason=readings.reason,
        flows=readings.flows,
        engine=engine,
        client_version=readings.client.iperf3_version or client_version,
        server_version=readings.server.iperf3_version or server_version,
        client_command=tuple(client_command),
        server_command=tuple(server_command),
        client_output=client.stdout + client.stderr,
        server_output=server.stdout + server.stderr,
        congestion=readings.client.congestion,
        client_cpu=_fraction(readings.client.host_cpu_percent),
        server_cpu=_fraction(readings.server.host_cpu_percent),
        elapsed_s=time.monotonic() - started,
        notes=tuple(dict.fromkeys((*readings.client.notes, *_notes_of_server(readings, stopped=stopped)))),
    )


def _opened(link: Link, workload: Workload) -> Callable[[], bool]:
    """Tells after two seconds whether UDP traffic flowed; True where so little is offered that it cannot be seen."""
    length = workload.length_bytes or 1
    expected = (workload.bitrate_bps or 0.0) * _OPEN_SECONDS / 8 / length
    if workload.protocol != "udp" or expected < _ENOUGH_DATAGRAMS:
        return lambda: True
    before = sum(port.rx_packets for port in link.counters())

    def opened() -> bool:
        # A super-frame is one packet here, of up to 64 datagrams.
        return sum(port.rx_packets for port in link.counters()) - before >= expected / 128 + _CONTROL_PACKETS

    return opened


def _notes_of_server(readings: Readings, *, stopped: bool) -> list[str]:
    """Not of one that was stopped: all it has to say is that the other end went away."""
    return [] if stopped else [f"server: {note}" for note in readings.server.notes]


def _wait(
    client: Process, server: Process, limit_s: float, port: int, watch: Watch | None, opened: Callable[[], bool]
) -> tuple[bool, bool]:
    """Whether the client ended in time, and whether it was told to stop because ``watch`` had seen enough.

    Waits no longer for one that has not ``opened`` its streams after two seconds. A server of 3.22 writes its whole
    document before it lets the client go, so that it must be read meanwhile.
    """
    begun = time.monotonic()
    looks = 0
    open_ = False
    printed = {client: 0, server: 0}

    def news(process: Process) -> str:
        text = process.stdout_since(printed[process])
        printed[process] += len(text)
        return text.decode("utf-8", "replace")

    while True:
        looks += 1
        due_s = min(looks * _LOOK_SECONDS + _LOOK_LATE_SECONDS, limit_s)
        if client.wait(max(0.0, begun + due_s - time.monotonic()), reading=server):
            return True, False
        if due_s >= limit_s:
            return False, False
        if due_s >= _OPEN_SECONDS and not open_:
            open_ = opened()
            if not open_:
                return False, False
        server.wait(0.0)
        if watch is not None and watch(Look(port, news(client), news(server))):
            client.send_signal(signal.SIGINT)
            return client.wait(_STOP_SECONDS, reading=server), True


def _fraction(percent: float | None) -> float | None:
    return None if percent is None else round(percent / 100, 4)


def _last_words(process: Process) -> str:
    words = (process.stderr + process.stdout).strip() or "it said nothing"
    return f"{words[-300:]} (exit code {process.returncode})"


def _stall(workload: Workload, client: Process, server: Process) -> str:
    """Why the watchdog had to step in. Whoever does not even answer SIGINT is frozen, and was killed."""
    frozen = [name for name, end in (("client", client), ("server", server)) if end.returncode == -signal.SIGKILL]
    if frozen:
        return f"the {' and the '.join(frozen)} was frozen (it did not answer SIGINT and had to be killed)"
    if '"test_start"' not in client.stdout:
        hint = ": the datagram that opens a stream, or its answer, was lost (iperf3 sends it only once)"
        return f"no traffic ever flowed{hint if workload.protocol == 'udp' else ''}"
    return "the data stopped flowing, or the two ends wait for one another"


def _carrier_changes(link: Link) -> dict[str, int]:
    return {end: port.carrier_changes for end, port in zip("ab", link.counters(), strict=True)}


def _carriers_since(link: Link, before: dict[str, int]) -> str:
    """Which ports lost their carrier, or got it back, since then: somebody pulled a cable, or switched a device off."""
    with contextlib.suppress(NetperfError):  # whatever keeps it from answering, the problem is known already
        changed = [f"port {end}" for end, changes in _carrier_changes(link).items() if changes != before[end]]
        return f"; the carrier of {' and '.join(changed)} changed meanwhile" if changed else ""
    return ""


def _signal_name(code: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
