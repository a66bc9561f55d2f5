"""Simulated links on the guest's kernel, and their loss fault beside netem, which this machine may not have."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

from lab_guest import Guest
from lab_suite import PYTHON, Suite

LOSS = 0.05
DATAGRAMS = 8000
FIVE_LINES = """
import pytest

@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 1 Mbps")
def test_line_rate(iperf3):
    iperf3.tcp(duration=4, omit=0)
"""
# Datagrams to a port that nobody listens at, counted by the receiving namespace.
SHARE = """
import json, socket, subprocess, sys
from pytest_netperf.links.loss import apply_loss
from pytest_netperf.links.namespace import Namespace

means, loss, datagrams = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
a, b = Namespace("a"), Namespace("b")
a.call(a.ipr.link, "add", ifname="la", kind="veth", peer={"ifname": "lb", "net_ns_fd": b.fd})
index = {}
for end, name, address in ((a, "la", "198.18.0.1"), (b, "lb", "198.18.0.2")):
    index[end] = end.call(socket.if_nametoindex, name)
    end.call(end.ipr.addr, "add", index=index[end], address=address, prefixlen=30)
    end.call(end.ipr.link, "set", index=index[end], state="up")
(link,) = b.call(b.ipr.link, "get", index=index[b])
mac = link.get_attr("IFLA_ADDRESS")
a.call(a.ipr.neigh, "add", ifindex=index[a], lladdr=mac, state="permanent", dst="198.18.0.2")
if means == "fault":
    apply_loss(a, index[a], b, index[b], loss)
else:
    run = lambda: subprocess.run(["tc", "qdisc", "add", "dev", "la", "root", "netem", "loss", f"{loss:%}"], check=True)
    a.call(run)

def received():
    lines = [line.split() for line in open("/proc/thread-self/net/snmp") if line.startswith("Udp:")]
    return int(dict(zip(*lines))["NoPorts"])

before = b.call(received)
sender = a.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(datagrams):
    sender.sendto(b"x", ("198.18.0.2", 9))
lost, last = datagrams, -1
while lost != last:  # the receiver may be a moment behind
    last = lost
    subprocess.run(["sleep", "0.3"])
    lost = datagrams - (b.call(received) - before)
print(json.dumps(lost))
"""


def test_five_lines_and_a_sheet_on_this_kernel(suite: Suite, lab: Guest, survived: Callable[..., None]):
    suite.write({"test_first.py": FIVE_LINES})
    done = suite.run()
    assert done.returncode == 0, done.stdout + done.stderr
    sheet = suite.sheet("SIM-0001")
    assert (sheet["verdict"], sheet["simulated"]) == ("ACCEPTED", True)
    (row,) = sheet["rows"]
    assert lab.release in json.dumps(sheet)
    assert row["value"] < row["ceiling"]
    survived(f"a simulated 100M link on kernel {lab.release}: {row['value'] / 1e6:.1f} Mbit/s, ACCEPTED")


def test_the_loss_fault_loses_the_share_that_netem_does(lab: Guest, survived: Callable[..., None]):
    """Each within five standard deviations of the binomial count: one wrong failure in a million runs."""
    lost = {}
    for means in ("fault", "netem"):
        command = [PYTHON, "-c", SHARE, means, str(LOSS), str(DATAGRAMS)]
        lost[means] = json.loads(lab.run(command, timeout_s=200).check())
    deviation = math.sqrt(DATAGRAMS * LOSS * (1 - LOSS))
    for means, count in lost.items():
        assert abs(count - DATAGRAMS * LOSS) < 5 * deviation, f"{means}: {count} of {DATAGRAMS} lost"
    shares = " and ".join(f"{means} {count / DATAGRAMS:.2%}" for means, count in lost.items())
    survived(f"loss of {LOSS:.0%} asked, on {DATAGRAMS} datagrams: {shares}")
