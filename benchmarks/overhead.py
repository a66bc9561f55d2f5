"""What the product costs: the rate it reports against bare iperf3, and the time a test takes beyond its traffic.

python benchmarks/overhead.py [--smoke]
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_netperf.links.link import Link, bring_up
from pytest_netperf.links.owner import Owner
from pytest_netperf.observe.measure import measure
from pytest_netperf.traffic.iperf3 import Iperf3Engine
from pytest_netperf.traffic.result import Workload

TEST = """
import pytest

@pytest.mark.netperf_limit(throughput=">= 10 Mbps")
@pytest.mark.parametrize("number", range({count}))
def test_line_rate(iperf3, number):
    iperf3.tcp(duration=1, omit=0)
"""


def bare(link: Link, seconds: int) -> float:
    """iperf3 as a person types it, in the same two namespaces."""
    server = link.b.popen(["iperf3", "-s", "-1", "-p", "5301"])
    while not link.b.is_listening(5301):
        time.sleep(0.01)
    client = link.a.popen(["iperf3", "-c", link.b.address, "-p", "5301", "-J", "-t", str(seconds), "-O", "1"])
    client.wait(seconds + 20)
    server.wait(5)
    server.end()
    client.end()
    return float(json.loads(client.stdout)["end"]["sum_received"]["bits_per_second"])


def reported_against_bare(rounds: int, seconds: int) -> None:
    owner, engine = Owner(), Iperf3Engine()
    for speed_bps in (1e9, 2.5e9, None):
        link = bring_up(owner, f"link-{speed_bps}", name="overhead", speed_bps=speed_bps, mtu=1500)
        ratios = []
        for _ in range(rounds):
            theirs = bare(link, seconds)
            measured = measure(engine, link, Workload(duration_s=seconds, omit_s=1.0), slots=1)
            ratios.append((measured.result.flows[0].received_bps or 0.0) / theirs)
        name = "unshaped" if speed_bps is None else f"{speed_bps / 1e9:g}G"
        print(
            f"  {name:<9} reported / bare iperf3: median {statistics.median(ratios):.4f}, "
            f"{min(ratios):.4f} to {max(ratios):.4f} (goal 0.99 to 1.01)",
            flush=True,
        )
        link.close()
    owner.close()


def seconds_beyond_traffic(rounds: int) -> None:
    """A run of many tests less a run of few, so that start-up and link bring-up cancel."""
    few, many = 2, 8
    beyond = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            took = {}
            for count in (few, many):
                Path(folder, "test_overhead.py").write_text(TEST.format(count=count))
                command = [sys.executable, "-mpytest", "-q", "-pno:cacheprovider", "-onetperf_reference=off", folder]
                answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
                found = re.search(r"passed.* in ([\d.]+)s", answer.stdout)
                assert found, answer.stdout + answer.stderr
                took[count] = float(found[1])
            beyond.append((took[many] - took[few]) / (many - few) - 1.0)
    print(f"  a test beyond its traffic, link up: median {statistics.median(beyond):.3f} s (goal <= 0.15 s)")


def main() -> None:
    smoke = "--smoke" in sys.argv
    print("overhead")
    seconds_beyond_traffic(1 if smoke else 3)
    reported_against_bare(1 if smoke else 5, 1 if smoke else 4)


if __name__ == "__main__":
    main()
