"""The loss fault on real veth links: the share it drops, in which direction, and that a draw decides on one frame.

Counts are judged by the Chernoff bound P(|K - np| this large) <= 2 exp(-n KL(K/n || p)); a correct fault fails a check
with a probability below 1e-9. Datagrams are counted where they arrive, by the IP layer of the receiving namespace.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_netperf
from pytest_netperf.errors import ConfigError, LinkError
from pytest_netperf.links.classifier import cut_into_frames
from pytest_netperf.links.kernel import CLONE_NEWNET, CLONE_NEWUSER, has_capabilities, unshare
from pytest_netperf.links.loss import HIGHEST_RATIO, LOWEST_RATIO, RandomLoss, loss_threshold
from pytest_netperf.links.namespace import Namespace

pytestmark = pytest.mark.netns
needs_root = pytest.mark.skipif(not has_capabilities(), reason="makes namespaces in this process: run as root")

MTU = 1500
FRAME = MTU + 14
PORT = 9
ADDRESS = {"a": "198.18.0.1", "b": "198.18.0.2"}
ADDRESS6 = {"a": "2001:db8::1", "b": "2001:db8::2"}
UDP_SEGMENT = 103
SO_RCVBUFFORCE = 33
TCP_INFO_TOTAL_RETRANS = 100  # offset of tcpi_total_retrans in struct tcp_info
OTHER_FRAMES = 20  # room for the few frames of IPv6's own that a test does not send itself


class Pair:
    """Two namespaces joined by veth, neighbours fixed, each end behind a TBF as on a simulated link."""

    def __init__(self, speed_bps: float = 2.5e9) -> None:
        self.ends = {"a": Namespace("a"), "b": Namespace("b")}
        self.index: dict[str, int] = {}
        a, b = self.ends.values()
        a.call(
            a.ipr.link, "add", ifname="la", kind="veth", mtu=MTU, peer={"ifname": "lb", "mtu": MTU, "net_ns_fd": b.fd}
        )
        macs = {}
        for end, namespace in self.ends.items():
            (link,) = namespace.call(namespace.ipr.link, "get", ifname=f"l{end}")
            index = self.index[end] = link["index"]
            macs[end] = link.get_attr("IFLA_ADDRESS")
            namespace.call(namespace.ipr.addr, "add", index=index, address=ADDRESS[end], prefixlen=30)
            namespace.call(namespace.ipr.addr, "add", index=index, address=ADDRESS6[end], prefixlen=64, flags=0x02)
            namespace.call(namespace.ipr.link, "set", index=index, state="up")
            rate = round(speed_bps * FRAME / (MTU + 38) / 8)
            tbf = {
                "rate": rate,
                "burst": max(128_000, round(rate * 0.003)),
                "limit": max(4_000_000, round(rate * 0.02)),
            }
            namespace.call(namespace.ipr.tc, "add", "tbf", index, 0x10000000, parent=0xFFFFFFFF, **tbf)
        for end, peer in (("a", "b"), ("b", "a")):
            namespace = self.ends[end]
            for address in (ADDRESS[peer], ADDRESS6[peer]):
                neighbour = {"ifindex": self.index[end], "lladdr": macs[peer], "state": "permanent", "dst": address}
                namespace.call(namespace.ipr.neigh, "add", **neighbour)

    def lose(self, source: str, ratio: float) -> RandomLoss:
        target = "b" if source == "a" else "a"
        ends = [(self.ends[end], self.index[end]) for end in (source, target)]
        loss_threshold(ratio)
        cut_into_frames("loss", *ends[0], *ends[1])
        fault = RandomLoss(*ends[1])
        fault.begin(ratio)
        return fault

    def close(self) -> None:
        for namespace in self.ends.values():
            namespace.close()

    def send_datagrams(self, source: str, count: int, fault: RandomLoss | None = None) -> int:
        """Send ``count`` datagrams of 1448 bytes to the other end. Returns how many never reached its IP layer.

        Name the ``fault`` in force in that direction: it tells how many frames have crossed the link.
        """
        target = "b" if source == "a" else "a"
        receiver = self.ends[target].socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender = self.ends[source].socket(socket.AF_INET, socket.SOCK_DGRAM)
        with receiver, sender:
            receiver.bind((ADDRESS[target], PORT))  # bound, so that no ICMP goes back; what overflows it did arrive
            before = self.ends[target].call(delivered_packets)
            crossed = (lambda: fault.counts().frames) if fault else (lambda: self.ends[target].call(delivered_packets))
            send_in_batches(sender, (ADDRESS[target], PORT), [bytes(1448)] * count, crossed)
            arrived = settled(lambda: self.ends[target].call(delivered_packets)) - before
        assert arrived <= count, "the receiving namespace got IPv4 packets from somewhere else"
        return count - arrived


def send_in_batches(sender: socket.socket, address: tuple[str, int], payloads: list[bytes], crossed) -> None:
    """Send no faster than the frames cross: a busy machine throws away what exceeds 1000 (net.core.netdev_max_backlog).

    ``crossed()`` counts frames that were taken from that queue.
    """
    start = crossed()
    for sent, payload in enumerate(payloads, 1):
        sender.sendto(payload, address)
        if sent % 500 == 0 or sent == len(payloads):
            deadline = time.monotonic() + 5
            while crossed() - start < sent and time.monotonic() < deadline:
                time.sleep(0.0005)


def delivered_packets() -> int:
    """Ip.InDelivers of the calling thread's namespace."""
    names, values = [line.split() for line in Path("/proc/thread-self/net/snmp").read_text().splitlines()[:2]]
    return int(values[names.index("InDelivers")])


def settled(read) -> int:
    """The value of a counter once the queues have drained: unchanged for 0.1 s."""
    last = read()
    for _ in range(50):
        time.sleep(0.1)
        if (now := read()) == last:
            return now
        last = now
    raise AssertionError("the counter never came to rest")


def is_binomial(lost: int, count: int, ratio: float, alpha: float = 1e-9) -> bool:
    """Whether ``lost`` of ``count`` may come from independent losses with probability ``ratio`` (Chernoff bound)."""
    share = lost / count
    divergence = sum(p * math.log(p / q) for p, q in ((share, ratio), (1 - share, 1 - ratio)) if p > 0)
    return count * divergence < math.log(2 / alpha)


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


# The ratio


@pytest.mark.parametrize(
    ("ratio", "threshold"), [(0.5, 2**31), (0.25, 2**30), (0.005, 21474836), (1e-5, 42950), (1e-6, 4295)]
)
def test_threshold_is_the_share_of_all_32_bit_draws(ratio, threshold):
    assert loss_threshold(ratio) == threshold


@given(st.floats(LOWEST_RATIO, HIGHEST_RATIO))
def test_threshold_is_exact_to_two_parts_in_ten_thousand(ratio):
    assert loss_threshold(ratio) / 2**32 == pytest.approx(ratio, rel=2e-4)


@pytest.mark.parametrize(
    "ratio", [0, 0.0, -0.005, 5, 0.51, 1.0, 9e-7, math.nan, math.inf, -math.inf, True, None, "0.5 %", "0.005"]
)
def test_what_is_no_loss_ratio_is_refused_with_the_way_out(ratio):
    with pytest.raises(ConfigError) as caught:
        loss_threshold(ratio)
    assert str(caught.value) == (
        f"loss ratio {ratio!r}: expected a share from 1e-06 to 0.5 (0.005 is 0.5 %); "
        "for a link without loss leave the fault out"
    )


def test_the_bound_accepts_what_is_likely_and_refuses_what_is_not():
    assert is_binomial(1000, 200_000, 0.005)
    assert is_binomial(1100, 200_000, 0.005)  # 3.2 sigma
    assert not is_binomial(1250, 200_000, 0.005)  # 7.9 sigma
    assert not is_binomial(800, 200_000, 0.005)
    assert not is_binomial(0, 200_000, 0.005)
    assert not is_binomial(1, 100, 1e-12)


# What is lost


@needs_root
def test_a_link_without_the_fault_loses_nothing(pair):
    assert pair.send_datagrams("a", 50_000) == 0


@needs_root
@pytest.mark.parametrize(("ratio", "count"), [(0.005, 200_000), (0.5, 100_000), (2e-4, 200_000)])
def test_one_direction_loses_its_share_and_the_other_nothing(pair, ratio, count):
    fault = pair.lose("a", ratio)
    lost = pair.send_datagrams("a", count, fault)
    assert is_binomial(lost, count, ratio), f"lost {lost} of {count}, expected about {ratio * count:.0f}"
    frames, dropped = fault.counts()
    assert count <= frames <= count + OTHER_FRAMES
    assert lost <= dropped <= lost + OTHER_FRAMES
    assert pair.send_datagrams("b", 20_000) == 0


@needs_root
def test_both_directions_lose_each_its_own_share(pair):
    faults = {"a": pair.lose("a", 0.01), "b": pair.lose("b", 0.04)}
    lost = {end: pair.send_datagrams(end, 100_000, fault) for end, fault in faults.items()}
    assert is_binomial(lost["a"], 100_000, 0.01)
    assert is_binomial(lost["b"], 100_000, 0.04)


@needs_root
def test_a_second_call_changes_the_ratio_and_adds_no_second_program(pair):
    pair.lose("a", 0.5)
    fault = pair.lose("a", 0.02)
    assert is_binomial(pair.send_datagrams("a", 50_000, fault), 50_000, 0.02)
    fault = pair.lose("a", 0.4)
    assert is_binomial(pair.send_datagrams("a", 50_000, fault), 50_000, 0.4)
    b = pair.ends["b"]
    filters = b.call(lambda: list(b.ipr.get_filters(index=pair.index["b"], parent=0xFFFFFFF2)))
    assert [found["handle"] for found in filters if found["handle"]] == [1]


@needs_root
def test_losses_do_not_come_in_runs(pair):
    """Independent draws: how often the next datagram is lost does not depend on whether the last one was."""
    fault = pair.lose("a", 0.3)
    count = 20_000
    arrived = [False] * count
    with (
        pair.ends["b"].socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        pair.ends["a"].socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64_000_000)  # holds them all
        receiver.bind((ADDRESS["b"], PORT))
        receiver.setblocking(False)
        numbers = [number.to_bytes(4, "big") for number in range(count)]
        send_in_batches(sender, (ADDRESS["b"], PORT), numbers, lambda: fault.counts().frames)
        settled(lambda: pair.ends["b"].call(delivered_packets))
        with contextlib.suppress(BlockingIOError):
            while True:
                arrived[int.from_bytes(receiver.recv(4), "big")] = True
    after_loss = [not arrived[n] for n in range(1, count) if not arrived[n - 1]]
    after_arrival = [not arrived[n] for n in range(1, count) if arrived[n - 1]]
    assert is_binomial(sum(after_loss), len(after_loss), 0.3)
    assert is_binomial(sum(after_arrival), len(after_arrival), 0.3)


# One draw, one frame


def longest_frame(pair: Pair, send) -> int:
    """The longest frame that the fault's place at end b sees while ``send()`` runs, in bytes without FCS."""
    with pair.ends["b"].socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as tap:
        tap.bind(("lb", 0x0003))
        send()
        tap.setblocking(False)
        head, longest = bytearray(64), 0
        with contextlib.suppress(BlockingIOError):
            while True:
                longest = max(longest, tap.recv_into(head, flags=socket.MSG_TRUNC))
    assert longest > 1000, "the tap saw no data"
    return longest


class Transfer:
    """One TCP connection from a to b whose bytes are counted at b."""

    def __init__(self, pair: Pair, family: int = socket.AF_INET) -> None:
        address = (ADDRESS6 if family == socket.AF_INET6 else ADDRESS)["b"]
        with pair.ends["b"].socket(family, socket.SOCK_STREAM) as listener:
            listener.bind((address, 0))
            listener.listen(1)
            self.client = pair.ends["a"].socket(family, socket.SOCK_STREAM)
            self.client.settimeout(30)
            self.client.connect(listener.getsockname())
            self.server, _ = listener.accept()
        self.received = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        buffer = bytearray(1 << 20)
        while size := self.server.recv_into(buffer):
            self.received += size

    def send(self, size: int = 2_000_000) -> None:
        """Send and wait until the last byte has arrived."""
        target = self.received + size
        self.client.sendall(bytes(size))
        deadline = time.monotonic() + 30
        while self.received < target:
            assert time.monotonic() < deadline, f"{target - self.received} bytes never arrived"
            time.sleep(0.001)

    def retransmits(self) -> int:
        info = self.client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
        return struct.unpack_from("=I", info, TCP_INFO_TOTAL_RETRANS)[0]

    def close(self) -> None:
        self.client.close()
        self._reader.join()
        self.server.close()


@pytest.fixture
def transfer(pair, request) -> Iterator[Transfer]:
    transfer = Transfer(pair, getattr(request, "param", socket.AF_INET))
    yield transfer
    transfer.close()


@needs_root
@pytest.mark.parametrize("transfer", [socket.AF_INET, socket.AF_INET6], indirect=True)
def test_tcp_arrives_in_single_frames_on_connections_old_and_new(pair, transfer, request):
    assert longest_frame(pair, transfer.send) > FRAME, "without the fault TCP sends super-packets: the check is blind"
    pair.lose("a", 0.005)
    assert longest_frame(pair, transfer.send) == FRAME
    later = Transfer(pair, transfer.client.family)
    try:
        assert longest_frame(pair, later.send) == FRAME
    finally:
        later.close()


@needs_root
def test_a_datagram_super_packet_is_cut_too(pair):
    def send() -> None:
        with pair.ends["a"].socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1448)
            for _ in range(20):
                sender.sendto(bytes(1448 * 40), (ADDRESS["b"], PORT))
        time.sleep(0.2)

    assert longest_frame(pair, send) > FRAME
    pair.lose("a", 0.005)
    assert longest_frame(pair, send) == 1448 + 28 + 14


@needs_root
def test_frames_that_the_receiving_end_would_join_again_stay_single(pair, transfer):
    from pyroute2.ethtool.ioctl import IoctlEthtool

    def join_frames() -> None:
        port = IoctlEthtool("lb")
        features = port.get_features()
        features["rx-gro"] = True
        port.set_features(features)
        port.close()

    pair.lose("a", 0.001)
    pair.ends["b"].call(join_frames)
    assert longest_frame(pair, transfer.send) > FRAME, "GRO joins nothing here: the check is blind"
    pair.lose("a", 0.001)
    assert longest_frame(pair, transfer.send) == FRAME


@needs_root
def test_every_lost_segment_is_sent_again_and_every_byte_arrives(pair, transfer):
    transfer.send(40_000_000)
    without = transfer.retransmits()
    fault = pair.lose("a", 0.005)
    transfer.send(40_000_000)
    frames, dropped = fault.counts()
    assert frames >= 40_000_000 / 1448
    assert is_binomial(dropped, frames, 0.005)
    assert transfer.retransmits() - without >= dropped - OTHER_FRAMES


@needs_root
def test_the_fault_itself_does_not_slow_the_link():
    """What gso_max_segs 1 got wrong: less than half of the throughput, with hardly a frame lost."""
    pair = Pair(speed_bps=1e9)
    pair.lose("a", LOWEST_RATIO)
    transfer = Transfer(pair)
    goodput_bps = []
    try:
        while not goodput_bps or (max(goodput_bps) < 0.7 * 941.5e6 and len(goodput_bps) < 5):  # other work goes on here
            started = time.monotonic()
            transfer.send(60_000_000)
            goodput_bps.append(60_000_000 * 8 / (time.monotonic() - started))
    finally:
        transfer.close()
        pair.close()
    assert max(goodput_bps) >= 0.7 * 941.5e6


# Refusals


class Kernel:
    """A receiving end whose kernel answers a tc request with ``number``."""

    def __init__(self, namespace: Namespace, number: int) -> None:
        self.name = namespace.name
        self.call = namespace.call
        self.ipr = self
        self._real = namespace.ipr
        self._number = number

    def tc(self, *_args, **_kwargs):
        from pyroute2.netlink.exceptions import NetlinkError

        raise NetlinkError(self._number)

    def __getattr__(self, name):
        return getattr(self._real, name)


@needs_root
@pytest.mark.parametrize("number", [errno.ENOENT, errno.EOPNOTSUPP])
def test_a_kernel_without_the_classifier_says_what_to_enable(pair, number):
    with pytest.raises(LinkError) as caught:
        RandomLoss(Kernel(pair.ends["b"], number), pair.index["b"]).begin(0.005)
    message = str(caught.value)
    assert message.startswith(f"loss fault on interface {pair.index['b']} in namespace b: this kernel does not have")
    for part in ("modprobe -a sch_ingress cls_bpf", "CONFIG_NET_SCH_INGRESS", "CONFIG_NET_CLS_BPF"):
        assert part in message


@needs_root
@pytest.mark.parametrize(
    ("by", "what"), [("netem", "netem"), (None, "netem"), ("classifier", "the classifier cls_bpf")]
)
def test_a_refusal_for_another_reason_is_not_blamed_on_the_kernel_configuration(pair, by, what):
    with pytest.raises(LinkError, match=rf"in namespace b: the kernel refused {what}: .*not permitted"):
        RandomLoss(Kernel(pair.ends["b"], errno.EPERM), pair.index["b"], by).begin(0.005)
    assert devices(pair.ends["b"]) == ["lb", "lo"]


# netem, where the kernel has it, and the classifier where not


def devices(namespace: Namespace) -> list[str]:
    return sorted(link.get_attr("IFLA_IFNAME") for link in namespace.call(namespace.ipr.get_links))


def has_netem(namespace: Namespace) -> bool:
    """Asked of the kernel in another way than the fault does."""
    tried = ["tc", "qdisc", "replace", "dev", "lo", "root", "netem", "limit", "1000"]
    done = namespace.call(lambda: subprocess.run(tried, capture_output=True, text=True, check=False))
    assert done.returncode == 0 or "qdisc kind is unknown" in done.stderr, done.stderr
    return done.returncode == 0


@needs_root
def test_netem_draws_where_the_kernel_has_it_and_the_classifier_where_not(pair):
    there = has_netem(pair.ends["b"])
    fault = RandomLoss(pair.ends["b"], pair.index["b"])
    assert fault.by == ("netem" if there else "classifier")
    assert devices(pair.ends["b"]) == (["lb", "lbi", "lo"] if there else ["lb", "lo"])
    fault.begin(0.5)
    assert pair.send_datagrams("a", 1000) > 0
    fault.end()
    assert pair.send_datagrams("a", 1000) == 0
    if not there:
        with pytest.raises(LinkError, match=r"in namespace b: this kernel does not have netem.*leave loss_by out"):
            RandomLoss(pair.ends["b"], pair.index["b"], "netem")
    assert RandomLoss(pair.ends["b"], pair.index["b"], "classifier").by == "classifier"


@needs_root
@pytest.mark.parametrize("missing", ["a", "b"])
def test_an_interface_that_does_not_exist_is_named(pair, missing):
    pair.index[missing] = 4711
    with pytest.raises(LinkError, match=rf"loss fault on interface 4711 in namespace {missing}: .*No such device"):
        pair.lose("a", 0.005)


@needs_root
def test_a_refused_ratio_leaves_the_link_as_it_was(pair, transfer):
    with pytest.raises(ConfigError):
        pair.lose("a", 5)
    assert longest_frame(pair, transfer.send) > FRAME
    assert pair.send_datagrams("a", 10_000) == 0


@needs_root
def test_counts_of_a_link_that_is_gone(pair):
    fault = pair.lose("a", 0.005)
    pair.ends["a"].call(pair.ends["a"].ipr.link, "del", index=pair.index["a"])
    with pytest.raises(LinkError, match=r"the loss fault of interface \d+ in namespace b is gone"):
        fault.counts()


# Without root


def test_an_ordinary_user_gets_the_same_fault():
    environment = os.environ | {"PYTHONPATH": str(Path(pytest_netperf.__file__).parents[1])}
    result = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    if result.returncode == 77:
        pytest.skip(f"no user namespaces here: {result.stderr.strip()}")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["uid"] != 0
    assert answer["initial_network"] is False
    assert is_binomial(answer["lost"], answer["count"], 0.005)
    assert answer["lost_back"] == 0
    assert answer["longest_before"] > FRAME
    assert answer["longest_after"] == FRAME


def measure_as_ordinary_user() -> None:
    """The program of the test above: gives up root, makes a user namespace, measures, prints what it found."""
    import pyroute2.ethtool.ioctl  # noqa: F401 - imported while the files of this environment can still be read

    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    uid, network = os.getuid(), Path("/proc/self/ns/net")
    try:
        before = network.stat().st_ino
        unshare(CLONE_NEWUSER | CLONE_NEWNET)
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(77)
    pair = Pair()
    transfer = Transfer(pair)
    longest_before = longest_frame(pair, transfer.send)
    fault = pair.lose("a", 0.005)
    print(
        json.dumps(
            {
                "uid": uid,
                "initial_network": network.stat().st_ino == before,
                "longest_before": longest_before,
                "longest_after": longest_frame(pair, transfer.send),
                "count": 200_000,
                "lost": pair.send_datagrams("a", 200_000, fault),
                "lost_back": pair.send_datagrams("b", 20_000),
            }
        )
    )
    transfer.close()
    pair.close()


if __name__ == "__main__":
    measure_as_ordinary_user()
