"""Probes: what is read around the traffic, by whom, and what a reading that fails means. SNMP against a real snmpd."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_netperf.errors import ConfigError, QuantityError
from pytest_netperf.judge.probe_values import probe_facts, probe_values
from pytest_netperf.observe.observation import ProbeReading
from pytest_netperf.observe.probe import Probing
from pytest_netperf.observe.snmp_agent import SnmpAgent
from pytest_netperf.probes import Probe, hwmon, sensors, snmp, snmp_cpu, snmp_temperature

SNMPD = shutil.which("snmpd", path="/usr/sbin:/usr/bin:/sbin")


def counting(*values):
    """Reads these one after the other, the last one again and again."""
    left = itertools.chain(values, itertools.repeat(values[-1]))
    return lambda: next(left)


def probe(read, **changes):
    return Probe(**{"quantity": "temperature", "read": read, "unit": "degC", "name": "a meter", **changes})


def run_of(*probes, seconds=0.0):
    probing = Probing(probes)
    probing.before()
    probing.begin()
    time.sleep(seconds)
    probing.end()
    probing.after()
    return probing.readings()


# ---- what a probe is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"quantity": "temprature"}, QuantityError, "did you mean 'temperature'"),
        ({"unit": "W"}, QuantityError, "W"),
        ({"read": 3}, ConfigError, "read must be a function, not 3"),
        ({"between": 3}, ConfigError, "between must be a function"),
        ({"between": max, "during": True}, ConfigError, "leave during=True out"),
        ({"every_s": 0}, ConfigError, "every_s must be a number of seconds from 0.2"),
        ({"timeout_s": "10"}, ConfigError, "timeout_s must be a number"),
    ],
)
def test_a_probe_that_cannot_be(changes, error, says):
    with pytest.raises(error) as refusal:
        probe(**{"read": lambda: 1, **changes})
    assert says in str(refusal.value)


def test_before_and_after_and_not_meanwhile():
    (reading,) = run_of(probe(counting(41, 43)), seconds=0.5)
    assert (reading.value, reading.error) == (43, None)
    (first, _), (last, value) = reading.samples
    assert first == 0
    assert last == pytest.approx(0.5, abs=0.2)
    assert value == 43


def test_meanwhile_when_asked():
    """In a thread of its own: a slow one does not hold up the traffic."""
    threads = set()

    def read():
        threads.add(threading.current_thread().name)
        return 40 + len(threads)

    (reading,) = run_of(probe(read, during=True, every_s=0.2), seconds=0.7)
    assert 5 <= len(reading.samples) <= 7
    assert reading.samples == tuple(sorted(reading.samples))
    assert threading.main_thread().name not in threads


def test_units_and_the_worst_of_all_readings():
    (power,) = run_of(
        probe(counting(900, 1500, 1200), quantity="power", unit="mW", during=True, every_s=0.2), seconds=0.3
    )
    assert power.value == 1.5
    (rate,) = run_of(probe(counting(3, 2, 4), quantity="link_speed", unit="Gbit/s"))
    assert rate.value == 2e9, "of which more is better, the least"


def test_what_lies_between_two_readings():
    """Counters: nothing is asked meanwhile, and the value is of the whole run."""
    (reading,) = run_of(
        probe(
            counting({"busy": 100, "all": 1000}, {"busy": 150, "all": 1100}),
            quantity="dut_cpu",
            unit="%",
            between=lambda first, last, _: 100 * (last["busy"] - first["busy"]) / (last["all"] - first["all"]),
        )
    )
    assert reading.value == 0.5
    assert reading.samples == ()


def raising():
    raise OSError("no such meter")


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (raising, "OSError: no such meter"),
        (lambda: "41", "TypeError: a finite number was expected, not '41'"),
        (lambda: float("nan"), "a finite number was expected, not nan"),
        (lambda: None, "not None"),
        (lambda: sys.exit(3), "SystemExit"),
        (lambda: time.sleep(5), "TimeoutError: no answer within 0.1 s"),
    ],
)
def test_a_reading_that_fails_leaves_no_value(read, says):
    (reading,) = run_of(probe(read, timeout_s=0.1))
    assert reading.value is None
    assert says in reading.error


def test_some_readings_may_fail_meanwhile():
    calls = itertools.count()

    def read(fails):
        if next(calls) in fails:
            raise OSError("busy")
        return 41

    (reading,) = run_of(probe(lambda: read({1, 2}), during=True, every_s=0.2), seconds=0.7)
    assert reading.value is None
    assert "2 of" in reading.error
    calls = itertools.count()
    (reading,) = run_of(probe(lambda: read({3}), during=True, every_s=0.2), seconds=2.0)
    assert (reading.value, reading.error, reading.missed) == (41, None, 1)


def test_a_function_of_two_readings_that_fails():
    (reading,) = run_of(probe(counting(1, 1), between=lambda first, last, _: 1 / (last - first)))
    assert "ZeroDivisionError" in reading.error


# ---- values and facts ------------------------------------------------------------------------------------------------


def of(value, name="one", error=None, quantity="temperature", samples=()):
    return ProbeReading(quantity=quantity, name=name, value=value, error=error, samples=samples)


def test_of_several_probes_the_worst_counts_and_one_that_failed():
    assert probe_values([of(41.0), of(55.0), of(50.0)]) == ({"temperature": 55.0}, {})
    values, errors = probe_values([of(41.0), of(None, "two", "no answer"), of(50.0)])
    assert values == {"temperature": None}
    assert errors == {"temperature": "The probe 'two' of temperature failed: no answer."}


def test_facts():
    facts = probe_facts([of(41.0, samples=((0.0, 41.0),)), of(55.0, "two", samples=((0.0, 40.0), (10.0, 55.0)))])
    assert facts == {
        "measured_temperature": 55.0,
        "temperature_from": "one, two",
        "temperature_at_s": [0.0, 10.0],
        "temperature_samples": [40.0, 55.0],
    }
    assert "failed" in probe_facts([of(None, error="x")])["temperature_error"]


# ---- ready ones ------------------------------------------------------------------------------------------------------


def test_hwmon(tmp_path):
    for number, (chip, *millidegrees) in enumerate([("coretemp", 41000, 61500), ("nvme", 70250), ("fan",)]):
        folder = tmp_path / f"hwmon{number}"
        folder.mkdir()
        (folder / "name").write_text(f"{chip}\n")
        for place, value in enumerate(millidegrees):
            (folder / f"temp{place}_input").write_text(f"{value}\n")
    (tmp_path / "hwmon0" / "temp9_input").write_text("")
    assert hwmon(root=tmp_path).read() == 70.25
    assert hwmon(root=tmp_path, chip="coretemp").read() == 61.5
    with pytest.raises(RuntimeError, match=r"no temperature of chip 'acpi'; chips with one: coretemp, nvme"):
        hwmon(root=tmp_path, chip="acpi").read()
    with pytest.raises(RuntimeError, match="no temperature"):
        hwmon(root=tmp_path / "none").read()


PRINTED = {
    "acpitz-acpi-0": {"Adapter": "ACPI interface", "temp1": {"temp1_input": 27.8, "temp1_crit": 119.0}},
    "coretemp-isa-0000": {"Package id 0": {"temp1_input": 61.0}, "fan1": {"fan1_input": 1200.0}},
}


def printing(text, code=0):
    return [sys.executable, "-c", f"import sys; sys.stdout.write({text!r}); sys.exit({code})"]


def test_sensors():
    """The two sensors of a published burn-in."""
    command = printing(json.dumps(PRINTED))
    assert sensors(command).read() == 61.0
    assert sensors(command, chip="acpitz").read() == 27.8


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (printing("{}"), "prints no temperature"),
        (printing("[]"), "prints no temperature"),
        (printing("oops"), "this is not the JSON of sensors -j"),
        (printing("no sensors found", 1), "ended with 1: no sensors found"),
        (["there-is-no-such-program"], "there is no program 'there-is-no-such-program'; install lm-sensors"),
    ],
)
def test_sensors_that_say_nothing(command, says):
    with pytest.raises(RuntimeError, match=says):
        sensors(command).read()
    with pytest.raises(ConfigError, match="expected a list of a program"):
        sensors("sensors -j")


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    """A real snmpd on loopback."""
    assert SNMPD is not None, "no snmpd; `./run test` installs it"
    folder: Path = tmp_path_factory.mktemp("snmpd")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "snmpd.conf").write_text(
        f"agentaddress udp:127.0.0.1:{port}\nrocommunity public 127.0.0.1\nsysName probed\n"
        'createUser lab SHA-256 "signed-by-me" AES "read-by-nobody"\nrouser lab priv\n'
        'createUser signs SHA "signed-by-me"\nrouser signs auth\n'
        "override .1.3.6.1.4.1.2021.13.16.2.1.3.1 integer 41500\n"
        "override .1.3.6.1.4.1.2021.13.16.2.1.3.2 integer 55250\n"
    )
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [SNMPD, "-f", "-C", "-c", str(folder / "snmpd.conf"), "-Lo", "-p", str(folder / "pid")],
            stdout=log, stderr=log, env={"SNMP_PERSISTENT_DIR": str(folder), "MIBS": ""},
        )  # fmt: skip
    try:
        uptime = snmp("temperature", "127.0.0.1", "1.3.6.1.2.1.1.3.0", "degC", port=port)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                if uptime.read() > 0:
                    break
            except RuntimeError:
                time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def test_snmp_numbers(agent):
    uptime = snmp("temperature", "127.0.0.1", ".1.3.6.1.2.1.1.3.0", "degC", port=agent, scale=0.01)
    first = uptime.read()
    assert 0 < first < 600
    assert uptime.read() >= first
    assert snmp("temperature", "127.0.0.1", "1.3.6.1.2.1.1.3.0", "degC", port=agent, version="1").read() > 0
    with pytest.raises(RuntimeError, match=r"object 1.3.6.1.2.1.1.5.0 of 127.0.0.1 is 'probed', which is no number"):
        snmp("temperature", "127.0.0.1", "1.3.6.1.2.1.1.5.0", "degC", port=agent).read()
    with pytest.raises(RuntimeError, match=r"object 1.3.6.1.4.1.99999.1.0 of 127.0.0.1 is not there"):
        snmp("temperature", "127.0.0.1", "1.3.6.1.4.1.99999.1.0", "degC", port=agent).read()


def test_snmp_cpu(agent):
    """The counters of the agent's machine, which is this one: they are those of /proc/stat."""
    found = snmp_cpu("127.0.0.1", port=agent)
    deadline = time.monotonic() + 20
    while (ticks := found.read())["idle"] == 0 and time.monotonic() < deadline:  # it looks every 5 s
        time.sleep(0.5)
    assert {"user", "system", "idle"} <= ticks.keys()
    of_kernel = sum(map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9]))
    total = sum(value for name, value in ticks.items() if name not in ("kernel", "interrupt", "softirq"))
    assert total == pytest.approx(of_kernel, rel=0.05)
    later = {**ticks, "user": ticks["user"] + 30, "idle": ticks["idle"] + 70}
    assert found.between(ticks, later, 1.0) == pytest.approx(0.3)
    wrapped = {**later, "user": (ticks["user"] + 30) % 2**32}
    assert found.between({**ticks, "user": 2**32 - 10}, {**wrapped, "user": 20}, 1.0) == pytest.approx(0.3)
    with pytest.raises(RuntimeError, match="did not move"):
        found.between(ticks, ticks, 1.0)


def test_snmp_without_an_answer(agent):
    asked = snmp("temperature", "127.0.0.1", "1.3.6.1.2.1.1.3.0", "degC", port=agent, community="wrong")
    with pytest.raises(RuntimeError, match=f"127.0.0.1 port {agent} gives no answer by SNMP"):
        asked.read()


LAB = {"user": "lab", "auth": "SHA-256", "auth_key": "signed-by-me", "privacy_key": "read-by-nobody"}


def test_snmp_version_3(agent):
    """A real agent: one user whose messages must be signed and encrypted, one of whom a signature is enough."""

    def uptime(**access):
        return snmp("temperature", "127.0.0.1", "1.3.6.1.2.1.1.3.0", "degC", port=agent, **access).read()

    assert uptime(**LAB) > 0
    assert uptime(user="signs", auth_key="signed-by-me") > 0
    assert snmp_temperature("127.0.0.1", port=agent, **LAB).read() == 55.25  # the hottest of two
    assert snmp_cpu("127.0.0.1", port=agent, **LAB).read()["idle"] >= 0  # an agent that has just started says 0
    for wrong in ({"auth_key": "signed-by-you"}, {"user": "x"}):
        with pytest.raises(RuntimeError, match=f"127.0.0.1 port {agent} gives no answer by SNMP: "):
            uptime(**{**LAB, **wrong})
    with pytest.raises(RuntimeError, match=r"gives no answer by SNMP: |is not there"):
        uptime(**{name: value for name, value in LAB.items() if name != "privacy_key"})  # signed is not enough for it
    assert "signed" not in repr(SnmpAgent(host="192.0.2.1", **LAB))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"oid": "sysUpTime.0"}, "is no object identifier"),
        ({"oid": ""}, "is no object identifier"),
        ({"version": "4"}, "version '4' is not known here; write one of '1', '2c', '3'"),
        ({"port": 0}, "port 0 is not a port"),
        ({"host": " "}, "the host is empty"),
        ({"version": "3"}, "version 3 needs a user"),
        ({"version": "1", "user": "lab"}, "a user and its keys are of version 3, not of 1"),
        ({"auth_key": "signed-by-me"}, "a user and its keys are of version 3, not of 2c"),
        ({**LAB, "auth": "sha256"}, "auth 'sha256' is not known here; write one of 'MD5', 'SHA', "),
        ({**LAB, "privacy": "3DES"}, "privacy '3DES' is not known here"),
        ({**LAB, "auth_key": ""}, "privacy_key needs auth_key, too"),
        ({**LAB, "auth_key": "short"}, "auth_key has 5 characters; SNMP wants 8 or more"),
    ],
)
def test_snmp_that_cannot_be_asked(changes, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        snmp(**{"quantity": "temperature", "host": "192.0.2.1", "oid": "1.3.6.1", "unit": "degC", **changes})


def test_without_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'pytest-netperf\[snmp\]'"):
        snmp_cpu("192.0.2.1")
