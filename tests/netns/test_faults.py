"""Each fault of a simulated link, on a real link, by what it does to real packets; and when it comes and goes."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict

import pytest
from aftermath import Traces, wait_until
from test_loss import is_binomial

from pytest_netperf.bench.model import MOST_DIVERTED, Fault
from pytest_netperf.errors import LinkError
from pytest_netperf.links.link import Link, bring_up
from pytest_netperf.links.owner import Owner
from pytest_netperf.observe.measure import Measurement, measure
from pytest_netperf.traffic.iperf3 import Iperf3Engine
from pytest_netperf.traffic.result import Workload

pytestmark = pytest.mark.netns

PORT = 9
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3  # linux/in.h: DF set, whatever the path is known to carry
IPV6_MTU_DISCOVER, IPV6_DONTFRAG = 23, 62

MakeFaulty = Callable[..., Link]


@pytest.fixture
def faulty(owner: Owner) -> Iterator[MakeFaulty]:
    """``faulty(speed_bps=1e9, mtu=1500, **fields of Fault)``: a link with this fault, taken down after the test."""
    made: list[Link] = []
    numbers = itertools.count()

    def make(speed_bps: float | None = 1e9, mtu: int = 1500, **fields: object) -> Link:
        key = f"faulty-{next(numbers)}"
        fault = asdict(Fault(**fields))  # type: ignore[arg-type]
        made.append(bring_up(owner, key, name=key, speed_bps=speed_bps, mtu=mtu, fault=fault))
        return made[-1]

    yield make
    for link in made:
        link.close()


class Datagrams:
    """Numbered UDP datagrams from one end of a link to the other, and the order in which they arrived."""

    def __init__(self, link: Link, source: str = "a", *, version: int = 4) -> None:
        sender, receiver = (link.a, link.b) if source == "a" else (link.b, link.a)
        six = version == 6
        family = socket.AF_INET6 if six else socket.AF_INET
        self.sender = sender.socket(family, socket.SOCK_DGRAM)
        self.receiver = receiver.socket(family, socket.SOCK_DGRAM)
        self.receiver.bind((receiver.address6 if six else receiver.address, PORT))
        self.sender.connect((receiver.address6 if six else receiver.address, PORT))
        if six:
            self.sender.setsockopt(socket.IPPROTO_IPV6, IPV6_DONTFRAG, 1)
            self.sender.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, IP_PMTUDISC_PROBE)
        else:
            self.sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
        self.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.receiver.settimeout(0.25)
        self._headers = 48 if six else 28

    def cross(self, count: int, packet_bytes: int = 1500, *, at_once: int = 20) -> list[int]:
        """Send ``count`` of them, with a pause after every few, so that the receiver's buffer holds what it does not
        read at once on a busy machine; returns the numbers in the order of arrival."""
        arrived: list[int] = []

        def receive() -> None:
            with contextlib.suppress(TimeoutError):
                while True:
                    arrived.append(int.from_bytes(self.receiver.recv(65535)[:4], "big"))

        reader = threading.Thread(target=receive)
        reader.start()
        filling = bytes(packet_bytes - self._headers - 4)
        for number in range(count):
            self.sender.send(number.to_bytes(4, "big") + filling)
            if number % at_once == at_once - 1:
                time.sleep(0.002)
        reader.join()
        return arrived

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


@pytest.fixture
def datagrams() -> Iterator[Callable[..., Datagrams]]:
    made: list[Datagrams] = []

    def make(*arguments: object, **options: object) -> Datagrams:
        made.append(Datagrams(*arguments, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


def tcp(link: Link, **settings: object) -> Measurement:
    known = {"duration_s": 3.0, "omit_s": 0.0, "interval_s": 0.25}
    return measure(Iperf3Engine(), link, Workload(**{**known, **settings}), slots=1)  # type: ignore[arg-type]


def rates(measured: Measurement) -> list[tuple[float, float]]:
    """(end of the interval in s, Mbit/s) of what the receiver got."""
    return [
        (interval.start_s + interval.seconds, interval.bytes * 8 / interval.seconds / 1e6)
        for interval in measured.flows[0].intervals
    ]


# ---- frames that arrive twice, late or not at all ----


def test_duplicates_arrive_twice_and_in_their_direction_only(faulty, datagrams):
    link = faulty(duplicate_ratio=0.05, direction="a-to-b")
    before = link.counters()
    counts = Counter(datagrams(link).cross(10_000))
    twice = sum(count == 2 for count in counts.values())
    assert len(counts) == 10_000
    assert is_binomial(sum(counts.values()) - 10_000, 10_000, 0.05)
    assert twice > 0
    assert datagrams(link, "b").cross(3_000) == list(range(3_000))
    after = link.counters()
    assert 10_000 <= after[1].rx_packets - before[1].rx_packets <= 10_050, "the port counts each once"


def test_late_frames_arrive_after_later_ones_and_none_is_lost(faulty, datagrams):
    link = faulty(reorder_ratio=0.05, direction="b-to-a")
    arrived = datagrams(link, "b").cross(10_000)
    assert sorted(arrived) == list(range(10_000))
    late = sum(number < highest for number, highest in zip(arrived, itertools.accumulate(arrived, max), strict=True))
    assert is_binomial(late, 10_000, 0.05)
    assert datagrams(link, "a").cross(3_000) == list(range(3_000))


def test_late_frames_on_a_slow_link_are_overtaken_too(faulty, datagrams):
    """There a millisecond is less than one frame."""
    link = faulty(speed_bps=10e6, reorder_ratio=0.2)
    arrived = datagrams(link).cross(800, at_once=2)
    assert sorted(arrived) == list(range(800))
    assert arrived != sorted(arrived)


def test_tcp_survives_late_and_double_frames(faulty):
    """Their checksums are still to be made when they are taken out of the way."""
    link = faulty(reorder_ratio=0.01, duplicate_ratio=0.01)
    measured = tcp(link, duration_s=1.0)
    assert measured.result.trusted, measured.result.reason
    assert measured.throughput_bps is not None
    assert measured.throughput_bps > 300e6


def test_losses_in_bursts_have_their_length_and_their_share(faulty, datagrams):
    link = faulty(loss_ratio=0.02, burst_frames=50, direction="a-to-b")
    arrived = set(datagrams(link).cross(10_000))
    missing = [number not in arrived for number in range(10_000)]
    runs = [len(list(run)) for lost, run in itertools.groupby(missing) if lost]
    assert 150 <= sum(missing) <= 250
    assert runs, "nothing was lost"
    assert all(run in (49, 50) for run in runs[1:-1]), "a stranger's frame may be one of 50"
    other_way = set(datagrams(link, "b").cross(3_000))  # a busy machine may lose a few of its own
    gaps = [len(list(run)) for lost, run in itertools.groupby(range(3_000), lambda n: n not in other_way) if lost]
    assert max(gaps, default=0) < 49


@pytest.mark.parametrize("version", [4, 6])
def test_larger_packets_vanish_in_an_mtu_hole_and_smaller_ones_pass(faulty, datagrams, version):
    link = faulty(mtu_hole_bytes=1400, direction="a-to-b")
    forward = datagrams(link, version=version)
    assert forward.cross(50, 1400) == list(range(50))
    assert forward.cross(50, 1401) == []
    assert forward.cross(50, 1500) == []
    assert datagrams(link, "b", version=version).cross(50, 1500) == list(range(50))


def test_nothing_passes_a_stalled_link_and_its_carrier_stays(faulty, datagrams):
    link = faulty(stall=True, direction="b-to-a")
    before = link.counters()
    assert datagrams(link, "b").cross(100) == []
    after = link.counters()
    assert after[0].carrier_changes == before[0].carrier_changes
    assert after[1].tx_packets - before[1].tx_packets >= 1, "it was sent: an ARP request at least"


# ---- faults that come and go with a measurement ----


def test_a_rate_that_steps_and_comes_back(faulty):
    link = faulty(rate_bps=300e6, after_s=1.2, for_s=1.0, direction="a-to-b")
    measured = tcp(link)
    seen = rates(measured)
    assert max(rate for end, rate in seen if end <= 1.05) > 850
    assert min(rate for end, rate in seen if 1.5 <= end <= 2.2) < 330
    assert max(rate for end, rate in seen if end >= 2.7) > 850
    again = tcp(link, duration_s=1.0)
    assert again.throughput_bps is not None
    assert again.throughput_bps > 850e6, "it begins anew with each measurement"


def test_a_stall_in_the_middle_of_a_run(faulty):
    measured = tcp(faulty(stall=True, after_s=1.0, for_s=1.0))
    seen = rates(measured)
    assert min(rate for end, rate in seen if 1.2 <= end <= 2.1) == 0
    assert max(rate for end, rate in seen if end <= 1.0) > 850
    assert measured.observation.a_after.carrier_changes == measured.observation.a_before.carrier_changes


@pytest.mark.parametrize("version", [4, 6])
def test_a_flap_is_counted_by_both_ports_and_the_link_works_again(faulty, datagrams, version):
    link = faulty(flap=True, after_s=0.8, for_s=0.3)
    measured = tcp(link, ip_version=version)
    seen = measured.observation
    for before, after in ((seen.a_before, seen.a_after), (seen.b_before, seen.b_after)):
        assert after.carrier_changes - before.carrier_changes == 2
    assert measured.result.trusted, measured.result.reason
    assert rates(measured)[-1][1] > 500, "the traffic went on"
    assert datagrams(link, version=version).cross(50) == list(range(50))


def test_what_was_still_to_come_is_cancelled_at_the_end_of_the_traffic(faulty, datagrams):
    link = faulty(stall=True, after_s=0.3)
    through, good = datagrams(link), list(range(5))
    link.traffic_begins()
    wait_until(lambda: through.cross(5) == [], "the stall")
    link.traffic_ends()
    assert through.cross(5) == good
    link.traffic_begins()
    link.traffic_ends()
    end = time.monotonic() + 0.6  # twice as long as after: it must not come any more
    while time.monotonic() < end:
        assert through.cross(5) == good


def test_a_measurement_that_was_interrupted_leaves_no_fault_to_the_next(faulty, datagrams):
    link = faulty(stall=True, after_s=0.2, for_s=60.0)
    through, good = datagrams(link), list(range(5))
    link.traffic_begins()
    wait_until(lambda: through.cross(5) == [], "the stall")
    link.traffic_begins()
    assert through.cross(1) == [0]
    wait_until(lambda: through.cross(5) == [], "the stall of the next measurement")
    link.traffic_ends()
    assert through.cross(5) == good
    link.traffic_ends()  # a second time does no harm


@pytest.mark.parametrize(
    "fields",
    [
        {"loss_ratio": 0.5},
        {"loss_ratio": 0.5, "burst_frames": 20},
        {"duplicate_ratio": 0.05},
        {"reorder_ratio": 0.05},
        {"mtu_hole_bytes": 1400},
    ],
    ids=["loss", "burst", "duplicate", "reorder", "hole"],
)
def test_every_fault_comes_and_goes(faulty, datagrams, fields):
    link = faulty(for_s=60.0, **fields)
    through = datagrams(link)
    good = list(range(500))
    assert through.cross(500) == good
    for _ in range(2):
        link.traffic_begins()
        wait_until(lambda: through.cross(500) != good, "the fault")
        link.traffic_ends()
        wait_until(lambda: through.cross(500) == good, "the end of the fault")  # what was held up may still arrive


def test_a_link_without_a_time_does_not_ask_its_keeper(faulty, monkeypatch):
    link = faulty(loss_ratio=0.01)
    asked: list[str] = []
    monkeypatch.setattr(link._owner, "call", lambda op, **_: asked.append(op))
    link.traffic_begins()
    link.traffic_ends()
    assert asked == []


def test_a_fault_that_cannot_be_undone_is_an_error_of_the_run(faulty, datagrams):
    """Never a run that nobody knows to have been without its fault. Here the port is gone when it shall be mended."""
    link = faulty(stall=True, after_s=0.01, direction="a-to-b")
    through = datagrams(link)
    link.traffic_begins()
    wait_until(lambda: through.cross(5) == [], "the stall")
    link.b.run(["ip", "link", "del", link.b.interface], check=True)
    with pytest.raises(LinkError, match="the fault of this link could not be made or undone: stall fault on interface"):
        link.traffic_ends()


# ---- what is refused, and what is left ----


def test_frames_of_an_unshaped_link_cannot_be_held_up(faulty):
    with pytest.raises(LinkError, match="not on an unshaped one"):
        faulty(speed_bps=None, reorder_ratio=0.01)


def test_a_program_can_hold_up_as_many_frames_as_are_allowed(faulty, datagrams):
    ratio = MOST_DIVERTED * 1538 * 8 / 1e9
    assert Fault(reorder_ratio=ratio).problem(1e9, 1500) is None
    link = faulty(reorder_ratio=ratio, direction="a-to-b")
    arrived = datagrams(link).cross(15_000)
    assert sorted(arrived) == list(range(15_000)), "some were lost on the detour"


def test_a_link_with_a_detour_and_a_schedule_goes_down_at_once(owner):
    fault = asdict(Fault(duplicate_ratio=0.01, after_s=30.0))
    link = bring_up(owner, "going", name="going", speed_bps=1e9, mtu=1500, fault=fault)
    link.traffic_begins()
    began = time.monotonic()
    link.close()
    assert time.monotonic() - began < 5.0, "it waited for its fault"
    with pytest.raises(LinkError, match="taken down"):
        link.counters()


OWNER = """
import time
from pytest_netperf.links.link import bring_up
from pytest_netperf.links.owner import Owner
owner = Owner()
fault = {"duplicate_ratio": 0.01, "reorder_ratio": 0.01, "loss_ratio": 0.01, "burst_frames": 5, "for_s": 60}
link = bring_up(owner, "link", name="link", speed_bps=1e9, mtu=1500, fault=fault)
link.traffic_begins()
print("ready", flush=True)
time.sleep(60)
"""


def test_nothing_is_left_when_the_owner_is_killed(tmp_path):
    """The detours, the table of nftables and the schedule: all of it goes with the keeper."""
    traces = Traces()
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, cwd=tmp_path, env={**os.environ, **traces.environment}
    ) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"ready\n"
        traces.take()
        assert len(traces.namespaces) >= 2
        victim.kill()
    traces.assert_gone()
