"""How long a batch page takes, and how much memory: 50, 500 and 5,000 generated devices with 20 rows each.

Run as ``python benchmarks/batch.py [--smoke] [--keep DIR]``; goals: 500 devices within 20 s, time linear in the
number of devices, memory that does not grow with the evidence. Each page is made by a process of its own, whose peak
memory and time are taken. The sheets come from the ledger, with a series and a raw output on each row, as real ones.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import DeviceInfo, Evidence, Planned, Row, RunInfo, SeriesPoint
from pytest_netperf.report.sheet import sheet_folder, sheet_json

ROWS = 20
LIMIT, CEILING = 2.3e9, 2.35371e9
RAW_BYTES = 20_000
GOAL_S = 20.0


def write_lot(folder: Path, devices: int, *, seed: int = 1, simulated: bool = False) -> None:
    """Sheets of a lot: one device in 40 fails a row and is tested again, one in 90 lies far off."""
    dice = random.Random(seed)
    for number in range(devices):
        serial = f"SN-{number:05d}"
        bad, odd = number % 40 == 7, number % 90 == 11
        for run in range(2 if bad else 1):
            started = datetime(2026, 11, 23, tzinfo=UTC) + timedelta(minutes=number, days=run)
            info = RunInfo(
                run_id=f"{started:%Y%m%dT%H%M%S}-{number:04x}",
                started_at=started.isoformat(),
                station={"name": f"bench-{number % 3 + 1}"},
                batch="2026-48",
            )
            rows = [one_row(dice, serial, index, bad and run == 0, odd, simulated) for index in range(ROWS)]
            plan = [
                Planned(
                    id=row.id, test=row.test, device=row.device, link=row.link, quantity=row.quantity, unit=row.unit,
                    conditions=row.conditions, simulated=row.simulated,
                )
                for row in rows
            ]  # fmt: skip
            (sheet,) = build_sheets(info, plan, rows, complete=True, finished_at=started.isoformat())
            where = sheet_folder(folder, serial, info.run_id)
            where.mkdir(parents=True)
            (where / "sheet.json").write_bytes(sheet_json(sheet))


def one_row(dice: random.Random, serial: str, index: int, bad: bool, odd: bool, simulated: bool) -> Row:
    power = index == ROWS - 1
    if power:
        value, low, high, unit, ceiling = dice.gauss(11.0, 0.5) + 4 * odd, None, 15.0, "W", None
    else:
        value, low, high, unit, ceiling = min(CEILING, dice.gauss(2.35e9, 0.004e9)), LIMIT, None, "bit/s", CEILING
    if bad and index == 3:
        value = 1.897e9
    good = (low is None or value >= low) and (high is None or value <= high)
    link = f"p{index // 4}"
    test = f"test_acceptance.py::test_rate_{index % 4}[{serial}/{link}]"
    return Row(
        id=f"{test}::{'power' if power else 'throughput'}",
        test=test,
        device=DeviceInfo(serial=serial, model="R86S-U4", batch="2026-48"),
        link=link,
        quantity="power" if power else "throughput",
        unit=unit,
        value=value,
        limit_low=low,
        limit_high=high,
        limit=f">= {low}" if low else f"<= {high}",
        ceiling=ceiling,
        verdict=Verdict.PASS if good else Verdict.FAIL,
        reason="generated",
        simulated=simulated,
        conditions={"speed": 2.5e9, "mtu": 1500, "direction": ("forward", "reverse")[index % 2], "case": index % 4},
        evidence=Evidence(
            series=tuple(SeriesPoint(start_s=s, seconds=1.0, throughput_bps=value) for s in range(10)),
            documents={"client": "x" * RAW_BYTES},
        ),
    )


def page_of(folder: Path, output: Path) -> tuple[float, float, float]:
    """Seconds, those of them on a CPU, and peak MB of one command."""
    before = cpu_s()
    began = time.perf_counter()
    script = (
        "import resource, sys\nfrom pytest_netperf.cli import main\ncode = main(sys.argv[1:])\n"
        "print('PEAK', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\nsys.exit(code)"
    )
    command = [sys.executable, "-c", script, "batch", str(folder), "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return time.perf_counter() - began, cpu_s() - before, int(done.stdout.split("PEAK")[1]) / 1024


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="5 and 50 devices only, to see that it runs")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the sheets and pages there")
    asked = parser.parse_args()
    sizes = (5, 50) if asked.smoke else (50, 500, 5000)
    print("devices  rows     read MB  time s  CPU s  CPU ms a device  peak MB")
    with tempfile.TemporaryDirectory() as scratch:
        for devices in sizes:
            folder = (asked.keep or Path(scratch)) / f"lot-{devices}"
            write_lot(folder, devices)
            size = sum(path.stat().st_size for path in folder.rglob("sheet.json")) / 1e6
            seconds, cpu, peak = page_of(folder, folder)
            page = json.loads((folder / "batch-2026-48" / "batch.json").read_text())
            assert page["devices"] == devices
            each = 1000 * cpu / devices
            print(f"{devices:7d} {devices * ROWS:8d} {size:8.1f} {seconds:7.2f} {cpu:6.2f} {each:16.2f} {peak:8.0f}")
            if devices == 500 and seconds > GOAL_S:
                print(f"The goal of {GOAL_S:.0f} s is missed.")


if __name__ == "__main__":
    main()
