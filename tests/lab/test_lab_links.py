"""Simulated links on the guest's kernel."""

from __future__ import annotations

import json
from collections.abc import Callable

from lab_guest import Guest
from lab_suite import Suite

FIVE_LINES = """
import pytest

@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 1 Mbps")
def test_line_rate(iperf3):
    iperf3.tcp(duration=4, omit=0)
"""


def test_five_lines_and_a_sheet_on_this_kernel(suite: Suite, lab: Guest, survived: Callable[..., None]):
    suite.write({"test_first.py": FIVE_LINES})
    done = suite.run()
    assert done.returncode == 0, done.stdout + done.stderr
    sheet = suite.sheet("SIM-0001")
    assert (sheet["verdict"], sheet["simulated"]) == ("ACCEPTED", True)
    (row,) = sheet["rows"]
    assert lab.release in json.dumps(sheet)
    assert row["value"] < 1.01 * row["ceiling"]  # the burst of the shaper, in four seconds
    survived(f"a simulated 100M link on kernel {lab.release}: {row['value'] / 1e6:.1f} Mbit/s, ACCEPTED")
