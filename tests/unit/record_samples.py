"""Rows, plans and runs for the tests of record and report."""

import msgspec

from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.schema import DeviceInfo, Evidence, Planned, Row, RunInfo, SeriesPoint, StationInfo

DEVICE = DeviceInfo(serial="R86S-U4-0008", model="R86S-U4", batch="2026-48")
RUN = RunInfo(
    run_id="20261130T1912-7f3a",
    started_at="2026-11-30T19:12:03+00:00",
    station=StationInfo(name="bench-1", cpus=4),
    software={"iperf3": "3.12"},
    conditions={"bench": "bench.toml"},
    operator="night shift",
)


def make_row(name="p2", verdict=Verdict.PASS, value=2.35e9, *, serial=DEVICE.serial, **changes):
    test = f"test_acceptance.py::test_line_rate[{serial}/{name}]"
    row = Row(
        id=f"{test}::throughput",
        test=test,
        device=msgspec.structs.replace(DEVICE, serial=serial),
        link=name,
        quantity="throughput",
        unit="bit/s",
        value=value,
        limit=">= 2.3 Gbit/s",
        limit_low=2.3e9,
        ceiling=2.35371e9,
        margin=None if value is None else (value - 2.3e9) / 2.3e9,
        verdict=verdict,
        reason="It keeps the limit." if verdict is Verdict.PASS else "The device delivered less than required.",
        conditions={"speed": 2.5e9, "mtu": 1500, "direction": "forward", "protocol": "tcp"},
        evidence=Evidence(
            series=tuple(
                SeriesPoint(start_s=i, seconds=1.0, throughput_bps=value or 0.0, omitted=i == 0) for i in range(4)
            ),
            series_from="receiver",
            facts={"received_bytes": 881250000, "retransmits": 0},
        ),
        started_at="2026-11-30T19:12:10+00:00",
    )
    return msgspec.structs.replace(row, **changes)


def plan_of(rows, **changes):
    plans = {}
    for row in rows:
        plans[row.device.serial, row.id] = Planned(
            id=row.id,
            test=row.test,
            device=row.device,
            link=row.link,
            quantity=row.quantity,
            statistic=row.statistic,
            unit=row.unit,
            limit=row.limit,
            conditions=row.conditions,
            simulated=row.simulated,
        )
    return [msgspec.structs.replace(plan, **changes) for plan in plans.values()]
