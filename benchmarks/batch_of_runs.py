"""A lot from the first test to the batch page: simulated devices, three of them bad, one retested, one run killed.

Run as ``python benchmarks/batch_of_runs.py [--devices 60] [--workers 4] [--keep DIR]``. Real pytest runs with real
traffic of 1 s a row; then sheets, journals, batch page, store and `verify` must tell the same story. It fails when they
do not.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pytest_netperf import cli

BATCH, RETESTED, KILLED = "2026-48", "SN-001", "SN-KILLED"
SUITE = """
import os, pathlib, time
import pytest

@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 88 Mbps")
def test_rate(iperf3):
    iperf3.tcp()

@pytest.mark.netperf_limit(power="<= 15 W")
def test_power(netperf_record, netperf_device):
    if os.environ.get("HANG"):
        time.sleep(600)
    netperf_record("power", 10 + sum(map(ord, netperf_device.serial)) % 7 / 10, "W")
"""
INI = """
[pytest]
netperf_duration = 1
netperf_omit = 0
netperf_slots = 4
netperf_reference = off
netperf_history = off
"""
DEVICE = """
[[device]]
serial = "{serial}"
model = "BOX-2"

  [[device.link]]
  name = "p1"
  speed = "100M"
  simulated = true
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=60)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work there, and leave everything")
    asked = parser.parse_args()
    if asked.devices < 4:
        parser.error("--devices: three are bad, so that at least four are needed")
    with tempfile.TemporaryDirectory(prefix="netperf-lot-") as scratch:
        Lot(asked.keep or Path(scratch), asked.devices, asked.workers).run()


class Lot:
    """One folder with everything."""

    def __init__(self, folder: Path, devices: int, workers: int) -> None:
        self.folder, self.workers = folder, workers
        self.output = folder / "results"
        self.store = f"sqlite:///{folder / 'results.db'}"
        self.serials = [f"SN-{number:03d}" for number in range(devices)]
        self.bad = {RETESTED, self.serials[devices // 2], self.serials[-1]}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "test_lot.py").write_text(SUITE)
        (folder / "pytest.ini").write_text(INI)

    def run(self) -> None:
        began = time.monotonic()
        assert self.pytest(self.serials, self.bad, f"-n{self.workers}") == 1, "three devices are bad"
        print(f"{len(self.serials)} devices with {self.workers} workers: {time.monotonic() - began:.0f} s")
        self.pytest([RETESTED], set())
        self.kill_a_run()
        killed = self.the_journal_without_a_sheet()
        page = self.page(str(self.output), code=1)
        assert f"Run {killed.stem} has a journal and no sheet of {KILLED}" in " ".join(page["problems"])
        self.command("sheet", str(killed), code=1)  # its device is not accepted
        sheets = self.sheets()
        for found in (page, self.page(str(self.output))):
            self.agrees(found, sheets)
        self.command("store", "sync", str(self.output), "--store", self.store)
        assert "0 lines added, all is there" in self.command("store", "sync", str(self.output), "--store", self.store)
        of_store = self.page("--store", self.store)
        self.agrees(of_store, sheets)
        for key in ("rows", "outliers", "stations", "retested"):
            assert of_store[key] == found[key], key
        self.store_agrees(sheets)
        self.command("verify", *map(str, sorted(self.output.glob("*/*/sheet.json"))))
        last = Counter(runs[-1]["verdict"] for runs in sheets.values())
        print(f"last verdicts: {', '.join(f'{count} {verdict}' for verdict, count in last.items())}")
        print(f"sheets, batch page, store and verify agree; {time.monotonic() - began:.0f} s in all")

    def pytest(self, serials: list[str], bad: set[str], *arguments: str) -> int:
        process = self.start(serials, bad, *arguments)
        text = process.communicate(timeout=1800)[0]
        assert "WARNING" not in text, text
        assert process.returncode in (0, 1), text
        return process.returncode

    def start(self, serials: list[str], bad: set[str], *arguments: str, **more: str) -> subprocess.Popen[str]:
        fault = '  fault = { rate = "60 Mbps" }\n'
        text = "".join(DEVICE.format(serial=serial) + fault * (serial in bad) for serial in serials)
        bench = self.folder / f"bench-{len(serials)}-{len(bad)}.toml"
        bench.write_text(f'[station]\nname = "bench-1"\n{text}')
        command = [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--netperf-bench={bench}"),
            *(
                f"--netperf-output={self.output}",
                f"--netperf-store={self.store}",
                f"--netperf-batch={BATCH}",
                *arguments,
            ),
        ]
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
        return subprocess.Popen(
            command, cwd=self.folder, env={**outside, "PYTHONDONTWRITEBYTECODE": "1", **more},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def kill_a_run(self) -> None:
        """After its first row, while its second test runs."""
        before = set(self.output.glob("journals/*.jsonl"))
        process = self.start([KILLED], set(), HANG="1")
        end = time.monotonic() + 120
        while not any(
            '"kind":"row"' in path.read_text() for path in set(self.output.glob("journals/*.jsonl")) - before
        ):
            assert time.monotonic() < end, "the run that was to be killed measured nothing"
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def command(self, *arguments: str, code: int = 0) -> str:
        with io.StringIO() as said, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            got = cli.main(arguments)
            text = said.getvalue()
        assert got == code, text
        return text

    def page(self, *source: str, code: int = 0) -> dict[str, Any]:
        pages = self.folder / "pages"
        self.command("batch", *source, "--batch", BATCH, "--output", str(pages), code=code)
        newest = max(pages.glob("batch-*/batch.json"), key=lambda path: path.stat().st_mtime_ns)
        return json.loads(newest.read_text())

    def the_journal_without_a_sheet(self) -> Path:
        with_sheet = {path.parent.name for path in self.output.glob("*/*/sheet.json")}
        (journal,) = [path for path in self.output.glob("journals/*.jsonl") if path.stem not in with_sheet]
        return journal

    def sheets(self) -> dict[str, list[dict[str, Any]]]:
        """Of each device, the oldest first; they say what was made, as far as a busy machine let them."""
        found: dict[str, list[dict[str, Any]]] = {}
        for path in self.output.glob("*/*/sheet.json"):
            sheet = json.loads(path.read_text())
            found.setdefault(sheet["device"]["serial"], []).append(sheet)
        for runs in found.values():
            runs.sort(key=lambda sheet: sheet["started_at"])
        assert found.keys() == {*self.serials, KILLED}
        assert [serial for serial, runs in found.items() if len(runs) > 1] == [RETESTED]
        for serial, (first, *_) in found.items():
            wrong = "ACCEPTED" if serial in self.bad or serial == KILLED else "REJECTED"
            assert first["verdict"] != wrong, f"{serial} is {wrong}: {first['sentence']}"
        assert found[RETESTED][1]["verdict"] != "REJECTED", "it was repaired"
        return found

    def agrees(self, page: dict[str, Any], sheets: dict[str, list[dict[str, Any]]]) -> None:
        """The page says what the sheets say; and nothing simulated is accepted."""
        assert page["simulated"]
        assert page["accepted_units"] == 0
        assert {unit["serial"]: (unit["first"], unit["last"], unit["runs"]) for unit in page["units"]} == {
            serial: (f"{runs[0]['verdict']} (SIMULATED)", f"{runs[-1]['verdict']} (SIMULATED)", len(runs))
            for serial, runs in sheets.items()
        }
        for line in page["counts"]:
            verdict = line["verdict"].removesuffix(" (SIMULATED)")
            assert line["first"] == sum(runs[0]["verdict"] == verdict for runs in sheets.values())
            assert line["last"] == sum(runs[-1]["verdict"] == verdict for runs in sheets.values())
        assert page["first_pass"]["k"] == sum(runs[0]["verdict"] == "ACCEPTED" for runs in sheets.values())
        assert page["final"]["k"] == sum(runs[-1]["verdict"] == "ACCEPTED" for runs in sheets.values())
        assert (page["devices"], page["retested"]["k"], page["incomplete"]) == (len(sheets), 1, 1)
        failed = {
            serial: [any(row["verdict"] == "FAIL" for row in run["rows"]) for run in runs]
            for serial, runs in sheets.items()
        }
        assert [(row["devices"], row["still"]) for row in page["pareto"]] == [
            (sum(map(any, failed.values())), sum(runs[-1] for runs in failed.values()))
        ]

    def store_agrees(self, sheets: dict[str, list[dict[str, Any]]]) -> None:
        for serial, runs in sheets.items():
            told = json.loads(self.command("store", "history", serial, "--store", self.store, "--json"))
            for key in ("run_id", "verdict", "complete", "counts"):
                assert [line[key] for line in told] == [sheet[key] for sheet in runs], (serial, key)


if __name__ == "__main__":
    main()
