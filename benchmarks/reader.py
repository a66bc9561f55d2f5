"""How fast the reader of iperf3 output is, in MB/s over the JSON samples, from bytes to the finished reading.

Run as ``python benchmarks/reader.py [--smoke]``; the goal is 20 MB/s. Beside it stands the time of a bare
``json.loads`` of the same bytes, so that the figure means something on a machine of any speed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_netperf.traffic.output import read_output

SAMPLES = Path(__file__).resolve().parent.parent / "tests" / "unit" / "samples" / "iperf3"
GOAL_MBPS = 20.0


def best_mbps(read: Callable[[bytes], Any], contents: list[bytes], rounds: int) -> float:
    """Bytes read per microsecond in the fastest of some rounds: the one that was disturbed least."""
    fastest_s = min(timed(read, contents) for _ in range(rounds))
    return sum(map(len, contents)) / fastest_s / 1e6


def timed(read: Callable[[bytes], Any], contents: list[bytes]) -> float:
    began = time.perf_counter()
    for content in contents:
        read(content)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a few rounds only, to see that it runs")
    rounds = 3 if parser.parse_args().smoke else 50
    contents = [path.read_bytes() for path in sorted(SAMPLES.glob("*.json"))]
    whole = [content for content in contents if read_output(content).trusted and content.startswith(b"{")]
    print(f"{len(contents)} JSON samples, {sum(map(len, contents)) / 1e6:.2f} MB, best of {rounds} rounds")
    reader = best_mbps(read_output, contents, rounds)
    complete = best_mbps(read_output, whole, rounds)
    bare = best_mbps(json.loads, whole, rounds)
    print(f"reader, all samples (damaged ones too)  {reader:7.1f} MB/s   goal >= {GOAL_MBPS:.0f}")
    print(f"reader, complete documents              {complete:7.1f} MB/s")
    print(f"json.loads, complete documents          {bare:7.1f} MB/s   reader / json.loads {complete / bare:.2f}")
    if reader < GOAL_MBPS:
        print("The goal is missed.")


if __name__ == "__main__":
    main()
