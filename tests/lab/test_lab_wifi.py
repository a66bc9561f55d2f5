"""Wi-Fi ports: two radios that the kernel makes (mac80211_hwsim), lent to a run, measured, and home again."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_guest import Guest
from lab_suite import KEEPER, PYTHON, Suite, wait_until
from test_lab_physical import RATE, clean, in_traffic

Survived = Callable[..., None]

NETNS_TESTS = str(Path(__file__).resolve().parents[1] / "netns")
MACS = ("02:00:00:00:00:00", "02:00:00:00:01:00")
VIEW = """
import json, sys
from pyroute2.iwutil import IW
sys.path.insert(0, sys.argv[1])
from stand_in import view
with IW() as radios:
    known = {each.get_attr("NL80211_ATTR_IFNAME"): each for each in radios.list_dev()}
modes = {name: [each.get_attr(f"NL80211_ATTR_{what}") for what in ("WIPHY", "IFTYPE")] for name, each in known.items()}
print(json.dumps({name: (view(name) or {}) | {"radio and mode": modes.get(name)} for name in ("wlan0", "wlan1")}))
"""
# A second interface on the radio of wlan0, or none; and as what wlan1 works.
CHANGE = """
import sys
from pyroute2.iwutil import IW
with IW() as radios:
    known = {each.get_attr("NL80211_ATTR_IFNAME"): each for each in radios.list_dev()}
    if sys.argv[1]:
        radios.add_interface("second0", sys.argv[1], phy=known["wlan0"].get_attr("NL80211_ATTR_WIPHY"))
    else:
        radios.del_interface(known["second0"].get_attr("NL80211_ATTR_IFINDEX"))
    radios.set_interface_type(known["wlan1"].get_attr("NL80211_ATTR_IFINDEX"), sys.argv[2])
"""
DRESS = """
modprobe mac80211_hwsim radios=2
udevadm settle
ip link set wlan0 txqueuelen 777 alias 'radio of rack 7'
ip link property add dev wlan0 altname radio-of-rack-7
sysctl -qw net.ipv4.conf.wlan0.rp_filter=2
ip link set wlan0 up
ip address add 203.0.113.9/29 dev wlan0
"""


def bench(**ends: str) -> str:
    ports = "\n".join(
        f'{end} = {{ port = "{port}", allow_addressed = true, allow_virtual = true }}' for end, port in ends.items()
    )
    return f'[[device]]\nserial = "AIR-1"\n[[device.link]]\nname = "air"\nspeed = "1G"\n{ports}\n'


BENCH = bench(a=f"mac-{MACS[0]}", b="altname-wlan1")


@pytest.fixture(scope="session")
def radios(lab: Guest) -> Callable[[], dict[str, Any]]:
    """Two radios, one of them with nothing on it as a new one has; ``radios()`` is what both are now."""
    lab.run(["sh", "-ec", DRESS]).check()

    def view() -> dict[str, Any]:
        return json.loads(lab.run([PYTHON, "-c", VIEW, NETNS_TESTS], warm=True).check())

    return view


def test_two_radios_are_lent_measured_and_home_again(
    radios: Callable[[], dict[str, Any]], suite: Suite, survived: Survived
):
    before = radios()
    suite.write({"test_it.py": RATE.replace("DURATION", "2"), "bench.toml": BENCH})
    done = suite.run("--netperf-bench=bench.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    sheet = suite.sheet("AIR-1")
    (row,) = sheet["rows"]
    assert (row["verdict"], sheet["simulated"]) == ("PASS", True)
    facts = json.dumps(row)
    assert "mac80211_hwsim" in facts
    assert '"frequency_mhz": 2412' in facts
    survived(f"the end of a run on two radios ({row['value'] / 1e6:.1f} Mbit/s)", before, radios())


def test_radios_of_a_killed_keeper_are_brought_home_by_clean(
    lab: Guest, radios: Callable[[], dict[str, Any]], suite: Suite, survived: Survived
):
    before = radios()
    suite.write({"test_it.py": RATE.replace("DURATION", "200"), "bench.toml": BENCH})
    run = suite.begin("--netperf-bench=bench.toml")
    in_traffic(suite, run)
    everyone = f"{run.pid} $(pgrep -f '{KEEPER}')"
    lab.run(["sh", "-ec", f'all="{everyone}"; kill -STOP $all; kill -KILL $all']).check()
    assert run.wait().returncode == -signal.SIGKILL
    wait_until(
        lambda: all(lab.run(["ls", f"/sys/class/net/{name}"]).returncode == 0 for name in before), "both are back"
    )
    assert clean(lab).count("brought home, as it was") == 2
    survived("SIGKILL of pytest and keeper with two radios, then clean", before, radios())


def test_radios_that_cannot_be_given_back_are_refused(lab: Guest, radios: Callable[[], dict[str, Any]], suite: Suite):
    air = bench(a="altname-wlan0", b="altname-wlan1")  # both interfaces of a radio have its MAC address
    suite.write(
        {
            "air.toml": air,
            "plain.toml": air.replace("true", "false"),
        }
    )
    lab.run([PYTHON, "-c", CHANGE, "monitor", "ap"], warm=True).check()
    check = [PYTHON, "-m", "pytest_netperf.cli", "bench", "check"]
    said = lab.run([*check, "air.toml"], folder=suite.path, warm=True)
    lab.run([PYTHON, "-c", CHANGE, "", "station"], warm=True).check()
    assert said.returncode == 1, said.stdout + said.stderr
    assert "wlan0 is refused: second0 is on the same radio and would move with it" in said.stdout
    assert "wlan1 is refused: it works as ap, which could not be given back" in said.stdout
    plain = lab.run([*check, "plain.toml"], folder=suite.path, warm=True)
    assert plain.stdout.count("it is a simulated radio without hardware behind it; it stands in for a port") == 2
