"""The faults that `pytest-netperf selftest` makes, and what must come out of each. Pure data.

A case is a simulated link, perhaps with a fault of its own, one traffic call with one limit, and perhaps a disturbance
from outside meanwhile (`selftest.disturb`). What must come out is a verdict, and words: the name of a doubt on the row,
or a part of its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["CASES", "Case", "case_of"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One fault, or a good link."""

    name: str
    what: str
    """What is wrong, for a reader who does not know the key words."""
    verdict: str
    """What the row must be; several are joined by " or "."""
    seen: str = ""
    """The name of a doubt, or a part of the reason, that must be on the row, or several joined by " or "; empty where
    nothing has to be said."""
    fault: Mapping[str, object] = field(default_factory=dict)
    """Of the link, as in a bench file."""
    speed: str = "1G"
    mtu: int = 1500
    protocol: str = "tcp"
    call: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the traffic call beside duration, omit and interval."""
    first: Mapping[str, Any] | None = None
    """Those of a call before it, whose row is not looked at."""
    seconds: int = 2
    omit: int = 0
    limit: Mapping[str, str] = field(default_factory=lambda: {"throughput": ">= 900 Mbps"})
    disturbance: str | None = None
    """What happens meanwhile: a function of `selftest.disturb`."""
    tool: str | None = None
    """Which iperf3 comes first in PATH: a program of `selftest.tools`."""

    @property
    def good(self) -> bool:
        """Whether nothing is wrong: the link must pass, as often as it is measured."""
        return self.name.startswith("good")

    def expects(self, verdict: str) -> bool:
        """Whether a row may have this verdict."""
        return verdict in self.verdict.split(" or ")

    def says(self, words: str) -> bool:
        """Whether a row with these doubts and this reason says what it must."""
        return any(each in words for each in self.seen.split(" or "))


CASES: Final[tuple[Case, ...]] = (
    Case(
        name="good",
        what="nothing: a good link",
        verdict="PASS",
        speed="500M",
        limit={"throughput": ">= 440 Mbps"},
        omit=1,
    ),
    Case(
        name="good-both-ways",
        what="nothing: a good link, both directions at once",
        verdict="PASS",
        speed="200M",
        call={"direction": "bidirectional"},
        limit={"throughput": ">= 170 Mbps"},
        omit=1,
    ),
    Case(
        name="good-udp",
        what="nothing: a good link, 100 Mbit/s of UDP",
        verdict="PASS",
        protocol="udp",
        call={"bitrate": "100 Mbps"},
        limit={"throughput": ">= 99 Mbps"},
    ),
    # ---- the device
    Case(name="rate", what="a rate of 800 Mbit/s on a 1G link", verdict="FAIL", fault={"rate": "800 Mbps"}),
    Case(
        name="loss",
        what="2 % of the frames are lost",
        verdict="FAIL",
        seen="Many retransmits",
        fault={"loss": "2 %"},
        limit={"retransmits": "<= 50"},
    ),
    Case(
        name="loss-udp",
        what="2 % of the frames are lost, UDP",
        verdict="FAIL",
        fault={"loss": "2 %", "after": "500 ms"},
        protocol="udp",
        call={"bitrate": "100 Mbps"},
        limit={"frame_loss_ratio": "<= 0.5 %"},
    ),
    Case(
        name="burst-loss",
        what="1 % of the frames are lost, 100 in a row",
        verdict="FAIL",
        seen="Many retransmits",
        fault={"loss": "1 %", "burst": 100, "after": "500 ms", "for": "2 s"},
        limit={"retransmits": "<= 50"},
        seconds=3,
    ),
    Case(
        name="one-direction",
        what="200 Mbit/s in one direction only",
        verdict="FAIL",
        seen="Directions differ",
        fault={"rate": "200 Mbps", "direction": "b-to-a"},
        first={"direction": "forward"},
        call={"direction": "reverse"},
    ),
    Case(
        name="loss-one-direction",
        what="2 % of the frames are lost in one direction, UDP both ways",
        verdict="FAIL",
        fault={"loss": "2 %", "direction": "b-to-a", "after": "500 ms"},
        protocol="udp",
        call={"bitrate": "50 Mbps", "direction": "bidirectional"},
        limit={"frame_loss_ratio": "<= 0.5 %"},
    ),
    Case(
        name="other-direction",
        what="200 Mbit/s in the direction that is not measured",
        verdict="PASS",
        fault={"rate": "200 Mbps", "direction": "b-to-a"},
        omit=1,
    ),
    Case(
        name="step",
        what="from 1 Gbit/s to 400 Mbit/s in the middle of the run",
        verdict="FAIL",
        seen="Rate step",
        fault={"rate": "400 Mbps", "after": "1.6 s"},
        seconds=3,
    ),
    Case(
        name="stall",
        what="nothing passes for a second, the carrier stays",
        verdict="FAIL",
        seen="Data stall",
        fault={"stall": True, "after": "1 s", "for": "1 s"},
        seconds=3,
    ),
    Case(
        name="flap",
        what="the carrier goes for half a second",
        verdict="FAIL",
        seen="Link changed during the run",
        fault={"flap": True, "after": "1 s", "for": "500 ms"},
        seconds=3,
    ),
    Case(
        name="flap-counted",
        what="the carrier goes for half a second, and none may",
        verdict="FAIL",
        seen="Link changed during the run",
        fault={"flap": True, "after": "1 s", "for": "500 ms"},
        limit={"carrier_changes": "<= 0"},
    ),
    Case(
        name="mtu-hole",
        what="packets above 1400 bytes vanish one second after the start",
        verdict="FAIL",
        seen="Data stall",
        fault={"mtu_hole": 1400, "after": "1 s"},
    ),
    Case(
        name="jumbo-one-way",
        what="jumbo frames vanish in one direction",
        verdict="INVALID",
        seen="Large packets not passed",
        fault={"mtu_hole": 1500, "direction": "b-to-a"},
        mtu=9000,
        call={"direction": "reverse"},
    ),
    Case(
        name="duplicate",
        what="2 % of the frames arrive twice, UDP",
        verdict="INVALID",
        seen="Datagrams counted twice",
        fault={"duplicate": "2 %"},
        protocol="udp",
        call={"bitrate": "100 Mbps"},
        limit={"throughput": ">= 96 Mbps"},
    ),
    Case(
        name="duplicate-tcp",
        what="2 % of the frames arrive twice, TCP, which takes each once",
        verdict="PASS",
        fault={"duplicate": "2 %"},
        limit={"throughput": ">= 500 Mbps"},
        omit=1,
    ),
    Case(
        name="reorder",
        what="2 % of the frames arrive late, UDP",
        verdict="PASS",
        seen="Datagrams out of order",
        fault={"reorder": "2 %"},
        protocol="udp",
        call={"bitrate": "100 Mbps"},
        limit={"throughput": ">= 96 Mbps"},
    ),
    Case(
        name="reorder-tcp",
        what="2 % of the frames arrive late, TCP",
        verdict="FAIL",
        seen="Many retransmits",
        fault={"reorder": "2 %"},
        limit={"retransmits": "<= 50"},
    ),
    Case(
        name="dead",
        what="nothing passes at all",
        verdict="ERROR",
        seen="no traffic ever flowed or unable to connect",
        fault={"stall": True},
        seconds=1,
    ),
    # ---- the tester
    Case(
        name="hog-sender",
        what="other programs on the CPU of the sender",
        verdict="INCONCLUSIVE",
        seen="Another process busy",
        disturbance="hog_the_sender",
        seconds=3,
    ),
    Case(
        name="hog-receiver",
        what="other programs on the CPU of the receiver",
        verdict="INCONCLUSIVE",
        seen="Another process busy",
        disturbance="hog_the_receiver",
        seconds=3,
    ),
    Case(
        name="hog-everywhere",
        what="other programs on all CPUs",
        verdict="INCONCLUSIVE",
        seen="Another process busy",
        disturbance="hog_every_cpu",
        seconds=3,
    ),
    Case(
        name="window",
        what="a socket buffer of 4 KiB",
        verdict="INCONCLUSIVE",
        seen="Window limited or Receive window limited or Send buffer limited",
        speed="2.5G",
        call={"window": "4 KiB"},
        limit={"throughput": ">= 2.3 Gbps"},
    ),
    Case(
        name="sender-paused",
        what="the iperf3 client is stopped for a second",
        verdict="INCONCLUSIVE",
        seen="Data stall",
        disturbance="pause_the_client",
        seconds=3,
    ),
    Case(
        name="receiver-paused",
        what="the iperf3 server is stopped for a second",
        verdict="INCONCLUSIVE",
        seen="iperf3 held up",
        disturbance="pause_the_server",
        seconds=3,
    ),
    Case(
        name="receiver-paused-udp",
        what="the iperf3 server is stopped for a second, UDP",
        verdict="INCONCLUSIVE",
        seen="UDP loss in the tester",
        protocol="udp",
        call={"bitrate": "400 Mbps"},
        limit={"frame_loss_ratio": "<= 0.1 %"},
        disturbance="pause_the_server",
        seconds=3,
    ),
    Case(
        name="clock-step",
        what="the clock of the day jumps 5 s ahead",
        verdict="PASS",
        seen="Clock step",
        disturbance="step_the_clock",
        omit=1,
    ),
    # ---- other traffic and other counters
    Case(
        name="foreign-traffic",
        what="a second source of traffic on the same link",
        verdict="INVALID",
        seen="Foreign traffic",
        disturbance="flood",
        limit={"throughput": ">= 100 Mbps"},
        seconds=3,
    ),
    Case(
        name="foreign-traffic-back",
        what="a second source of traffic against the direction of the run",
        verdict="INVALID",
        seen="Foreign traffic",
        disturbance="flood_back",
        limit={"throughput": ">= 100 Mbps"},
        seconds=3,
    ),
    Case(
        name="one-port-counts",
        what="the counters of one port stand still",
        verdict="INVALID",
        seen="Path",
        disturbance="stop_the_counters_of_b",
        seconds=1,
    ),
    # ---- iperf3
    Case(
        name="server-frozen",
        what="the iperf3 server is stopped and stays so",
        verdict="ERROR",
        seen="server was frozen",
        disturbance="freeze_the_server",
    ),
    Case(
        name="server-killed",
        what="the iperf3 server is killed",
        verdict="ERROR",
        seen="server",
        disturbance="kill_the_server",
    ),
    Case(
        name="client-killed",
        what="the iperf3 client is killed",
        verdict="ERROR",
        seen="client was killed by SIGKILL",
        disturbance="kill_the_client",
    ),
    Case(
        name="cut-short",
        what="the iperf3 client is interrupted (SIGINT)",
        verdict="INVALID or ERROR",
        seen="Run shorter than asked",
        disturbance="interrupt_the_client",
    ),
    Case(
        name="iperf3-other",
        what="another program is called iperf3",
        verdict="ERROR",
        seen="is not iperf3",
        tool="other",
        seconds=1,
    ),
    Case(
        name="iperf3-nonsense",
        what="an iperf3 that prints nonsense",
        verdict="ERROR",
        seen="iperf3 delivered no result",
        tool="nonsense",
        seconds=1,
    ),
    Case(
        name="iperf3-elsewhere",
        what="an iperf3 whose traffic takes another way",
        verdict="INVALID",
        seen="Path",
        tool="elsewhere",
    ),
)


def case_of(name: str) -> Case:
    """The case of this name. Raises StopIteration for an unknown one."""
    return next(case for case in CASES if case.name == name)
