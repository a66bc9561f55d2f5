"""Live screening on shaped links: verdicts and traffic time against a fixed run of 63 s, by the product's own sheets.

Run as ``python benchmarks/screening.py [--runs N] [--smoke]``; about 15 s a run. The link delivers 847 Mbit/s, with one
limit for each margin: (what the link delivers - limit) / limit. A run below
its limit must FAIL, one above it must PASS.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pytest_netperf.physics import goodput_ceiling_bps

MARGINS = (-0.05, -0.02, -0.01, 0.01, 0.02, 0.05)
FIXED_S = 63.0

TEST = """
import pytest

LIMITS = {limits!r}

@pytest.mark.netperf_link(speed="1G", fault={{"rate": "900 Mbps"}})
@pytest.mark.netperf_method(profile="screening")
@pytest.mark.parametrize("number", range({runs}))
@pytest.mark.parametrize(
    "margin", [pytest.param(name, marks=pytest.mark.netperf_limit(throughput=text)) for name, text in LIMITS.items()]
)
def test_margin(iperf3, margin, number):
    iperf3.tcp()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each margin")
    parser.add_argument("--smoke", action="store_true", help="one run of two margins")
    options = parser.parse_args()
    margins = (-0.02, 0.02) if options.smoke else MARGINS
    # The link delivers less than its speed, or a limit above what it delivers would be refused as impossible.
    delivered_bps = goodput_ceiling_bps(0.9e9, 1500)
    limits = {f"{margin:+.0%}": f">= {delivered_bps / (1 + margin) / 1e6:.3f} Mbps" for margin in margins}
    source = TEST.format(limits=limits, runs=1 if options.smoke else options.runs)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_screening.py").write_text(source)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--netperf-output=out"]
        subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL)
        (sheet,) = Path(folder).glob("out/*/*/sheet.json")
        rows = json.loads(sheet.read_text())["rows"]
    print(f"{'margin':>7} {'runs':>5}  verdicts{'':30} traffic s: mean median  of fixed")
    every = []
    for name in limits:
        own = [row for row in rows if f"[{name}-" in row["id"] or f"-{name}-" in row["id"] or f"-{name}]" in row["id"]]
        times = [row["evidence"]["facts"].get("traffic_s", FIXED_S) for row in own]
        every += times
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(row["verdict"] for row in own).items())
        mean, median = statistics.fmean(times), statistics.median(times)
        print(f"{name:>7} {len(own):>5}  {verdicts:<38} {mean:>14.1f} {median:>6.1f} {mean / FIXED_S:>9.2f}")
    mean = statistics.fmean(every)
    print(f"all margins: mean {mean:.1f} s of traffic, {mean / FIXED_S:.2f} of fixed")


if __name__ == "__main__":
    main()
