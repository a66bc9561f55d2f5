"""A real router that is told over ssh: its states by ready commands for Linux, proved, lost, undone, and undone later.

The device is a host of its own with a real sshd and real nftables; the tester's ports are cabled to it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from aftermath import Traces, wait_until
from real_sshd import Cable, SshHost
from stand_in import unequal, view

from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.bench.device_os import commands_for
from pytest_netperf.bench.plan import LinkRequest, plan_links, states_of
from pytest_netperf.device_states import DeviceStates
from pytest_netperf.errors import LinkError, SshError
from pytest_netperf.remote.device_driver import DeviceDriver, rescue

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="a host with an sshd of its own needs root"),
]

STATES = """
[[device.state]]
name = "nat"
nat = true
[[device.state]]
name = "fw"
firewall = { rules = 50 }
[[device.state]]
name = "both"
nat = true
firewall = { rules = 7 }
rate_limit = "100 Mbps"
[[device.state]]
name = "file"
enter = ["touch /run/entered-{a}"]
check = "ls /run"
expect = "entered-{a}"
undo = ["rm -f /run/entered-{a}"]
timeout = "1 s"
[[device.state]]
name = "wrong"
enter = ["true"]
check = "echo it is off"
expect = "it is on"
undo = ["true"]
timeout = 0.5
"""


@dataclass
class Router:
    """The host, its two cables, and a bench file that names them."""

    host: SshHost
    path: Path
    cables: dict[str, Cable] = field(default_factory=dict)

    @property
    def bench(self) -> str:
        target = self.host.target
        ends = ""
        for end, cable in self.cables.items():
            near, far = cable.near_address, cable.far_address
            ends += f'{end} = {{ port = "altname-{cable.near}", address = "{near}/30", gateway = "{far}", '
            ends += "allow_virtual = true }\n"
        sides = ", ".join(f'{end} = "{cable.far}"' for end, cable in self.cables.items())
        return (
            f'[[device]]\nserial = "BOX-1"\nssh = "root@{target.host}"\nssh_key = "{target.key}"\n'
            f'ssh_known_hosts = "{target.known_hosts}"\nos = "linux"\nsides = {{ {sides} }}\n'
            f'[[device.link]]\nname = "lan-wan"\ntopology = "routed"\nspeed = "1G"\n{ends}{STATES}'
        )

    @property
    def folder(self) -> Path:
        return self.path / "state" / "devices"

    def driver(self) -> DeviceDriver:
        (device,) = parse_bench(self.bench).devices
        states = {state.name: commands_for(device, state) for state in states_of(device) if state.name != "plain"}
        assert device.ssh is not None
        return DeviceDriver("BOX-1", device.ssh, states, self.folder)

    @property
    def tables(self) -> str:
        return self.host.run("nft", "list", "tables")

    def view(self) -> dict[str, Any]:
        return {cable.near: view(cable.near) for cable in self.cables.values()}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHost]:
    with SshHost(tmp_path_factory.mktemp("router")) as host:
        host.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        yield host


@pytest.fixture(scope="module")
def cables(running: SshHost) -> dict[str, Cable]:
    return {end: running.cable() for end in "ab"}


@pytest.fixture
def router(running: SshHost, cables: dict[str, Cable], tmp_path: Path) -> Iterator[Router]:
    router = Router(running, tmp_path, cables)
    yield router
    assert router.tables == ""
    assert list(router.folder.glob("*.json")) == []


def test_ready_commands_for_linux_do_what_they_say(router: Router):
    driver = router.driver()
    try:
        assert driver.enter(None).startswith("none of the 5 checks of the other states finds anything in force")
        said = driver.enter("nat")
        assert f'`nft list table inet netperf_nat` said \'oifname "{router.cables["b"].far}" counter' in said
        assert router.tables.strip() == "table inet netperf_nat"
        assert "said '50'" in driver.enter("fw")
        assert router.tables.strip() == "table inet netperf_firewall"
        rules = router.host.run("nft", "list", "chain", "inet", "netperf_firewall", "forward")
        assert rules.count("counter packets") == 51
        both = driver.enter("both")
        assert [both.index(f"{part}: `") for part in ("nat", "firewall", "rate_limit")] == sorted(
            both.index(f"{part}: `") for part in ("nat", "firewall", "rate_limit")
        )
        shaped = router.host.run("tc", "qdisc", "show", "dev", router.cables["a"].far)
        assert "tbf 5e7f: root" in shaped
        assert "rate 100Mbit" in shaped
        assert driver.proof("both") == both
        assert "entered-npc" in driver.enter("file")
    finally:
        driver.close()
    assert "noqueue" in router.host.run("tc", "qdisc", "show", "dev", router.cables["a"].far)
    assert not Path(f"/proc/{router.host.pid}/root/run/entered-{router.cables['a'].far}").exists()


def test_a_state_that_its_check_does_not_show(router: Router):
    driver = router.driver()
    with pytest.raises(
        LinkError, match="wrong is not in force: `echo it is off` said 'it is off', in which 'it is on'"
    ):
        driver.enter("wrong")
    driver.close()


def test_a_state_that_is_lost_meanwhile(router: Router):
    driver = router.driver()
    driver.enter("nat")
    router.host.run("nft", "flush", "ruleset")
    with pytest.raises(LinkError, match="device BOX-1: nat is not in force: `nft list table inet netperf_nat` said"):
        driver.proof("nat")
    driver.close()


def test_a_connection_that_was_lost_meanwhile_is_no_lost_state(router: Router):
    driver = router.driver()
    driver.enter("nat")
    router.host.run("pkill", "-f", "sshd: root@notty")
    assert "nat: `nft list table" in driver.proof("nat")
    driver.close()


def test_what_somebody_else_switched_on_is_not_taken_for_plain(router: Router):
    (device,) = parse_bench(router.bench).devices
    router.host.run("sh", "-c", commands_for(device, device.states[0])["nat"].enter[0])
    driver = router.driver()
    with pytest.raises(LinkError, match="nat of its state 'nat' is in force, which this run did not enter"):
        driver.enter(None)
    with pytest.raises(LinkError, match="switch it off, or correct the check"):
        driver.enter("fw")
    router.host.run("nft", "flush", "ruleset")
    driver.close()


def test_a_command_that_fails_is_undone(router: Router):
    text = router.bench.replace('enter = ["touch /run/entered-{a}"]', 'enter = ["touch /run/entered-{a}", "false"]')
    (device,) = parse_bench(text).devices
    state = next(state for state in device.states if state.name == "file")
    assert device.ssh is not None
    driver = DeviceDriver("BOX-1", device.ssh, {"file": commands_for(device, state)}, router.folder)
    with pytest.raises(SshError, match="`false` failed with status 1"):
        driver.enter("file")
    assert not list(Path(f"/proc/{router.host.pid}/root/run").glob("entered-*"))
    driver.close()


def test_two_processes_do_not_change_one_device(router: Router):
    driver = router.driver()
    with pytest.raises(LinkError, match=f"is in the hands of process {os.getpid()} since .*: another run measures it"):
        router.driver()
    driver.close()
    router.driver().close()


def test_what_a_killed_process_left_is_undone_by_the_next(router: Router):
    for left in ("next run", "clean"):
        driver = router.driver()
        driver.enter("both")
        driver._hang_up()
        driver._claim.close()  # as the kernel does
        del driver
        assert "netperf_nat" in router.tables
        if left == "next run":
            router.driver().close()
        else:
            assert rescue(router.folder, dry_run=True) == [("BOX-1", None)]
            assert "netperf_nat" in router.tables
            assert rescue(router.folder) == [("BOX-1", None)]
            assert rescue(router.folder) == []
        assert router.tables == ""


def test_a_test_that_asks_for_no_state_does_not_measure_what_a_killed_run_left(
    router: Router, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NETPERF_STATE", str(router.path / "state"))
    driver = router.driver()
    driver.enter("nat")
    driver._claim.close()
    (plan,) = plan_links(parse_bench(router.bench), LinkRequest())
    states = DeviceStates(cast("pytest.Config", None))
    assert "netperf_nat" in router.tables
    states.enter(plan)
    assert router.tables == ""
    assert states.leave() == []
    driver._hang_up()


TESTS = """
import pytest

@pytest.mark.netperf_link(device_state=["plain", "nat", "fw"])
@pytest.mark.netperf_limit(throughput=">= 9 Mbps")
def test_rate(iperf3):
    iperf3.tcp(duration=DURATION, omit=0, bitrate="10 Mbps")
"""


def start(router: Router, duration: int, traces: Traces) -> subprocess.Popen[bytes]:
    (router.path / "bench.toml").write_text(router.bench)
    (router.path / "test_it.py").write_text(TESTS.replace("DURATION", str(duration)))
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    with (router.path / "output.txt").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-pno:cacheprovider", "-onetperf_reference=off", "-q",
             "--netperf-bench=bench.toml"],
            cwd=router.path,
            env={**outside, **traces.environment, "NETPERF_STATE": str(router.path / "state")},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip


def rows(router: Router) -> dict[str, dict[str, Any]]:
    (path,) = router.path.glob("netperf-results/BOX-1/*/sheet.json")
    return {row["conditions"]["device_state"]: row for row in json.loads(path.read_text())["rows"]}


def test_a_run_through_the_states_of_a_router(router: Router):
    """Its filter is flushed while the last state is measured: that row is INVALID, whatever it measured."""
    before, traces = router.view(), Traces()
    run = start(router, 1, traces)
    output = router.path / "output.txt"
    try:
        wait_until(lambda: run.poll() is not None or "netperf_firewall" in router.tables, "the last state is there")
        wait_until(
            lambda: (
                run.poll() is not None or any(seen.is_iperf3 and " -c " in seen.command for seen in traces.processes())
            ),
            "traffic runs",
        )
        router.host.run("nft", "flush", "ruleset")
        assert run.wait(120) == 1, output.read_text()
    finally:
        run.kill()
        run.wait()
    assert unequal(before, router.view()) == []
    found = rows(router)
    assert {state: row["verdict"] for state, row in found.items()} == {
        "plain": "PASS", "nat": "PASS", "fw": "INVALID",
    }, output.read_text()  # fmt: skip
    assert "Device left its state: Behind the run, device BOX-1: firewall is not in force" in found["fw"]["reason"]
    facts = found["nat"]["evidence"]["facts"]
    assert "nft list table inet netperf_nat" in facts["device_state_proof"]
    assert facts["link_address_translation"]["IPv4"] == f"end b sees end a as {router.cables['b'].far_address}"
    assert "link_address_translation" not in found["plain"]["evidence"]["facts"]


def test_a_killed_run_is_cleaned_up_behind(router: Router):
    traces = Traces()
    run = start(router, 30, traces)
    try:
        wait_until(lambda: run.poll() is not None or "netperf" in router.tables, "a state is entered", 90)
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    traces.assert_gone(5.0)
    wait_until(lambda: not list(router.path.glob("state/ports/*.journal")), "the ports are home")
    assert "netperf_nat" in router.tables
    done = subprocess.run(
        [sys.executable, "-m", "pytest_netperf.cli", "clean"],
        env={**os.environ, "NETPERF_STATE": str(router.path / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "device BOX-1: put back into its plain state" in done.stdout
    assert router.tables == ""


def test_a_device_that_does_not_answer(router: Router):
    (device,) = parse_bench(router.bench.replace("ssh_key", "ssh_port = 23\nssh_key", 1)).devices
    assert device.ssh is not None
    states = {"nat": commands_for(device, device.states[0])}
    driver = DeviceDriver("BOX-1", device.ssh, states, router.folder)
    with pytest.raises(SshError, match=rf"ssh root@{router.host.address}:23: cannot be reached: Connection refused"):
        driver.enter("nat")
    assert list(router.folder.glob("*.json")) == [], "nothing was told, so there is nothing to undo"
    with pytest.raises(SshError, match="cannot be reached"):
        driver.close()
    router.driver().close()
