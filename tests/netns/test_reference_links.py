"""The tester reference over real links: by both engines, over a veth pair and over a cable of the bench."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aftermath import Traces

from pytest_netperf.bench.model import LinkSpec
from pytest_netperf.links.slot import measurement_slot
from pytest_netperf.physics import goodput_ceiling_bps
from pytest_netperf.record.reference_store import ReferenceStore
from pytest_netperf.reference import Wanted, obtain
from pytest_netperf.traffic.engine import Engine, EngineFailure, make_engine

pytestmark = [pytest.mark.netns, pytest.mark.alone]

VETH = Wanted(link=None, mtu=9000)
CABLE = Wanted(link=LinkSpec(name="loop", speed_bps=1e9, simulated=True), mtu=9000)


@pytest.fixture(params=["iperf3", "libiperf"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return make_engine(request.param)


@pytest.fixture
def store(tmp_path: Path) -> ReferenceStore:
    return ReferenceStore(tmp_path)


@pytest.fixture(autouse=True)
def _nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    traces = Traces()
    for name, value in traces.environment.items():
        monkeypatch.setenv(name, value)
    yield
    traces.assert_gone()


def test_both_engines_over_a_pair_and_a_cable(engine: Engine, store: ReferenceStore):
    told: list[int] = []
    veth, cable = obtain([VETH, CABLE], engine, store, before=told.append)
    assert told == [6]
    assert (veth.missing, cable.missing) == (None, None)
    assert veth.throughput_bps is not None
    assert cable.throughput_bps is not None
    ceiling = goodput_ceiling_bps(1e9, 9000)
    assert 0.4 * ceiling < cable.throughput_bps < 1.003 * ceiling
    assert veth.throughput_bps > cable.throughput_bps
    assert veth.software == cable.software == engine.version
    assert (veth.stored, cable.stored) == (False, False)
    assert store.problem is None

    again = obtain([VETH, CABLE], engine, store, before=told.append)
    assert [each.throughput_bps for each in again] == [veth.throughput_bps, cable.throughput_bps]
    assert all(each.stored for each in again)
    assert told == [6], "nothing was measured"


class Broken:
    """An engine whose traffic never comes."""

    name, version, can_stop = "iperf3", "iperf 3.12", False

    def check(self, workload: object) -> None: ...

    def run(self, link: object, workload: object, watch: object = None) -> None:  # noqa: ARG002 - its interface
        raise EngineFailure("the iperf3 server ended before it listened")


def test_a_measurement_that_fails_says_why_and_is_not_stored(store: ReferenceStore, tmp_path: Path):
    physical = Wanted(link=LinkSpec(name="plug", speed_bps=1e9), mtu=9000)
    veth, plug = obtain([VETH, physical], Broken(), store)  # type: ignore[arg-type]
    assert veth.throughput_bps is None
    assert veth.missing == "the iperf3 server ended before it listened"
    assert plug.missing is not None
    assert plug.missing == "link 'plug' has no port at its end a"
    assert list(tmp_path.glob("reference-*.json")) == []


def test_it_waits_for_the_measurement_slot_of_this_host(store: ReferenceStore):
    found: list[object] = []
    measuring = threading.Thread(
        target=lambda: found.extend(obtain([VETH], make_engine("iperf3"), store, before=lambda _: started.set()))
    )
    started = threading.Event()
    with measurement_slot(1):
        measuring.start()
        assert started.wait(30)
        measuring.join(5.0)  # longer than the measurement takes
        assert found == []
    measuring.join(120)
    assert len(found) == 1
