"""The tutorials, typed in from top to bottom; veth pairs stand in for cards and cables, a namespace for the router."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from between import Box
from stand_in import sh

from pytest_netperf.links.kernel import has_capabilities

DOCS = Path(__file__).resolve().parents[2] / "docs/tutorial"
_FENCE = re.compile(r"^```([a-z][^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHORT = ["-onetperf_reference=off", "--netperf-omit=0"]

pytestmark = pytest.mark.netns


@dataclass
class Reader:
    """Types a page in: its files go into a folder, its commands run there, with the names of this test's ports."""

    page: str
    folder: Path
    names: dict[str, str] = field(default_factory=dict)
    """What stands on the page, and what it is here."""

    def __post_init__(self) -> None:
        text = (DOCS / self.page).read_text("utf-8")
        self.blocks = [(kind, self.here(body)) for kind, body in _FENCE.findall(text)]

    def here(self, text: str) -> str:
        for there, name in self.names.items():
            text = text.replace(there, name)
        return text

    def block(self, kind: str, part: str = "") -> str:
        """The first block of this kind with this in it."""
        return next(body for each, body in self.blocks if each == kind and self.here(part) in body)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, "utf-8")

    def types(self, part: str) -> subprocess.CompletedProcess[str]:
        """Run the first command of the page that has this in it."""
        commands = [line[2:] for kind, body in self.blocks if kind == "console" for line in body.splitlines()]
        words = [word for word in shlex.split(next(each for each in commands if part in each)) if word != "sudo"]
        if words[0] == "pytest":
            words = [sys.executable, "-B", "-m", "pytest", "-pno:cacheprovider", *words[1:], *SHORT]
            words = [re.sub(r"^5$", "1", word) for word in words]
        elif words[0] == "pytest-netperf":
            words = [sys.executable, "-B", "-m", "pytest_netperf.cli", *words[1:]]
        return subprocess.run(
            words,
            cwd=self.folder,
            env={**os.environ, "NETPERF_STATE": str(self.folder / "state")},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def sheet(self, serial: str) -> dict:
        """The newest sheet of a device."""
        sheets = sorted(self.folder.glob(f"netperf-results/{serial}/*/sheet.json"), key=os.path.getmtime)
        return json.loads(sheets[-1].read_text("utf-8"))


@pytest.mark.skipif(not has_capabilities(), reason="physical ports need root")
def test_physical_pair(tmp_path: Path) -> None:
    tag = secrets.token_hex(3)
    names = {"enp4s0f0": f"npt{tag}a", "enp4s0f1": f"npt{tag}b"}
    a, b = names.values()
    reader = Reader("physical-pair.md", tmp_path, names)
    try:
        assert reader.types("link add").returncode == 0
        drafted = reader.types("bench init")
        assert drafted.returncode == 0, drafted.stdout + drafted.stderr
        bench = (tmp_path / "bench.toml").read_text("utf-8")
        assert 'serial = "DEVICE-1"' in bench
        assert f"altname-{a}" in bench
        assert f"altname-{b}" in bench
        assert 'speed = "10G"' in bench
        reader.write("bench.toml", bench.replace('speed = "10G"', 'speed = "40G"'))
        checked = reader.types("bench check")
        assert checked.returncode == 0, checked.stdout
        assert "nothing wrong" in checked.stdout
        reader.write("test_pair.py", reader.block("python test"))
        before = sh("ip", "-json", "link", "show", a)
        run = reader.types("--netperf-bench")
        assert run.returncode == 0, run.stdout
        sheet = reader.sheet("DEVICE-1")
        assert sheet["verdict"] == "ACCEPTED"
        assert len(sheet["rows"]) == 12
        mtus = {link["mtu"] for link in json.loads(before)}
        shown = reader.types("-brief link")
        assert shown.returncode == 0
        assert a in shown.stdout
        assert {link["mtu"] for link in json.loads(sh("ip", "-json", "link", "show", a))} == mtus
        assert reader.types("clean --dry-run").returncode == 0
        assert not list(tmp_path.glob("state/ports/*.journal"))
    finally:
        subprocess.run(["ip", "link", "delete", a], capture_output=True, check=False)


def test_router_without_hardware(tmp_path: Path) -> None:
    reader = Reader("router.md", tmp_path)
    reader.write("bench.toml", reader.block("toml bench", "ROUTER-0001"))
    reader.write("test_router.py", reader.block("python test bench"))
    run = reader.types("pytest --netperf-bench")
    sheet = reader.sheet("ROUTER-0001")
    verdicts = {row["conditions"]["device_state"]: row["verdict"] for row in sheet["rows"]}
    assert verdicts == {"plain": "PASS", "nat": "PASS", "ips": "PASS"}, run.stdout
    assert run.returncode == 0
    assert sheet["verdict"] == "ACCEPTED"
    fault = reader.block("toml", "fault =")
    bench = (tmp_path / "bench.toml").read_text("utf-8")
    reader.write("bench.toml", bench.replace("simulated = true\n", f"simulated = true\n  {fault}"))
    run = reader.types("pytest --netperf-bench")
    sheet = reader.sheet("ROUTER-0001")
    verdicts = {row["verdict"] for row in sheet["rows"]}
    assert "FAIL" in verdicts, run.stdout
    assert verdicts <= {"FAIL", "INCONCLUSIVE"}, "a tester that was busy"
    assert (run.returncode, sheet["verdict"]) == (1, "REJECTED")


@pytest.fixture
def box() -> Iterator[Box]:
    if not has_capabilities():
        pytest.skip("physical ports need root")
    made = Box(secrets.token_hex(3))
    yield made
    made.remove()


def test_router_of_your_own(tmp_path: Path, box: Box) -> None:
    box.route()
    virtual = '", allow_virtual = true, address'
    names = {
        'pci-0000:04:00.0", address': f"altname-{box.a}{virtual}",
        'pci-0000:04:00.1", address': f"altname-{box.b}{virtual}",
    }
    reader = Reader("router.md", tmp_path, names)
    reader.write("bench.toml", reader.block("toml bench", "ROUTER-0002"))
    reader.write("test_router.py", reader.block("python test bench"))
    reader.write("conftest.py", reader.block("python conftest"))
    checked = reader.types("bench check")
    assert checked.returncode == 0, checked.stdout
    run = reader.types("-k plain")
    sheet = reader.sheet("ROUTER-0002")
    rows = {row["conditions"]["device_state"]: row for row in sheet["rows"]}
    # A router of veth pairs forwards more than the 100 Mbit/s that it is sold for, which is INVALID, and rightly so.
    assert rows["plain"]["verdict"] in ("PASS", "INVALID"), run.stdout
    assert rows["plain"]["evidence"]["facts"]["link_proof"]["ttl_falls_by"] == 1
    assert {rows[state]["verdict"] for state in ("nat", "ips")} == {"NOT RUN"}
    assert sheet["verdict"] == "NOT PROVEN"
    assert run.returncode == (0 if rows["plain"]["verdict"] == "PASS" else 1)
