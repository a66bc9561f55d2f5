"""What this suite adds: a line for each tested device in summary.csv, for whoever keeps the list of the batch."""

import csv
from pathlib import Path

from pytest_netperf.options import DEFAULT_OUTPUT


def pytest_netperf_sheet(config, device, sheet):
    folder = Path(config.getoption("--netperf-output") or DEFAULT_OUTPUT)
    folder.mkdir(parents=True, exist_ok=True)
    summary = folder / "summary.csv"
    new = not summary.exists()
    with summary.open("a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(["finished", "serial", "model", "batch", "verdict", "why"])
        writer.writerow(
            [sheet.finished_at, device.serial, device.model, device.batch, sheet.verdict.value, sheet.sentence]
        )
    return summary
