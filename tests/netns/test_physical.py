"""Ports of this machine, lent to a run and brought home: whatever ends the run, they are what they were.

A veth pair stands in for two cards and their cable; from the kernel's side both are ports that move between namespaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aftermath import Seen, Traces, keeper_of, wait_until
from stand_in import StandIn, sh, unequal

from pytest_netperf.errors import LinkError
from pytest_netperf.links import host_files, port_refusal
from pytest_netperf.links.kernel import has_capabilities
from pytest_netperf.links.physical import PhysicalPair
from pytest_netperf.links.port_journal import PortClaim, PortHeldError
from pytest_netperf.links.port_records import has_run_out
from pytest_netperf.links.port_rescue import rescue_left_ports

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(not has_capabilities(), reason="physical ports need root"),
]
WORKERS = pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["one process", "two workers"])
HOME_SECONDS = 5.0

BENCH = """
[[device]]
serial = "BOX-1"
[[device.link]]
name = "p1"
speed = "10G"
a = {{ port = "altname-{altname}", allow_virtual = true, allow_addressed = true }}
b = {{ port = "mac-{mac}", allow_virtual = true }}
"""
TRAFFIC = """
import pytest

@pytest.mark.netperf_link(mtu=[1500, 9000], offloads={"tso": True, "gro": True, "tx-checksum": True})
@pytest.mark.netperf_limit(throughput=">= 9 Mbps")
def test_rate(iperf3):
    iperf3.tcp(duration=DURATION, omit=0, bitrate="10 Mbps")
"""
CHANGES = """
import pytest

@pytest.mark.netperf_limit(power="<= 15 W")
@pytest.mark.kept_namespaces
def test_changes(netperf_link, netperf_record):
    a = netperf_link.a
    for command in (
        f"ip link set {a.interface} txqueuelen 5 alias changed group 9 promisc off",
        f"ip link set {a.interface} mtu 2000",
        f"ip address add 192.0.2.77/24 dev {a.interface}",
        f"ethtool -K {a.interface} tso on sg off",
        f"ip neigh add 192.0.2.78 lladdr 02:00:5e:00:00:98 nud permanent dev {a.interface}",
        f"sysctl -qw net.ipv4.conf.{a.interface}.rp_filter=1",
        f"ip link set {netperf_link.b.interface} address 02:00:5e:aa:bb:cc",
    ):
        end = netperf_link.b if netperf_link.b.interface in command else a
        end.run(command.split(), check=True)
    netperf_record("power", 5, "W")
    assert WELL
"""


@dataclass
class Lab:
    """A folder with a bench file and tests, the ports that they use, and the runs that were started."""

    path: Path
    ports: StandIn
    traces: Traces = field(default_factory=Traces)
    runs: list[subprocess.Popen[bytes]] = field(default_factory=list)
    before: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def environment(self) -> dict[str, str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
        return {**outside, **self.traces.environment, "NETPERF_STATE": str(self.state), "COLUMNS": "400"}

    def write(self, tests: str, duration: int = 1, **words: object) -> None:
        text = tests.replace("DURATION", str(duration))
        for word, value in words.items():
            text = text.replace(word.upper(), str(value))
        (self.path / "test_it.py").write_text(text)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.path / f"output-{len(self.runs)}.txt").open("wb") as output:
            run = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-pno:cacheprovider", "-onetperf_reference=off", "-q",
                 "--netperf-bench=bench.toml", *arguments],
                cwd=self.path,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        self.runs.append(run)
        return run

    def run(self, *arguments: str) -> int:
        return self.start(*arguments).wait(120)

    def output(self, run: int = -1) -> str:
        return (self.path / f"output-{range(len(self.runs))[run]}.txt").read_text()

    def wait_for_traffic(self) -> list[Seen]:
        def both_ends() -> list[Seen]:
            assert self.runs[-1].poll() is None, self.output()
            found = [seen for seen in self.traces.processes() if seen.is_iperf3]
            return found if any(" -c " in seen.command for seen in found) else []

        return wait_until(both_ends, "traffic runs")  # type: ignore[return-value]

    def clean(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest_netperf.cli", "clean", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def journals(self) -> list[Path]:
        return sorted(self.state.glob("ports/*.journal"))

    def assert_home(self, seconds: float = HOME_SECONDS) -> None:
        """Both ports are here again and what they were, and nothing is left to be done."""
        wait_until(lambda: not self.journals(), "the journals have ended", seconds)
        assert unequal(self.before, self.ports.view()) == []

    def sheet(self) -> dict[str, Any]:
        (path,) = self.path.glob("netperf-results/BOX-1/*/sheet.json")
        found: dict[str, Any] = json.loads(path.read_text())
        return found


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    ports = StandIn()
    lab = Lab(tmp_path, ports)
    try:
        ports.make()
        ports.set_everything()
        (tmp_path / "bench.toml").write_text(BENCH.format(altname=ports.altname, mac=ports.mac["b"]))
        lab.before = ports.view()
        yield lab
    finally:
        for seen in lab.traces.processes():  # of a test that failed
            os.kill(seen.pid, signal.SIGKILL)
        for run in lab.runs:
            run.kill()
            run.wait()
        ports.remove()


# ---- a run that ends by itself ---------------------------------------------------------------------------------------


@WORKERS
def test_a_normal_run(lab: Lab, workers: tuple[str, ...]):
    """Two settings of one link, which need the same ports one after the other."""
    lab.write(TRAFFIC)
    assert lab.run(*workers) == 0, lab.output()
    lab.assert_home(0.0)
    sheet = lab.sheet()
    assert [row["verdict"] for row in sheet["rows"]] == ["PASS", "PASS"]
    assert sheet["simulated"], "there is no hardware behind it"
    facts = sheet["rows"][0]["evidence"]["facts"]
    assert lab.ports.altname in facts["link_port_a_is"]
    assert lab.ports.mac["a"] in facts["link_port_a_is"]
    assert facts["link_proof"]["mtu_with_df_bytes"] in (1500, 9000)
    assert facts["link_negotiated"]["a"]["speed_bps"] == 10e9
    assert facts["link_inventory"]["b"]["channels"]["rx"] >= 1
    asked = "tso on, gro on, tx-checksum on"  # port a came with tso off
    assert facts["link_settings"] == dict.fromkeys("ab", f"offloads {asked}")
    assert {row["conditions"]["offloads"] for row in sheet["rows"]} == {asked}
    assert {"tso", "gro"} <= set(facts["port_a_offloads_on"])


@pytest.mark.parametrize(("well", "code"), [(True, 0), (False, 1)], ids=["passing", "failing"])
def test_what_a_test_changes_is_put_back(lab: Lab, well: bool, code: int):
    lab.write(CHANGES, well=well)
    assert lab.run() == code, lab.output()
    lab.assert_home(0.0)


def test_cold_links_of_ports_by_their_kernel_names_with_addresses(lab: Lab):
    text = BENCH.format(altname=lab.ports.a, mac=lab.ports.mac["b"]).replace("altname-", "")
    for end, address in (("true }", "198.18.7.2/24"), ("allow_virtual = true }", "198.18.7.3/24")):
        text = text.replace(end, f'{end[:-2]}, address = "{address}" }}', 1)
    (lab.path / "bench.toml").write_text(text)
    lab.write(TRAFFIC.replace("mtu=[1500, 9000]", 'scope="function"'))
    assert lab.run() == 0, lab.output()
    lab.assert_home(0.0)
    assert f'write port = "mac-{lab.ports.mac["a"]}"' in lab.output()
    facts = lab.sheet()["rows"][0]["evidence"]["facts"]
    assert "198.18.7.2" in facts["port_a"]
    assert "198.18.7.3" in facts["client_command"]


def test_a_link_that_is_not_what_it_is_sold_for_fails_before_any_traffic(lab: Lab):
    """A veth has no line to negotiate, so its speed is told; the lab forces that of a card down."""
    (lab.path / "conftest.py").write_text(
        "from pytest_netperf.judge import port_evidence, precondition\n"
        "precondition.NO_LINE = port_evidence.NO_LINE = frozenset()\n"
    )
    bench = lab.path / "bench.toml"
    bench.write_text(bench.read_text().replace("10G", "25G"))
    lab.write(TRAFFIC.replace("mtu=[1500, 9000], ", ""))
    assert lab.run() == 1, lab.output()
    lab.assert_home(0.0)
    (row,) = lab.sheet()["rows"]
    assert (row["verdict"], row.get("value")) == ("FAIL", None)
    said = "port {} negotiated 10G full duplex, and the link is one of 25G"
    assert row["reason"] == f"{said.format('a')}; {said.format('b')}. No traffic was sent."


# ---- a run that is killed --------------------------------------------------------------------------------------------


@WORKERS
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_pytest_is_killed(lab: Lab, number: signal.Signals, workers: tuple[str, ...]):
    lab.write(TRAFFIC, duration=30)
    run = lab.start(*workers)
    lab.wait_for_traffic()
    assert unequal(lab.before, lab.ports.view()) != []
    if number is signal.SIGINT:  # Ctrl-C reaches the whole foreground group
        os.killpg(run.pid, number)
        run.wait(30)
    else:
        run.send_signal(number)
    lab.assert_home()
    run.wait(30)
    lab.traces.assert_gone()


def test_pytest_is_killed_while_a_carrier_is_waited_for(lab: Lab):
    """Port b is cabled to something that is down; the keeper does not go on waiting for 30 s."""
    other = StandIn()
    other.make()
    try:
        (lab.path / "bench.toml").write_text(BENCH.format(altname=lab.ports.altname, mac=other.mac["b"]))
        lab.write(TRAFFIC)
        run = lab.start()
        wait_until(lambda: lab.ports.view()[lab.ports.a] is None and other.view()[other.b] is None, "both are away")
        run.kill()
        lab.assert_home()
        assert other.view()[other.b] is not None
        lab.traces.assert_gone()
    finally:
        other.remove()


@pytest.mark.needs_xdist
def test_a_worker_is_killed(lab: Lab):
    """Its ports come home, and the other worker measures on them."""
    lab.write(TRAFFIC, duration=4)
    run = lab.start("-n2")
    client = next(seen for seen in lab.wait_for_traffic() if " -c " in seen.command)
    everything = {seen.pid: seen for seen in lab.traces.processes()}
    worker = everything[everything[everything[client.parent].parent].parent]
    os.kill(worker.pid, signal.SIGKILL)
    assert run.wait(120) == 1, lab.output()
    lab.assert_home()
    assert sorted(row["verdict"] for row in lab.sheet()["rows"]) == ["CRASHED", "PASS"]


def test_the_guard_is_killed(lab: Lab):
    """The keeper brings the ports home by itself; the next test has them again."""
    lab.write(TRAFFIC, duration=3)
    run = lab.start()
    lab.wait_for_traffic()
    os.kill(keeper_of(lab.traces)[0].pid, signal.SIGKILL)
    assert run.wait(120) == 1, lab.output()
    lab.assert_home()
    assert sorted(row["verdict"] for row in lab.sheet()["rows"]) == ["ERROR", "PASS"]


@pytest.fixture
def orphaned(lab: Lab) -> Iterator[Lab]:
    """A run that was killed with its keeper, and something that still holds its namespaces, as unsent data may."""
    lab.write(TRAFFIC, duration=30)
    run = lab.start()
    lab.wait_for_traffic()
    guard, keeper = keeper_of(lab.traces)
    here = Path("/proc/self/ns/net").stat().st_ino
    namespaces = {}
    for path in Path(f"/proc/{keeper.pid}/task").glob("*/ns/net"):
        if path.stat().st_ino != here:
            namespaces[path.stat().st_ino] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    for pid in (run.pid, guard.pid, keeper.pid):  # the frozen keeper cannot notice that the others are gone
        os.kill(pid, signal.SIGSTOP)
    for pid in (keeper.pid, guard.pid, run.pid):
        os.kill(pid, signal.SIGKILL)
    run.wait(30)
    lab.traces.assert_gone()
    assert len(lab.journals()) == 2
    assert lab.ports.view() == dict.fromkeys(lab.before)
    yield lab
    for fd in namespaces.values():
        os.close(fd)


@pytest.mark.kept_namespaces
def test_the_keeper_is_killed_too_and_clean_finds_the_ports(orphaned: Lab):
    would = orphaned.clean("--dry-run")
    assert would.returncode == 0, would.stderr
    assert would.stdout.count("would bring home port npt") == 2
    assert len(orphaned.journals()) == 2
    done = orphaned.clean()
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("brought home, as it was") == 2
    orphaned.assert_home(0.0)
    assert "nothing to remove" in orphaned.clean().stdout


def test_the_keeper_is_killed_too_and_the_next_run_finds_the_ports(orphaned: Lab):
    orphaned.write(TRAFFIC)
    assert orphaned.run() == 0, orphaned.output()
    orphaned.assert_home(0.0)
    (row, *_) = orphaned.sheet()["rows"]
    assert "brought home, as it was" in str(row["evidence"]["facts"]["link_ports_rescued"])


# ---- who may not ----------------------------------------------------------------------------------------------------


def test_an_ordinary_user_is_told_that_it_needs_root(lab: Lab):
    """Root of a user namespace is what the keeper of an ordinary user is."""
    lab.write(TRAFFIC.replace("[1500, 9000]", "9000"))
    unshared = ["unshare", "--user", "--map-root-user", sys.executable, "-m", "pytest", "-pno:cacheprovider"]
    done = subprocess.run(
        [*unshared, "-onetperf_reference=off", "--netperf-bench=bench.toml"],
        cwd=lab.path,
        env=lab.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout
    assert "physical ports need root: they belong to the machine" in done.stdout
    lab.assert_home(0.0)


# ---- two that want one port ------------------------------------------------------------------------------------------


@pytest.mark.kept_namespaces
def test_another_run_waits_for_the_port_and_then_says_who_has_it(lab: Lab):
    lab.write(TRAFFIC, duration=40)
    first = lab.start()
    lab.wait_for_traffic()
    assert lab.run("-k9000") == 1, lab.output()
    assert f"is held by process {first.pid} (" in lab.output()
    assert "-m pytest" in lab.output()
    assert unequal(lab.before, lab.ports.view()) != [], "the first run has them still"
    assert "nothing to remove" in lab.clean().stdout, "nobody else may bring them home"
    first.kill()
    lab.assert_home()


# ---- what is in the way home -----------------------------------------------------------------------------------------


@pytest.mark.kept_namespaces
def test_another_interface_took_the_name(lab: Lab):
    """The port comes home under a free name, the test is ERROR and says so, and clean does the rest later."""
    lab.write(TRAFFIC.replace("[1500, 9000]", "9000"), duration=3)
    run = lab.start()
    lab.wait_for_traffic()
    intruder = f"npx{lab.ports.tag}"
    sh("ip", "link", "add", lab.ports.a, "type", "veth", "peer", "name", intruder)
    try:
        assert run.wait(60) == 1, lab.output()
        (row,) = lab.sheet()["rows"]
        assert row["verdict"] == "ERROR"
        assert f"name: was {lab.ports.a}, is netperf" in row["reason"]
        assert "File exists" in row["reason"]
        (journal,) = lab.journals()
        again = lab.clean()
        assert again.returncode == 1
        assert f"is not as it was: name: was {lab.ports.a}" in again.stderr
        assert str(journal) in again.stderr
        assert lab.run("--co") == 0
        assert lab.run() == 1
        assert "is not as it was: name" in lab.output(), "nobody measures on a port that is not what it was"
    finally:
        sh("ip", "link", "delete", intruder)
    assert lab.clean().returncode == 0
    lab.assert_home(0.0)


# ---- in this process -------------------------------------------------------------------------------------------------


@dataclass
class Bench:
    """Physical pairs made in the test's own process, whose namespace is the ports' home."""

    ports: StandIn
    path: Path

    def spec(
        self,
        a: dict[str, Any] | None = None,
        b: dict[str, Any] | None = None,
        mtu: int = 1500,
        asked: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        ends = {"a": {"port": f"altname-{self.ports.a}"}, "b": {"port": f"altname-{self.ports.b}"}}
        for end, changed in (("a", a), ("b", b)):
            ends[end] = {**ends[end], "allow_virtual": True, **(changed or {})}
        holder = {"pid": os.getpid(), "command": "this test", "run": "this one"}
        return {"mtu": mtu, "ports": ends, "holder": holder, "asked": asked or {}}

    def pair(self, **changed: Any) -> PhysicalPair:
        return PhysicalPair(4000 + int(self.ports.tag, 16) % 1000, self.spec(**changed), lambda: False)

    def refused(self, **changed: Any) -> str:
        before = self.ports.view()
        with pytest.raises(LinkError) as refusal:
            self.pair(**changed)
        assert unequal(before, self.ports.view()) == []
        assert list(self.path.glob("state/ports/*.journal")) == []
        return str(refusal.value)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("NETPERF_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(PhysicalPair, "carrier_seconds", 0.5)
    monkeypatch.setattr(PhysicalPair, "proof_seconds", 1.0)
    ports = StandIn()
    ports.make()
    yield Bench(ports, tmp_path)
    ports.remove()


def test_a_pair_up_and_home_again(bench: Bench):
    before = bench.ports.view()
    pair = bench.pair(mtu=9000)
    assert bench.ports.view() == dict.fromkeys(before), "both are away"
    pair.bounce()
    assert pair.shape(1500) == {"a": None, "b": None}
    counters = pair.counters()
    assert counters["a"]["tx_bytes"] > 9000
    assert 0 <= counters["b"]["rx_bytes"] - counters["a"]["tx_bytes"] < 2000, "what the kernel sends between two looks"
    pair.close()
    assert unequal(before, bench.ports.view()) == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"ring": {"rx": 512}}, "ring rx 512; driver veth: the driver does not know this setting"),
        ({"pause": {"rx": False}}, "pause rx off; driver veth: the driver does not know this setting"),
        ({"eee": False}, "eee off; driver veth: the driver does not know this setting"),
        (
            {"negotiation": {"mbps": 100, "duplex": "full", "autoneg": False}},
            "100M full duplex, forced; driver veth: it",
        ),
        ({"irq_cpus": "0"}, "irq_cpus 0; driver veth: the port has no interrupts of its own"),
        ({"offloads": {"lro": True}}, "offloads lro on; driver veth: read back it has lro off: it needs another one"),
        (
            {"offloads": {"tso": True, "tx-checksum": False}},
            "read back it has tso off: it needs another one that is off",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_setting_that_the_driver_refuses(bench: Bench, asked: dict[str, Any], said: str):
    refused = bench.refused(asked={**asked, "offloads": {"gso": False, **asked.get("offloads", {})}})
    assert said.replace("offloads", "offloads gso off,") in refused
    assert f"mac-{bench.ports.mac['a']}" in refused


def test_the_governor_of_a_machine_that_has_one(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    """This machine and the lab have none, so files stand in for those of the kernel."""
    files = [bench.path / f"cpu{cpu}" / "cpufreq" / "scaling_governor" for cpu in range(2)]
    for file, governor in zip(files, ("powersave", "ondemand"), strict=True):
        file.parent.mkdir(parents=True)
        file.write_text(f"{governor}\n")
    monkeypatch.setattr(host_files, "_CPUS", str(bench.path))
    pair = bench.pair(asked={"governor": "performance"})
    assert [file.read_text() for file in files] == ["performance"] * 2
    assert pair.facts["settings"] == dict.fromkeys("ab", "governor performance")
    with pytest.raises(PortHeldError, match="governor-of-all-CPUs is held by process"):
        PortClaim("governor-of-all-CPUs", {})
    pair.close()
    assert [file.read_text().strip() for file in files] == ["powersave", "ondemand"]


def test_a_governor_that_a_killed_run_left_is_put_back(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    file = bench.path / "cpu0" / "cpufreq" / "scaling_governor"
    file.parent.mkdir(parents=True)
    file.write_text("powersave")
    monkeypatch.setattr(host_files, "_CPUS", str(bench.path))
    pair = bench.pair(asked={"governor": "performance"})
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    for end, namespace in pair.ends.items():
        namespace.call(namespace.ipr.link, "set", index=pair.ports[end]["index"], net_ns_fd=here)
    os.close(here)
    let_go(pair)
    rescued = rescue_left_ports()
    assert [each.problems for each in rescued] == [(), ()]
    assert file.read_text() == "powersave"


def test_addresses_need_a_word(bench: Bench):
    bench.ports.set_everything()
    said = bench.refused()
    assert f"it has addresses ({bench.ports.address4}, {bench.ports.net6}::1/64)" in said
    assert "allow_addressed = true" in said
    before = bench.ports.view()
    bench.pair(a={"allow_addressed": True}).close()
    assert unequal(before, bench.ports.view()) == []


def default_port() -> str:
    return str(json.loads(sh("ip", "-json", "route", "show", "default"))[0]["dev"])


def test_the_port_of_the_default_route_is_refused(bench: Bench):
    said = bench.refused(b={"port": f"altname-{default_port()}", "allow_addressed": True})
    assert f"port b ({default_port()}," in said
    assert "it carries the default route of this machine (default via" in said


def test_the_port_of_an_ssh_session_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    bench.ports.set_everything()
    monkeypatch.setenv("SSH_CONNECTION", f"{bench.ports.gateway4} 50000 {bench.ports.address4[:-3]} 22")
    said = bench.refused(a={"allow_addressed": True})
    assert f"an ssh session from {bench.ports.gateway4} comes in through it" in said


def with_bridge(bench: Bench) -> None:
    sh("ip", "link", "add", f"npr{bench.ports.tag}", "type", "bridge")
    sh("ip", "link", "set", bench.ports.a, "master", f"npr{bench.ports.tag}")


def with_macvlan(bench: Bench) -> None:
    sh("ip", "link", "add", f"npr{bench.ports.tag}", "link", bench.ports.a, "type", "macvlan")


def with_queue(bench: Bench) -> None:
    sh("tc", "qdisc", "add", "dev", bench.ports.a, "root", "tbf", "rate", "1gbit", "burst", "100k", "limit", "1m")


def with_two_hops(bench: Bench) -> None:
    bench.ports.set_everything()
    gateway, a = bench.ports.gateway4, bench.ports.a
    sh("ip", "link", "set", bench.ports.b, "up")
    sh("ip", "route", "add", bench.ports.route4, "table", "778",
       "nexthop", "via", gateway, "dev", a, "nexthop", "via", gateway, "dev", a, "weight", "2")  # fmt: skip


def with_borrowed_address(bench: Bench) -> None:
    """A route of another port that sends from an address of this one."""
    bench.ports.set_everything()
    sh("ip", "address", "add", f"{bench.ports.net6}:7777::1/80", "dev", bench.ports.b, "nodad")
    sh("ip", "route", "add", f"{bench.ports.net6}:9999::/80", "via", f"{bench.ports.net6}:7777::2",
       "dev", bench.ports.b, "src", f"{bench.ports.net6}::1", "table", "779")  # fmt: skip


@pytest.mark.parametrize("name", ["NetworkManager", "systemd-networkd"])
def test_a_managed_port_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str):
    """Told by the files in which the managers say what they do."""
    index = str(socket.if_nametoindex(bench.ports.a))
    for path, text in (
        (bench.path / "NetworkManager" / "devices" / index, "[device]\nmanaged=true\n"),
        (bench.path / "systemd" / "netif" / "links" / index, "ADMIN_STATE=configured\nOPER_STATE=routable\n"),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    monkeypatch.setattr(port_refusal, "_RUN", bench.path)
    bench.pair().close()  # the files of a manager that does not run say nothing
    with lent_name(name[:15]):
        said = bench.refused()
    assert f"{name} manages it" in said
    assert {"NetworkManager": "nmcli device set", "systemd-networkd": "Unmanaged=yes"}[name] in said


@contextlib.contextmanager
def lent_name(name: str) -> Iterator[None]:
    """A process of this name."""
    code = f"import sys; open('/proc/self/comm', 'w').write({name!r}); print('named', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"named\n"
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (with_bridge, "stands on it (a bridge, bond, team or VLAN)"),
        (with_macvlan, "stands on it"),
        (with_queue, "it has queueing disciplines of its own (tbf"),
        (with_two_hops, "routes that depend on it and others could not be given back"),
        (with_borrowed_address, "routes that depend on it and others could not be given back"),
    ],
)
def test_what_else_is_refused(bench: Bench, prepare: Callable[[Bench], None], said: str):
    try:
        prepare(bench)
        assert said in bench.refused(a={"allow_addressed": True})
    finally:
        subprocess.run(["ip", "link", "delete", f"npr{bench.ports.tag}"], capture_output=True, check=False)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ({"allow_virtual": False}, "it is a veth without hardware behind it"),
        ({"port": "altname-lo"}, "there is no such port in the network namespace in which pytest runs; there are: "),
        ({"port": "pci-0000:ff:1f.7"}, "there is no such port"),
    ],
)
def test_ports_that_are_none(bench: Bench, end: dict[str, Any], said: str):
    assert said in bench.refused(b=end)


def test_one_port_is_not_two(bench: Bench):
    said = bench.refused(b={"port": f"mac-{bench.ports.mac['a']}"})
    assert f"altname-{bench.ports.a} and mac-{bench.ports.mac['a']} are one port: {bench.ports.a}, " in said


def test_an_mtu_that_the_driver_refuses(bench: Bench):
    said = bench.refused(mtu=65536)
    assert f"port {bench.ports.a}, " in said
    assert "refuses an MTU of 65536: Invalid argument; its driver allows 68 to 65535" in said


def test_a_smaller_mtu_at_one_end_is_named(bench: Bench):
    """Somebody changed it after the link was proved; it is proved again when it was taken down and up."""
    before = bench.ports.view()
    pair = bench.pair(mtu=4000)
    for end in ("b", "a"):
        for each, mtu in (("a", 4000), ("b", 4000), (end, 1500)):
            namespace = pair.ends[each]
            namespace.call(namespace.ipr.link, "set", index=pair.ports[each]["index"], mtu=mtu)
        with pytest.raises(LinkError) as refusal:
            pair.bounce()
        name = getattr(bench.ports, end)
        assert "an IPv4 packet of 4000 bytes with DF set did not pass from a to b, and a short one does" in str(
            refusal.value
        )
        assert f": port {end} ({name}, mac-" in str(refusal.value)
        assert str(refusal.value).endswith("has an MTU of 1500 now")
    pair.close()
    assert unequal(before, bench.ports.view()) == []


def test_no_carrier(bench: Bench):
    """Port b is cabled to something that is down."""
    other = StandIn()
    other.make()
    try:
        said = bench.refused(b={"port": f"altname-{other.b}"})
        assert "has no carrier after 0.5 s: look at the cable" in said
    finally:
        other.remove()


def test_the_cable_is_in_another_port(bench: Bench):
    """Both ports have a carrier, from two other ports."""
    other = StandIn()
    other.make()
    try:
        sh("ip", "link", "set", bench.ports.b, "up")
        sh("ip", "link", "set", other.a, "up")
        said = bench.refused(b={"port": f"altname-{other.b}"})
        assert "nor does a short one: both ports have a carrier" in said
        assert f"{bench.ports.a}, " in said
        assert f"{other.b}, " in said
    finally:
        other.remove()


def test_a_holder_is_named(bench: Bench):
    pair = bench.pair()
    with pytest.raises(PortHeldError) as held:
        bench.pair()
    assert f"is held by process {os.getpid()} (this test) since 20" in str(held.value)
    assert held.value.holder["run"] == "this one"
    pair.close()
    bench.pair().close()


def let_go(pair: PhysicalPair) -> None:
    """As of a process that is killed: its namespaces go and its claims are free, its journals stay."""
    pair._journals.clear()
    pair.close()


def test_ports_that_the_kernel_brought_back_are_put_right(bench: Bench):
    """It brings them back late, down, without addresses, and with every setting that was changed."""
    bench.ports.set_everything()
    before = bench.ports.view()
    pair = bench.pair(a={"allow_addressed": True}, mtu=9000)
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    for end, namespace in pair.ends.items():
        namespace.call(namespace.ipr.link, "set", index=pair.ports[end]["index"], txqlen=5)
        namespace.call(namespace.ipr.link, "set", index=pair.ports[end]["index"], net_ns_fd=here)
    os.close(here)
    let_go(pair)
    assert "mtu: was" not in unequal(before, bench.ports.view())
    second = bench.pair(a={"allow_addressed": True})
    assert len(second.facts["ports_rescued"]) == 2
    second.close()
    assert unequal(before, bench.ports.view()) == []


@pytest.mark.kept_namespaces
def test_a_port_that_is_gone_is_reported(bench: Bench):
    let_go(bench.pair())  # and a veth goes with its namespace
    done = subprocess.run(
        [sys.executable, "-m", "pytest_netperf.cli", "clean"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("it is in no network namespace that can be seen") == 2
    with pytest.raises(LinkError) as refusal:
        bench.pair()
    assert "there is no such port" in str(refusal.value)
    assert str(refusal.value).count("it is in no network namespace that can be seen") == 2


@pytest.mark.kept_namespaces
def test_a_restart_of_the_machine_leaves_nothing_to_do(bench: Bench):
    before = bench.ports.view()
    pair = bench.pair()
    paths = sorted(bench.path.glob("state/ports/*.journal"))
    stored = [
        path.read_text().replace(json.loads(path.read_text().split("\n")[0])["boot"], "b-o-o-t") for path in paths
    ]
    pair.close()
    for path, text in zip(paths, stored, strict=True):
        path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest_netperf.cli", "clean"], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("the machine was started anew since; there is nothing to put back") == 2
    assert list(bench.path.glob("state/ports/*.journal")) == []
    assert unequal(before, bench.ports.view()) == []


def test_the_journal_is_there_before_the_change(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    """A disk that takes nothing more: the port stays where it is."""
    monkeypatch.setattr(os, "fsync", refuse)
    assert "cannot write the journal" in bench.refused()


def test_a_full_disk_stops_no_way_home(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    before = bench.ports.view()
    pair = bench.pair(mtu=9000)
    monkeypatch.setattr(os, "fsync", refuse)
    pair.close()
    assert unequal(before, bench.ports.view()) == []
    assert list(bench.path.glob("state/ports/*.journal")) == []


def test_a_move_that_half_succeeds_is_none_that_failed(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    """The kernel says EEXIST although the port has moved: it is looked for in both places."""
    before = bench.ports.view()
    pair = bench.pair()
    for namespace in pair.ends.values():
        real = namespace.ipr.link

        def moves_and_complains(command: str, real: Any = real, **request: Any) -> Any:
            answer = real(command, **request)
            if "net_ns_fd" in request:
                raise OSError(17, "File exists")
            return answer

        monkeypatch.setattr(namespace.ipr, "link", moves_and_complains)
    pair.close()
    assert unequal(before, bench.ports.view()) == []


def test_an_address_whose_lifetime_ends_meanwhile_is_not_missed(bench: Bench):
    sh("ip", "link", "set", bench.ports.a, "up")
    sh("ip", "address", "add", bench.ports.address4, "dev", bench.ports.a, "valid_lft", "2", "preferred_lft", "1")
    pair = bench.pair(a={"allow_addressed": True})
    address = pair._journals["a"].before["state"]["addresses"][0]
    wait_until(lambda: has_run_out(address), "its lifetime has ended", 10.0)
    pair.close()
    assert bench.ports.address4.split("/")[0] not in sh("ip", "address", "show", "dev", bench.ports.a)


def refuse(_: int) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("folder", "said"), [("state", "NETPERF_STATE=state: not an absolute path"), ("/proc/none", "cannot claim port")]
)
def test_a_state_folder_that_is_none(bench: Bench, monkeypatch: pytest.MonkeyPatch, folder: str, said: str):
    monkeypatch.setenv("NETPERF_STATE", folder)
    with pytest.raises(LinkError, match=said):
        bench.pair()


def test_a_claim_ends_with_its_process(bench: Bench):
    code = "import sys; from pytest_netperf.links.port_journal import PortClaim; PortClaim('mac-x', {'pid': 1}); " + (
        "sys.stdout.write('held'); sys.stdout.flush(); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.read(4) == b"held"
        with pytest.raises(PortHeldError):
            PortClaim("mac-x", {})
        holder.kill()
        holder.wait()
    PortClaim("mac-x", {}).close()
    assert (bench.path / "state/ports/mac-x.lock").read_text() == ""
