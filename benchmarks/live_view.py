"""What watching costs a measurement: the rate with the live view, drawn each second, against the rate without it.

python benchmarks/live_view.py [--smoke]

Interleaved, and the order of a round's two runs changes with each. The view is the dearest one: looks go over the
socket from a worker of pytest-xdist to its controller, which draws the table of rich on a terminal. The unshaped link
shows most, because there the CPUs decide.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any

from msgspec.structs import replace

from pytest_netperf.links.link import Link, bring_up
from pytest_netperf.links.owner import Owner
from pytest_netperf.live.progress import Progress
from pytest_netperf.live.relay import Receiver, Sender, progress_of
from pytest_netperf.live.view import TableView
from pytest_netperf.observe.measure import measure
from pytest_netperf.observe.watch import Arrived
from pytest_netperf.traffic.iperf3 import Iperf3Engine
from pytest_netperf.traffic.result import Workload

GOAL = 0.99
LINKS = ((1e9, 1500), (2.5e9, 1500), (None, 1500), (None, 9000))


class Screen:
    """A pseudo terminal that nobody reads is full soon; this one takes everything."""

    def __init__(self) -> None:
        self._file = open(os.devnull, "w")  # noqa: SIM115, PTH123 - as long as the benchmark

    @contextlib.contextmanager
    def __call__(self) -> Iterator[IO[str]]:
        yield self._file

    def leave(self, file: IO[str]) -> None: ...

    def come_back(self, file: IO[str]) -> None: ...


class Teller:
    """What the plugin tells of a run, as `live_view` does."""

    def __init__(self, sender: Sender, planned_s: float) -> None:
        self._sender = sender
        self._first = Progress(
            test="test_it.py::test_line_rate[SIM-0001/sim]", label="test_line_rate[SIM-0001/sim]", elapsed_s=0.0,
            planned_s=planned_s, limit=">= 98 % of ceiling",
        )  # fmt: skip

    def waits(self, waited_s: float) -> None:
        self._sender(replace(self._first, waited_s=waited_s))

    def __call__(self, elapsed_s: float, arrived: Mapping[Any, Any]) -> None:
        rates = tuple(each.bits / each.seconds for each in arrived.values() if each.seconds > 0)
        self._sender(replace(self._first, elapsed_s=elapsed_s, rates_bps=rates))


def compare(owner: Owner, speed_bps: float | None, mtu: int, rounds: int, seconds: int) -> float:
    engine = Iperf3Engine()
    workload = Workload(duration_s=seconds, omit_s=1.0)
    link = bring_up(owner, f"{speed_bps}-{mtu}", name="live", speed_bps=speed_bps, mtu=mtu)
    view = TableView(Screen())
    receiver = Receiver(view.show, progress_of)
    teller = Teller(Sender(receiver.address), seconds + 1)
    ratios = []
    for number in range(rounds):
        order = (None, teller) if number % 2 else (teller, None)
        rate = {tell is not None: rate_of(engine, link, workload, tell) for tell in order}
        ratios.append(rate[True] / rate[False])
    receiver.close()
    view.close()
    link.close()
    median = statistics.median(ratios)
    name = "unshaped" if speed_bps is None else f"{speed_bps / 1e9:g}G"
    print(
        f"  {name:<9} MTU {mtu}  watched / not: median {median:.4f}, {min(ratios):.4f} to {max(ratios):.4f}", flush=True
    )
    return median


def cpu_of_a_look(looks: int = 300) -> float:
    """Seconds of CPU for a look: sent, received and drawn. It hardly depends on what else the machine does."""
    view = TableView(Screen())
    done = threading.Semaphore(0)

    def show(progress: Progress) -> None:
        view.show(progress)
        done.release()

    receiver = Receiver(show, progress_of)
    teller = Teller(Sender(receiver.address), looks)
    began = 0.0
    for number in range(looks + 20):
        if number == 20:  # rich is imported now
            began = time.process_time()
        teller(10.0 + number, {"forward": Arrived(1.0, 2.3e9)})
        done.acquire()
    took = time.process_time() - began
    receiver.close()
    view.close()
    return took / looks


def rate_of(engine: Iperf3Engine, link: Link, workload: Workload, tell: Teller | None) -> float:
    return measure(engine, link, workload, slots=1, tell=tell).result.flows[0].received_bps or 0.0


def main() -> None:
    smoke = "--smoke" in sys.argv
    rounds, seconds = (1, 2) if smoke else (8, 6)
    print(f"live view: {rounds} rounds of {seconds} s with it and {seconds} s without, on each link; goal >= {GOAL}")
    print(f"  a look takes {cpu_of_a_look() * 1e3:.2f} ms of CPU, once a second for each running measurement")
    owner = Owner()
    medians = [compare(owner, speed_bps, mtu, rounds, seconds) for speed_bps, mtu in (LINKS[1:3] if smoke else LINKS)]
    owner.close()
    print(f"  goal {'reached' if min(medians) >= GOAL else 'NOT reached'}: the lowest median is {min(medians):.4f}")


if __name__ == "__main__":
    main()
