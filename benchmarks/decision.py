"""How often a verdict on a series is right, wrong or open, and after how many seconds.

Run as ``python benchmarks/decision.py [--smoke]``; under a minute. AR(1) series of one-second intervals stand for
steady links (phi: how alike neighbours are), a step and two modes for unsteady ones, and recorded runs for themselves.
Three ways of judging the same
series:

    screening   the product: `judge.replay` with the profile of that name
    fixed       60 s, then the value against the limit: what a stopwatch does
    t-test      plain Student test of all intervals, repeated every second from 10 intervals on, until it is significant
                at 1 % (two-sided): what "stop when it is clear" does when nobody accounts for looking often

A margin is (true rate - limit) / limit. At margin 0 a verdict of either kind is unjustified; they are listed apart.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from pytest_netperf.judge.decision import DecisionRule
from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.profile import get_profile
from pytest_netperf.judge.replay import parse_series
from pytest_netperf.judge.series import judge_series
from pytest_netperf.judge.statistics import Sample, mean_rate_bps

LIMIT_BPS = 2.3e9
LIMIT = ResolvedLimit("throughput", LIMIT_BPS, None, ">= 2.3 Gbit/s")
SCREENING, FIXED, RULE = get_profile("screening"), get_profile("fixed"), DecisionRule()
SECONDS = 63
PHIS = (0.0, 0.3, 0.6, 0.8)
SDS = (0.005, 0.02)
MARGINS = (-0.05, -0.02, -0.01, 0.01, 0.02, 0.05)
# Two-sided 1 % points of Student's t for 9, 10, ... 59 degrees of freedom lie between these; by line in 1 / freedom.
_T_POINTS = ((9, 3.250), (10, 3.169), (12, 3.055), (15, 2.947), (20, 2.845), (30, 2.750), (60, 2.660))

Judge = Callable[[list[Sample]], tuple[str, float]]


def t_point(freedom: int) -> float:
    for (low, upper), (high, lower) in pairwise(_T_POINTS):
        if low <= freedom <= high:
            share = (1 / low - 1 / freedom) / (1 / low - 1 / high)
            return upper + share * (lower - upper)
    raise ValueError(freedom)


def screening(samples: list[Sample]) -> tuple[str, float]:
    found = judge_series(samples, LIMIT, SCREENING, RULE)
    return found.verdict.value, found.seconds_used


def fixed(samples: list[Sample]) -> tuple[str, float]:
    found = judge_series(samples, LIMIT, FIXED, RULE)
    return found.verdict.value, found.seconds_used


def repeated_t(samples: list[Sample]) -> tuple[str, float]:
    total = square = 0.0
    for count, sample in enumerate(samples[3:], 1):
        off = sample.rate_bps - LIMIT_BPS
        total, square = total + off, square + off * off
        if count >= 10:
            mean = total / count
            error = math.sqrt(max(0.0, square - count * mean * mean) / (count - 1) / count)
            if abs(mean) > t_point(count - 1) * error:
                return ("PASS" if mean > 0 else "FAIL"), count + 3
    return "INCONCLUSIVE", float(SECONDS)


WAYS: dict[str, Judge] = {"screening": screening, "fixed": fixed, "t-test": repeated_t}


@dataclass
class Tally:
    """What one way of judging said of many series."""

    verdicts: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)

    def add(self, verdict: str, seconds: float) -> None:
        self.verdicts[verdict] += 1
        self.times.append(seconds)

    def share(self, *names: str) -> float:
        return sum(self.verdicts[name] for name in names) / len(self.times)


def series(rng: random.Random, phi: float, sd: float, mean_bps: float, seconds: int = SECONDS) -> list[Sample]:
    noise, fresh = rng.gauss(0, 1), math.sqrt(1 - phi * phi)
    made = []
    for _ in range(seconds):
        made.append(Sample(1.0, max(0.0, mean_bps * (1 + sd * noise))))
        noise = phi * noise + fresh * rng.gauss(0, 1)
    return made


def judged(every: Iterable[list[Sample]]) -> dict[str, Tally]:
    tallies = {name: Tally() for name in WAYS}
    for samples in every:
        for name, judge in WAYS.items():
            tallies[name].add(*judge(samples))
    return tallies


def percent(share: float) -> str:
    return f"{100 * share:5.1f}"


def steady(rng: random.Random, rounds: int) -> None:
    print(f"Steady series, {rounds} for each margin and standard deviation; margins +-1, +-2, +-5 %. Shares in %.")
    print("phi   sd     way         right  wrong   open   mean s  median s")
    for phi in PHIS:
        for sd in SDS:
            total = {name: [0.0, 0.0, 0.0] for name in WAYS}
            times: dict[str, list[float]] = {name: [] for name in WAYS}
            for margin in MARGINS:
                good, bad = ("PASS", "FAIL") if margin > 0 else ("FAIL", "PASS")
                every = (series(rng, phi, sd, LIMIT_BPS * (1 + margin)) for _ in range(rounds))
                for name, tally in judged(every).items():
                    shares = (tally.share(good), tally.share(bad), tally.share("INCONCLUSIVE", "INVALID"))
                    total[name] = [a + b / len(MARGINS) for a, b in zip(total[name], shares, strict=True)]
                    times[name] += tally.times
            for name in WAYS:
                right, wrong, open_ = map(percent, total[name])
                mean, median = statistics.mean(times[name]), statistics.median(times[name])
                print(
                    f"{phi:.1f}  {100 * sd:3.1f} %  {name:10}  {right}  {wrong}  {open_}   {mean:6.1f}  {median:8.0f}"
                )


def by_margin(rng: random.Random, rounds: int) -> None:
    print(f"\nScreening by margin (both signs together), {rounds} series each: wrong %, open %, mean s / median s")
    print("phi   sd    " + "".join(f"   +-{100 * margin:.0f} %                 " for margin in MARGINS[3:]))
    for phi in PHIS:
        for sd in SDS:
            cells = []
            for margin in MARGINS[3:]:
                tally = Tally()
                wrong = 0
                for index in range(rounds):
                    sign = 1 if index % 2 else -1
                    verdict, seconds = screening(series(rng, phi, sd, LIMIT_BPS * (1 + sign * margin)))
                    tally.add(verdict, seconds)
                    wrong += verdict == ("FAIL" if sign > 0 else "PASS")
                mean, median = statistics.mean(tally.times), statistics.median(tally.times)
                open_ = tally.share("INCONCLUSIVE")
                cells.append(f"{100 * wrong / rounds:4.1f} {100 * open_:5.1f} {mean:5.1f} / {median:2.0f} s   ")
            print(f"{phi:.1f}  {100 * sd:3.1f} %  " + " ".join(cells))


def at_the_limit(rng: random.Random, rounds: int) -> None:
    print(f"\nAt the limit itself, {rounds} series: share of PASS / FAIL in %, each of them unjustified")
    print("phi    screening       t-test")
    for phi in PHIS:
        found = {"screening": Tally(), "t-test": Tally()}
        for _ in range(rounds):
            samples = series(rng, phi, 0.005, LIMIT_BPS)
            for name, tally in found.items():
                tally.add(*WAYS[name](samples))
        texts = [f"{percent(tally.share('PASS'))} / {percent(tally.share('FAIL'))}" for tally in found.values()]
        print(f"{phi:.1f}  " + "   ".join(texts))


def unsteady(rng: random.Random, rounds: int) -> None:
    print(f"\nUnsteady series, {rounds} each, phi 0.3, sd 0.5 %. A mean over both levels says nothing; shares in %.")
    print("series                                    way         PASS   FAIL   open   mean s")
    high, low = LIMIT_BPS * 1.02, LIMIT_BPS * 0.95

    def stepped(first: float, second: float, at: int) -> list[Sample]:
        return series(rng, 0.3, 0.005, first, at) + series(rng, 0.3, 0.005, second, SECONDS - at)

    def modes(share: float, low_bps: float) -> list[Sample]:
        both = series(rng, 0.3, 0.005, high), series(rng, 0.3, 0.005, low_bps)
        return [both[rng.random() < share][second] for second in range(SECONDS)]

    def sticky(stay: float) -> list[Sample]:
        both = series(rng, 0.3, 0.005, high), series(rng, 0.3, 0.005, LIMIT_BPS * 0.9)
        mode, made = rng.random() < 0.5, []
        for second in range(SECONDS):
            made.append(both[mode][second])
            mode ^= rng.random() >= stay
        return made

    cases: dict[str, Callable[[], list[Sample]]] = {
        "+2 % to -5 % after 8 s": lambda: stepped(high, low, 8),
        "+2 % to -5 % after 12 s": lambda: stepped(high, low, 12),
        "-5 % to +2 % after 8 s": lambda: stepped(low, high, 8),
        "+2 % to -5 % after 30 s (after the stop)": lambda: stepped(high, low, 30),
        "+2 % and -5 %, 35 % of the time": lambda: modes(0.35, low),
        "+2 % and -20 %, 30 % of the time": lambda: modes(0.3, LIMIT_BPS * 0.8),
        "+2 % and -10 %, 2 s at a time": lambda: sticky(0.5),
        "+2 % and -10 %, 10 s at a time": lambda: sticky(0.9),
    }
    for name, make in cases.items():
        for way, tally in judged(make() for _ in range(rounds)).items():
            shares = "  ".join(percent(tally.share(verdict)) for verdict in ("PASS", "FAIL", "INCONCLUSIVE"))
            print(f"{name:42}{way:10} {shares}   {statistics.mean(tally.times):6.1f}")


def recorded() -> None:
    """Real runs of 63 s on simulated links of this machine, in `recorded/`; the truth is the mean of the whole run."""
    files = sorted((Path(__file__).parent / "recorded").glob("*.csv"))
    print(f"\n{len(files)} recorded runs, each held against limits 1, 2 and 5 % below and above its own mean")
    print("run                    sd of a second   way         right  wrong   open   mean s")
    for file in files:
        samples = parse_series(file.read_text(), file.name)
        rates = [sample.rate_bps for sample in samples[3:]]
        mean_bps = mean_rate_bps(samples[3:])
        tallies = {name: Tally() for name in ("screening", "fixed")}
        for margin in MARGINS:
            good = "PASS" if margin > 0 else "FAIL"
            limit = ResolvedLimit("throughput", mean_bps / (1 + margin), None, "mean / (1 + margin)")
            for name, profile in (("screening", SCREENING), ("fixed", FIXED)):
                found = judge_series(samples, limit, profile, RULE)
                said = found.verdict.value
                tallies[name].add(
                    "right" if said == good else "open" if said == "INCONCLUSIVE" else "wrong", found.seconds_used
                )
        for name, tally in tallies.items():
            shares = "  ".join(percent(tally.share(said)) for said in ("right", "wrong", "open"))
            spread = f"{100 * statistics.stdev(rates) / mean_bps:.2f} %"
            print(f"{file.stem:22} {spread:>14}   {name:10} {shares}   {statistics.mean(tally.times):6.1f}")


def false_doubts(rng: random.Random, rounds: int) -> None:
    print(
        f"\nDoubts on steady series of 60 s, {rounds} each: share in % with a rate step, a trend, two modes, outliers"
    )
    print("phi    step  trend  modes  outliers")
    for phi in PHIS:
        seen: Counter[str] = Counter()
        for _ in range(rounds):
            for doubt in judge_series(series(rng, phi, 0.02, LIMIT_BPS), LIMIT, FIXED, RULE).doubts:
                seen[doubt.partition(":")[0]] += 1
        print(
            f"{phi:.1f}  "
            + "  ".join(
                percent(seen[name] / rounds)
                for name in ("Rate step", "Rate trend", "Bimodal intervals", "Outlier intervals")
            )
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a few series only, to see that it runs")
    smoke = parser.parse_args().smoke
    rng = random.Random(20261130)
    began = time.perf_counter()
    few, many = (4, 10) if smoke else (100, 1000)
    steady(rng, few)
    by_margin(rng, 2 * few)
    at_the_limit(rng, many)
    unsteady(rng, few)
    recorded()
    false_doubts(rng, many)
    error = 100 * math.sqrt(0.01 * 0.99 / many)
    print(
        f"\nMonte Carlo error of a share of 1 %: +-{error:.2f} of {many} series, "
        f"+-{100 * math.sqrt(0.01 * 0.99 / (few * len(MARGINS))):.2f} of {few * len(MARGINS)} (standard deviation)"
    )
    print(f"{time.perf_counter() - began:.0f} s, seed 20261130")


if __name__ == "__main__":
    main()
