"""Doubts as users meet them: on a row that passes too, each beginning with its name, and what a row keeps of them."""

from __future__ import annotations

import json
import re

from pytest_netperf.judge.doubts import KNOWN

pytest_plugins = ["pytester"]

BENCH = """
[[device]]
serial = "ONE-WAY-1"

  [[device.link]]
  name = "lan"
  speed = "100M"
  simulated = true
  fault = { rate = "50 Mbps", direction = "b-to-a" }
"""

TESTS = """
@pytest.mark.netperf_limit(throughput=">= 10 Mbps")
def test_both_ways(iperf3):
    iperf3.tcp()
    iperf3.tcp(direction="reverse")

@pytest.mark.netperf_limit(throughput=">= 90 Mbps")
def test_too_slow(iperf3):
    iperf3.tcp(direction="reverse")
"""


def test_doubts_on_rows_that_pass_and_on_a_row_that_fails(project):
    project.write({"bench.toml": BENCH}, test_ways=TESTS)
    run = project.run("--netperf-bench=bench.toml", "-v")
    rows = run.sheet["rows"]
    passed = [row for row in rows if row["verdict"] == "PASS"]
    assert len(passed) == 2, run.text
    names = {known.name for known in KNOWN}
    for row in rows:
        for doubt in row["evidence"]["doubts"]:
            assert doubt.partition(":")[0] in names
    for row in rows:  # the runs of one test, and of two, are compared when the sheet is made
        (doubt,) = [text for text in row["evidence"]["doubts"] if text.startswith("Directions differ: ")]
        assert re.match(r"Directions differ: Forward delivered 9\d.* Mbit/s and reverse 4\d.* Mbit/s\. ", doubt)
        assert any(text.startswith("Too few intervals: ") for text in row["evidence"]["doubts"])  # of one second
        assert row["evidence"]["facts"]["simulated_fault"] == "fault-rate50M-b-to-a"
    (failed,) = [row for row in rows if row["verdict"] == "FAIL"]
    assert failed["evidence"]["facts"]["rate_explained"] is True
    assert not any(text.startswith("Simulated link too slow") for text in failed["evidence"]["doubts"])
    assert run.sheet["verdict"] == "REJECTED"
    run.has("Directions differ: Forward delivered")
    (page,) = run.output.glob("*/*/sheet.html")
    assert page.read_text().count("Directions differ: Forward delivered") == 3
    assert "Directions differ" not in run.journal.read_text()  # it has the rows as they were judged by themselves
    again = project.command("sheet", str(run.journal), "--output", str(project.path / "again"))
    assert again.returncode == 1, again.stdout
    (made,) = (project.path / "again").glob("*/*/sheet.json")
    assert json.loads(made.read_text()) == run.sheet


def test_what_was_seen_of_the_tester_is_in_the_evidence(project):
    project.write(test_ways=TESTS.partition('@pytest.mark.netperf_limit(throughput=">= 90')[0])
    run = project.run("--netperf-duration=2")  # the kernel is asked after 1.15 s for the first time
    for row in run.sheet["rows"]:
        facts = row["evidence"]["facts"]
        assert 1.9 < facts["host_seconds"] < 30
        assert abs(facts["host_clock_step_s"]) < 1
        assert len(facts["cpu_softirq"]) == len(facts["cpu_busy"])
        assert 0 < facts["tcp_min_rtt_s"] < 1
        assert facts["tcp_last_cwnd_bytes"] > 1448
        assert 0 <= facts["tcp_rwnd_limited_s"] + facts["tcp_sndbuf_limited_s"] <= facts["tcp_busy_s"] < 2
        assert 0 < facts["tcp_rtt_s"] < 1
        assert 0 <= facts["client_cpu"] < 2
        assert "rate_explained" in facts
        for end in ("a", "b"):
            assert facts[f"port_{end}_driver"] == "veth"
            assert facts[f"port_{end}_queues"] == ["tbf 984.4 Mbit/s, the shaper of this link"]
            assert "tso" in facts[f"port_{end}_offloads_on"]
            assert facts[f"port_{end}_offloads_off"] == ["gro"]
            assert f"port_{end}_speed_bps" not in facts  # a veth has none


UNSHAPED = """
[[device]]
serial = "FAST-1"

  [[device.link]]
  name = "lan"
  shaped = false
  simulated = true
"""

SHAPED_BY_HAND = """
def shape(end, *words):
    end.run(["tc", "qdisc", *words, "dev", end.interface, "root", "tbf", "rate", "100mbit", "burst", "64k", "limit",
             "4m"], check=True)

@pytest.mark.netperf_limit(throughput=">= 500 Mbps")
def test_shaped_by_the_tester(iperf3, netperf_link):
    shape(netperf_link.a, "add")
    iperf3.tcp()
    iperf3.tcp(direction="reverse")
    shape(netperf_link.a, "del")
    iperf3.tcp()
"""


def test_a_shaper_at_the_tester_makes_a_failure_inconclusive(project):
    """In its direction: the other one, and a run without it, have no doubt of this kind."""
    project.write({"bench.toml": UNSHAPED}, test_shaper=SHAPED_BY_HAND)
    run = project.run("--netperf-bench=bench.toml")
    first, reverse, after = run.sheet["rows"]
    assert first["verdict"] == "INCONCLUSIVE", run.text
    assert "Shaper at the tester: Port a has the queue tbf 100 Mbit/s. This machine held the traffic" in first["reason"]
    assert 80e6 < first["value"] < 110e6
    assert first["evidence"]["facts"]["port_a_queues"] == ["tbf 100 Mbit/s"]
    assert reverse["verdict"] == after["verdict"] == "PASS"
    assert not [doubt for doubt in after["evidence"]["doubts"] if doubt.startswith("Shaper")]
    assert after["evidence"]["facts"]["port_a_queues"] == ["noqueue"]
