"""A suite as a user writes it who annotates everything: both checkers take it, in their strictest mode."""

from __future__ import annotations

from pathlib import Path
from typing import reveal_type

import pytest
from hypothesis import given

from pytest_netperf import (
    Device,
    DeviceInfo,
    DeviceVerdict,
    Endpoint,
    Iperf3,
    Link,
    LinkSpec,
    Measurement,
    Probe,
    Record,
    Row,
    Section,
    Sheet,
    Verdict,
    register_quantity,
)
from pytest_netperf.errors import LinkError, NetperfError
from pytest_netperf.probes import hwmon, snmp_cpu
from pytest_netperf.strategies import bench_files, mtus, on_a_link, records, segment_sizes, sheets, sweep

register_quantity("noise", "dBA", better="lower", description="of the fan, at one metre")


@pytest.mark.netperf_link(speed="2.5G", mtu=[1500, 9000])
@pytest.mark.netperf_limit(throughput=">= 98 % of ceiling", retransmits="<= 500")
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_rate(iperf3: Iperf3, netperf_link: Link, netperf_device: Device) -> None:
    measurement = iperf3.tcp(duration=5, streams=2, mss=1200, window="4 MiB", between_runs="link")
    reveal_type(measurement)  # is Measurement
    reveal_type(measurement.throughput_bps)  # is float | None
    for flow in measurement.result.flows:
        reveal_type(flow.retransmits)  # is int | None
    reveal_type(netperf_link.ceiling("udp", length_bytes=512))  # is float | None
    reveal_type(netperf_link.a)  # is Endpoint
    reveal_type(netperf_link.b.run(["ping", "-c1", netperf_link.a.address]).stdout)  # is str
    reveal_type(netperf_device.serial)  # is str
    other: Measurement = iperf3.udp(bitrate="50 % of ceiling", length=512, direction="bidirectional")
    reveal_type(other.frame_loss_ratio)  # is float | None


def test_power(netperf_record: Record) -> None:
    netperf_record("power", 13.2, "W", note="clamp meter", uncertainty=0.1)


@pytest.mark.netperf_link(mtu=sweep(mtus(576, 9000), 3))
@on_a_link(examples=3)
@given(mss=segment_sizes(576))
def test_any(iperf3: Iperf3, mss: int) -> None:
    iperf3.tcp(mss=mss)


def ping(end: Endpoint, address: str) -> bool:
    try:
        return end.run(["ping", "-c1", address]).returncode == 0
    except LinkError as error:
        reveal_type(error)  # is LinkError
        raise NetperfError("no ping here") from error


def pytest_netperf_probes(config: pytest.Config, device: Device, link: LinkSpec) -> list[Probe] | None:
    return [hwmon(), snmp_cpu("192.0.2.1")] if link.name == "wan" else None


def pytest_netperf_row(row: Row) -> None:
    if row.verdict is not Verdict.PASS:
        reveal_type(row.value)  # is float | None
        reveal_type(row.device)  # is DeviceInfo


def pytest_netperf_sheet(device: DeviceInfo, sheet: Sheet) -> Path | None:
    if sheet.verdict is DeviceVerdict.REJECTED:
        reveal_type(sheet.rows[0].reason)  # is str
    return None


def pytest_netperf_sheet_sections(device: DeviceInfo, sheet: Sheet) -> list[Section] | None:
    return [Section(title="Noise", text=("Measured at night.",), table=(("fan", "31 dBA"),))]


def pytest_netperf_device_state(config: pytest.Config, device: Device, state: str) -> str | None:
    return "it says so itself" if device.model == "BOX2" else None


reveal_type(sweep(mtus()))  # is list[int]
reveal_type(sheets().example())  # is Sheet
reveal_type(bench_files().example())  # is str
reveal_type(records(Row).example())  # is Row
