"""What is read of this machine around the traffic, and what two readings come to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_netperf.observe import host
from pytest_netperf.observe.host import HostReading, between, cpu_shares, cpu_times, read_host

TICK = os.sysconf("SC_CLK_TCK")


def reading(**changes: object) -> HostReading:
    values: dict[str, object] = {
        "monotonic_s": 100.0,
        "realtime_s": 1e9,
        "boottime_s": 200.0,
        "softnet": (5, 7),
        "throttle_events": 3,
        "processes": {},
    }
    return HostReading(**{**values, **changes})  # type: ignore[arg-type]


def later(**changes: object) -> HostReading:
    """Ten quiet seconds after `reading`."""
    return reading(**{"monotonic_s": 110.0, "realtime_s": 1e9 + 10, "boottime_s": 210.0, **changes})


def test_ten_quiet_seconds():
    found = between(reading(), later())
    assert (found.seconds, found.clock_step_s, found.suspended_s) == (10.0, 0.0, 0.0)
    assert (found.softnet_dropped, found.softnet_squeezed, found.throttle_events) == (0, 0, 0)
    assert found.others == ()


@pytest.mark.parametrize("step", [3600.0, -0.25])
def test_a_clock_that_was_set(step):
    assert between(reading(), later(realtime_s=1e9 + 10 + step)).clock_step_s == pytest.approx(step)


def test_a_machine_that_slept():
    """CLOCK_MONOTONIC stands still while a machine sleeps; the clock of the day and CLOCK_BOOTTIME go on."""
    found = between(reading(), later(realtime_s=1e9 + 40, boottime_s=240.0))
    assert found.suspended_s == pytest.approx(30.0)


def test_counts_and_what_is_not_there():
    found = between(reading(), later(softnet=(15, 8), throttle_events=5))
    assert (found.softnet_dropped, found.softnet_squeezed, found.throttle_events) == (10, 1, 2)
    absent = between(reading(softnet=None, throttle_events=None), later())
    assert (absent.softnet_dropped, absent.softnet_squeezed, absent.throttle_events) == (None, None, None)


def test_processes_by_what_they_used_meanwhile():
    before = reading(processes={1: (10, "old", 50 * TICK), 2: (10, "ended", 0), 3: (10, "reused", 900 * TICK)})
    after = later(
        processes={
            1: (10, "old", 52 * TICK),
            3: (99, "newcomer", 3 * TICK),  # the id of a process that ended
            4: (99, "idle", TICK // 10),
            **{number: (99, f"p{number}", TICK) for number in range(10, 20)},
        }
    )
    found = between(before, after).others
    assert [(process.name, process.cpu_s) for process in found[:2]] == [("newcomer", 3.0), ("old", 2.0)]
    assert len(found) == 5


def test_many_small_processes_of_one_name_count_together():
    """Each of them takes too little to be named."""
    before = reading(processes={1: (10, "cc1", 5 * TICK)})
    small = dict.fromkeys(range(2, 42), (20, "cc1", TICK // 4))
    after = later(processes={1: (10, "cc1", 5 * TICK), **small, 50: (20, "ld", TICK)})
    assert [(process.name, process.cpu_s) for process in between(before, after).others] == [
        ("cc1 x 40", 10.0),
        ("ld", 1.0),
    ]


def test_a_busy_process_of_this_machine_is_named_and_this_one_is_not(tmp_path):
    program = tmp_path / "a) busy (one"  # a name that a careless reader of /proc/PID/stat splits at
    program.symlink_to(sys.executable)
    with subprocess.Popen([program, "-S", "-c", "while True: pass"]) as busy:
        before = read_host()
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            pass
        found = between(before, read_host())
        busy.kill()
    spent = {process.name: process.cpu_s for process in found.others}
    assert spent.get("a) busy (one", 0) > 0.05
    assert os.getpid() not in before.processes
    assert found.seconds == pytest.approx(0.5, abs=0.4)
    assert abs(found.clock_step_s) < 0.05


def test_files_that_are_missing_or_odd_are_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(host, "Path", lambda path: tmp_path / str(path).lstrip("/"))
    found = read_host()
    assert found.softnet is None
    assert found.throttle_events is None
    softnet = tmp_path / "proc/net/softnet_stat"
    softnet.parent.mkdir(parents=True)
    softnet.write_text("00ff 0000000a 00000003\n00ff 00000001 00000010\n")
    assert read_host().softnet == (11, 19)
    softnet.write_text("nonsense\n")
    assert read_host().softnet is None
    for cpu, count in (("cpu0", "4\n"), ("cpu1", "5\n")):
        folder = tmp_path / f"sys/devices/system/cpu/{cpu}/thermal_throttle"
        folder.mkdir(parents=True)
        (folder / "core_throttle_count").write_text(count)
    assert read_host().throttle_events == 9
    sensor = tmp_path / "sys/class/hwmon/hwmon0/temp1_input"
    sensor.parent.mkdir(parents=True)
    sensor.write_text("54500\n")
    (sensor.parent / "temp2_input").write_text("no number\n")
    policy = tmp_path / "sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
    policy.parent.mkdir(parents=True)
    policy.write_text("powersave\n")
    now = between(reading(), later())
    assert (now.temperature_c, now.governors) == (54.5, ("powersave",))


def test_shares_of_each_cpu():
    before = ((0, 0, 0, 0, 0, 0, 0, 0), (10, 0, 0, 90, 0, 0, 0, 0), (5, 5, 5, 5, 5, 5, 5, 5))
    after = ((30, 0, 10, 40, 0, 5, 15, 0), (10, 0, 0, 180, 10, 0, 0, 0), (5, 5, 5, 5, 5, 5, 5, 5))
    found = cpu_shares(before, after)
    assert found.busy == (0.6, 0.0, 0.0)  # the third did not tick
    assert found.softirq == (0.2, 0.0, 0.0)
    assert cpu_shares(((0,) * 8,), ((0, 0, 0, 50, 0, 0, 0, 50),)).steal == 0.5
    assert len(cpu_times()) == os.cpu_count()
    assert Path("/proc/stat").exists()


def test_a_reading_costs_little():
    """Two of them stand around each measurement, and must not be felt."""
    took = []
    for _ in range(5):
        start = time.perf_counter()
        read_host()
        took.append(time.perf_counter() - start)
    assert min(took) < 0.03
