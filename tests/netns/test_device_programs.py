"""What a simulated device runs beside forwarding: that it saw the traffic, what it costs, and that it is limited."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_netperf.cli import main
from pytest_netperf.errors import LinkError
from pytest_netperf.links import cpu_group, device_programs
from pytest_netperf.links.cpu_group import CpuGroup
from pytest_netperf.links.device_states import enter_state
from pytest_netperf.links.kernel import has_capabilities
from pytest_netperf.links.link import bring_up
from pytest_netperf.links.owner import Owner
from pytest_netperf.links.routed import RoutedPath
from pytest_netperf.observe.measure import measure
from pytest_netperf.traffic.engine import make_engine
from pytest_netperf.traffic.result import Workload

pytestmark = [
    pytest.mark.netns,
    pytest.mark.kept_namespaces,  # control groups are the machine's too, and `clean` removes those of the dead
    pytest.mark.skipif(not has_capabilities(), reason="needs root to make links and control groups in this process"),
]


def groups() -> list[Path]:
    parent, _ = cpu_group._hierarchy()
    return list(parent.glob("netperf-*"))


@pytest.fixture
def path() -> Iterator[RoutedPath]:
    path = RoutedPath(0x7F10, {"mtu": 1500, "speed_bps": 1e8, "far_index": 0x7F11})
    yield path
    path.close()


def send(path: RoutedPath, packets: int) -> None:
    with path.ends["a"].socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(packets):
            sender.sendto(b"x", (path.ports["b"]["address"], 4000))


def test_all_three_of_a_run_and_nothing_is_left(owner: Owner):
    state = {"dpi_side": "both", "monitoring_per_second": 100, "cpu_limit": 0.08}
    link = bring_up(
        owner, "programs", name="programs", speed_bps=2e7, mtu=1500, topology="routed", device={"state": state}
    )
    try:
        assert set(link.facts["device_state"]) == {"dpi", "monitoring", "cpu_limit"}
        assert "saw our packets, and found STUN in " in link.facts["device_state"]["dpi"]
        assert "of 100 that are asked for; the counters rose by" in link.facts["device_state"]["monitoring"]
        workload = Workload(protocol="tcp", duration_s=2.0, omit_s=0.0)
        facts = measure(make_engine("iperf3"), link, workload, slots=1).observation.device_programs
    finally:
        link.close()
    assert facts["device_dpi_packets"] > 200
    assert 0.2 < facts["device_dpi_seen"] <= 1
    assert sum(facts["device_dpi_protocols"].values()) > 50
    assert 1 < facts["device_monitoring_per_second"] <= 101
    assert facts["device_monitoring_packets"] > 200
    assert facts["device_cpu_limit"] == 0.08
    assert 0 < facts["device_dpi_cpu"] + facts["device_monitoring_cpu"] < 0.08 * 1.5 + 0.02
    assert groups() == []


def test_a_limit_holds_a_program_that_would_take_a_whole_cpu(path):
    enter_state(path, {"monitoring_per_second": 1000, "cpu_limit": 0.1})
    assert path.programs is not None
    path.programs.traffic_begins()
    send(path, 20)
    time.sleep(1)
    path.programs.traffic_ends()
    facts = path.programs.report()
    assert facts["device_monitoring_cpu"] < 0.2
    assert facts["device_cpu_limited"] >= 3 or facts["device_monitoring_cpu"] < 0.09, "the machine is too busy for 10 %"
    path.close()
    assert groups() == []


@pytest.mark.parametrize("state", [{"dpi_side": "a"}, {"monitoring_per_second": 20}], ids=["dpi", "monitoring"])
def test_a_program_that_ended_meanwhile_was_not_the_state(path, state):
    enter_state(path, state)
    programs = path.programs
    assert programs is not None
    programs.traffic_begins()
    os.kill(programs._programs[0]._process.pid, 9)
    time.sleep(0.05)
    programs.traffic_ends()
    with pytest.raises(LinkError, match="ended while the link was up, so the device was not in this state"):
        programs.report()
    programs.traffic_begins()  # it was started again, and so the next run may be in the state
    send(path, 20)
    time.sleep(0.3)
    programs.traffic_ends()
    assert programs.report()


def test_a_program_that_saw_nothing(path, monkeypatch):
    enter_state(path, {"dpi_side": "b"})
    assert path.programs is not None
    (dpi,) = path.programs._programs
    with pytest.raises(LinkError, match="dpi: ndpiReader saw no packet of the traffic"):
        dpi.saw("")
    dpi._passed -= 1_000_000
    with pytest.raises(LinkError, match=r"dpi: ndpiReader saw 9 of 10\d{5} packets of its ports"):
        dpi.saw("IP packets: 9 of 9 packets total")
    path.programs.close()
    monkeypatch.setattr(device_programs, "_QUESTION", b"nothing that it knows")
    monkeypatch.setattr(device_programs, "_TRIES", 1)
    with pytest.raises(LinkError, match="did not find our packet of STUN; it found"):
        enter_state(path, {"dpi_side": "b"})


def test_a_program_that_does_not_start(path, monkeypatch):
    monkeypatch.setattr(device_programs, "find_program", lambda _: "/bin/false")
    with pytest.raises(LinkError, match=r"device state: dpi: /bin/false did not start: it says nothing"):
        enter_state(path, {"dpi_side": "both"})


def test_a_machine_without_control_groups(path, monkeypatch, tmp_path):
    (tmp_path / "mounts").write_text(f"cgroup2 {tmp_path} cgroup2 rw 0 0\n")
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    monkeypatch.setattr(cpu_group, "_MOUNTS", tmp_path / "mounts")
    with pytest.raises(LinkError, match="this machine has no cgroup hierarchy with the cpu controller"):
        enter_state(path, {"dpi_side": "both", "cpu_limit": 0.5})


def test_cgroup_2_where_it_has_the_controller(monkeypatch, tmp_path):
    """Files stand in for the kernel's: here the controller is in version 1."""
    (tmp_path / "mounts").write_text(f"cgroup2 {tmp_path} cgroup2 rw 0 0\ncgroup /nowhere cgroup rw,cpu 0 0\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpuset cpu io\n")
    monkeypatch.setattr(cpu_group, "_MOUNTS", tmp_path / "mounts")
    (tmp_path / "netperf-4194305-1").mkdir()  # of a process that is gone: no process id is above 4194304
    group = CpuGroup("2", 0.25)
    (folder,) = tmp_path.glob("netperf-*")
    assert (folder / "cpu.max").read_text() == "25000 100000"
    (folder / "cpu.stat").write_text("usage_usec 5\nnr_periods 7\nnr_throttled 3\n")
    assert group.throttled() == (7, 3)
    group.lift()
    assert (folder / "cpu.max").read_text() == "max"
    for file in folder.iterdir():
        file.unlink()
    group.close()
    assert list(tmp_path.glob("netperf-*")) == []


@pytest.mark.parametrize("keeper_too", [False, True], ids=["owner", "owner and keeper"])
def test_the_group_of_a_killed_owner_goes_too(keeper_too, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("NETPERF_STATE", str(tmp_path))  # no port of another test's run is brought home here
    script = (
        "from pytest_netperf.links.owner import Owner\n"
        "from pytest_netperf.links.link import bring_up\n"
        "import time\n"
        "state = {'monitoring_per_second': 10, 'cpu_limit': 0.5}\n"
        "link = bring_up(Owner(), 'k', name='k', speed_bps=1e8, mtu=1500, topology='routed', device={'state': state})\n"
        "print('up', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        (group,) = groups()
        if keeper_too:
            os.kill(int(group.name.split("-")[1]), signal.SIGKILL)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    if keeper_too:
        assert groups() == [group], "nobody was left to remove it"
        for dry_run, said in ((["--dry-run"], "would remove"), ([], "removing")):
            assert main(["clean", *dry_run]) == 0
            assert f"{said} control group {group}" in capsys.readouterr().out
    deadline = time.monotonic() + 5
    while groups() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert groups() == []
