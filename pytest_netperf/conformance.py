"""What every traffic engine must do, refuse and survive, as a class of tests for the author of one.

    class TestMyEngine(EngineConformance):
        @pytest.fixture
        def engine(self):
            return MyEngine()

They need network namespaces (root or user namespaces), and no bench file. What an engine cannot do, its ``check``
refuses by MarkError, and that test is skipped. Nothing here measures how fast an engine is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import pytest

from pytest_netperf.errors import KeeperError, MarkError
from pytest_netperf.traffic.engine import Engine, EngineFailure, Look
from pytest_netperf.traffic.framing import bound_bps, packet_bytes
from pytest_netperf.traffic.result import Direction, Flow, Result, Workload

if TYPE_CHECKING:
    from pytest_netperf.links.link import Endpoint, Link
    from pytest_netperf.links.owner import Owner

__all__ = ["EngineConformance"]

_SPEED_BPS = 100e6
_CLOCKS = 1.003
_LATE_SECONDS = 30.0  # for an engine that waits before it gives a run up
_LONG_SECONDS = 20.0

_OPTIONS: list[dict[str, Any]] = [
    {"streams": 4},
    {"mss_bytes": 536},
    {"window_bytes": 200_000},
    {"congestion": "reno"},
    {"zerocopy": True},
    {"length_bytes": 8192},
    {"dscp": 46},
    {"ip_version": 6},
    {"bitrate_bps": 20e6},
]


class _SeenEnoughError(Exception):
    """What the watch of a test raises."""


class EngineConformance:
    """Derive a class whose name begins with ``Test`` from it, and give that a fixture ``engine``."""

    _owner: ClassVar[Owner | None]
    _shared: ClassVar[Link | None]

    @classmethod
    def setup_class(cls) -> None:
        """One keeper and one link serve all tests of the class; the first that needs them brings them up."""
        cls._owner = cls._shared = None

    @classmethod
    def teardown_class(cls) -> None:
        """The keeper takes its links with it."""
        if cls._owner is not None:
            cls._owner.close()

    @pytest.fixture
    def engine(self) -> Engine:
        """The engine under test."""
        raise NotImplementedError("give the class a fixture `engine` that returns yours")

    @classmethod
    def make_link(cls, fault: dict[str, Any] | None = None) -> Link:
        """Bring up a simulated link of 100 Mbit/s. Skips where this user can make no namespaces."""
        from pytest_netperf.links.link import bring_up
        from pytest_netperf.links.owner import Owner

        try:
            cls._owner = cls._owner or Owner()
        except KeeperError as error:
            pytest.skip(str(error))
        name = f"conformance-{'fault' if fault else 'link'}"
        return bring_up(cls._owner, name, name=name, speed_bps=_SPEED_BPS, mtu=1500, fault=fault)

    @pytest.fixture
    def link(self) -> Iterator[Link]:
        """The link that all tests share. After each of them nothing may run in its namespaces."""
        cls = type(self)
        link = cls._shared = cls._shared or cls.make_link()
        yield link
        left = [f"{pid} in the namespace of end {end.end}" for end in (link.a, link.b) for pid in _processes_of(end)]
        for pid in [*_processes_of(link.a), *_processes_of(link.b)]:
            os.kill(pid, signal.SIGKILL)
        assert left == [], "processes of the engine are left: end them whatever happens"

    # ---- what a good run is ------------------------------------------------------------------------------------------

    def test_it_says_what_it_is(self, engine: Engine) -> None:
        """A name for the option, a version for the sheet, and whether it can stop early."""
        assert engine.name
        assert engine.name == engine.name.strip().lower()
        assert engine.version
        assert isinstance(engine.can_stop, bool)

    @pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
    def test_tcp(self, engine: Engine, link: Link, direction: Direction) -> None:
        """What arrived is believable: below what physics allows, and what the receiving port counted."""
        load = _load(engine, direction=direction)
        before = link.counters()
        result = _run(engine, link, load)
        flows = _good(result, link, load)
        after = link.counters()
        for flow in flows:
            end = 1 if flow.direction == "forward" else 0
            assert flow.received_bytes is not None
            assert flow.received_bytes < after[end].rx_bytes - before[end].rx_bytes, (
                f"{flow.direction}: more payload than the receiving port counted in all"
            )
            assert flow.received_bytes > (after[end].rx_bytes - before[end].rx_bytes) * 0.8, (
                f"{flow.direction}: the receiving port counted much more than the engine says arrived"
            )

    def test_udp(self, engine: Engine, link: Link) -> None:
        """What was offered arrives, and the loss is known."""
        load = _load(engine, protocol="udp", bitrate_bps=20e6, length_bytes=1400)
        (flow,) = _good(_run(engine, link, load), link, load, at_least=0.0)
        assert flow.received_bps == pytest.approx(20e6, rel=0.25)
        assert flow.frame_loss_ratio is not None
        assert flow.frame_loss_ratio < 0.1

    def test_udp_loss_is_seen(self, engine: Engine) -> None:
        """On a link that loses one frame in ten the loss is that, and the receiver's bytes are those that arrived."""
        load = _load(engine, protocol="udp", bitrate_bps=10e6, length_bytes=1400)
        link = self.make_link(fault={"loss_ratio": 0.1, "direction": "a-to-b"})
        for _ in range(8):  # what opens a stream may be lost too
            with contextlib.suppress(EngineFailure):
                (flow,) = _good(_run(engine, link, load), link, load, at_least=0.0)
                break
        else:
            pytest.fail("eight runs in a row delivered nothing on a link with 10 % loss")
        assert flow.frame_loss_ratio is not None
        assert 0.04 < flow.frame_loss_ratio < 0.2

    def test_omitted_seconds_do_not_count(self, engine: Engine, link: Link) -> None:
        """The traffic lasts longer by them, and nothing that counts does."""
        load = _load(engine, omit_s=1.0)
        before = link.counters()[1].rx_bytes
        result = _run(engine, link, load)
        (flow,) = _good(result, link, load)
        assert result.elapsed_s > 2.0
        assert flow.received_bytes is not None
        assert flow.received_bytes < (link.counters()[1].rx_bytes - before) * 0.75, "omitted traffic was counted"

    def test_the_result_says_who_measured_how(self, engine: Engine, link: Link) -> None:
        """Workload, engine, version and commands: what somebody needs to repeat the run."""
        load = _load(engine)
        result = _run(engine, link, load)
        assert result.workload == load
        assert result.engine == engine.name
        assert result.reason
        assert result.client_version
        assert result.server_version
        assert 1.0 <= result.elapsed_s < _LATE_SECONDS

    def test_intervals_cover_the_run(self, engine: Engine, link: Link) -> None:
        """The receiver's intervals, one after the other: they add up to what it counted."""
        load = _load(engine, duration_s=2.0, interval_s=0.5)
        (flow,) = _good(_run(engine, link, load), link, load)
        counted = [each for each in flow.intervals if not each.omitted]
        assert flow.intervals_from == "receiver"
        assert len(counted) >= 3
        assert sum(each.bytes for each in counted) == pytest.approx(flow.received_bytes, rel=0.05)
        starts = [each.start_s for each in counted]
        assert starts == sorted(starts)

    @pytest.mark.parametrize("option", _OPTIONS, ids=lambda option: "-".join(option))
    def test_an_option_is_done_or_refused(self, engine: Engine, link: Link, option: dict[str, Any]) -> None:
        """``check`` refuses what the engine cannot do, and a run never leaves it out in silence."""
        load = _load(engine, **option)
        result = _run(engine, link, load)
        (flow,) = _good(result, link, load, at_least=0.02)
        if load.bitrate_bps is not None:
            assert flow.received_bps == pytest.approx(load.bitrate_bps, rel=0.3)

    # ---- any end is clean --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("end", ["a", "b"])
    def test_a_killed_process_is_never_a_result(self, engine: Engine, link: Link, end: str) -> None:
        """EngineFailure, or a result that is not trusted; in good time, and the next run works."""
        load = _load(engine, duration_s=_LONG_SECONDS)
        endpoint = link.a if end == "a" else link.b
        victims: list[int] = []

        def kill() -> None:
            victims.extend(_processes_of(endpoint))
            for pid in victims:
                os.kill(pid, signal.SIGKILL)

        refused, seconds = _refused(engine, link, load, kill)
        if not victims:
            pytest.skip("the engine has no process in the namespace of this end")
        assert refused, "a run whose process was killed was trusted"
        assert seconds < _LATE_SECONDS
        _works(engine, link)

    def test_a_cut_wire_is_never_a_result(self, engine: Engine, link: Link) -> None:
        """The traffic stops and nobody says so: the engine gives up by itself."""
        load = _load(engine, duration_s=2.0)
        refused, seconds = _refused(engine, link, load, lambda: _set_port(link.a, up=False))
        _set_port(link.a, up=True)
        assert refused, "a run that stood still was trusted"
        assert seconds < _LATE_SECONDS
        _works(engine, link)

    def test_what_the_watch_raises_ends_the_run(self, engine: Engine, link: Link) -> None:
        """The watch is called about once a second, and Ctrl-C may come in it: it comes through, and nothing is left."""
        looks: list[Look] = []

        def watch(look: Look) -> bool:
            looks.append(look)
            if len(looks) == 2:
                raise _SeenEnoughError
            return False

        load = _load(engine, duration_s=4.0)
        link.shape(packet_bytes(load, link.mtu))
        begun = time.monotonic()
        with pytest.raises(_SeenEnoughError):
            engine.run(link, load, watch)
        assert 1.0 < time.monotonic() - begun < 4.0, "the watch is to be called about once a second"
        _works(engine, link)

    def test_a_run_that_has_seen_enough_is_a_result(self, engine: Engine, link: Link) -> None:
        """An engine that ``can_stop`` ends when the watch says so, and says what it counted until then."""
        if not engine.can_stop:
            pytest.skip("the engine says that it cannot stop early")
        load = _load(engine, duration_s=_LONG_SECONDS)
        link.shape(packet_bytes(load, link.mtu))
        begun = time.monotonic()
        result = engine.run(link, load, lambda _: time.monotonic() - begun > 2.5)
        assert time.monotonic() - begun < _LONG_SECONDS / 2
        assert result.trusted, result.reason
        assert result.planned_duration_s == _LONG_SECONDS
        assert 1.0 <= result.workload.duration_s < _LONG_SECONDS / 2
        assert msgspec.structs.replace(result.workload, duration_s=_LONG_SECONDS) == load
        (flow,) = result.flows
        assert flow.received_seconds == pytest.approx(result.workload.duration_s, rel=0.1)


def _load(engine: Engine, **settings: Any) -> Workload:
    """A short workload that the engine accepts; skips when it refuses that."""
    load = Workload(**{"duration_s": 1.0, "omit_s": 0.0, "interval_s": 0.5, **settings})
    try:
        engine.check(load)
    except MarkError as error:
        pytest.skip(f"the engine refuses it: {error}")
    return load


def _run(engine: Engine, link: Link, load: Workload) -> Result:
    link.shape(packet_bytes(load, link.mtu))
    return engine.run(link, load)


def _good(result: Result, link: Link, load: Workload, at_least: float = 0.4) -> tuple[Flow, ...]:
    """Check what every trusted result must be, and return its flows."""
    assert result.trusted, result.reason
    wanted = {"forward": ["forward"], "reverse": ["reverse"], "bidirectional": ["forward", "reverse"]}
    assert [flow.direction for flow in result.flows] == wanted[load.direction]
    bound = bound_bps(load, _SPEED_BPS, link.mtu)
    for flow in result.flows:
        assert flow.received_bytes, "nothing was received"
        assert flow.received_bps is not None
        assert flow.received_seconds is not None
        assert flow.received_seconds == pytest.approx(load.duration_s, rel=0.3)
        assert flow.received_bps == pytest.approx(flow.received_bytes * 8 / flow.received_seconds, rel=0.001)
        assert flow.received_bps > at_least * bound
        most = bound * flow.received_seconds + link.burst_bits
        assert flow.received_bytes * 8 < _CLOCKS * most, "more than the wire carries: is it what the receiver counted?"
    return result.flows


def _works(engine: Engine, link: Link) -> None:
    load = Workload(duration_s=1.0, omit_s=0.0)
    _good(_run(engine, link, load), link, load, at_least=0.1)


def _refused(engine: Engine, link: Link, load: Workload, disturb: Callable[[], None]) -> tuple[bool, float]:
    """Whether a run that is disturbed as soon as its traffic flows is no result, and how long that took to be known."""
    link.shape(packet_bytes(load, link.mtu))
    before = link.counters()[1].rx_bytes
    over = threading.Event()
    disturbed: list[float] = []

    def wait_and_disturb() -> None:
        while link.counters()[1].rx_bytes - before < 1_000_000:
            if over.wait(0.02):
                return
        disturb()
        disturbed.append(time.monotonic())

    thread = threading.Thread(target=wait_and_disturb, daemon=True)
    thread.start()
    try:
        refused = not engine.run(link, load).trusted
    except EngineFailure:
        refused = True
    ended = time.monotonic()
    over.set()
    thread.join()
    assert disturbed, "the run was over before its traffic could be disturbed"
    return refused, ended - disturbed[0]


def _processes_of(endpoint: Endpoint) -> list[int]:
    """The processes that live in the namespace of an end, as this process numbers them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it ended, or is not ours to look at
                if (entry / "ns/net").stat().st_ino == endpoint.namespace:
                    found.append(int(entry.name))
    return found


def _set_port(endpoint: Endpoint, *, up: bool) -> None:
    """Take the port of an end down or up: SIOCSIFFLAGS of netdevice(7)."""
    import fcntl
    import struct

    with endpoint.socket() as handle:
        request = struct.pack("16sh14x", endpoint.interface.encode(), 0x1 if up else 0)
        fcntl.ioctl(handle, 0x8914, request)
