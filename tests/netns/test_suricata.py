"""The driver for Suricata, against a stand-in with its command line: on a simulated device, and over a real sshd."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_sshd import SshHost
from suricata_stand_in import stand_in

from pytest_netperf.errors import ConfigError, LinkError, ServiceMissingError
from pytest_netperf.links.device_states import cross, enter_state
from pytest_netperf.links.kernel import has_capabilities
from pytest_netperf.links.routed import RoutedPath
from pytest_netperf.remote.ssh import connect
from pytest_netperf.remote.suricata import PATTERN, Suricata

pytestmark = [pytest.mark.netns, pytest.mark.skipif(not has_capabilities(), reason="needs root to make namespaces")]


class Here:
    """Commands of this machine, without any other Suricata in PATH."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs

    def run(self, command, *, timeout=30.0, stdin=""):
        done = subprocess.run(
            ["/bin/sh", "-c", command], input=stdin, capture_output=True, text=True, timeout=timeout, check=False,
            env={"PATH": f"{self._programs}:/usr/bin:/bin"},
        )  # fmt: skip
        done.status = done.returncode
        return done


@pytest.fixture
def config(tmp_path):
    (tmp_path / "suricata.yaml").write_text("%YAML 1.1\n---\n")
    return str(tmp_path / "suricata.yaml")


@pytest.fixture
def path() -> Iterator[RoutedPath]:
    path = RoutedPath(0x7F20, {"mtu": 1500, "speed_bps": 1e8, "far_index": 0x7F21})
    yield path
    path.close()


def passes(path: RoutedPath, payload: bytes, family: int = socket.AF_INET) -> bool:
    return cross(path, payload, family=family, patience=2) is not None


@pytest.mark.parametrize(("side", "times"), [("a", 1), ("both", 2)])
def test_inline_on_a_simulated_device(path, config, tmp_path, monkeypatch, side, times):
    monkeypatch.setenv("PATH", f"{stand_in(tmp_path / 'bin')}:{os.environ['PATH']}")
    proofs = enter_state(path, {"suricata_side": side, "suricata_config": config})
    where = "a and b" if side == "both" else "a"
    assert proofs["suricata"].startswith("Suricata 7.0.10, up for 0 s, mode workers, capture NFQ, 1 rules loaded; ")
    assert proofs["suricata"].endswith(f"others pass, at side {where}")
    programs = path.programs
    assert programs is not None
    programs.traffic_begins()
    for family in (socket.AF_INET, socket.AF_INET6):
        assert passes(path, b"x", family)
        assert not passes(path, f"x{PATTERN}x".encode(), family)
    programs.traffic_ends()
    assert programs.report()["device_suricata_packets"] >= 4 * times
    pid = int((Path(programs._suricata._folder) / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    programs.traffic_begins()
    assert not passes(path, b"x")  # nothing passes uninspected
    programs.traffic_ends()
    with pytest.raises(LinkError, match=r"suricatasc -c uptime .* it does not run as it should"):
        programs.report()
    folder = programs._suricata._folder
    path.close()
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("blind", "Suricata is not in force: a packet that its rule names passes the device"),
        ("no rules", "Suricata runs without a rule, so it inspects nothing"),
    ],
)
def test_one_that_inspects_nothing(path, config, tmp_path, monkeypatch, broken, says):
    monkeypatch.setenv("PATH", f"{stand_in(tmp_path / 'bin', broken)}:{os.environ['PATH']}")
    with pytest.raises(LinkError, match=says):
        enter_state(path, {"suricata_side": "b", "suricata_config": config})


def test_started_asked_and_stopped(config, tmp_path):
    shell = Here(stand_in(tmp_path / "bin"))
    suricata = Suricata(shell, interfaces=["igb0", "igb1"], config=config, folder=str(tmp_path / "run"))
    assert suricata.stop() == "Suricata does not run on the device: nothing answers at its socket"
    with pytest.raises(LinkError, match="it does not run as it should"):
        suricata.check()
    try:
        started = suricata.start()
        assert started == "Suricata 7.0.10, up for 0 s, mode workers, capture AF_PACKET_DEV, 1 rules loaded"
        assert suricata.check().startswith("Suricata 7.0.10, up for ")
        assert suricata.packets() == 10
    finally:
        assert suricata.stop() == "Suricata was told to end, and does not answer any more"
    # The device's own service, by its own commands
    own = f"suricata -D -c {config} -s {tmp_path}/run/netperf.rules --pidfile {tmp_path}/pid "
    own += f"--set unix-command.enabled=yes --set unix-command.filename={tmp_path}/own"
    service = Suricata(shell, start=own, stop=f"kill -INT $(cat {tmp_path}/pid)", socket=f"{tmp_path}/own")
    assert service.start().startswith("Suricata 7.0.10, up for")
    assert service.stop() == "Suricata was told to end, and does not answer any more"


def test_over_ssh(config, tmp_path):
    """A real sshd on a host of its own, on which the stand-in is what is installed."""
    programs = stand_in(tmp_path / "bin")
    with SshHost(tmp_path / "host", environment=f"PATH={programs}:/usr/bin:/bin") as host, connect(host.target) as box:
        suricata = Suricata(box, interfaces=[host.port_there], config=config, folder=str(tmp_path / "far"))
        assert suricata.start().startswith("Suricata 7.0.10, up for ")
        assert suricata.packets() == 5
        assert suricata.stop() == "Suricata was told to end, and does not answer any more"
        (programs / "suricata").unlink()
        with pytest.raises(ServiceMissingError, match="is not installed where this state needs it"):
            suricata.start()


@pytest.mark.parametrize(
    ("capture", "given", "words"),
    [
        ("af-packet", {"interfaces": ["eth1", "eth2"]}, "--af-packet=eth1 --af-packet=eth2"),
        ("netmap", {"interfaces": ["ix0"]}, "--netmap=ix0"),
        ("pcap", {"interfaces": ["em0"]}, "-i em0"),
        ("nfqueue", {"queues": [0, 1]}, "-q 0 -q 1"),
    ],
)
def test_its_command_line(capture, given, words):
    suricata = Suricata(Here(Path("/nowhere")), capture=capture, **given)
    assert suricata.command == (
        "suricata -D -c /etc/suricata/suricata.yaml -s /run/netperf-suricata/netperf.rules -l /run/netperf-suricata "
        "--pidfile /run/netperf-suricata/pid --set unix-command.enabled=yes "
        f"--set unix-command.filename=/run/netperf-suricata/socket {words}"
    )
    assert suricata.rule.startswith("drop ip any any" if capture == "nfqueue" else "alert ip any any")


def test_what_goes_wrong(config, tmp_path):
    nowhere = Suricata(Here(tmp_path), interfaces=["igb0"], config=config, folder=str(tmp_path / "run"))
    with pytest.raises(
        ServiceMissingError, match=r"is not installed where this state needs it \(`suricata -V`: .*not found"
    ):
        nowhere.start()
    there = Here(stand_in(tmp_path / "bin"))
    wrong = Suricata(there, interfaces=["igb0"], config=f"{config}.x", folder=str(tmp_path / "run"))
    with pytest.raises(LinkError, match="failed with status 1: Error: conf: Failed to open file"):
        wrong.start()
    silent = Suricata(
        Here(stand_in(tmp_path / "silent", "silent")), interfaces=["x"], config=config, folder=str(tmp_path / "s"),
        patience_s=1,
    )  # fmt: skip
    try:
        with pytest.raises(LinkError, match=r"does not answer 1 s after `suricata -D .*: its log is empty"):
            silent.start()
    finally:
        os.kill(int((tmp_path / "s" / "pid").read_text()), signal.SIGKILL)
    for given, says in (
        ({"capture": "dpdk"}, "capture 'dpdk' is not one of nfqueue, af-packet, netmap, pcap"),
        ({}, "capture 'af-packet' needs interfaces; name one or more"),
        ({"capture": "nfqueue"}, "capture 'nfqueue' needs queues"),
        ({"start": "service suricata start"}, "give both start and stop, or none of them"),
    ):
        with pytest.raises(ConfigError, match=says):
            Suricata(there, **given)
