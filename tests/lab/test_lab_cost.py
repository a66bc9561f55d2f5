"""What it takes to lend a pair of ports: claimed, moved, proved, brought home and compared, on real drivers."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path

from lab_guest import Guest
from lab_suite import PYTHON, Pair, views

BENCHMARKS = str(Path(__file__).resolve().parents[2] / "benchmarks")
ROUNDS = 3
TRAFFIC_SECONDS = 10
LEND = """
import json, sys
sys.path.insert(0, sys.argv[1])
import ports
found = {}
for a, b in (pair.split(",") for pair in sys.argv[3:]):
    parts = {}
    times = [ports.ours((a, b), parts, allow_addressed=True) for _ in range(int(sys.argv[2]))]
    found[a] = {"times": times, "parts": parts}
print(json.dumps(found))
"""


def test_what_lending_a_pair_takes(lab: Guest, pair: Callable[[str], Pair], survived: Callable[..., None]):
    ends = {model: pair(model) for model in ("e1000e", "vmxnet3")}
    for each in ends.values():
        each.up()
    before = views(lab, ends)
    command = [PYTHON, "-c", LEND, BENCHMARKS, str(ROUNDS), *(f"{each.a},{each.b}" for each in ends.values())]
    found = json.loads(lab.run(command, timeout_s=400, warm=True).check())
    after = views(lab, ends)
    for model, each in ends.items():
        median = statistics.median(found[each.a]["times"])
        parts = {name: statistics.median(times) for name, times in found[each.a]["parts"].items()}
        assert 0 < sum(parts.values()) < 2 * median
        home = parts["bring them home, and compare"]
        what = f"{model} pair lent {ROUNDS} times: {median:.1f} s ({home:.1f} s of it the way home), "
        what += f"{median / (median + TRAFFIC_SECONDS):.0%} of a test with {TRAFFIC_SECONDS} s of traffic"
        survived(what, before[model], after[model])
