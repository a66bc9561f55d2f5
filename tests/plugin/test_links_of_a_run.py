"""The links of one run: shared, cold, many, faulty, kept, and the end of whoever owns them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SCOPES = """
import os

# A trace in the namespace itself: numbers of namespaces come again, what was written into one does not.
TRACE = "cat /proc/sys/net/ipv4/ip_default_ttl; echo 77 > /proc/sys/net/ipv4/ip_default_ttl"

def note(netperf_link):
    found = netperf_link.a.run(["sh", "-c", TRACE], check=True).stdout
    with open("traces", "a") as file:
        file.write(found)

@pytest.fixture
def bad_teardown():
    yield
    raise OSError("no")

@pytest.mark.netperf_link(speed="100M", scope="SCOPE")
@pytest.mark.parametrize("number", range(2))
def test_link(netperf_link, number):
    note(netperf_link)
    assert os.stat("/proc/self/ns/net").st_ino not in (netperf_link.a.namespace, netperf_link.b.namespace)
    where = netperf_link.a.run(["readlink", "/proc/self/ns/net"]).stdout.strip()
    assert where == f"net:[{netperf_link.a.namespace}]"

@pytest.mark.netperf_link(speed="100M", scope="SCOPE")
def test_same_plan_in_another_test(netperf_link, bad_teardown):
    note(netperf_link)

@pytest.mark.netperf_link(speed="100M", scope="SCOPE")
def test_after_a_bad_teardown(netperf_link):
    note(netperf_link)
"""


@pytest.mark.parametrize(("scope", "traces"), [("session", "64 77 77 77"), ("function", "64 64 64 64")])
def test_a_link_is_shared_by_default_and_cold_on_request(project, scope, traces):
    """Also behind a test whose teardown failed."""
    project.write(test_scopes=SCOPES.replace("SCOPE", scope))
    run = project.run()
    assert " ".join((project.path / "traces").read_text().split()) == traces, run.text
    run.has("4 passed")
    run.has("1 error")


def namespaces(project) -> list[str]:
    return (project.path / "namespaces").read_text().splitlines()


def test_more_links_than_stay_up_are_brought_up_again_where_they_are_used(project):
    """Twenty links of which sixteen stay up, visited twice, and one held by a fixture all the while."""
    project.write(
        test_many="""
MTUS = list(range(1300, 1320))

@pytest.mark.netperf_link(speed="100M", mtu=MTUS)
class TestMany:
    @pytest.mark.parametrize("turn", range(2))
    def test_link(self, netperf_link, turn):
        assert netperf_link.mtu == netperf_link.a.mtu
        with open(f"/proc/{os.getpid()}/comm") as file:
            file.read()
        code = (
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
            f"s.connect(('{netperf_link.b.address}', 9)); s.send(b'x')"
        )
        netperf_link.a.run([sys.executable, "-c", code], check=True)
        before = netperf_link.counters()[1].rx_packets
        netperf_link.a.run([sys.executable, "-c", code], check=True)
        assert netperf_link.counters()[1].rx_packets > before
""".replace("MTUS =", "import os, sys\nMTUS =")
    )
    run = project.run()
    assert run.code == 0, run.text
    run.has("40 passed")


def test_a_faulty_link_is_faulty_in_the_direction_that_was_asked_for(project, workers):
    project.write(
        test_fault="""
@pytest.mark.netperf_link(speed="100M", fault={"rate": "20 Mbps", "direction": "a-to-b"})
@pytest.mark.netperf_limit(throughput=">= 50 Mbps")
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_way(iperf3, direction):
    iperf3.tcp(direction=direction)
"""
    )
    run = project.run(*workers)
    found = {row["conditions"]["direction"]: row["verdict"] for row in run.sheet["rows"]}
    assert found == {"forward": "FAIL", "reverse": "PASS"}, run.text
    assert run.sheet["verdict"] == "REJECTED"


def test_links_that_this_version_cannot_make_are_errors_of_the_bench(project, workers):
    project.write(
        {
            "bench.toml": """
[[device]]
serial = "A-1"
  [[device.link]]
  name = "real"
  speed = "1G"
  a = { port = "pci-0000:04:00.0" }
  b = { port = "pci-0000:04:00.1" }
  [[device.link]]
  name = "far"
  speed = "1G"
  topology = "remote"
  simulated = true
"""
        },
        test_rate="""
@pytest.mark.netperf_limit(throughput=">= 1 Mbps")
def test_rate(iperf3):
    iperf3.tcp()
""",
    )
    run = project.run(*workers, "--netperf-bench=bench.toml")
    run.is_clean()
    rows = {row["link"]: row for row in run.sheet["rows"]}
    assert {name: row["verdict"] for name, row in rows.items()} == {"real": "ERROR", "far": "ERROR"}
    assert "port 'pci-0000:04:00.0': there is no such port" in rows["real"]["reason"]
    assert "can simulate only 'pair', 'routed', 'switched'" in rows["far"]["reason"]
    assert (run.code, run.sheet["verdict"]) == (1, "NOT PROVEN")


def test_when_the_keeper_dies_its_test_is_an_error_and_the_next_one_works(project):
    project.write(
        test_dead="""
import os, signal, time

def keepers():
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                command = open(f"/proc/{entry}/cmdline").read()
                parent = int(open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if "pytest_netperf.links.keeper" in command and parent == os.getpid():
                found.append(int(entry))
    return found

LIMIT = pytest.mark.netperf_limit(throughput=">= 50 Mbps")

@pytest.mark.netperf_link(speed="100M")
@LIMIT
def test_first(iperf3):
    iperf3.tcp()

@pytest.mark.netperf_link(speed="100M")
@LIMIT
def test_killed(iperf3):
    for pid in keepers():
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.3)
    iperf3.tcp()

@pytest.mark.netperf_link(speed="100M")
@LIMIT
def test_next(iperf3):
    iperf3.tcp()
"""
    )
    run = project.run()
    run.is_clean()
    assert {name.split("[")[0]: row["verdict"] for name, row in run.rows.items()} == {
        "test_first": "PASS",
        "test_killed": "ERROR",
        "test_next": "PASS",
    }, run.text
    assert "the keeper process" in run.rows["test_killed[SIM-0001/sim-100M]::throughput"]["reason"]


def named_namespaces() -> set[str]:
    folder = Path("/run/netns")
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


@pytest.mark.kept_namespaces
@pytest.mark.skipif(os.getuid() != 0, reason="named namespaces need root")
def test_kept_links_are_named_said_and_removed(project, workers):
    project.write(
        test_keep="""
@pytest.mark.netperf_link(speed="100M")
def test_keep(netperf_link):
    netperf_link.a
"""
    )
    before = named_namespaces()
    run = project.run(*workers, "--netperf-keep")
    kept = sorted(named_namespaces() - before)
    try:
        assert len(kept) == 2
        for name in kept:
            run.has(name)
        run.has("kept namespaces:", "ip netns exec", "pytest-netperf clean")
    finally:
        from pytest_netperf.links.leftovers import remove_namespace

        for name in kept:
            remove_namespace(name)


def test_nothing_is_left_of_a_run(project, workers):
    project.write(
        test_left="""
@pytest.mark.netperf_link(speed="100M", mtu=[1500, 1400])
def test_left(netperf_link):
    process = netperf_link.a.popen(["sleep", "997"])
    with open("namespaces", "a") as file:
        file.write(f"{netperf_link.a.namespace}\\n{netperf_link.b.namespace}\\n")
"""
    )
    before = named_namespaces()
    project.run(*workers)
    gone = set(namespaces(project))
    assert len(gone) == 4
    deadline = time.monotonic() + 5
    while (alive := gone & inhabited()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive == set()
    assert named_namespaces() == before


def inhabited() -> set[str]:
    """Inode numbers of the network namespaces in which any process lives."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.add(str(os.stat(entry / "ns" / "net").st_ino))  # noqa: PTH116 - follows the magic link
            except OSError:
                continue
    return found
