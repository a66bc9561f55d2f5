"""Pairs of real drivers, lent to runs: what a run measures on them, and that they are what they were, whatever ends it.

The views before and after are read in the guest by ip, ethtool and /proc, not by the code under test.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest
from lab_guest import Guest
from lab_suite import PYTHON, Pair, Suite, bench, wait_until

PairOf = Callable[[str], Pair]
Survived = Callable[..., None]

KEEPER = "[p]ytest_netperf.links.keeper"  # a pattern that does not match itself

RATE = """
import pytest

@pytest.mark.netperf_limit(throughput=">= 10 kbps")
def test_rate(iperf3):
    iperf3.tcp(duration=DURATION, omit=0)
"""
CHANGES = """
import pytest

@pytest.mark.netperf_limit(throughput=">= 10 kbps")
def test_changes(netperf_link, iperf3):
    a, b = netperf_link.a, netperf_link.b
    for end, command in (
        (a, f"ip link set {a.interface} mtu 1400 txqueuelen 5 alias changed group 9 promisc off"),
        (a, f"ip address add 192.0.2.77/24 dev {a.interface}"),
        (a, f"ethtool -K {a.interface} tso on gro off"),
        (a, f"sysctl -qw net.ipv4.conf.{a.interface}.rp_filter=1"),
        (b, f"ethtool -G {b.interface} rx 1024"),
        (b, f"ethtool -K {b.interface} rx off"),
        (b, f"ethtool -s {b.interface} wol d"),
    ):
        end.run(command.split(), check=True)
    open("changed", "w").close()
    assert False, "a failing test"
"""
DRESS = """
ip link set {a} txqueuelen 777 alias 'uplink of rack 7' group 5 mtu 1400
ip link property add dev {a} altname port-of-rack-7
ethtool -K {a} tso off
ethtool -G {a} rx 512
sysctl -qw net.ipv4.conf.{a}.rp_filter=2 net.ipv6.conf.{a}.accept_ra=0 net.ipv4.neigh.{a}.gc_stale_time=77
ip link set {a} up promisc on
ip link set {b} up
ip address add 203.0.113.1/29 dev {a}
ip address add 2001:db8::1/64 dev {a} nodad noprefixroute
ip route add 10.7.7.0/30 via 203.0.113.2 dev {a} metric 77 mtu 1300
ip neigh add 203.0.113.2 lladdr 02:00:5e:00:00:99 nud permanent dev {a}
"""


@pytest.fixture(scope="module")
def dressed(lab: Guest) -> None:
    """Nothing on the first e1000e port is what a new port has."""
    names = lab.run(["sh", "-c", "grep -l 02:00:5e:10:01: /sys/class/net/*/address"]).check().split()
    a, b = sorted(name.split("/")[4] for name in names)
    lab.run(["sh", "-ec", DRESS.format(a=a, b=b)]).check()


@pytest.fixture
def one(dressed: None, pair: PairOf, suite: Suite) -> Callable[..., tuple[Pair, Suite]]:
    """``one(tests, duration)``: the dressed pair, and a suite on it."""

    def make(tests: str, duration: int = 1) -> tuple[Pair, Suite]:
        ends = pair("e1000e")
        ends.carrier()
        tests = tests.replace("DURATION", str(duration))
        suite.write({"test_it.py": tests, "bench.toml": bench("LAB-1", ends)})
        return ends, suite

    return make


def clean(lab: Guest) -> str:
    done = lab.run([PYTHON, "-m", "pytest_netperf.cli", "clean"], timeout_s=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_traffic(suite: Suite) -> None:
    """Until iperf3's client runs."""
    guest = suite.guest
    wait_until(lambda: guest.run(["pgrep", "-f", "iperf3.* -c "]).returncode == 0, "traffic runs", 240)


def test_example_suite_on_two_drivers_and_a_port_that_is_refused(
    lab: Guest, dressed: None, pair: PairOf, suite: Suite, survived: Survived
):
    ends = {model: pair(model) for model in ("e1000e", "vmxnet3", "e1000")}
    ends["e1000e"].carrier()
    lab.run(["sh", "-ec", "ip addr add 192.0.2.1/24 dev $0; ip link set $0 up; ip route add default via 192.0.2.2",
             ends["e1000"].a]).check()  # fmt: skip
    before = {model: each.view() for model, each in ends.items()}
    text = bench("LAB-1", ends["e1000e"], ends["vmxnet3"]) + bench("LAB-2", ends["e1000"])
    suite.write({"test_it.py": RATE.replace("DURATION", "3"), "bench.toml": text})
    done = suite.run("--netperf-bench=bench.toml")
    after = {model: each.view() for model, each in ends.items()}
    assert done.returncode == 1, done.stdout + done.stderr
    sheet = suite.sheet("LAB-1")
    assert {row["link"]: row["verdict"] for row in sheet["rows"]} == {"e1000e": "PASS", "vmxnet3": "PASS"}, done.stdout
    assert not sheet["simulated"]
    facts = json.dumps([row["evidence"]["facts"] for row in sheet["rows"]])
    for name in ("e1000e", "vmxnet3", ends["e1000e"].a, ends["vmxnet3"].cards.b.mac):
        assert name in facts
    (refused,) = suite.sheet("LAB-2")["rows"]
    assert refused["verdict"] == "ERROR"
    assert "carries the default route of this machine" in refused["reason"]
    lab.run(["ip", "route", "del", "default"]).check()
    for model in ends:
        what = "the end of a run" if model != "e1000" else "a refused run (default route)"
        survived(f"{what} on {model}", before[model], after[model])


def test_a_failing_test_that_changed_everything(one: Callable[..., tuple[Pair, Suite]], survived: Survived):
    ends, suite = one(CHANGES)
    before = ends.view()
    done = suite.run("--netperf-bench=bench.toml")
    assert done.returncode == 1, done.stdout + done.stderr
    assert suite.has("changed"), done.stdout
    survived("a failing test that changed 13 settings", before, ends.view())


@pytest.mark.parametrize(
    ("number", "what"),
    [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM of pytest"), (signal.SIGKILL, "SIGKILL of pytest")],
    ids=["ctrl-c", "sigterm", "sigkill"],
)
def test_pytest_is_killed(
    one: Callable[..., tuple[Pair, Suite]], pair: PairOf, survived: Survived, number: int, what: str
):
    ends, suite = one(RATE, 200)
    before = ends.view()
    run = suite.begin("--netperf-bench=bench.toml")
    in_traffic(suite)
    run.send_signal(number, group=number == signal.SIGINT)  # Ctrl-C reaches the whole foreground group
    assert run.wait(240).returncode != 0
    home(pair, suite)
    survived(f"{what} mid-run", before, ends.view())


def home(pair: PairOf, suite: Suite) -> None:
    """Until both ports are here and the keeper has ended."""
    pair("e1000e")
    wait_until(lambda: suite.guest.run(["pgrep", "-f", KEEPER]).returncode, "the keeper ends")


def test_the_keeper_is_killed_too_and_clean_brings_the_ports_home(
    lab: Guest, one: Callable[..., tuple[Pair, Suite]], pair: PairOf, survived: Survived
):
    ends, suite = one(RATE, 200)
    before = ends.view()
    run = suite.begin("--netperf-bench=bench.toml")
    in_traffic(suite)
    everyone = f"{run.pid} $(pgrep -f '{KEEPER}')"
    lab.run(["sh", "-ec", f'all="{everyone}"; kill -STOP $all; kill -KILL $all']).check()
    assert run.wait().returncode == -signal.SIGKILL
    pair("e1000e")  # the kernel brings them back by itself, late and with changed settings
    assert clean(lab).count("brought home, as it was") == 2
    survived("SIGKILL of pytest and keeper, then clean", before, ends.view())


def test_the_cable_is_pulled(lab: Guest, pair: PairOf, suite: Suite, survived: Survived):
    ends = pair("vmxnet3")
    before = ends.view()
    suite.write({"test_it.py": RATE.replace("DURATION", "6"), "bench.toml": bench("LAB-1", ends)})
    run = suite.begin("--netperf-bench=bench.toml")
    in_traffic(suite)
    lab.cable(ends.cards, plugged=False)
    done = run.wait(240)
    lab.cable(ends.cards, plugged=True)
    assert done.returncode == 1, done.stdout
    (row,) = suite.sheet("LAB-1")["rows"]
    assert row["verdict"] != "PASS"
    survived(f"cable pulled mid-run ({row['verdict']})", before, ends.view())


def test_a_card_is_taken_off_the_bus(lab: Guest, pair: PairOf, suite: Suite, survived: Survived):
    ends = pair("vmxnet3")
    before = ends.view()
    suite.write({"test_it.py": RATE.replace("DURATION", "6"), "bench.toml": bench("LAB-1", ends)})
    run = suite.begin("--netperf-bench=bench.toml")
    in_traffic(suite)
    lab.take_card(ends.cards.b)
    wait_until(lambda: ends.cards.b.id not in lab.cards(), "the kernel lets go of the card")
    done = run.wait(240)
    assert done.returncode == 1, done.stdout
    (row,) = suite.sheet("LAB-1")["rows"]
    assert row["verdict"] != "PASS"
    assert "nowhere to be found" in done.stdout
    wait_until(lambda: lab.run(["pgrep", "-f", KEEPER]).returncode, "the keeper ends")
    lab.give_card(ends.cards.b)
    assert pair("vmxnet3").names == ends.names
    assert "brought home, as it was" in clean(lab)
    survived(f"card taken off the bus mid-run ({row['verdict']}), plugged in again, then clean", before, ends.view())
