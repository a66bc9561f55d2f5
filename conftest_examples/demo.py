"""The acceptance of two small routers on simulated links, one good and one with a known-bad port: ``./run demo``.

First it measures what this machine can prove (the tester reference), and plans only ports below that. Sheets and
journal go to ``netperf-results/`` of the current folder. Exit code 0 when the good device was ACCEPTED and the bad one
REJECTED.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from pytest_netperf.errors import NetperfError, StationError
from pytest_netperf.reference import Wanted, default_store, obtain
from pytest_netperf.traffic.engine import make_engine

SUITE = Path(__file__).resolve().parent / "r86s_u4"
GOOD, BAD = "R86S-U4-0007", "R86S-U4-0008"
OUTPUT = Path("netperf-results")

# What is left over a port's speed for everything else that runs here; a 10G port also needs 1.3 free cores.
HEADROOM = 1.2
SLOW_BPS, FAST_BPS = 2.5e9, 10e9


def main() -> int:
    """Measure, plan, run, and say how it ended."""
    parser = argparse.ArgumentParser(prog="./run demo", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--duration", type=int, default=4, metavar="S", help="seconds of traffic of each row (default: 4)"
    )
    duration_s = parser.parse_args().duration
    if duration_s < 1:
        parser.error("--duration must be at least 1 second")

    cpus = len(os.sched_getaffinity(0))
    try:
        proven_bps = proven_throughput_bps()
    except NetperfError as error:
        print(f"This machine cannot run the demo: {error}", file=sys.stderr)
        return 1
    bench, plan = choose_bench(proven_bps, cpus)
    print(f"this machine can prove {proven_bps / 1e9:.1f} Gbit/s at MTU 9000 with {cpus} CPU(s): {plan}")
    if bench is None:
        return 1
    print(flush=True)

    known = set(sheet_files())
    code = run_pytest(arguments(bench, duration_s))
    verdicts = {}
    print()
    for serial in (GOOD, BAD):
        path = next((path for path in sheet_files() if path not in known and path.parts[-3] == serial), None)
        if path is None:
            print(f"{serial} has no sheet: the run ended before it.")
            continue
        sheet = json.loads(path.read_text("utf-8"))
        verdicts[serial] = sheet["verdict"]
        print(f"{serial} is {sheet['verdict']}: {sheet['sentence']}")
        print(f"    {path.with_suffix('.html')}")
    if verdicts == {GOOD: "ACCEPTED", BAD: "REJECTED"}:
        return 0
    print(f"\nThis is not how the demo should end (pytest's exit code was {code}).")
    if "NOT PROVEN" in verdicts.values():
        print(
            "NOT PROVEN means that nothing failed, but that not every row could be decided; the reasons stand above. "
            "If this machine was too busy, stop what else runs on it and run the demo again."
        )
    return 1


def proven_throughput_bps() -> float:
    """The tester reference at MTU 9000, measured now; the run that follows finds it stored. Raises NetperfError."""
    (reference,) = obtain([Wanted(link=None, mtu=9000)], make_engine("iperf3"), default_store(), fresh=True)
    if reference.throughput_bps is None:
        raise StationError(f"what it can do was not measured: {reference.missing}")
    return reference.throughput_bps


def choose_bench(proven_bps: float, cpus: int) -> tuple[Path | None, str]:
    """The bench file that holds only ports which this machine can prove, and a sentence that says which."""
    need = {speed: f"it needs {HEADROOM * speed / 1e9:.1f} Gbit/s" for speed in (SLOW_BPS, FAST_BPS)}
    if proven_bps < HEADROOM * SLOW_BPS:
        return None, (
            f"not even a 2.5G port can be proven ({need[SLOW_BPS]}). "
            "Stop what else runs on this machine, or give it more CPU, then run the demo again."
        )
    if proven_bps < HEADROOM * FAST_BPS or cpus < 2:
        return SUITE / "bench.toml", f"the 2.5G ports are planned, the 10G port is not ({need[FAST_BPS]} and 2 CPUs)."
    return SUITE / "bench-10g.toml", "the 2.5G ports and the 10G port are planned."


def arguments(bench: Path, duration_s: int) -> list[str]:
    """What is typed behind ``pytest``."""
    return [
        os.path.relpath(SUITE),
        f"--netperf-bench={os.path.relpath(bench)}",
        f"--netperf-limits={os.path.relpath(SUITE / 'limits.toml')}",
        f"--netperf-output={OUTPUT}",
        f"--netperf-duration={duration_s}",
        "--tb=no",  # what failed, and why, stands in the summary
        "-rN",
        "-pno:cacheprovider",  # nothing stays behind but the results
    ]


def run_pytest(typed: list[str]) -> int:
    """Run pytest as a user would; its exit code. After Ctrl-C it still writes its sheets, so it is waited for."""
    with subprocess.Popen([sys.executable, "-B", "-m", "pytest", *typed]) as pytest:
        while True:
            try:
                return pytest.wait()
            except KeyboardInterrupt:
                continue


def sheet_files() -> list[Path]:
    """All sheets of this and earlier runs: ``netperf-results/<serial>/<run id>/sheet.json``."""
    return sorted(OUTPUT.glob("*/*/sheet.json"))


if __name__ == "__main__":
    sys.exit(main())
