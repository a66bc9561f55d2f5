"""How a real device is told to change its state: keys of the bench file, and ready commands of operating systems."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pytest_netperf.bench.bench_file import load_bench, parse_bench
from pytest_netperf.bench.device_os import SYSTEMS, commands_for, read_system
from pytest_netperf.bench.model import Device
from pytest_netperf.bench.plan import states_of
from pytest_netperf.errors import BenchError, LinkError

SSH = 'ssh = "root@198.18.0.1"'
SIDES = 'sides = { a = "eth1", b = "eth0" }'
OWN = """enter = ["service ips start"]
check = "service ips status"
expect = "^running"
undo = ["service ips stop"]"""


def device(*lines: str, state: str = "nat = true") -> Device:
    text = "\n".join(lines)
    return parse_bench(f'[[device]]\nserial = "BOX-1"\n{text}\n[[device.state]]\nname = "s"\n{state}\n').devices[0]


def test_commands_of_the_bench_file():
    own = device(SSH, SIDES, state=OWN.replace("service ips start", "up {b} {c}") + '\ntimeout = "90 s"')
    assert own.ssh is not None
    assert (own.ssh.user, own.ssh.host, own.system, own.sides) == ("root", "198.18.0.1", None, ("eth1", "eth0"))
    (commands,) = commands_for(own, own.states[0]).values()
    assert (commands.enter, commands.seconds) == (("up eth0 {c}",), 90.0)
    assert commands.in_force("Loaded\nrunning since 5 s")
    assert not commands.in_force("not running")


def test_they_win_over_those_of_the_operating_system():
    both = device(SSH, 'os = "linux"', SIDES, state=f"nat = true\n{OWN}")
    assert [each.undo for each in commands_for(both, both.states[0]).values()] == [("service ips stop",)]
    assert both.states[0].is_simulated


def test_without_a_login_there_is_nothing_to_tell():
    for found in (device(), device(SSH)):
        assert commands_for(found, found.states[0]) == {}


@pytest.mark.parametrize(
    ("lines", "state", "says"),
    [
        (["os = 'linux'"], "nat = true", "device[0].os: is told to the device over ssh; add ssh = "),
        ([SIDES], "nat = true", "device[0].sides: is told to the device over ssh"),
        ([], OWN, "device[0].state[0].enter: is told to the device over ssh"),
        ([SSH, "os = 'opensense'"], "nat = true", '"opensense" is not one of linux, openwrt, opnsense, routeros (did'),
        ([SSH, "sides = { a = 'eth0' }"], "nat = true", "device[0].sides.b: is missing"),
        ([SSH, "sides = { a = 'eth0', b = 'et h' }"], "nat = true", 'sides.b: "et h" is not the name of an interface'),
        ([SSH], 'enter = ["x"]', "state[0].check: is missing beside enter; write check ="),
        ([SSH], 'enter = ["x"]', "state[0].undo: is missing beside enter; write undo ="),
        ([SSH], OWN.replace('["service ips stop"]', '"stop"'), 'state[0].undo: "stop" is not a list of commands'),
        ([SSH], OWN.replace('["service ips stop"]', "[]"), "state[0].undo: a list is not a list of commands"),
        (
            [SSH],
            OWN.replace("^running", "(running"),
            'state[0].expect: "(running" is not a regular expression: missing',
        ),
        ([SSH], OWN.replace("^running", ".*"), 'state[0].expect: ".*" is found in no output at all too, so it would'),
        ([SSH], OWN + '\ntimeout = "2 h"', "state[0].timeout: 7200 s is longer than an hour"),
        ([SSH], 'service = "sur; reboot"', '"sur; reboot" is not the name of a service'),
    ],
)
def test_wrong_keys(lines, state, says):
    with pytest.raises(BenchError) as refusal:
        device(*lines, state=state)
    assert says in str(refusal.value)


def test_a_part_that_a_system_has_no_commands_for():
    found = device(SSH, "os = 'routeros'", state="inspection = { rules = 5 }")
    says = (
        "state 's' of BOX-1: there are no ready commands for inspection on 'routeros', only for nat, firewall, "
        "rate_limit; write enter, check, expect and undo beside it"
    )
    with pytest.raises(LinkError, match=re.escape(says)):
        commands_for(found, found.states[0])


def test_suricata_is_a_service_of_a_real_device():
    found = device(SSH, "os = 'opnsense'", state='suricata = { side = "both" }')
    (commands,) = commands_for(found, found.states[0]).values()
    assert commands.check == "sh -c 'service suricata onestatus'"
    assert commands.in_force("suricata is running as pid 4711.")


def test_ready_commands_need_the_names_of_the_interfaces():
    found = device(SSH, "os = 'linux'")
    with pytest.raises(LinkError, match="name the device's own interfaces at the ends of the link; write them beside"):
        commands_for(found, found.states[0])


def parts(system: str) -> dict[str, str]:
    known = {
        "nat": "nat = true",
        "firewall": "firewall = { rules = 100 }",
        "rate_limit": 'rate_limit = "100 Mbps"',
        "service": 'service = "suricata"',
    }
    return {part: known[part] for part, table in read_system(system).items() if isinstance(table, dict)}


@pytest.mark.parametrize("system", SYSTEMS)
def test_ready_commands_are_whole(system):
    """Every word is filled in, the check is no proof of nothing, and who wrote them says where they are from."""
    assert read_system(system)["sources"]
    assert read_system(system)["tried"]
    for part, line in parts(system).items():
        found = device(SSH, f"os = '{system}'", SIDES, state=line)
        (commands,) = commands_for(found, found.states[0]).values()
        everything = " ".join((*commands.enter, commands.check, *commands.undo))
        for word in ("a", "b", "rules", "kbit", "service"):
            assert f"{{{word}}}" not in everything + commands.expect, part
        assert commands.enter
        assert commands.undo
        assert not commands.in_force("")
        assert not commands.in_force("0\n")


@pytest.mark.parametrize("system", ["linux", "openwrt", "opnsense"])
def test_ready_commands_are_shell_that_a_shell_understands(system):
    for line in parts(system).values():
        found = device(SSH, f"os = '{system}'", SIDES, state=line)
        for commands in commands_for(found, found.states[0]).values():
            for command in (*commands.enter, commands.check, *commands.undo):
                inner = re.sub(r"^sh -c '(.*)'$", r"\1", command, flags=re.DOTALL)
                done = subprocess.run(["sh", "-n"], input=inner, capture_output=True, text=True, check=False)
                assert done.returncode == 0, (command, done.stderr)


@pytest.mark.parametrize(
    ("example", "told"),
    [("apu1c", {"nat": ["nat", "firewall"]}), ("r86s_u4", {"ips": ["service"], "dpi": ["service"]})],
)
def test_the_reviewed_boxes_themselves_are_told_their_states(example, told):
    """Those states that the suites ask for and that have no commands are the user's to write."""
    bench = load_bench(Path(__file__).resolve().parents[2] / "conftest_examples" / example / "real.toml")
    (box,) = bench.devices
    assert box.links[0].unsupported_reason() is None
    asked = {"apu1c": ["nat"], "r86s_u4": ["watched", "ndpi", "dpi", "ips", "ips-both"]}[example]
    states = {state.name: state for state in states_of(box) if state.name in asked}
    assert sorted(states) == sorted(asked)
    parts = {name: list(commands_for(box, state)) for name, state in states.items()}
    assert {name: found for name, found in parts.items() if found} == told


def test_rules_for_pf_go_before_the_first_filter_rule(tmp_path):
    """The texts for OPNsense are run by this machine's shell and awk, on a file as it generates it."""
    rules = tmp_path / "rules.debug"
    rules.write_text(
        'set skip on lo0\nscrub in all\nno nat proto carp\nrdr-anchor "x"\nblock in log all\npass out all\n'
    )
    for line in ("nat = true", "firewall = { rules = 3 }"):
        found = device(SSH, "os = 'opnsense'", SIDES, state=line)
        for commands in commands_for(found, found.states[0]).values():
            for command in commands.enter:
                here = command.replace("/tmp/", f"{tmp_path}/").replace("pfctl", "true")
                assert subprocess.run(["sh", "-c", here], check=False).returncode == 0
    lines = (tmp_path / "netperf.rules").read_text().splitlines()
    assert lines[3:5] == ['rdr-anchor "x"', "nat on eth0 from any to any -> (eth0)"]
    assert lines[5] == "block drop quick inet proto udp from any to 192.0.2.2 port = 11 label netperf"
    assert lines[8:] == ["block in log all", "pass out all"]
    assert rules.read_text().count("netperf") == 0
