"""Whole runs with a real device between two ports: rows that pass, a device that is switched off, a killed run."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aftermath import Traces, wait_until
from between import ADDRESSES, ADDRESSES6, Box
from stand_in import unequal

from pytest_netperf.links.kernel import has_capabilities

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(not has_capabilities(), reason="physical ports need root"),
]

TRAFFIC = """
import pytest

@pytest.mark.netperf_link(ip_version=[4, 6])
@pytest.mark.netperf_limit(throughput=">= 9 Mbps")
def test_rate(iperf3):
    iperf3.tcp(duration=DURATION, omit=0, bitrate="10 Mbps")
"""


@dataclass
class Runs:
    """A folder with a bench file and tests, and the runs that were started in it."""

    path: Path
    boxes: dict[str, Box] = field(default_factory=dict)
    traces: Traces = field(default_factory=Traces)
    run: subprocess.Popen[bytes] | None = None
    before: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, *more: str) -> Box:
        """A box, and a link of the bench file that it stands between."""
        box = self.boxes[name] = Box(secrets.token_hex(3))
        text = f'[[device.link]]\nname = "{name}"\ntopology = "{name}"\n' + "\n".join(more) + "\n"
        for end in "ab":
            keys: dict[str, str] = {"port": f"altname-{getattr(box, end)}"}
            if name == "routed":
                keys |= {**ADDRESSES[end], **ADDRESSES6[end], "speed": {"a": "10G", "b": "2.5G"}[end]}
            given = ", ".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
            text += f"{end} = {{ {given}, allow_virtual = true }}\n"
        bench = self.path / "bench.toml"
        start = bench.read_text() if bench.exists() else '[[device]]\nserial = "BOX-1"\n'
        bench.write_text(start + text)
        return box

    def start(self, duration: int) -> subprocess.Popen[bytes]:
        self.before = {name: box.view() for name, box in self.boxes.items()}
        (self.path / "test_it.py").write_text(TRAFFIC.replace("DURATION", str(duration)))
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
        with (self.path / "output.txt").open("wb") as output:
            self.run = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-pno:cacheprovider", "-onetperf_reference=off", "-q", "-x",
                 "--netperf-bench=bench.toml"],
                cwd=self.path,
                env={**outside, **self.traces.environment, "NETPERF_STATE": str(self.path / "state")},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        return self.run

    def output(self) -> str:
        return (self.path / "output.txt").read_text()

    def wait_for_traffic(self) -> None:
        def client() -> list[str]:
            assert self.run is not None
            assert self.run.poll() is None, self.output()
            return [seen.command for seen in self.traces.processes() if seen.is_iperf3 and " -c " in seen.command]

        wait_until(client, "traffic runs")

    def rows(self) -> dict[str, dict[str, Any]]:
        (path,) = self.path.glob("netperf-results/BOX-1/*/sheet.json")
        rows = json.loads(path.read_text())["rows"]
        return {row["id"].split("[")[1].split("]")[0].partition("/")[2]: row for row in rows}

    def assert_home(self, seconds: float) -> None:
        journals = self.path / "state" / "ports"
        wait_until(lambda: not list(journals.glob("*.journal")), "the journals have ended", seconds)
        for name, box in self.boxes.items():
            assert unequal(self.before[name], box.view()) == []


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(tmp_path)
    yield runs
    for seen in runs.traces.processes():  # of a test that failed
        os.kill(seen.pid, signal.SIGKILL)
    if runs.run is not None:
        runs.run.kill()
        runs.run.wait()
    for box in runs.boxes.values():
        box.remove()


def test_a_router_and_a_switch(runs: Runs):
    """The ports of the router have speeds of their own: the link is one of the slower."""
    runs.add("routed").route()
    runs.add("switched", 'speed = "10G"').switch()
    assert runs.start(1).wait(120) == 0, runs.output()
    runs.assert_home(0.0)
    rows = runs.rows()
    assert {name: row["verdict"] for name, row in rows.items()} == {
        f"{link}/ipv{version}": "PASS" for link in ("routed", "switched") for version in (4, 6)
    }
    routed = rows["routed/ipv6"]
    assert (routed["conditions"]["topology"], routed["conditions"]["speed"]) == ("routed", 2.5e9)
    facts = routed["evidence"]["facts"]
    assert facts["link_proof"]["ttl_falls_by"] == 1
    assert "2001:db8:202::2" in facts["client_command"]
    assert facts["port_a_tx_bytes"] > facts["received_bytes"] > 0
    assert facts["port_b_rx_bytes"] > facts["received_bytes"]
    assert rows["switched/ipv4"]["evidence"]["facts"]["link_proof"]["ttl_falls_by"] == 0


def test_the_device_is_switched_off_while_it_is_measured(runs: Runs):
    box = runs.add("routed")
    box.route()
    run = runs.start(3)
    runs.wait_for_traffic()
    start = box.sent_bytes()
    wait_until(lambda: box.sent_bytes() > start + 100_000, "data flows through the device")
    box.off()
    assert run.wait(120) == 1, runs.output()
    runs.assert_home(0.0)
    row = runs.rows()["routed/ipv4"]
    assert row["verdict"] == "ERROR", row
    assert "the iperf3 client did not end within" in row["reason"]
    assert row["reason"].endswith("; the carrier of port a and port b changed meanwhile")


def test_a_run_that_is_killed(runs: Runs):
    runs.add("routed").route()
    run = runs.start(30)
    runs.wait_for_traffic()
    run.kill()
    runs.assert_home(5.0)
    runs.traces.assert_gone()
