"""Without root: the same tests, the same links, no sudo; and one clear line where the kernel does not allow it."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aftermath import Traces

import pytest_netperf
from pytest_netperf.links.kernel import has_capabilities

pytestmark = pytest.mark.netns

NOBODY_SPECIAL = 54321
ROOT = Path(pytest_netperf.__file__).parents[1]
SITE_PACKAGES = Path(pytest.__file__).parents[1]
WORKERS = pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["one process", "two workers"])

FIVE_LINES = """
import pytest

@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 10 Mbps")
def test_line_rate(iperf3):
    iperf3.tcp(duration=1, omit=0)
"""
WHO_AM_I = """
import os
import pytest

pytestmark = pytest.mark.netperf_limit(power="<= 15 W")

def test_who_i_am(netperf_link, netperf_record):
    before = os.getresuid(), os.getresgid(), os.getgroups(), os.stat("/proc/self/ns/net").st_ino
    assert netperf_link.a.run(["true"]).returncode == 0
    assert (os.getresuid(), os.getresgid(), os.getgroups(), os.stat("/proc/self/ns/net").st_ino) == before
    uid = int(os.environ["EXPECTED_UID"])
    assert before[:2] == ((uid, uid, uid), (uid, uid, uid))
    assert before[3] == int(os.environ["EXPECTED_NET"])
    for name in ("user", "pid", "mnt"):
        assert os.readlink(f"/proc/self/ns/{name}") == os.environ[f"EXPECTED_{name}"]
    open("mine", "w").close()
    assert os.stat("mine").st_uid == uid
    netperf_record("power", 5, "W")

def test_programs_on_the_link_write_files_of_mine(netperf_link, netperf_record):
    netperf_link.b.run(["touch", "from-the-link"], check=True)
    assert os.stat("from-the-link").st_uid == int(os.environ["EXPECTED_UID"])
    netperf_record("power", 5, "W")

def test_programs_on_the_link_may_configure_it(netperf_link, netperf_record):
    netperf_link.a.run(["ip", "link", "set", netperf_link.a.interface, "txqueuelen", "500"], check=True)
    netperf_record("power", 5, "W")
"""
LOSS = """
import socket
import pytest

@pytest.mark.netperf_link(speed="100M", fault={"loss": "5 %"})
@pytest.mark.netperf_limit(frame_loss_ratio="<= 0.1 %")
def test_loss(netperf_link, netperf_record):
    a, b, arrived = netperf_link.a, netperf_link.b, 0
    with a.socket(kind=socket.SOCK_DGRAM) as sender, b.socket(kind=socket.SOCK_DGRAM) as receiver:
        receiver.bind((b.address, 0))
        receiver.settimeout(0.03)
        for _ in range(100):
            for _ in range(20):
                sender.sendto(b"x", receiver.getsockname())
            try:
                for _ in range(20):
                    receiver.recv(10)
                    arrived += 1
            except TimeoutError:
                pass
    netperf_record("frame_loss_ratio", (2000 - arrived) / 20, "%")
"""


FAULTS = """
import socket
import time
import pytest

ALL = [{"loss": "50 %"}, {"loss": "50 %", "burst": 2}, {"duplicate": "40 %"}, {"reorder": "40 %"}, {"mtu_hole": 500},
       {"stall": True}, {"flap": True}]

def make(fault):
    @pytest.mark.netperf_link(speed="100M", fault={**fault, "for": "60 s"})
    @pytest.mark.netperf_limit(power="<= 5 W")
    def test(netperf_link, netperf_record):
        a, b = netperf_link.a, netperf_link.b
        with a.socket(kind=socket.SOCK_DGRAM) as sender, b.socket(kind=socket.SOCK_DGRAM) as receiver:
            receiver.bind((b.address, 0))
            receiver.settimeout(0.2)
            def cross():
                arrived = []
                try:
                    for n in range(60):
                        sender.sendto(bytes([n]) * 1000, receiver.getsockname())
                except OSError:
                    pass
                try:
                    while True:
                        arrived.append(receiver.recv(2000)[0])
                except TimeoutError:
                    return arrived
            def until(good):
                end = time.monotonic() + 10
                while (cross() == list(range(60))) is not good:
                    assert time.monotonic() < end
            until(True)
            netperf_link.traffic_begins()
            until(False)
            netperf_link.traffic_ends()
            until(True)
        netperf_record("power", 5, "W")
    return test

for number, fault in enumerate(ALL):
    globals()[f"test_{number}"] = make(fault)
"""


@dataclass
class Home:
    """A folder of an ordinary user, and pytest as that user in it."""

    path: Path
    uid: int
    python: str
    search_path: str
    traces: Traces

    def run(self, *arguments: str, prefix: tuple[str, ...] = (), user: bool = True) -> subprocess.CompletedProcess[str]:
        """Run pytest; ``user`` false: as whoever we are."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")},
            **self.traces.environment,
            "HOME": str(self.path),
            "TMPDIR": str(self.path),
            "XDG_STATE_HOME": "",
            "PYTHONPATH": self.search_path,
            "PYTHONDONTWRITEBYTECODE": "1",
            "COLUMNS": "400",
            "EXPECTED_UID": str(self.uid),
            "EXPECTED_NET": str(os.stat("/proc/self/ns/net").st_ino),  # noqa: PTH116 - follows the magic link
            **{f"EXPECTED_{name}": str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("user", "pid", "mnt")},
        }
        other = {"user": self.uid, "group": self.uid, "extra_groups": []} if user and os.getuid() == 0 else {}
        done = subprocess.run(
            [*prefix, self.python, "-m", "pytest", "-pno:cacheprovider", "-onetperf_reference=off", *arguments],
            cwd=self.path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **other,  # type: ignore[call-overload]
        )
        self.traces.assert_gone()
        return done

    def sheet(self) -> dict[str, Any]:
        (sheet,) = self.path.glob("netperf-results/*/*/sheet.json")
        return json.loads(sheet.read_text())  # type: ignore[no-any-return]


@pytest.fixture
def home() -> Iterator[Home]:
    """Outside of tmp_path, whose parents only root may enter. Skips where no interpreter is there for everyone."""
    uid = NOBODY_SPECIAL if os.getuid() == 0 else os.getuid()
    python, search_path = interpreter_for(uid)
    path = Path(tempfile.mkdtemp(prefix="netperf-home-", dir="/tmp"))
    os.chown(path, uid, -1)
    yield Home(path, uid, python, search_path, Traces())
    shutil.rmtree(path)


@functools.cache
def interpreter_for(uid: int) -> tuple[str, str]:
    """An interpreter that this user can execute, and the PYTHONPATH with which it finds us and pytest."""
    reasons = []
    minor = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in dict.fromkeys((sys.executable, f"/usr/bin/{minor}", "/usr/bin/python3")):
        search_path = os.pathsep.join(map(str, (ROOT, SITE_PACKAGES)))
        try:
            done = subprocess.run(
                [
                    python,
                    "-c",
                    f"import sys, pytest, msgspec, pyroute2; assert sys.version_info[:2] == {sys.version_info[:2]}",
                ],
                cwd="/",
                env={"PATH": os.environ["PATH"], "PYTHONPATH": search_path, "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                check=False,
                **({"user": uid, "group": uid, "extra_groups": []} if os.getuid() == 0 else {}),  # type: ignore[call-overload]
            )
        except OSError as error:
            reasons.append(f"{python}: {error.strerror}")
            continue
        if done.returncode == 0:
            return python, search_path
        reasons.append(f"{python}: {(done.stderr.splitlines() or ['?'])[-1]}")
    pytest.skip("no interpreter that an ordinary user can run: " + "; ".join(reasons))


@pytest.fixture
def open_kernel(home: Home) -> None:
    """Skips where this kernel lets ordinary users make no namespaces."""
    (home.path / "test_it.py").write_text("def test_up(netperf_link, netperf_record): netperf_link.counters()\n")
    done = home.run("-q")
    if "does not let this user make network namespaces" in done.stdout:
        pytest.skip("this kernel lets ordinary users make no namespaces")
    shutil.rmtree(home.path / "netperf-results", ignore_errors=True)


# Where the kernel allows it


@WORKERS
def test_five_lines(home: Home, open_kernel: None, workers: tuple[str, ...]):
    (home.path / "test_it.py").write_text(FIVE_LINES)
    done = home.run(*workers)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ACCEPTED" in done.stdout
    sheet = home.sheet()
    assert sheet["verdict"] == "ACCEPTED"
    (row,) = [row for row in sheet["rows"] if row["quantity"] == "throughput"]
    assert 10e6 <= row["value"] <= row["ceiling"] * 1.01


@WORKERS
def test_the_users_tests_keep_their_user_and_network(home: Home, open_kernel: None, workers: tuple[str, ...]):
    (home.path / "test_it.py").write_text(WHO_AM_I)
    done = home.run(*workers)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_the_tester_reference_is_in_the_home_of_its_user(home: Home, open_kernel: None):
    (home.path / "test_it.py").write_text(FIVE_LINES)
    state = home.path / ".local" / "state" / "pytest-netperf"
    done = home.run("-onetperf_reference=auto")
    assert "tester reference: measuring" in done.stdout, done.stdout + done.stderr
    (reference,) = home.sheet()["reference"]
    assert reference["throughput_bps"] > 100e6
    assert {path.stat().st_uid for path in (state, *state.iterdir())} == {home.uid}

    os.chown(state, 0 if os.getuid() == 0 else home.uid, -1)  # as after a first run by sudo
    state.chmod(0o555)
    for path in state.glob("*.json"):
        path.unlink()
    done = home.run("-onetperf_reference=auto")
    state.chmod(0o755)
    assert "tester reference: it cannot be stored (" in done.stdout, done.stdout + done.stderr
    assert "Permission denied" in done.stdout
    assert done.returncode == 0


def test_every_other_fault(home: Home, open_kernel: None):
    """Each comes and goes: classifiers, a detour, nftables, and a port that goes down."""
    (home.path / "test_it.py").write_text(FAULTS)
    done = home.run("-q")
    assert "7 passed" in done.stdout, done.stdout + done.stderr


def test_loss(home: Home, open_kernel: None):
    (home.path / "test_it.py").write_text(LOSS)
    done = home.run()
    assert done.returncode == 1, done.stdout + done.stderr
    sheet = home.sheet()
    (row,) = [row for row in sheet["rows"] if row["quantity"] == "frame_loss_ratio"]
    assert 0.03 < row["value"] < 0.08  # 2000 draws: four standard deviations to either side
    assert (sheet["verdict"], row["verdict"]) == ("REJECTED", "FAIL")


DEVICE = """
[[device]]
serial = "BOX-1"
link = [{ name = "lan-wan", topology = "routed", speed = "100M", simulated = true }]

  [[device.state]]
  name = "everything"
  nat = true
  firewall = { rules = 5 }
  inspection = { rules = 5, side = "both" }
  rate_limit = "50 Mbps"
  dpi = { side = "both" }
  monitoring = { per_second = 20 }

  [[device.state]]
  name = "limited"
  monitoring = { per_second = 20 }
  cpu_limit = "50 %"
"""
IN_A_STATE = """
import pytest

@pytest.mark.netperf_link(device_state="everything")
@pytest.mark.netperf_limit(power="<= 15 W")
def test_it(netperf_link, netperf_record):
    parts = {"nat", "firewall", "inspection", "rate_limit", "dpi", "monitoring"}
    assert set(netperf_link.facts["device_state"]) == parts
    assert netperf_link.facts["proof"]["ttl_falls_by"] == 1
    netperf_record("power", 5, "W")
"""
LIMITED = """
import pytest

@pytest.mark.netperf_link(device_state="limited")
@pytest.mark.netperf_limit(power="<= 15 W")
def test_limited(netperf_link, netperf_record):
    netperf_record("power", 5, "W")
"""


def test_a_device_in_the_middle_in_every_state(home: Home, open_kernel: None):
    """Forwarding, nftables, iptables and nDPI in a user namespace, and no lock file of root's; a control group is not
    for everyone, and the row says so."""
    (home.path / "test_it.py").write_text(IN_A_STATE)
    (home.path / "bench.toml").write_text(DEVICE)
    done = home.run("--netperf-bench=bench.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert home.sheet()["verdict"] == "ACCEPTED"
    shutil.rmtree(home.path / "netperf-results")
    (home.path / "test_it.py").write_text(LIMITED)
    home.run("--netperf-bench=bench.toml")
    (row,) = home.sheet()["rows"]
    assert row["verdict"] == "ERROR"
    assert "cpu_limit needs a control group, and the kernel refuses " in row["reason"]
    assert "run as root" in row["reason"]


# Where it does not


def closed(what: str) -> tuple[str, ...]:
    """A user namespace in which nobody may make any more of these.

    Its root has no privilege where user namespaces are closed, so that it would need one; else it is as good as root.
    """
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("needs unshare and setpriv of util-linux")
    unprivileged = "setpriv --inh-caps=-all --bounding-set=-all --no-new-privs" if what == "max_user_namespaces" else ""
    shell = f'echo 0 > /proc/sys/user/{what} && exec {unprivileged} "$@"'
    prefix = ("unshare", "--user", "--map-root-user", "sh", "-c", shell, "sh")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this kernel does not let us close it to ourselves")
    return prefix


@WORKERS
@pytest.mark.parametrize(
    ("what", "advice"),
    [
        (what, f"run `sudo sysctl user.{what}=15000`, or run as root")
        for what in ("max_user_namespaces", "max_net_namespaces", "max_pid_namespaces")
    ],
    ids=["user", "net", "pid"],
)
def test_a_closed_kernel(home: Home, what: str, advice: str, workers: tuple[str, ...]):
    (home.path / "test_it.py").write_text(FIVE_LINES)
    home.python, home.search_path = sys.executable, os.pathsep.join(sys.path)
    os.chown(home.path, os.getuid(), -1)
    done = home.run("-onetperf_reference=auto", *workers, prefix=closed(what), user=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if advice in line], done.stdout
    assert "tester reference: not measured at MTU 1500 (veth pair, unshaped): " in done.stdout
    sheet = home.sheet()
    assert advice in sheet["reference"][0]["missing"]
    assert sheet["verdict"] == "NOT PROVEN"
    for row in sheet["rows"]:
        assert row["verdict"] == "ERROR"
        assert advice in row["reason"]
        assert "\n" not in row["reason"]


@pytest.mark.skipif(not has_capabilities(), reason="needs root to become somebody else")
def test_keeping_needs_root_and_says_so_before_anything_runs(home: Home):
    (home.path / "test_it.py").write_text(FIVE_LINES)
    done = home.run("--netperf-keep")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: --netperf-keep: names network namespaces under /run/netns, which needs root" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not (home.path / "netperf-results").exists()
