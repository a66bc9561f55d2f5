"""How often a device with several limits is rejected: wrongly when it is at all of them, rightly when it misses one.

Run as ``python benchmarks/several_limits.py [--smoke]``; a minute of CPU time. Each row is an AR(1) series of
one-second intervals (phi: how alike neighbours are; sd 0.5 % of a second), judged by rule guarded, role buyer, as a
row of a run is, and then together with the other rows of its device, as on a sheet.

    at the limits   the true rate of all 20 rows is the limit: every FAIL is wrong
    one row below   the true rate of one row is 1 % below its limit, the others are 1 % above theirs
"""

from __future__ import annotations

import argparse
import math
import random
import statistics

from pytest_netperf.judge.decision import get_rule
from pytest_netperf.judge.judgement import Measured, judge
from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.row_uncertainty import guard, uncertainty_of_series
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.schema import DeviceInfo, Evidence, Row, SeriesPoint
from pytest_netperf.record.together import together

LIMIT_BPS = 2.3e9
LIMIT = ResolvedLimit("throughput", LIMIT_BPS, None, ">= 2.3 Gbit/s")
RULE = get_rule("guarded", "buyer")
ROWS = 20
SD = 0.005
PHIS = (0.0, 0.3, 0.6)
SECONDS = (10, 30, 60)


def series(chance: random.Random, seconds: int, phi: float, mean_bps: float) -> tuple[SeriesPoint, ...]:
    state, points = chance.gauss(0, 1), []
    for second in range(seconds):
        points.append(SeriesPoint(start_s=second, seconds=1.0, throughput_bps=mean_bps * (1 + SD * state)))
        state = phi * state + math.sqrt(1 - phi * phi) * chance.gauss(0, 1)
    return tuple(points)


def row(number: int, points: tuple[SeriesPoint, ...]) -> Row:
    value = statistics.fmean(point.throughput_bps for point in points)
    known = uncertainty_of_series(points, "receiver", "tcp")
    measured = Measured(quantity="throughput", unit="bit/s", better="higher", value=value, trusted=True)
    judgement = guard(judge(measured, LIMIT), value, known, LIMIT, RULE)
    return Row(
        id=f"row {number}",
        test=f"row {number}",
        device=DeviceInfo(serial="device"),
        quantity="throughput",
        unit="bit/s",
        value=value,
        uncertainty=known.expanded,
        limit_low=LIMIT_BPS,
        rule=RULE.name_and_role,
        verdict=judgement.verdict,
        reason=judgement.reason,
        evidence=Evidence(facts=known.facts(value, LIMIT)),
    )


def rejected(rows: list[Row]) -> bool:
    return any(each.verdict is Verdict.FAIL for each in rows)


def measure(devices: int, seconds: int, phi: float) -> str:
    chance = random.Random(f"{seconds} {phi}")
    alone = held = right = right_held = failed_rows = 0
    for _ in range(devices):
        rows = [row(number, series(chance, seconds, phi, LIMIT_BPS)) for number in range(ROWS)]
        failed_rows += sum(each.verdict is Verdict.FAIL for each in rows)
        alone += rejected(rows)
        held += rejected(together(rows))
        bad = [row(0, series(chance, seconds, phi, 0.99 * LIMIT_BPS))]
        good = [row(number, series(chance, seconds, phi, 1.01 * LIMIT_BPS)) for number in range(1, ROWS)]
        right += rejected([*bad, *good])
        right_held += rejected(together([*bad, *good]))
    shares = [failed_rows / ROWS, alone, held, right, right_held]
    return " | ".join([f"| {seconds} s", f"{phi:g}", *(f"{100 * share / devices:.1f}" for share in shares)]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="few devices: only whether it runs")
    devices = 10 if parser.parse_args().smoke else 400
    print(f"{devices} devices a line, {ROWS} limits each; shares in %")
    print("| run | phi | rows that fail | devices rejected at the limits | with Holm | one row below | with Holm |")
    for seconds in SECONDS:
        for phi in PHIS:
            print(measure(devices, seconds, phi), flush=True)


if __name__ == "__main__":
    main()
