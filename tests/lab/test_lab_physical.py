"""Pairs of real drivers, lent to runs: what a run measures on them, and that they are what they were, whatever ends it.

The views before and after are read in the guest by ip, ethtool and /proc, not by the code under test. A start of pytest
takes seconds in the guest, so a run has several cases, and runs that are killed run side by side, each on its own pair.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest
from lab_guest import Guest, Running
from lab_suite import KEEPER, PYTHON, Pair, Suite, bench, no_keeper, views, wait_until

PairOf = Callable[[str], Pair]
Survived = Callable[..., None]

CLIENT = "iperf3.* -c "
BENCH = "--netperf-bench=bench.toml"

RATE = """
import pytest

@pytest.mark.netperf_limit(throughput=">= 10 kbps")
def test_rate(iperf3):
    iperf3.tcp(duration=DURATION, omit=0)
"""
SLOW = RATE.replace("omit=0", 'omit=0, bitrate="1 Mbps"')
ASKED = SLOW.replace(
    "@pytest.mark",
    '@pytest.mark.netperf_link(offloads={"tso": True, "gro": False}, ring={"rx": 2048})\n@pytest.mark',
)
CASES = """
import pytest

pytestmark = pytest.mark.netperf_limit(throughput=">= 10 kbps")

def test_rate(iperf3):
    iperf3.tcp(duration=2, omit=0)

@pytest.mark.netperf_link(name="e1000e")
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
        (b, f"ip link set {b.interface} down"),
        (b, f"ip link set {b.interface} address 02:00:5e:aa:bb:cc name renamed0"),
    ):
        end.run(command.split(), check=True)
    open("changed", "w").close()
    assert False, "a failing test"

@pytest.mark.netperf_link(name="virtio-net-pci", mtu=4000)
def test_mtu_of_one_end(netperf_link, iperf3):
    netperf_link.b.run(["ip", "link", "set", netperf_link.b.interface, "mtu", "1500"], check=True)
    iperf3.tcp(duration=1, omit=0, bitrate="5 Mbps", repeat=2, between_runs="link")

@pytest.mark.netperf_link(name="virtio-net-pci")
def test_one_namespace(netperf_link, iperf3):
    netperf_link.a.run(["ip", "address", "add", f"{netperf_link.b.address}/32", "dev", "lo"], check=True)
    netperf_link.b.end = "a"  # what belongs to end b runs beside end a
    iperf3.tcp(duration=1, omit=0, bitrate="50 Mbps")
"""
HOLD = """
import pathlib, time, pytest

@pytest.mark.netperf_limit(throughput=">= 10 kbps")
def test_hold(netperf_link, iperf3):
    iperf3.tcp(duration=1, omit=0, bitrate="5 Mbps")
    pathlib.Path("measured").touch()
    while not pathlib.Path("over").exists():
        time.sleep(0.2)
"""
# Nothing on the first port of a pair is what a new port has. Not each driver takes each setting.
DRESS = """
ip link set {a} txqueuelen 777 alias 'uplink of rack {n}' group 5 mtu 1400
ip link property add dev {a} altname port-of-rack-{n}
ethtool -K {a} tso off || true
ethtool -G {a} rx 512 || true
sysctl -qw net.ipv4.conf.{a}.rp_filter=2 net.ipv6.conf.{a}.accept_ra=0 net.ipv4.neigh.{a}.gc_stale_time=77
ip link set {a} up promisc on
ip link set {b} up
ip address add 203.0.113.{low}/29 dev {a}
ip address add 2001:db8:{n}::1/64 dev {a} nodad noprefixroute
ip route add 10.7.{n}.0/30 via 203.0.113.{next} dev {a} metric 77 mtu 1300
ip neigh add 203.0.113.{next} lladdr 02:00:5e:00:00:99 nud permanent dev {a}
"""


@pytest.fixture(scope="session")  # of the guest: a worker may leave this module and come back
def dressed(lab: Guest) -> None:
    script = ""
    for n, cards in enumerate(lab.pairs.values()):
        macs = [f"$(basename $(dirname $(grep -l {port.mac} /sys/class/net/*/address)))" for port in cards.ports]
        script += f"a{n}={macs[0]}; b{n}={macs[1]}\n"
        script += DRESS.format(a=f"$a{n}", b=f"$b{n}", n=n, low=129 + 8 * n, next=130 + 8 * n)
    lab.run(["sh", "-ec", script]).check()


@pytest.fixture
def made(dressed: None, lab: Guest, suite: Suite) -> Callable[..., Suite]:
    """``made(name, tests, pairs)``: a suite in a folder of its own on these pairs, which have their carrier."""

    def make(name: str, tests: str, *pairs: Pair) -> Suite:
        for ends in pairs:
            ends.up()
        made = Suite(lab, f"{suite.name}-{name}")
        made.write({"test_it.py": tests, "bench.toml": bench("LAB-1", *pairs)})
        return made

    return make


def clean(lab: Guest, **env: str) -> str:
    done = lab.run([PYTHON, "-m", "pytest_netperf.cli", "clean"], timeout_s=200, env=env, warm=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_traffic(suite: Suite, *runs: Running) -> None:
    """Until each of these runs has a client of iperf3. One that has ended will not."""
    guest = suite.guest

    def everyone() -> bool:
        for run in runs:
            assert not run.has_ended, run.wait().stdout
        return len(guest.run(["pgrep", "-f", CLIENT]).stdout.split()) >= len(runs)

    wait_until(everyone, f"{len(runs)} in traffic", 400, every=1.0)


def row_of(suite: Suite, serial: str = "LAB-1", **conditions: str) -> dict[str, Any]:
    """The only row of a sheet that has these."""
    rows = [row for row in suite.sheet(serial)["rows"] if all(conditions[key] in str(row[key]) for key in conditions)]
    assert len(rows) == 1, f"{len(rows)} rows have {conditions}"
    return rows[0]


def test_a_run_over_drivers_a_refused_port_a_failing_test_and_ports_that_were_tampered_with(
    lab: Guest, dressed: None, pair: PairOf, suite: Suite, survived: Survived, keep_sheet: Callable[[Suite, str], None]
):
    ends = {model: pair(model) for model in ("e1000e", "vmxnet3", "e1000", "virtio-net-pci")}
    ends["e1000e"].carrier()
    lab.run(["ip", "route", "add", "default", "dev", ends["e1000"].a]).check()
    before = views(lab, ends)
    text = bench("LAB-1", ends["e1000e"], ends["vmxnet3"], ends["virtio-net-pci"]) + bench("LAB-2", ends["e1000"])
    suite.write({"test_it.py": CASES, "bench.toml": text})
    done = suite.run(BENCH, timeout_s=500)
    after = views(lab, ends)
    lab.run(["ip", "route", "del", "default"]).check()
    assert done.returncode == 1, done.stdout + done.stderr
    keep_sheet(suite, "LAB-1")
    sheet = suite.sheet("LAB-1")
    assert not sheet["simulated"]
    rates = [row for row in sheet["rows"] if "test_rate" in row["test"]]
    assert {row["link"]: row["verdict"] for row in rates} == dict.fromkeys(
        ("e1000e", "vmxnet3", "virtio-net-pci"), "PASS"
    ), done.stdout
    facts = json.dumps([row["evidence"]["facts"] for row in rates])
    for name in ("e1000e", "vmxnet3", ends["e1000e"].a, ends["vmxnet3"].cards.b.mac):
        assert name in facts
    survived("the end of a run", before["vmxnet3"], after["vmxnet3"])

    refused = row_of(suite, "LAB-2", test="test_rate")
    assert refused["verdict"] == "ERROR"
    assert "carries the default route of this machine" in refused["reason"]
    survived("the port of the default route: refused, ERROR", before["e1000"], after["e1000"])

    assert suite.has("changed"), done.stdout
    assert row_of(suite, test="test_changes")["verdict"] == "FAIL", done.stdout
    survived("a failing test that changed 15 settings, MAC and name", before["e1000e"], after["e1000e"])

    small = [row for row in sheet["rows"] if "test_mtu_of_one_end" in row["test"]]
    assert {row["verdict"] for row in small} == {"ERROR"}, done.stdout
    assert f"port b ({ends['virtio-net-pci'].b}," in small[0]["reason"]
    assert "has an MTU of 1500 now" in small[0]["reason"]
    local = row_of(suite, test="test_one_namespace")
    assert local["verdict"] == "INVALID", done.stdout
    assert "payload" in local["reason"]
    what = "MTU of one end too small: ERROR; both ends of the data in one namespace: INVALID"
    survived(what, before["virtio-net-pci"], after["virtio-net-pci"])


def test_a_port_that_two_runs_want_and_whose_name_is_taken_meanwhile(
    lab: Guest, made: Callable[..., Suite], pair: PairOf, survived: Survived
):
    ends = pair("e1000e")
    before = ends.view()
    suite = made("first", HOLD, ends)
    first = suite.begin(BENCH)
    wait_until(lambda: suite.has("measured"), "the first run has measured", 300)
    other = Suite(lab, f"{suite.name}-other")
    other.write({"test_it.py": RATE.replace("DURATION", "1"), "bench.toml": bench_of(suite)})
    second = other.run(BENCH)
    lab.run(["ip", "link", "add", ends.a, "type", "bridge"]).check()
    suite.write({"over": ""})
    done = first.wait(240)
    assert second.returncode == 1, second.stdout
    held = row_of(other)
    assert held["verdict"] == "ERROR"
    assert f"is held by process {first.pid} (" in held["reason"]
    assert " since 20" in held["reason"]

    assert done.returncode == 1, done.stdout
    row = row_of(suite)
    assert row["verdict"] == "ERROR", done.stdout
    assert f"name: was {ends.a}, is netperf" in row["reason"]
    lab.run(["ip", "link", "del", ends.a]).check()
    assert clean(lab).count("brought home, as it was") == 1
    what = "a second run that wants the port: ERROR, names the first; its name taken meanwhile: ERROR, then clean"
    survived(what, before, ends.view())


def bench_of(suite: Suite) -> str:
    return (suite.guest.pull(suite.path) / "bench.toml").read_text()


@pytest.mark.timeout(900)
def test_runs_that_are_killed(lab: Guest, made: Callable[..., Suite], pair: PairOf, survived: Survived):
    """Two at once and then three, each on a pair of its own, all in the middle of their traffic. More at once would be
    slower here than the guard of a keeper waits for a way home, 30 s."""
    models = ("e1000e", "e1000", "vmxnet3", "virtio-net-pci", "rtl8139")
    ends = {model: pair(model) for model in models}
    runs, suites = {}, {}
    for model in models:
        tests = ASKED if model in ("e1000e", "vmxnet3") else SLOW  # settings of a test come back too
        suites[model] = made(model, tests.replace("DURATION", "900"), ends[model])
    before = views(lab, ends)

    def begin(*models: str) -> None:
        for model in models:
            with_worker = ("-p", "xdist.plugin", "-n1", "--max-worker-restart=0") if model == "rtl8139" else ()
            runs[model] = suites[model].begin(BENCH, "--netperf-slots=3", *with_worker)
        in_traffic(suites[model], *(runs[model] for model in models))

    begin("e1000e", "vmxnet3")
    runs["e1000e"].send_signal(signal.SIGINT, group=True)  # Ctrl-C reaches the whole foreground group
    runs["vmxnet3"].send_signal(signal.SIGKILL)
    runs["e1000e"].wait(400)
    no_keeper(lab)
    begin("rtl8139", "e1000", "virtio-net-pci")
    runs["e1000"].send_signal(signal.SIGTERM)
    lab.run(["sh", "-ec", f"kill -KILL $(pgrep -P {runs['rtl8139'].pid})"]).check()
    frozen = f'p={runs["virtio-net-pci"].pid}; g=$(pgrep -P $p -f "{KEEPER}"); k=$(pgrep -P $g); '
    lab.run(["sh", "-ec", f"{frozen} kill -STOP $p $g $k; kill -KILL $p $g $k"]).check()
    codes = {model: run.wait(400).returncode for model, run in runs.items()}
    assert all(codes.values()), "a run that was killed says so"
    assert (codes["vmxnet3"], codes["virtio-net-pci"]) == (-signal.SIGKILL, -signal.SIGKILL)
    no_keeper(lab)
    for model in models:
        pair(model)
    said = clean(lab)
    # Three ways home at once are slow here still: what was cut short, clean finishes.
    cleaned = {model for model in models if any(f"port {name}," in said for name in ends[model].names)}
    assert all(f"port {name}," in said for name in ends["virtio-net-pci"].names), "nobody else could bring these home"
    assert cleaned <= {"virtio-net-pci", "e1000", "rtl8139"}, said
    assert said.count("brought home, as it was") == len(said.splitlines()), said
    after = views(lab, ends)
    for model, what in (
        ("e1000e", "Ctrl-C mid-run"),
        ("e1000", "SIGTERM of pytest mid-run"),
        ("vmxnet3", "SIGKILL of pytest mid-run"),
        ("virtio-net-pci", "SIGKILL of pytest and keeper mid-run"),
        ("rtl8139", "SIGKILL of a pytest-xdist worker mid-run: CRASHED"),
    ):
        survived(what + ", then clean" * (model in cleaned), before[model], after[model])
    assert row_of(suites["rtl8139"])["verdict"] == "CRASHED"
    assert row_of(suites["e1000e"])["verdict"] in ("ABORTED", "ERROR")


def test_a_pulled_cable_a_removed_card_and_a_speed_that_was_forced_down(
    lab: Guest, made: Callable[..., Suite], pair: PairOf, survived: Survived
):
    """Two runs at once: one loses its cable, and has a pair that trained below its speed; one loses a card."""
    cable, card, slow = pair("virtio-net-pci"), pair("vmxnet3"), pair("e1000e")
    lab.run(["ethtool", "-s", slow.b, "speed", "100", "duplex", "full", "autoneg", "off"]).check()
    slow.carrier()
    wait_until(lambda: "Speed: 100Mb/s" in lab.run(["ethtool", slow.b]).stdout, "the forced speed is in force")
    before = views(lab, {ends.cards.model: ends for ends in (cable, card, slow)})
    of_cable = made("cable", SLOW.replace("DURATION", "25"), cable, slow)
    of_card = made("card", SLOW.replace("DURATION", "25"), card)
    runs: list[Running] = [each.begin(BENCH, "--netperf-slots=2") for each in (of_cable, of_card)]
    in_traffic(of_card, *runs)
    lab.cable(cable.cards, plugged=False)
    lab.take_card(card.cards.b)
    wait_until(lambda: card.cards.b.id not in lab.cards(), "the kernel lets go of the card")
    pulled, removed = (run.wait(300) for run in runs)
    lab.cable(cable.cards, plugged=True)
    assert (pulled.returncode, removed.returncode) == (1, 1), pulled.stdout + removed.stdout

    row = row_of(of_cable, link="virtio-net-pci")
    assert row["verdict"] != "PASS", pulled.stdout
    survived(f"cable pulled mid-run: {row['verdict']}", before["virtio-net-pci"], cable.view())

    row = row_of(of_cable, link="e1000e")
    assert row["verdict"] == "FAIL", pulled.stdout
    assert "port b negotiated 100M full duplex" in row["reason"]
    assert "Auto-negotiation: off" in lab.run(["ethtool", slow.b]).stdout
    survived("speed forced down at one end: FAIL without traffic", before["e1000e"], slow.view())
    lab.run(["ethtool", "-s", slow.b, "autoneg", "on"]).check()
    slow.carrier()

    row = row_of(of_card)
    assert row["verdict"] != "PASS", removed.stdout
    assert "nowhere to be found" in removed.stdout
    no_keeper(lab)
    lab.give_card(card.cards.b)
    wait_until(lambda: pair("vmxnet3").names == card.names, "udev has named the card as before")
    assert "brought home, as it was" in clean(lab)
    what = f"card taken off the bus mid-run: {row['verdict']}; plugged in again, then clean"
    survived(what, before["vmxnet3"], card.view())
