"""`pytest-netperf selftest` itself: every fault, once, on this machine; a good link by several workers; and a slip."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_netperf.selftest.cases import CASES
from pytest_netperf.selftest.tools import install

pytestmark = pytest.mark.alone


def selftest(*arguments: str, **variables: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, outcomes and what was said beside them."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest_netperf.cli", "selftest", "--json", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    return done.returncode, json.loads(done.stdout or "[]"), done.stderr


def left_over() -> list[str]:
    """Processes of any selftest, by a variable that each of them inherits."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and b"NETPERF_SELFTEST=" in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text())
    return found


@pytest.mark.timeout(900)  # on a busy machine it waits for its turns, and makes some faults twice
def test_every_fault_comes_out_as_what_it_is(tmp_path):
    code, outcomes, said = selftest("-n", "4", "--keep", str(tmp_path / "kept"))
    assert [outcome for outcome in outcomes if not outcome["holds"]] == [], said
    assert code == 0
    assert {outcome["case"] for outcome in outcomes} == {case.name for case in CASES}
    assert [outcome["case"] for outcome in outcomes if not outcome["possible"]] == []
    assert "all came out as they must" in said
    assert list((tmp_path / "kept").glob("attempt-1/iperf3/results/*/*/sheet.html")), "the sheets are kept"
    assert left_over() == []


def test_a_good_link_passes_each_time_also_with_several_workers():
    code, outcomes, said = selftest("good", "--times", "4", "-n", "4")
    assert [(outcome["time"], outcome["verdict"]) for outcome in outcomes] == [(n, "PASS") for n in range(1, 5)], said
    assert code == 0


def test_what_slips_is_exit_code_1(tmp_path):
    """Here the good link cannot pass: its iperf3 is another program."""
    install("other", tmp_path)
    code, (outcome,), said = selftest("good", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert code == 1
    assert (outcome["verdict"], outcome["holds"]) == ("ERROR", False)
    assert "good: ERROR instead of PASS" in said
    assert "1 SLIPPED" in said
    assert left_over() == []
