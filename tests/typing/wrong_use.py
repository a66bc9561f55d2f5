"""What a type checker finds before anything runs: each line that says so, and no other."""

from __future__ import annotations

from pytest_netperf import Device, Iperf3, Link, Record, Row, Section, register_quantity
from pytest_netperf.strategies import mtus, sweep

register_quantity("noise", "dBA", better="louder")  # wrong


def test_traffic(iperf3: Iperf3) -> None:
    iperf3.tcp(direction="backward")  # wrong
    iperf3.tcp(streams="4")  # wrong
    iperf3.tcp(ip_version=5)  # wrong
    iperf3.tcp(between_runs="coffee")  # wrong
    iperf3.udp(bitrate=900)  # wrong
    print(iperf3.udp(length=512).speed)  # wrong
    iperf3.sctp()  # wrong


def test_link(netperf_link: Link, netperf_device: Device, netperf_record: Record) -> None:
    netperf_link.ceiling("sctp")  # wrong
    print(netperf_link.c)  # wrong
    netperf_link.a.run("ping", timeout="1 s")  # wrong
    netperf_device.serial = "X"  # wrong
    netperf_record("power", "13.2", "W")  # wrong
    netperf_record("power", 13.2)  # wrong
    netperf_record("power", 13.2, "W", unit="W")  # wrong


def of_hooks(row: Row) -> Section:
    row.verdict = row.verdict  # wrong
    print(row.verdikt)  # wrong
    return Section(text=("no title",))  # wrong


size: str = sweep(mtus())[0]  # wrong
