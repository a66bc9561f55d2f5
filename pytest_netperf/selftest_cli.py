"""``pytest-netperf selftest``: make every fault that this machine can make, and see whether each comes out as one."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pytest_netperf.errors import ConfigError
from pytest_netperf.quantities import near_misses
from pytest_netperf.selftest.cases import CASES, Case
from pytest_netperf.selftest.outcome import Outcome

__all__ = ["add_arguments", "run"]

_MOST_TIMES = 1000
_MOST_WORKERS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="only these cases; default: all (see --list)")
    parser.add_argument(
        "--times",
        type=int,
        default=1,
        metavar="N",
        help="measure the good links N times, or each of the cases that are named",
    )
    parser.add_argument(
        "-n", dest="workers", type=int, default=1, metavar="N", help="workers of pytest-xdist; default: 1"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    parser.add_argument("--list", action="store_true", help="only say what the cases are")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the bench files, journals and sheets there")


def run(asked: argparse.Namespace) -> int:
    """Run it. Returns 0 when every case came out as it must, else 1. Raises ConfigError and StationError."""
    cases = _cases(asked.faults)
    _in_range("--times", asked.times, _MOST_TIMES)
    _in_range("-n", asked.workers, _MOST_WORKERS)
    if asked.list:
        width = max(len(case.name) for case in cases)
        for case in cases:
            print(f"{case.name:{width}}  {case.what}")
        return 0
    times = {case: asked.times if asked.faults or case.good else 1 for case in cases}
    outcomes, seconds = _measure(times, asked.workers, asked.keep)
    return _show(outcomes, seconds, as_json=asked.json)


def _measure(times: dict[Case, int], workers: int, keep: Path | None) -> tuple[list[Outcome], float]:
    from pytest_netperf.selftest.runs import run_cases

    if keep is not None:
        try:
            keep.mkdir(parents=True)
        except OSError as error:
            raise ConfigError(f"--keep {keep}: {error.strerror}; give a folder that does not exist yet") from None
    folder = keep if keep is not None else Path(tempfile.mkdtemp(prefix="netperf-selftest-"))
    traffic = sum(count * (case.seconds + case.omit + 1) for case, count in times.items())
    print(f"{len(times)} cases, {sum(times.values())} measurements, about {traffic} s", file=sys.stderr, flush=True)
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # end pytest, and remove the folder
    try:
        outcomes = list(run_cases(times, workers, folder.resolve()))
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    return outcomes, time.monotonic() - began


def _show(outcomes: Sequence[Outcome], seconds: float, *, as_json: bool) -> int:
    from pytest_netperf.selftest import report

    lines = report.summary(outcomes, seconds)
    if as_json:
        print(report.as_json(outcomes))
        print("\n".join(lines), file=sys.stderr)
    else:
        print("\n".join([*report.outcome_lines(outcomes), "", *lines]))
    return 0 if all(outcome.holds for outcome in outcomes) else 1


def _cases(names: Sequence[str]) -> list[Case]:
    known = [case.name for case in CASES]
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ConfigError(
            "\n".join(f"selftest {name}: there is no such case{near_misses(name, known)}" for name in wrong)
            + f"\nknown: {', '.join(known)}"
        )
    return [case for case in CASES if not names or case.name in names]


def _in_range(option: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise ConfigError(f"selftest {option} {value}: expected a number from 1 to {most}")
