"""Ready commands for OpenWrt, OPNsense and RouterOS, as their texts reach a device through a real sshd.

None of them runs here. A script plays each: behind OpenWrt's commands are this machine's own sh and nft; OPNsense's run
in sh and awk on a file as it generates it, with a pfctl and a configctl that play theirs; those of RouterOS are read
word by word.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_sshd import SshHost

from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.bench.device_os import commands_for
from pytest_netperf.bench.plan import states_of
from pytest_netperf.errors import SshError
from pytest_netperf.remote.device_driver import DeviceDriver

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
nat = true
firewall = { rules = 30 }
"""
SERVICE = '[[device.state]]\nname = "ids"\nservice = "suricata"\n'
RATE = '[[device.state]]\nname = "slow"\nrate_limit = "250 Mbps"\n'

PLAYED_SERVICE = """#!/bin/sh
case "$2" in
start|onestart) touch FOLDER/$1 ;;
stop|onestop) rm -f FOLDER/$1 ;;
running) test -e FOLDER/$1 ;;
onestatus) test -e FOLDER/$1 && echo "$1 is running as pid 4711." || { echo "$1 is not running."; exit 1; } ;;
*) echo "usage" >&2; exit 64 ;;
esac
"""
PLAYED_PF = """#!/bin/sh
case "$*" in
"-f FOLDER/"*) cp "$2" FOLDER/loaded ;;
"-s nat") grep '^nat on' FOLDER/loaded | sed 's/ from/ inet from/; s/$/ round-robin/' ;;
"-s rules") grep -E '^(block|pass)' FOLDER/loaded ;;
*) echo "pfctl: $*" >&2; exit 1 ;;
esac
"""
PLAYED_CONFIGD = """#!/bin/sh
test "$*" = "filter reload" && cp FOLDER/rules.debug FOLDER/loaded && echo OK
"""
RULES_DEBUG = """set limit table-entries 1000000
scrub in all
no nat proto carp all
rdr-anchor "acme-client/*"
block in log inet from {any} to {any} label "default deny"
pass out route-to ( igb0 198.18.0.1 ) from {any} to {any} keep state
"""
ROUTEROS = r"""#!/usr/bin/env python3
import os, re, sys
file = "FOLDER/routeros"
lines = open(file).read().splitlines() if os.path.exists(file) else []
command = os.environ["SSH_ORIGINAL_COMMAND"]
loop = re.fullmatch(r":for n from=1 to=(\d+) do=\{ (.*) \}", command)
times, command = (int(loop[1]), loop[2]) if loop else (1, command)
menu, word, rest = re.fullmatch(r"(/[a-z ]+?) (add|print count-only where|remove) (.*)", command).groups()
if word == "add":
    lines += [f"{menu} {rest}"] * times
elif word == "remove":
    key = re.fullmatch(r"\[find (\S+)\]", rest)[1]
    lines = [line for line in lines if not (line.startswith(menu) and key in line)]
else:
    key = re.fullmatch(r"(\S+) and disabled=no", rest)[1]
    print(sum(line.startswith(menu) and key in line for line in lines), end="\r\n")
open(file, "w").write("\n".join(lines))
"""


def played(folder: Path, system: str) -> str:
    """What sshd runs in the place of the login shell."""
    programs = {"service": PLAYED_SERVICE, "pfctl": PLAYED_PF, "configctl": PLAYED_CONFIGD, "routeros.py": ROUTEROS}
    for name, text in programs.items():
        file = folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.replace("FOLDER", str(folder)))
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    (folder / "rules.debug").write_text(RULES_DEBUG)
    (folder / "loaded").write_text(RULES_DEBUG)
    shell = folder / "bin" / "shell"
    if system == "routeros":
        return str(folder / "bin" / "routeros.py")
    shell.write_text(
        f"#!/bin/sh\nexport PATH={folder}/bin:$PATH\n"
        f'exec sh -c "$(printf %s "$SSH_ORIGINAL_COMMAND" | sed "s#/tmp/#{folder}/#g")"\n'
    )
    shell.chmod(0o755)
    return str(shell)


@pytest.fixture(params=["openwrt", "opnsense", "routeros"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, SshHost, DeviceDriver]]:
    system: str = request.param
    folder = tmp_path / "device"
    folder.mkdir()
    with SshHost(folder, more=f"ForceCommand {played(folder, system)}") as host:
        text = (
            f'[[device]]\nserial = "BOX-1"\nssh = "root@{host.address}"\nssh_key = "{host.target.key}"\n'
            f'ssh_known_hosts = "{host.known_hosts}"\nos = "{system}"\nsides = {{ a = "ether2", b = "ether1" }}\n'
            + STATES
            + (RATE if system == "routeros" else SERVICE)
        )
        (device,) = parse_bench(text).devices
        states = {state.name: commands_for(device, state) for state in states_of(device) if state.name != "plain"}
        assert device.ssh is not None
        driver = DeviceDriver("BOX-1", device.ssh, states, tmp_path / "state")
        yield system, host, driver
        driver.close()


def test_each_state_and_back(told: tuple[str, SshHost, DeviceDriver]):
    system, host, driver = told
    driver.enter(None)
    assert "nat: `" in driver.enter("nat")
    said = driver.enter("fw")
    assert "'30'" in said
    assert said.startswith("nat: `")
    if system == "openwrt":
        assert host.run("nft", "list", "tables").split("\n")[:2] == [
            "table inet netperf_nat", "table inet netperf_firewall",
        ]  # fmt: skip
    elif system == "opnsense":
        loaded = (host.folder / "loaded").read_text()
        assert loaded.index("rdr-anchor") < loaded.index("nat on ether1") < loaded.index("block drop quick")
        assert loaded.index("block drop quick") < loaded.index("block in log")
    else:
        lines = (host.folder / "routeros").read_text().splitlines()
        assert lines[0] == "/ip firewall nat chain=srcnat out-interface=ether1 action=masquerade comment=netperf-nat"
        assert len(lines) == 31
    other = "slow" if system == "routeros" else "ids"
    assert driver.enter(other).startswith("rate_limit: `" if system == "routeros" else "service: `")
    assert driver.proof(other)
    driver.enter(None)
    if system == "openwrt":
        assert host.run("nft", "list", "tables") == ""
    elif system == "opnsense":
        assert (host.folder / "loaded").read_text() == RULES_DEBUG
        assert not (host.folder / "netperf.rules").exists()
    else:
        assert (host.folder / "routeros").read_text() == ""


def test_a_device_that_does_not_take_a_command(told: tuple[str, SshHost, DeviceDriver]):
    """It says why, and what was done before is undone."""
    system, host, driver = told
    if system == "opnsense":
        (host.folder / "bin" / "pfctl").write_text("#!/bin/sh\ntest $1 = -s || { echo syntax error >&2; exit 1; }\n")
        left = host.folder / "netperf.rules"
    elif system == "openwrt":
        left = host.folder / "suricata"
        (host.folder / "bin" / "service").write_text(
            "#!/bin/sh\ntest $2 = running && exit 1; echo syntax error >&2; exit 1"
        )
    else:
        left = host.folder / "routeros"
        (host.folder / "bin" / "routeros.py").write_text("#!/bin/sh\ncase $SSH_ORIGINAL_COMMAND in *print*) echo 0;; "
                                                         "*) echo syntax error >&2; exit 1;; esac")  # fmt: skip
    with pytest.raises(SshError, match="failed with status 1: syntax error"):
        driver.enter({"opnsense": "nat", "openwrt": "ids", "routeros": "slow"}[system])
    assert not left.exists()
