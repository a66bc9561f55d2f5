"""What the guest's kernel has and this machine's may not: netem, VLAN, bond, team, pktgen."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from lab_guest import Guest
from lab_suite import PYTHON, Pair, Suite
from test_loss import is_binomial

Survived = Callable[..., None]
PairOf = Callable[[str], Pair]

SHARES = {0.01: 12_000, 0.05: 4_000}
"""Loss, and how many datagrams it is tried on."""
# As an ordinary user: datagrams to a port that nobody listens at, counted by the receiving namespace; then TCP, and
# whether any of its super-packets crosses the link.
LOSS = """
import contextlib, json, os, socket, struct, sys, threading, time
import pyroute2.ethtool.ioctl
from pytest_netperf.links.kernel import CLONE_NEWNET, CLONE_NEWUSER, unshare
from pytest_netperf.links.simulated import SimulatedPair

os.setgroups([])
os.setgid(12345)
os.setuid(12345)
unshare(CLONE_NEWUSER | CLONE_NEWNET)

def no_ports():
    lines = [line.split() for line in open("/proc/thread-self/net/snmp") if line.startswith("Udp:")]
    return int(dict(zip(*lines))["NoPorts"])

def settled(read):
    last = read()
    while (time.sleep(0.3), now := read())[1] != last:
        last = now
    return now

found = []
for by in ("netem", "classifier"):
    for ratio, datagrams in json.loads(sys.argv[1]).items():
        fault = {"loss_ratio": float(ratio), "loss_by": by, "direction": "a-to-b"}
        pair = SimulatedPair(1, {"mtu": 1500, "speed_bps": 2e8, "fault": fault})
        pair.shape(1500)
        a, b, loss = pair.ends["a"], pair.ends["b"], pair._fault._losses["b"]
        before, sender = b.call(no_ports), a.socket(socket.AF_INET, socket.SOCK_DGRAM)
        counted, crossed = pair.counters()["b"]["rx_packets"], loss.counts()
        for number in range(datagrams):
            sender.sendto(b"x", (pair.ports["b"]["address"], 9))
            if number % 200 == 199:
                time.sleep(0.001)
        lost = datagrams - (settled(lambda: b.call(no_ports)) - before)
        after = loss.counts()
        answer = {"ratio": float(ratio), "by": pair.facts["loss_by"], "datagrams": datagrams, "lost": lost,
                  "counted": pair.counters()["b"]["rx_packets"] - counted, "frames": after.frames - crossed.frames,
                  "said_lost": after.lost - crossed.lost}
        if float(ratio) == 0.05:
            listener = b.socket(socket.AF_INET, socket.SOCK_STREAM)
            tap = b.call(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            tap.bind((pair.ports["b"]["interface"], 3))
            listener.bind((pair.ports["b"]["address"], 0))
            listener.listen()
            client = a.socket(socket.AF_INET, socket.SOCK_STREAM)
            client.connect(listener.getsockname())
            server, _ = listener.accept()
            before = loss.counts()
            threading.Thread(target=lambda: (client.sendall(bytes(2_000_000)), client.shutdown(1))).start()
            received = 0
            while data := server.recv(1 << 20):
                received += len(data)
            after = loss.counts()
            tap.setblocking(False)
            longest = 0
            with contextlib.suppress(BlockingIOError):
                while True:
                    longest = max(longest, tap.recv_into(bytearray(64), flags=socket.MSG_TRUNC))
            info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
            answer |= {"tcp_received": received, "tcp_frames": after.frames - before.frames, "longest": longest,
                       "tcp_lost": after.lost - before.lost, "retransmits": struct.unpack_from("=I", info, 100)[0]}
        pair.close()
        found.append(answer)
print(json.dumps(found))
"""
LOSSY = """
import pytest

@pytest.mark.netperf_link(speed="100M", fault=[{"loss": "5 %"}, {"loss": "5 %", "loss_by": "classifier"}])
@pytest.mark.netperf_limit(frame_loss_ratio="<= 1 %")
def test_loss(iperf3):
    iperf3.udp(bitrate="4 Mbps", duration=2, omit=0)
"""


def test_netem_and_the_classifier_lose_the_same_share_of_single_frames(lab: Guest, survived: Survived):
    found = json.loads(lab.run([PYTHON, "-c", LOSS, json.dumps(SHARES)], timeout_s=200, warm=True).check())
    assert [each["by"] for each in found] == ["netem", "netem", "classifier", "classifier"]
    for each in found:
        assert is_binomial(each["lost"], each["datagrams"], each["ratio"]), each
        assert each["datagrams"] <= each["counted"] <= each["datagrams"] + 20, "the port counts what is lost behind it"
        assert each["datagrams"] <= each["frames"] <= each["datagrams"] + 20, each
        assert each["lost"] <= each["said_lost"] <= each["lost"] + 20, each
        survived(f"loss of {each['ratio']:.0%} by {each['by']}: {each['lost']} of {each['datagrams']} datagrams")
    for each in (each for each in found if "longest" in each):
        assert each["tcp_received"] == 2_000_000
        assert each["longest"] == 1514, "super-packets crossed the link"
        assert each["tcp_frames"] >= 2_000_000 / 1448
        assert is_binomial(each["tcp_lost"], each["tcp_frames"], 0.05), each
        assert each["retransmits"] >= each["tcp_lost"] - 20, each


def test_a_lossy_link_fails_by_either_and_the_sheet_says_which(suite: Suite):
    for attempt in "abc":  # the one datagram that opens the test of iperf3 may be among those that are lost
        each = Suite(suite.guest, f"{suite.name}-{attempt}")
        each.write({"test_lossy.py": LOSSY})
        done = each.run()
        if "no traffic ever flowed" not in done.stdout:
            break
    assert done.returncode == 1, done.stdout + done.stderr
    rows = each.sheet("SIM-0001")["rows"]
    assert [row["verdict"] for row in rows] == ["FAIL", "FAIL"], done.stdout
    assert [json.dumps(row).count('"link_loss_by": "netem"') for row in rows] == [1, 0], done.stdout
    assert [json.dumps(row).count('"link_loss_by": "classifier"') for row in rows] == [0, 1]


UPPERS = """
ip link add link {a} name {a}.7 type vlan id 7
ip link add bond0 type bond mode active-backup
ip link set {b} down
ip link set {b} master bond0
ip link add team0 type team
ip link add bridge0 type bridge
ip link set {c} master bridge0
ip link add link {d} name {d}.8 type vlan id 8
"""
NO_UPPERS = """
for name in {a}.7 {d}.8 bond0 team0 bridge0; do ip link del $name; done
"""
LINK = """
[[device.link]]
name = "l{number}"
speed = "1G"
a = {{ port = "altname-{a}" }}
b = {{ port = "altname-{b}" }}
"""


def test_what_stands_on_a_port_and_what_a_port_stands_in_are_refused(lab: Guest, pair: PairOf, suite: Suite):
    """Each of real drivers: 802.1Q, a bond, a team, a bridge, their members, and a port below a VLAN."""
    first, second = pair("e1000"), pair("virtio-net-pci")
    names = {"a": first.a, "b": first.b, "c": second.a, "d": second.b}
    links = [(f"{first.a}.7", first.b), ("bond0", "team0"), ("bridge0", second.a), (second.b, first.a)]
    text = '[[device]]\nserial = "UP-1"\n'
    text += "".join(LINK.format(number=number, a=a, b=b) for number, (a, b) in enumerate(links))
    suite.write({"bench.toml": text})
    before = first.view() | second.view()
    lab.run(["sh", "-ec", UPPERS.format(**names)]).check()
    said = lab.run([PYTHON, "-m", "pytest_netperf.cli", "bench", "check", "bench.toml"], folder=suite.path, warm=True)
    lab.run(["sh", "-ec", NO_UPPERS.format(**names)]).check()
    for expected in (
        f"a: {first.a}.7 is refused: it is a vlan on {first.a}: a VLAN cannot be moved without what else uses its port",
        f"and name {first.a} itself",
        f"b: {first.b} is refused: bond0 stands on it",
        f"a: bond0 is refused: it is a bond of {first.b} without hardware of its own",
        "b: team0 is refused: it is a team without hardware of its own",
        f"a: bridge0 is refused: it is a bridge of {second.a} without hardware of its own",
        f"b: {second.a} is refused: bridge0 stands on it",
        f"a: {second.b} is refused: {second.b}.8 stands on it",
    ):
        assert expected in said.stdout, said.stdout + said.stderr
    assert said.returncode == 1
    after = first.view() | second.view()
    assert {name: port["flags"] for name, port in after.items()} == {
        name: port["flags"] for name, port in before.items()
    }


PKTGEN = """
import json, os, sys, time
from pytest_netperf.links.physical import PhysicalPair

a, b, frames, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
ports = {"a": {"port": a, "allow_addressed": True}, "b": {"port": b}}
pair = PhysicalPair(1, {"mtu": 1500, "ports": ports, "holder": {"pid": os.getpid()}}, lambda: False)
try:
    def tell(name, *lines):
        for line in lines:
            with open(f"/proc/thread-self/net/pktgen/{name}", "w") as file:
                file.write(line + "\\n")

    def settled():
        now = pair.counters()
        while (time.sleep(2.5), then := now, now := pair.counters())[2] != then:  # e1000e refreshes every 2 s
            pass
        return now

    port, peer = pair.ports["a"], pair.ports["b"]
    before = settled()
    send = [f"count {frames}", f"pkt_size {size}", "delay 100000", f"dst {peer['address']}", f"dst_mac {peer['mac']}"]
    pair.ends["a"].call(tell, "kpktgend_0", f"add_device {port['interface']}")
    pair.ends["a"].call(tell, port["interface"], *send)
    pair.ends["a"].call(tell, "pgctrl", "start")
    after = settled()
    pair.ends["a"].call(tell, "kpktgend_0", "rem_device_all")
    print(json.dumps({end: {key: after[end][key] - before[end][key] for key in after[end]} for end in "ab"}))
finally:
    pair.close()
"""


@pytest.mark.parametrize("model", ["e1000e", "vmxnet3"])
def test_the_counters_of_both_ports_count_each_frame_of_pktgen(
    lab: Guest, pair: PairOf, survived: Survived, model: str
):
    frames, size = 2000, 1000
    ends = pair(model)
    lab.run(["modprobe", "pktgen"]).check()
    command = [PYTHON, "-c", PKTGEN, f"mac-{ends.cards.a.mac}", f"mac-{ends.cards.b.mac}", str(frames), str(size)]
    counted = json.loads(lab.run(command, timeout_s=200, warm=True).check())
    for end, way in (("a", "tx"), ("b", "rx")):
        assert frames <= counted[end][f"{way}_packets"] <= frames + 5, counted  # what IPv6 says of its own accord
        assert frames * size <= counted[end][f"{way}_bytes"] <= frames * (size + 4) + 600, counted
        assert counted[end][f"{way}_errors"] == counted[end][f"{way}_dropped"] == 0
    survived(f"{frames} frames of pktgen over {model}: both ports counted {counted['b']['rx_packets']}")
