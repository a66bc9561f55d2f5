"""CPU load and temperature of a device over ssh: a real sshd on a host whose counters are this machine's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_sshd import SshHost

from pytest_netperf.errors import ConfigError, SshError
from pytest_netperf.observe import over_ssh
from pytest_netperf.observe.host import cpu_times
from pytest_netperf.observe.probe import Probing
from pytest_netperf.probes import SshTarget, ssh_cpu, ssh_temperature

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="a host with an sshd of its own needs root"),
]
SENSORS = (
    '{"coretemp-isa-0000": {"Core 0": {"temp2_input": 41.0}}, "nvme-pci-0100": {"Composite": {"temp1_input": 52.9}}}'
)


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    programs = tmp_path_factory.mktemp("programs")
    (programs / "sensors").write_text(f"#!/bin/sh\necho '{SENSORS}'\n")
    (programs / "sensors").chmod(0o755)
    with SshHost(tmp_path_factory.mktemp("far"), environment=f"PATH={programs}:/usr/bin:/bin") as host:
        host.programs = programs
        yield host


def reading(probe, seconds=0.0):
    probing = Probing([probe])
    probing.before()
    probing.begin()
    time.sleep(seconds)
    probing.end()
    probing.after()
    (found,) = probing.readings()
    return found


def test_the_load_is_that_of_the_kernel(host):
    probe = ssh_cpu(host.target)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        before = cpu_times()
        found = reading(probe, 1.0)
        after = cpu_times()
        busy.kill()
    ticks = [sum(last[n] - first[n] for first, last in zip(before, after, strict=True)) for n in range(8)]
    assert found.error is None
    assert found.value == pytest.approx(1 - (ticks[3] + ticks[4]) / sum(ticks), abs=0.15)
    assert found.value > 0.3
    assert found.name == f"CPU counters of {host.address}, by ssh"
    logins = host.log.count("Accepted publickey")
    assert reading(probe, 0.1).error is None
    assert host.log.count("Accepted publickey") == logins + 1  # one for both readings


def test_the_hottest_sensor(host):
    assert reading(ssh_temperature(host.target)).value == 52.9
    assert reading(ssh_temperature(host.target, chip="coretemp")).value == 41.0
    assert "no temperature of chip 'k10temp'; chips with one: coretemp-isa-0000, nvme-pci-0100" in (
        reading(ssh_temperature(host.target, chip="k10temp")).error
    )


def test_without_lm_sensors_the_files_of_the_kernel_are_read(host, monkeypatch, tmp_path):
    (tmp_path / "hwmon0").mkdir()
    for number, value in enumerate(("48000", "-5000", "61250")):
        (tmp_path / "hwmon0" / f"temp{number}_input").write_text(f"{value}\n")
    command = over_ssh._HEAT.replace("/sys/class/hwmon", str(tmp_path)).replace(
        "command -v sensors", "command -v nothing"
    )
    monkeypatch.setattr(over_ssh, "_HEAT", command)
    assert reading(ssh_temperature(host.target)).value == 61.25
    for file in Path(tmp_path, "hwmon0").iterdir():
        file.unlink()
    assert "ended with 1: cat: " in reading(ssh_temperature(host.target)).error


def test_what_is_not_understood(host, monkeypatch):
    assert over_ssh._ticks("12 0 30 8 950\n", "box") == {"busy": 50, "total": 1000}  # FreeBSD's kern.cp_time
    monkeypatch.setattr(over_ssh, "_TICKS", "echo who are you")
    assert "answers 'who are you' for its CPU counters" in reading(ssh_cpu(host.target)).error
    with pytest.raises(SshError):
        ssh_cpu(SshTarget(host=host.address, user="root", port=23, connect_seconds=3)).read()
    for target in ("", "root@", "@box", "root@box x"):
        with pytest.raises(ConfigError, match="is no target; write 'USER@HOST', or an SshTarget"):
            ssh_cpu(target)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'pytest-netperf\[remote\]'"):
        ssh_temperature("root@192.0.2.1")
