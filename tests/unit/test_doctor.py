"""The doctor, as far as it needs no link: what it makes of what it sees."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_netperf.doctor import devices, links, machine, ports, privileges, speeds, tools
from pytest_netperf.doctor.finding import good, note, problem, text_lines
from pytest_netperf.judge.doubt_iperf3 import faults_of
from pytest_netperf.links.port_reading import PortReading
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


@pytest.mark.parametrize(
    ("version", "state", "words"),
    [
        ("3.0.11", "problem", "is too old: iperf3 3.1 or newer is needed; install one"),
        ("3.1.3", "note", "bidirectional needs iperf3 3.7 or newer"),
        ("3.9", "note", "before 3.11 reports only the sent rate of UDP"),
        ("3.19", "ok", "no known fault"),
    ],
)
def test_old_releases(monkeypatch, tmp_path, version, state, words):
    stand_in = tmp_path / "iperf3"
    stand_in.write_text(f"#!/bin/sh\necho 'iperf {version} (cJSON 1.7.13)'\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = only(tools.iperf3(), "program")
    assert (found.state, words in found.seen) == (state, True), found


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


@pytest.mark.parametrize(
    ("path", "value", "words", "command"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "Ubuntu 23.10 and newer", "apparmor_restrict"),
        ("kernel/unprivileged_userns_clone", "0", "older Debian", "unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "no user namespace may be made at all", "max_user_namespaces=15000"),
    ],
)
def test_what_keeps_ordinary_users_from_links_is_named(path, value, words, command):
    found = privileges.user_namespaces({"/proc/self/ns/user": "", f"/proc/sys/{path}": value}.get)
    assert (found.state, words in found.seen, command in found.todo) == ("note", True, True), found


def test_a_kernel_that_lets_ordinary_users_make_links_is_well():
    switches = {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "0", "/proc/self/ns/user": ""}
    assert privileges.user_namespaces(switches.get).state == "ok"
    assert "this kernel has none" in privileges.user_namespaces({}.get).seen


def test_programs_that_some_tests_need():
    there, missing = devices.programs_of_states({"nft": "/usr/sbin/nft", "irtt": "/usr/bin/irtt"}.get)
    assert there.seen == "NAT and packet filters, round-trip time under load (netperf_method(rtt=True))"
    assert "iptables-restore, ip6tables-restore" in missing.seen
    assert missing.todo.endswith("apt-get install iptables libndpi-bin suricata")
    assert [each.state for each in devices.programs_of_states({}.get)] == ["note"]
    assert [each.state for each in devices.programs_of_states(lambda name: name)] == ["ok"]


@pytest.mark.parametrize(
    ("text", "quota"), [("150000 100000\n", 1.5), ("max 100000\n", None), ("", None), (None, None), ("1 0", None)]
)
def test_the_quota_of_a_container(tmp_path, text, quota):
    if text is not None:
        (tmp_path / "cpu.max").write_text(text)
    assert machine.cpu_quota(tmp_path) == quota


def test_a_container_that_is_held_back_is_noted(monkeypatch, tmp_path):
    (tmp_path / "cpu.max").write_text("50000 100000")
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    assert "0.5 of" in only(machine.cpus_and_load(), "CPU quota").seen


def test_a_state_folder_that_cannot_be_written_is_noted(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    found = only(machine.system(tmp_path), "state folder")
    assert (found.state, "cannot be written" in found.seen) == ("note", True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "new"))
    assert only(machine.system(tmp_path), "state folder").state == "ok"
    assert not (tmp_path / "new").exists()


def reading(**more):
    port = HostPort(index=2, name="enp1s0", altnames=(), mac=None, pci="0000:01:00.0", driver="igc")
    given = dict.fromkeys(PortReading.__dataclass_fields__)
    return PortReading(**{**given, "port": port, "up": True, "carrier": True, "pcie": (), **more})


HOP = {
    "upper": "0000:00:1c.0", "lower": "0000:01:00.0", "speed_gtps": 2.5, "width": 1, "upper_max_speed_gtps": 8.0,
    "upper_max_width": 4, "lower_max_speed_gtps": 8.0, "lower_max_width": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "seen", "todo"),
    [
        (
            {"pcie": (HOP,), "most_bps": 10e9},
            "2 Gbit/s for 10 Gbit/s (0000:00:1c.0 - 0000:01:00.0: 2.5 GT/s",
            "slot",
        ),
        ({"usb_bps": 480e6, "most_bps": 2.5e9}, "on a USB that carries", "a faster socket, without a hub"),
    ],
)
def test_a_bus_that_is_too_narrow_for_its_port(more, seen, todo):
    (found,) = ports.narrow_bus(reading(**more))
    assert (found.state, seen in found.seen, todo in found.todo) == ("note", True, True), found
    assert list(ports.narrow_bus(reading(**{**more, "most_bps": 1e8}))) == []
    assert list(ports.narrow_bus(reading(**{**more, "most_bps": None}))) == []


def test_cards_that_sleep():
    aspm, eee = ports.sleep("enp1s0", ["l1_aspm", "l1_2_aspm"], True)
    assert "l1_aspm, l1_2_aspm" in aspm.seen
    assert "eee off" in eee.todo
    assert list(ports.sleep("enp1s0", [], None)) == []


def test_runs_without_an_end_are_told(tmp_path):
    journals = tmp_path / "journals"
    assert list(links.unfinished_runs(tmp_path)) == []
    journals.mkdir()
    (journals / "20260101T000000-aaaa.jsonl").write_text('{"kind":"run"}\n{"kind":"closed"}\n')
    assert list(links.unfinished_runs(tmp_path)) == []
    (journals / "20260102T000000-bbbb.jsonl").write_text('{"kind":"run"}\n{"kind":"row"}\n')
    (found,) = links.unfinished_runs(tmp_path)
    assert "20260102T000000-bbbb" in found.seen
    assert found.todo.endswith(f"pytest-netperf sheet {journals}/20260102T000000-bbbb.jsonl")


def test_who_measures_now_is_told(monkeypatch):
    monkeypatch.setattr("pytest_netperf.links.slot.slot_holders", lambda **_: "process 17")
    found = only(links.leftovers(), "measurement slot")
    assert found.seen == "process 17 measures at this moment"
