"""The how-to of a station that tests batches, typed in: two devices, the batch page, and verify."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/batch-station.md"
TEST = """
import pytest

@pytest.mark.netperf_limit(throughput=">= 80 Mbps")
def test_rate(iperf3):
    iperf3.tcp()
"""

pytestmark = pytest.mark.netns


def test_a_batch_of_two(tmp_path: Path) -> None:
    blocks = dict(re.findall(r"^```(ini|toml bench)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    commands = re.findall(r"^\$ (.+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    sed, run, batch, verify = commands[3:]
    left_out = ("netperf_limits", "netperf_profile")  # no limits file, and 13 s of traffic each
    ini = [line for line in blocks["ini"].splitlines() if not line.startswith(left_out)]
    (tmp_path / "pytest.ini").write_text("\n".join([*ini, "netperf_duration = 4", "netperf_reference = off"]))
    (tmp_path / "bench.toml").write_text(blocks["toml bench"].replace("2.5G", "100M").replace("R86S-U4", "EDGE"))
    (tmp_path / "test_rate.py").write_text(TEST)

    def type_in(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        python = f"{sys.executable} -B -m"
        command = re.sub(r"^pytest-netperf", f"{python} pytest_netperf.cli", command)
        command = re.sub(r"^pytest ", f"{python} pytest -pno:cacheprovider ", command)
        return subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env={**os.environ, "USER": "qa", **environment},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    for serial in ("EDGE-0011", "EDGE-0012"):
        assert type_in(sed.replace("R86S-U4-0007", "EDGE-0007"), SERIAL=serial).returncode == 0
        done = type_in(run)
        assert serial in done.stdout, done.stdout + done.stderr
    sheets = [json.loads(path.read_text("utf-8")) for path in tmp_path.glob("results/*/*/sheet.json")]
    assert {sheet["device"]["serial"] for sheet in sheets} == {"EDGE-0011", "EDGE-0012"}
    assert all(sheet["operator"] == "qa" for sheet in sheets)
    made = type_in(batch)
    assert made.returncode == 0, made.stdout + made.stderr
    (page,) = tmp_path.rglob("batch.html")
    assert "ISO 2859-1" in page.read_text("utf-8")
    assert type_in(verify).returncode == 0
