"""A link whose far end is another host: a real sshd in namespaces of its own, real iperf3 and pytest processes.

One veth pair leads to the sshd, another one is the link under test; its near end stands in for a port of this machine.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aftermath import Traces, wait_until
from real_sshd import Cable, SshHost

from pytest_netperf.bench.model import Port
from pytest_netperf.bench_check import check_bench
from pytest_netperf.errors import ConfigError, LinkError, TrafficError
from pytest_netperf.links.far_end import RemoteLink
from pytest_netperf.links.kernel import has_capabilities
from pytest_netperf.links.owner import Owner
from pytest_netperf.links.remote import bring_up_remote
from pytest_netperf.traffic.libiperf import LibiperfEngine
from pytest_netperf.traffic.result import Workload

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(not has_capabilities(), reason="ports of this machine, and a host with an sshd, need root"),
]

BENCH = """
[[device]]
serial = "BOX-1"

[[device.link]]
name = "far"
topology = "remote"
speed = "10G"
a = {{ port = "mac-{near_mac}", address = "{near_address}/30", address6 = "{near_address6}/64", allow_virtual = true }}
b = {{ port = "{far}", ssh = "root@{host}", ssh_key = "{folder}/key", ssh_known_hosts = "{folder}/known_hosts" }}

[[device.link]]
name = "refused"
topology = "remote"
speed = "10G"
a = {{ port = "mac-{near_mac}", address = "{near_address}/30", allow_virtual = true }}
b = {{ port = "{far}", ssh = "root@{host}", ssh_key = "{folder}/other_key", ssh_known_hosts = "{folder}/known_hosts" }}
"""
RUNS = """
import pytest

pytestmark = pytest.mark.netperf_limit(throughput=">= 5 Mbps")

@pytest.mark.netperf_link(name="far", mtu=[1500, 9000])
def test_tcp(iperf3):
    iperf3.tcp(duration=1, omit=0, bitrate="20 Mbps")

@pytest.mark.netperf_link(name="far", ip_version=6)
def test_ipv6(iperf3, netperf_link):
    iperf3.tcp(duration=1, omit=0, bitrate="20 Mbps", direction="reverse")
    there = netperf_link.b.run(["sh", "-c", "echo $SSH_CONNECTION; exit 3"])
    assert there.stdout.split()[2] == "HOST"
    assert there.returncode == 3

@pytest.mark.netperf_link(name="far")
def test_udp(iperf3):
    iperf3.udp(duration=1, omit=0, bitrate="20 Mbps", direction="bidirectional")

@pytest.mark.netperf_link(name="far")
def test_counters_that_stand_still(iperf3, monkeypatch):
    from pytest_netperf.remote.far_host import FarHost

    real, first = FarHost.counters, []
    def counters(self, interface):
        first.append(real(self, interface))
        return first[0]
    monkeypatch.setattr(FarHost, "counters", counters)
    iperf3.tcp(duration=1, omit=0, bitrate="20 Mbps")

@pytest.mark.netperf_link(name="refused")
def test_refused(iperf3):
    iperf3.tcp(duration=1)
"""
LONG = """
import pytest

@pytest.mark.netperf_link(name="far", mtu=9000)
@pytest.mark.netperf_limit(throughput=">= 1 Mbps")
def test_long(iperf3):
    iperf3.tcp(duration=40, omit=0, bitrate="20 Mbps")

@pytest.mark.netperf_link(name="far", mtu=9000)
@pytest.mark.netperf_limit(throughput=">= 1 Mbps")
def test_next(iperf3):
    iperf3.tcp(duration=1, omit=0, bitrate="20 Mbps")
"""


@dataclass
class Lab:
    """A folder with a bench file and tests, the far host, and the runs that were started."""

    path: Path
    host: SshHost
    cable: Cable
    traces: Traces = field(default_factory=Traces)
    runs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, tests: str, *arguments: str) -> subprocess.Popen[bytes]:
        (self.path / "test_it.py").write_text(tests.replace("HOST", self.host.address))
        with (self.path / f"output-{len(self.runs)}.txt").open("wb") as output:
            run = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-pno:cacheprovider", "-onetperf_reference=off",
                 "-onetperf_history=off", "-onetperf_slots=8", "-q", "--netperf-bench=bench.toml", *arguments],
                cwd=self.path,
                env={**os.environ, **self.traces.environment, "NETPERF_STATE": str(self.path / "state")},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        self.runs.append(run)
        return run

    def run(self, tests: str, *arguments: str) -> int:
        return self.start(tests, *arguments).wait(120)

    @property
    def output(self) -> str:
        return (self.path / f"output-{len(self.runs) - 1}.txt").read_text()

    def rows(self) -> dict[str, dict[str, Any]]:
        """Test and MTU -> row."""
        (path,) = self.path.glob("netperf-results/BOX-1/*/sheet.json")
        rows = json.loads(path.read_text())["rows"]
        return {f"{row['id'].split('::')[-2].partition('[')[0]}/{row['conditions']['mtu']}": row for row in rows}

    def far_mtu(self) -> int:
        return int(self.host.run("cat", f"/sys/class/net/{self.cable.far}/mtu"))

    def wait_for_traffic(self) -> None:
        def flows() -> bool:
            assert self.runs[-1].poll() is None, self.output
            here = [seen.command for seen in self.traces.processes() if seen.is_iperf3]
            there = [command for command in self.host.processes() if "iperf3" in command.split()[0]]
            return any(" -c " in command for command in here) and any(" -s " in command for command in there)

        wait_until(flows, "traffic runs")

    def assert_left_nothing(self, seconds: float = 5.0) -> None:
        """At either end."""
        wait_until(lambda: not self.host.processes(), "nothing of ours runs at the far end", seconds)
        assert self.far_mtu() == 1500
        wait_until(Path("/sys/class/net", self.cable.near).exists, "the near port is home", seconds)
        wait_until(lambda: not self.traces.processes(), "nothing of ours runs here", seconds)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHost]:
    with SshHost(tmp_path_factory.mktemp("far")) as host:
        yield host


@pytest.fixture
def lab(tmp_path: Path, host: SshHost) -> Iterator[Lab]:
    lab = Lab(tmp_path, host, host.cable())
    words = {**vars(lab.cable), "host": host.address, "folder": host.folder}
    (tmp_path / "bench.toml").write_text(BENCH.format(**words))
    try:
        yield lab
    finally:
        for seen in lab.traces.processes():  # of a test that failed
            os.kill(seen.pid, signal.SIGKILL)
        for run in lab.runs:
            run.kill()
            run.wait()


@pytest.mark.needs_xdist
def test_tests_do_not_know_that_the_far_end_is_another_host(lab: Lab):
    """Both IP versions, protocols, directions and two MTUs, and a host that refuses us, by two workers that take turns:
    one's MTU at the far port is not the other's."""
    assert lab.run(RUNS, "-n2") == 1, lab.output
    lab.assert_left_nothing(1.5)
    rows = lab.rows()
    refused = rows.pop("test_refused/1500")
    assert refused["verdict"] == "ERROR"
    assert "the login was refused: the key " in refused["reason"]
    assert "\n" not in refused["reason"]
    still = rows.pop("test_counters_that_stand_still/1500")
    assert (still["verdict"], still["reason"][:22]) == ("INVALID", "Path: Port b received ")
    assert {name: row["verdict"] for name, row in rows.items()} == dict.fromkeys(
        ("test_tcp/1500", "test_tcp/9000", "test_ipv6/1500", "test_udp/1500"), "PASS"
    )
    facts = rows["test_tcp/9000"]["evidence"]["facts"]
    assert facts["link_far_host"].endswith(f"(ssh root@{lab.host.address})")
    assert facts["link_far_kernel"] == f"Linux {os.uname().release}"
    assert facts["link_far_iperf3"].startswith("iperf 3.")
    assert facts["server_version"] == facts["client_version"]
    assert abs(facts["link_far_clock_ahead_s"]) <= facts["link_far_clock_within_s"] + 0.01
    assert facts["link_far_mtu_was"] == 1500
    assert facts["port_b_driver"] == "veth"
    assert lab.cable.far in facts["port_b"]
    assert facts["link_proof"]["echo_with_df_bytes"] == 9000
    assert facts["link_proof"]["ip_versions"] == [4, 6]
    assert len(facts["far_cpu_busy"]) == os.cpu_count()
    assert facts["received_bytes"] <= facts["port_b_rx_bytes"] <= 1.1 * facts["received_bytes"] + 2**20
    reverse = rows["test_ipv6/1500"]["evidence"]["facts"]
    assert reverse["received_bytes"] <= reverse["port_b_tx_bytes"]
    assert lab.cable.far_address6 in reverse["client_command"]


def test_pytest_is_killed(lab: Lab):
    """Nothing of it is left at either end within seconds, and both ports are as they were."""
    run = lab.start(LONG)
    lab.wait_for_traffic()
    assert lab.far_mtu() == 9000
    run.send_signal(signal.SIGKILL)
    run.wait(30)
    lab.assert_left_nothing()


def test_the_far_host_goes_away(lab: Lab):
    """Its sshd ends the session: the row is ERROR with that reason, and the next test has a link of its own."""
    run = lab.start(LONG)
    lab.wait_for_traffic()
    lab.host.run("pkill", "-KILL", "-f", "sshd: root@notty")
    assert run.wait(60) == 1, lab.output
    assert lab.rows()["test_next/9000"]["verdict"] == "PASS", lab.output
    row = lab.rows()["test_long/9000"]
    assert row["verdict"] == "ERROR"
    assert f"ssh root@{lab.host.address}: the connection was " in row["reason"]
    lab.assert_left_nothing(10.0)


def test_bench_check_logs_in_and_looks(lab: Lab):
    found = {each.name: each for each in check_bench(lab.path / "bench.toml").links}
    far, refused = found["BOX-1/far"], found["BOX-1/refused"]
    assert far.problems == []
    assert f"b = {lab.cable.far} ({lab.cable.far}, veth, of {os.uname().nodename} (Linux " in far.text
    assert [problem for problem in refused.problems if "login was refused" in problem]


# ---- what is wrong with the other host, before the near port is touched ----------------------------------------------


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    """A keeper. It, and this process, write no port of these tests into the machine's own folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETPERF_STATE", str(tmp_path_factory.mktemp("state")))
        owner = Owner()
        yield owner
        owner.close()


@pytest.fixture(scope="module")
def cable(host: SshHost) -> Cable:
    return host.cable()


def near_end(cable: Cable, **changes: Any) -> Port:
    given = {"port": f"mac-{cable.near_mac}", "address": f"{cable.near_address}/30", "allow_virtual": True}
    return Port(**{**given, **changes})


def up(owner: Owner, host: SshHost, cable: Cable, near: Port | None = None, **changes: Any) -> RemoteLink:
    about: dict[str, Any] = {"name": "far", "speed_bps": 1e10, "mtu": changes.pop("mtu", 1500), "asked": {}}
    far = Port(**{"port": cable.far, "ssh": host.target, **changes})
    return bring_up_remote(owner, f"far-{secrets.token_hex(4)}", near=near or near_end(cable), far=far, **about)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"port": "enp9s0"}, "there is no port 'enp9s0'; it has n"),
        ({"port": "mac-02:00:5e:00:00:01"}, "there is no port 'mac-02:00:5e:00:00:01'; it has n"),
        ({"iperf3": "/opt/iperf3"}, "there is no /opt/iperf3. Install iperf3 there, or say where it is: iperf3 = "),
        (
            {"iperf3": "OTHER"},
            "asked for its version it says 'iperf 2.1.8 (12 August 2022)', and both ends need iperf 3",
        ),
        ({"namespace": "lab"}, "in its network namespace 'lab': Cannot open network namespace"),
        ({"address": "198.18.255.1/24"}, "and not 198.18.255.1, which the bench file gives to end b; give it to the"),
        ({"port": "lo"}, "the far port has 127.0.0.1, which is not in the network of end a"),
        ({"mtu": 65536}, "its port FAR has an MTU of 1500, the test asks for 65536, and it could not be set"),
    ],
    ids=["no port", "no MAC", "no iperf3", "iperf 2", "no namespace", "no address", "no way", "MTU"],
)
def test_what_the_far_host_lacks_is_said(
    owner: Owner, host: SshHost, cable: Cable, tmp_path: Path, changes: dict[str, Any], said: str
):
    other = tmp_path / "iperf3"
    other.write_text("#!/bin/sh\necho 'iperf 2.1.8 (12 August 2022)'\n")
    other.chmod(0o755)
    if changes.get("iperf3") == "OTHER":
        changes = {"iperf3": str(other)}
    with pytest.raises(LinkError) as error:
        up(owner, host, cable, **changes)
    assert str(error.value).startswith((f"ssh root@{host.address}: ", "the far port has "))
    assert said.replace("FAR", cable.far) in str(error.value)
    assert "\n" not in str(error.value)
    wait_until(lambda: not host.processes(), "nothing of ours runs at the far end", 5.0)


def test_root_is_needed_there_only_to_set_the_mtu(owner: Owner, host: SshHost, cable: Cable):
    tester = replace(host.target, user="tester")
    with pytest.raises(
        LinkError, match=r"asks for 9000, and it could not be set \(.*Permission denied\): set it there"
    ):
        up(owner, host, cable, ssh=tester, mtu=9000)
    link = up(owner, host, cable, ssh=tester)
    try:
        assert link.b.run(["id", "-un"]).stdout == "tester\n"
        assert link.b.run(["sh", "-c", "exit 5"]).returncode == 5
        with pytest.raises(subprocess.TimeoutExpired):
            link.b.run(["sleep", "60"], timeout=0.3)
        with pytest.raises(
            LinkError, match=r"cannot run 'no-such-tool' at end b: ssh tester@.* no such program in its"
        ):
            link.b.run(["no-such-tool"])
        with pytest.raises(ConfigError, match=r"it is on ssh tester@.*, and stdin is of this machine"):
            link.b.popen(["cat"], stdin=0)
        with pytest.raises(LinkError, match="cannot have a socket there"):
            link.b.socket()
        before = link.all_counters()
        answered = link.a.run(["iperf3", "-c", link.b.address, "-t1"])
        assert answered.returncode != 0, "no server runs there"
        after = link.all_counters()
        assert after["b"].rx_packets > before["b"].rx_packets
        facts = link.port_facts()[1]
        assert (facts.driver, facts.duplex) == ("veth", "full")
        assert facts.counters == {"rx_missed": 0, "rx_crc_errors": 0}
        host.run("ip", "link", "set", cable.far, "mtu", "1400")
        with pytest.raises(LinkError, match="is 1400 and was 1500 when the link came up: something there changed it"):
            link.port_facts()
        host.run("ip", "link", "set", cable.far, "mtu", "1500")
        engine = LibiperfEngine.__new__(LibiperfEngine)
        engine.check = lambda _workload: None  # the library need not be installed
        with pytest.raises(TrafficError, match=r"on another host, .*choose the iperf3 program"):
            engine.run(link, Workload())
    finally:
        link.close()
    assert Path("/sys/class/net", cable.near).exists()
    wait_until(lambda: not host.processes(), "nothing of ours runs at the far end", 5.0)


def test_without_counters_there_is_no_link(owner: Owner, host: SshHost, cable: Cable):
    """What nothing could prove is not measured."""
    there = host.run("readlink", "-f", f"/sys/class/net/{cable.far}/statistics").strip()
    host.run("mount", "-t", "tmpfs", "none", there)
    try:
        with pytest.raises(LinkError, match=r"has no counters in /sys/class/net, and without them nothing proves that"):
            up(owner, host, cable)
    finally:
        host.run("umount", there)


def test_a_far_port_in_a_network_namespace_of_its_host(owner: Owner, host: SshHost):
    cable, name = host.cable(), f"lab{secrets.token_hex(2)}"
    host.run("ip", "netns", "add", name)
    host.run("ip", "link", "set", cable.far, "netns", name)
    for words in (f"addr add {cable.far_address}/30 dev {cable.far}", f"link set {cable.far} up", "link set lo up"):
        host.run("ip", "-n", name, *words.split())
    link = up(owner, host, cable, near=near_end(cable), namespace=name, mtu=9000)
    try:
        assert link.facts["far_namespace"] == name
        assert link.b.run(["ls", "/sys/class/net"]).stdout.split() == ["lo", cable.far]
        server = link.b.popen(["iperf3", "-s", "-1", "-p", "5201"])
        wait_until(lambda: link.b.is_listening(5201), "the server listens", 10.0)
        assert link.a.run(["iperf3", "-c", link.b.address, "-t1", "-b", "10M"]).returncode == 0
        assert server.wait(5.0)
        a, b = link.counters()
        assert b.rx_bytes >= 1_000_000
        assert a.tx_bytes >= 1_000_000
    finally:
        link.close()
    assert host.run("ip", "netns", "exec", name, "cat", f"/sys/class/net/{cable.far}/mtu") == "1500\n"
    wait_until(lambda: not host.processes(), "nothing of ours runs at the far end", 5.0)
