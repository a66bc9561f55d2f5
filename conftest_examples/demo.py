"""The acceptance of two small routers on simulated links, one good and one with a known-bad port: ``./run demo``.

``--suite`` runs another of the three published reviews. First it measures what this machine can prove (the tester
reference), and plans only ports below that. Sheets and journal go to ``netperf-results/`` of the current folder. Exit
code 0 when every device came out as it must: the good ones ACCEPTED, the bad one REJECTED.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pytest_netperf.errors import NetperfError, StationError
from pytest_netperf.reference import Wanted, default_store, obtain
from pytest_netperf.traffic.engine import make_engine

EXAMPLES = Path(__file__).resolve().parent
OUTPUT = Path("netperf-results")


@dataclass(frozen=True, kw_only=True)
class Suite:
    """One suite of this folder: how its devices come out, and what is typed behind ``pytest`` beside the usual."""

    verdicts: dict[str, str]
    needs_bps: float
    arguments: tuple[str, ...] = ()


SUITES = {
    "r86s_u4": Suite(verdicts={"R86S-U4-0007": "ACCEPTED", "R86S-U4-0008": "REJECTED"}, needs_bps=4e9),
    "r86s_g2": Suite(verdicts={"R86S-G2-0001": "ACCEPTED"}, needs_bps=2.5e9, arguments=("--burn-in=20",)),
    "apu1c": Suite(verdicts={"APU1-0001": "ACCEPTED"}, needs_bps=4e9),  # four ports of 1G, and what forwards between
}

# What is left over a port's speed for everything else that runs here; a 10G port also needs 1.3 free cores.
HEADROOM = 1.2
FAST_BPS = 10e9


def main() -> int:
    """Measure, plan, run, and say how it ended."""
    parser = argparse.ArgumentParser(prog="./run demo", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--duration", type=int, default=4, metavar="S", help="seconds of traffic of each row (default: 4)"
    )
    parser.add_argument("--suite", choices=SUITES, default="r86s_u4", help="which review (default: r86s_u4)")
    asked = parser.parse_args()
    duration_s, suite = asked.duration, SUITES[asked.suite]
    if duration_s < 1:
        parser.error("--duration must be at least 1 second")

    cpus = len(os.sched_getaffinity(0))
    try:
        proven_bps = proven_throughput_bps()
    except NetperfError as error:
        print(f"This machine cannot run the demo: {error}", file=sys.stderr)
        return 1
    bench, plan = choose_bench(proven_bps, cpus, asked.suite)
    print(f"this machine can prove {proven_bps / 1e9:.1f} Gbit/s at MTU 9000 with {cpus} CPU(s): {plan}")
    if bench is None:
        return 1
    print(flush=True)

    known = set(sheet_files())
    code = run_pytest([*arguments(bench, duration_s), *suite.arguments])
    verdicts = {}
    print()
    for serial in suite.verdicts:
        path = next((path for path in sheet_files() if path not in known and path.parts[-3] == serial), None)
        if path is None:
            print(f"{serial} has no sheet: the run ended before it.")
            continue
        sheet = json.loads(path.read_text("utf-8"))
        verdicts[serial] = sheet["verdict"]
        print(f"{serial} is {sheet['verdict']}: {sheet['sentence']}")
        print(f"    {path.with_suffix('.html')}")
    if verdicts == suite.verdicts:
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


def choose_bench(proven_bps: float, cpus: int, name: str = "r86s_u4") -> tuple[Path | None, str]:
    """The bench file that holds only ports which this machine can prove, and a sentence that says which."""
    folder, need_bps = EXAMPLES / name, SUITES[name].needs_bps
    need = {speed: f"it needs {HEADROOM * speed / 1e9:.1f} Gbit/s" for speed in (need_bps, FAST_BPS)}
    if proven_bps < HEADROOM * need_bps:
        return None, (
            f"that is not enough for this suite ({need[need_bps]}). "
            "Stop what else runs on this machine, or give it more CPU, then run the demo again."
        )
    fast = folder / "bench-10g.toml"
    if not fast.exists():
        return folder / "bench.toml", "everything is planned."
    if proven_bps < HEADROOM * FAST_BPS or cpus < 2:
        return folder / "bench.toml", f"the 2.5G ports are planned, the 10G port is not ({need[FAST_BPS]} and 2 CPUs)."
    return fast, "the 2.5G ports and the 10G port are planned."


def arguments(bench: Path, duration_s: int) -> list[str]:
    """What is typed behind ``pytest``."""
    return [
        os.path.relpath(bench.parent),
        f"--netperf-bench={os.path.relpath(bench)}",
        f"--netperf-limits={os.path.relpath(bench.parent / 'limits.toml')}",
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
