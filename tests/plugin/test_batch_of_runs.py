"""From the first test to the batch page: benchmarks/batch_of_runs.py with few devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "batch_of_runs.py"


@pytest.mark.needs_xdist
def test_sheets_batch_page_store_and_verify_agree(tmp_path):
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--devices", "4", "--keep", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=280,
        env=outside,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sheets, batch page, store and verify agree" in done.stdout
