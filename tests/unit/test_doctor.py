"""The doctor, as far as it needs no link: what it makes of what it sees."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_netperf.doctor import links, machine, ports, speeds, tools
from pytest_netperf.doctor.finding import good, note, problem, text_lines
from pytest_netperf.judge.doubt_iperf3 import faults_of
from pytest_netperf.links.ports import HostPort


def only(findings, name):
    (found,) = (each for each in findings if each.name == name)
    return found


@pytest.mark.parametrize(
    ("reference", "fastest"),
    [
        (0.0, None),
        (119e6, None),
        (120e6, 100e6),
        (2.99e9, 1e9),
        (3e9, 2.5e9),
        (12e9, 10e9),
        (29.9e9, 10e9),
        (1e12, 100e9),
    ],
)
def test_a_speed_is_proven_with_a_fifth_to_spare(reference, fastest):
    assert speeds.provable_bps(reference) == fastest


def test_text_has_the_areas_and_below_each_finding_what_to_do():
    findings = [good("a", "x", "fine"), problem("a", "y", "bad", "mend it"), note("b", "z", "so so")]
    assert list(text_lines(findings)) == [
        "a",
        "  ok       x: fine",
        "  problem  y: bad",
        "           -> mend it",
        "b",
        "  note     z: so so",
    ]


@pytest.mark.parametrize(
    ("version", "count", "words"),
    [((3, 10), 2, "sent rate"), ((3, 12), 0, ""), ((3, 16), 1, "fully busy"), ((3, 17), 1, "#1741"), ((3, 18), 0, "")],
)
def test_known_faults_of_a_release(version, count, words):
    found = faults_of(version)
    assert len(found) == count
    assert words in "; ".join(found)


def test_without_iperf3_the_way_out_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = only(tools.iperf3(), "program")
    assert found.state == "problem"
    assert "apt-get install iperf3" in found.todo


def test_what_is_no_iperf3_is_a_problem(monkeypatch, tmp_path):
    fake = tmp_path / "iperf3"
    fake.write_text("#!/bin/sh\necho hello\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = only(tools.iperf3(), "program")
    assert found.state == "problem"
    assert "is not iperf3" in found.seen


def test_an_output_below_a_file_is_a_problem(tmp_path):
    (tmp_path / "file").write_text("")
    found = only(machine.system(tmp_path / "file" / "results"), "output folder")
    assert found.state == "problem"
    assert "is no folder" in found.seen


def test_an_output_that_is_to_be_made_is_well(tmp_path):
    found = only(machine.system(tmp_path / "new" / "results"), "output folder")
    assert found.state == "ok"
    assert "GB free" in found.seen
    assert not (tmp_path / "new").exists()


def test_a_clock_in_the_past_is_a_problem(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 0.0)
    found = only(machine.system(Path()), "clock")
    assert found.state == "problem"


def test_a_busy_machine_is_noted(monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (99.0, 0.0, 0.0))
    found = only(machine.cpus_and_load(), "CPUs")
    assert found.state == "note"
    assert "load 99.0" in found.seen


def test_a_governor_that_saves_power_is_noted(monkeypatch):
    monkeypatch.setattr("pytest_netperf.observe.host.read_governors", lambda: ("powersave",))
    assert "performance" in only(machine.cpus_and_load(), "frequency governor").todo


@pytest.mark.parametrize(
    ("driver", "device", "revision", "early"),
    [
        ("igc", "0x15f3", "0x01", True),
        ("igc", "0x15f3", "0x03", False),
        ("igc", "0x125c", "0x01", False),
        ("e1000e", "0x15f3", "0x01", False),
    ],
)
def test_early_i225(monkeypatch, tmp_path, driver, device, revision, early):
    folder = tmp_path / "0000:01:00.0"
    folder.mkdir()
    (folder / "device").write_text(f"{device}\n")
    (folder / "revision").write_text(f"{revision}\n")
    monkeypatch.setattr(ports, "_PCI_DEVICES", tmp_path)
    port = HostPort(index=2, name="enp1s0", altnames=(), mac=None, pci="0000:01:00.0", driver=driver)
    assert ports.is_early_i225(port) is early


def test_a_journal_that_nobody_can_read_is_a_problem(monkeypatch, tmp_path):
    (tmp_path / "pci-0000+01+00.0.journal").write_text("no journal\n")
    monkeypatch.setattr("pytest_netperf.links.port_journal.ports_folder", lambda: tmp_path)
    found = only(links.leftovers(), "journals of ports")
    assert found.state == "problem"
