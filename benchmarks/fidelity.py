"""Does a simulated link deliver what the wire it stands for would? Measured goodput / ceiling, by speed and MTU.

python benchmarks/fidelity.py [--smoke]
"""

from __future__ import annotations

import statistics
import sys

from pytest_netperf.links.link import bring_up
from pytest_netperf.links.owner import Owner
from pytest_netperf.observe.measure import measure
from pytest_netperf.traffic.framing import ceiling_bps
from pytest_netperf.traffic.iperf3 import Iperf3Engine
from pytest_netperf.traffic.result import Workload

LINKS = [(speed, mtu) for speed in (100e6, 1e9, 2.5e9, 10e9) for mtu in (1500, 9000)]
SMALL = [(1e9, 1500, {"mss_bytes": 472}), (1e9, 1500, {"ip_version": 6}), (1e9, 1500, {"streams": 4})]


def main() -> None:
    smoke = "--smoke" in sys.argv
    rounds, duration = (1, 1.0) if smoke else (3, 4.0)
    owner, engine = Owner(), Iperf3Engine()
    print(f"goodput / ceiling, median of {rounds} runs of {duration:g} s (1 s omitted); goal: 0.995 to 1.005")
    for speed_bps, mtu, options in [(*link, {}) for link in LINKS] + SMALL:
        link = bring_up(owner, f"{speed_bps}-{mtu}-{options}", name="fidelity", speed_bps=speed_bps, mtu=mtu)
        for direction in ("forward", "reverse"):
            ratios, retransmits, busy = [], [], []
            for _ in range(rounds):
                workload = Workload(duration_s=duration, omit_s=1.0, direction=direction, **options)
                measured = measure(engine, link, workload, slots=1)
                flow = measured.result.flows[0]
                ratios.append((flow.received_bps or 0.0) / ceiling_bps(workload, speed_bps, mtu))
                retransmits.append(flow.retransmits or 0)
                busy.append(max(measured.observation.cpu_busy))
            print(
                f"  {speed_bps / 1e9:5.1f}G  MTU {mtu:<5} {direction:<8} {options or ''!s:<20} "
                f"median {statistics.median(ratios):.5f}  worst {min(ratios):.5f}  best {max(ratios):.5f}  "
                f"retransmits {max(retransmits):<5} busiest CPU {max(busy):.0%}",
                flush=True,
            )
        link.close()
    owner.close()


if __name__ == "__main__":
    main()
