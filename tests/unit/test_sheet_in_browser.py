"""The sheet as people meet it: in a real browser, and printed on A4."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from record_samples import RUN, make_row, plan_of

from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.evidence import Evidence
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.report.sheet import write_sheet

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
A4_POINTS = (595, 842)

Browse = Callable[..., str]

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium; `./run test` installs it"),
    pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no pdftotext; `./run test` installs it"),
]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A sheet of a device that failed one of 41 rows, on simulated links."""
    rows = [make_row(f"p{number}", simulated=True) for number in range(40)]
    rows.append(make_row("bad", Verdict.FAIL, 1.897e9, simulated=True, reason="1.897 Gbit/s is below 2.3 Gbit/s."))
    doctor = Evidence(facts={"doctor": ["iperf3 is not installed; apt-get install iperf3"]})
    rows[0] = make_row("p0", Verdict.ERROR, None, simulated=True, reason="no iperf3", evidence=doctor)
    (sheet,) = build_sheets(RUN, plan_of(rows), rows, complete=True)
    return write_sheet(msgspec.structs.replace(sheet), tmp_path / "results").html


@pytest.fixture
def browse(tmp_path: Path) -> Browse:
    def browse(page: Path, *options: str) -> str:
        assert CHROMIUM is not None
        command = [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", f"--user-data-dir={tmp_path / 'browser'}", *options, page.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout

    return browse


def test_printed_it_is_a4_and_says_what_matters_on_its_first_page(page: Path, browse: Browse, tmp_path: Path):
    pdf = tmp_path / "sheet.pdf"
    browse(page, f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    facts = subprocess.run(["pdfinfo", pdf], capture_output=True, text=True, check=True).stdout
    width, height = map(float, re.findall(r"Page size:\s+([\d.]+) x ([\d.]+)", facts)[0])
    assert (abs(width - A4_POINTS[0]) < 2, abs(height - A4_POINTS[1]) < 2) == (True, True)
    first = subprocess.run(["pdftotext", "-l", "1", pdf, "-"], capture_output=True, text=True, check=True).stdout
    for words in ("REJECTED", "R86S-U4-0008", "SIMULATED", "1 of 41 required rows failed", "1.897 Gbit/s"):
        assert words in " ".join(first.split()) or words in first.replace(" ", ""), words
    whole = subprocess.run(["pdftotext", pdf, "-"], capture_output=True, text=True, check=True).stdout
    for number in range(40):
        assert re.search(rf"\bp{number}\b", whole), number
    assert "apt-get install iperf3" in " ".join(whole.split()), "what is folded on the screen is open on paper"


def test_the_browser_shows_every_row_and_runs_no_script(page: Path, browse: Browse):
    shown = browse(page, "--dump-dom")
    assert "<script" not in shown
    assert shown.count("<svg") >= 41
    assert len(re.findall(r">\s*PASS\s*<", shown)) >= 39


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screenshot_is_not_blank_in_either_colour_scheme(page: Path, browse: Browse, tmp_path: Path, scheme: str):
    picture = tmp_path / f"{scheme}.png"
    forced = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    browse(page, f"--screenshot={picture}", "--window-size=1000,1400", *forced)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 40_000  # a blank page of this size has 5 kB
