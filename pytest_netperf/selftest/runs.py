"""Runs cases with the real pytest in folders of their own, and reads from the journals what came out of each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Final

from pytest_netperf.errors import RecordError, StationError
from pytest_netperf.record.journal_reader import read_journal
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import Row
from pytest_netperf.selftest.cases import Case
from pytest_netperf.selftest.outcome import Outcome
from pytest_netperf.selftest.tools import install

__all__ = ["MOST_ATTEMPTS", "device_of", "run_cases"]

MOST_ATTEMPTS: Final = 2
"""How often a fault is made at most, when something else on this machine kept its row from a verdict."""


def run_cases(times: Mapping[Case, int], workers: int, folder: Path) -> Iterator[Outcome]:
    """Measure each case so many times. Raises StationError when pytest itself fails.

    A fault that did not come out as it must is made again where something else on this machine may be why. A fault
    that passed is not, nor is a good link measured again.
    """
    wanted = [(case, time) for case in times for time in range(1, times[case] + 1)]
    for attempt in range(1, MOST_ATTEMPTS + 1):
        outcomes = [replace(each, attempts=attempt) for each in _run(wanted, workers, folder / f"attempt-{attempt}")]
        last = attempt == MOST_ATTEMPTS
        yield from (outcome for outcome in outcomes if last or not outcome.made_again)
        wanted = [(outcome.case, outcome.time) for outcome in outcomes if outcome.made_again and not last]
        if not wanted:
            return


def _run(wanted: Iterable[tuple[Case, int]], workers: int, folder: Path) -> Iterator[Outcome]:
    """One run of pytest for each iperf3."""
    by_tool = sorted(wanted, key=lambda each: each[0].tool or "")
    for tool, group in groupby(by_tool, key=lambda each: each[0].tool):
        asked = list(group)
        home = folder / (tool or "iperf3")
        home.mkdir(parents=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # other plugins of this environment have no say here
        environment["NETPERF_SELFTEST"] = " ".join(f"{case.name}*{time}" for case, time in asked)
        environment["PYTHONPATH"] = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
        if tool is not None:
            install(tool, home / "bin")
            environment["PATH"] = f"{home / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}"
        rows = _rows(home, dict.fromkeys(case for case, _ in asked), workers, environment)
        yield from (_outcome(case, time, rows) for case, time in asked)


def _outcome(case: Case, time: int, rows: Sequence[Row]) -> Outcome:
    way = case.call.get("direction", "forward")
    for row in rows:
        # A row that never got to its traffic has no direction.
        if row.test.endswith(f"[{case.name}/p1-{time}]") and row.conditions.get("direction") in (way, None):
            return Outcome(
                case=case, time=time, verdict=row.verdict.value, reason=row.reason, doubts=row.evidence.doubts
            )
    return Outcome(case=case, time=time, verdict="NOT RUN", reason="the run has no row of this case")


def _rows(home: Path, cases: Iterable[Case], workers: int, environment: Mapping[str, str]) -> list[Row]:
    """Every row of the sheets of one run."""
    (home / "bench.toml").write_text("\n".join(map(device_of, cases)), "utf-8")
    (home / "pytest.ini").write_text("[pytest]\nnetperf_reference = off\nnetperf_history = off\n", "utf-8")
    shutil.copy(Path(__file__).with_name("suite.py"), home / "test_selftest.py")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-c", "pytest.ini", "--rootdir", "."]
    command += ["-p", "pytest_netperf.plugin", "-p", "no:cacheprovider"]
    command += ["--netperf-bench", "bench.toml", "--netperf-output", "results"]
    command += ["-p", "xdist", "-n", str(workers)] if workers > 1 else []
    done = subprocess.run(
        [*command, "test_selftest.py"], cwd=home, env=environment, capture_output=True, text=True, check=False
    )
    journals = list(home.glob("results/journals/*.jsonl"))
    if done.returncode not in (0, 1) or len(journals) != 1:
        said = (done.stdout + done.stderr).strip()[-2000:] or "nothing"
        raise StationError(f"pytest ended with exit code {done.returncode} in {home}; it said: {said}")
    try:
        journal = read_journal(journals[0])
    except RecordError as error:
        raise StationError(str(error)) from error
    sheets = build_sheets(journal.run, journal.planned, journal.rows, complete=journal.complete)
    return [row for sheet in sheets for row in sheet.rows]


def device_of(case: Case) -> str:
    """The device of a case in the bench file."""
    lines = ["[[device]]", f'serial = "{case.name}"', "[[device.link]]", 'name = "p1"', f'speed = "{case.speed}"']
    lines += [f"mtu = {case.mtu}", "simulated = true"]
    if case.fault:
        lines.append(f"fault = {{ {', '.join(f'{key} = {_toml(value)}' for key, value in case.fault.items())} }}")
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
