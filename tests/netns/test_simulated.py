"""Simulated links: what they are, what runs on them, and that they carry what the wire would.

Other work may run on this machine. So a rate must come within half a percent of the ceiling in one of several runs, and
may be above the bound in none.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aftermath import wait_until

from pytest_netperf.errors import ConfigError, LinkError
from pytest_netperf.links.link import Endpoint, Link, bring_up
from pytest_netperf.links.owner import Owner
from pytest_netperf.links.slot import measurement_slot
from pytest_netperf.observe.observation import PortCounters
from pytest_netperf.traffic.engine import make_engine
from pytest_netperf.traffic.framing import bound_bps, packet_bytes
from pytest_netperf.traffic.result import Workload

pytestmark = pytest.mark.netns

MakeLink = Callable[..., Link]
GIGABIT = 1e9
FIDELITY = 0.005
ABOVE = 1.002  # of the bound: the receiver's clock over a run of a second
RUNS = 12
IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, PROBE = 10, 23, 3  # linux/in.h, linux/in6.h: DF set, no cached path MTU
ETHERNET_BYTES = 14
OTHER_FRAMES = 4  # of ARP and IPv6, at any moment, also between the readings of the two ends


@pytest.fixture(scope="module")
def link(owner: Owner) -> Iterator[Link]:
    """One link for all tests that only look."""
    link = bring_up(owner, "shared", name="shared", speed_bps=GIGABIT, mtu=1500)
    yield link
    link.close()


# What it is


@pytest.mark.parametrize("mtu", [68, 576, 1279, 1280, 1500, 9000, 65535])
def test_a_link_of_any_mtu(make_link: MakeLink, mtu: int):
    link = make_link(mtu=mtu)
    assert (link.mtu, link.a.mtu, link.b.mtu) == (mtu, mtu, mtu)
    has_ipv6 = mtu >= 1280 and Path("/proc/net/if_inet6").exists()
    for endpoint in (link.a, link.b):
        port = port_of(endpoint)
        assert port["mtu"] == mtu
        assert port["operstate"] == "UP"
        assert port["address"] == endpoint.mac
        addresses = {(found["family"], found["local"], found["prefixlen"]) for found in port["addr_info"]}
        assert ("inet", endpoint.address, 30) in addresses
        assert (endpoint.address6 is not None) == has_ipv6
        if endpoint.address6:
            six = socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, endpoint.address6))
            assert ("inet6", six, 64) in addresses
    assert link.facts["proof"] == {
        "carrier": True,
        "mtu_with_df_bytes": mtu,
        "ip_versions": [4, 6] if has_ipv6 else [4],
        "neighbours_resolved": True,
        "seconds": link.facts["proof"]["seconds"],
    }


def port_of(endpoint: Endpoint) -> dict[str, object]:
    (port,) = json.loads(endpoint.run(["ip", "-json", "address", "show", endpoint.interface], check=True).stdout)
    return port


@pytest.mark.parametrize("mtu", [-1, 0, 67, 65536, 10**9])
def test_an_mtu_that_no_link_can_have(owner: Owner, mtu: int):
    with pytest.raises(LinkError, match=rf"MTU {mtu} is not between 68 and 65535"):
        bring_up(owner, "never", name="never", speed_bps=None, mtu=mtu)


@pytest.mark.parametrize(("version", "mtu"), [(4, 576), (4, 1500), (4, 9000), (6, 1280), (6, 1500), (6, 9000)])
@pytest.mark.parametrize("way", ["a to b", "b to a"])
def test_a_packet_of_the_mtu_passes_and_one_byte_more_does_not(make_link: MakeLink, mtu: int, way: str, version: int):
    link = make_link(mtu=mtu, speed_bps=None)
    source, target = (link.a, link.b) if way == "a to b" else (link.b, link.a)
    six = version == 6
    family, header = (socket.AF_INET6, 48) if six else (socket.AF_INET, 28)
    with source.socket(family, socket.SOCK_DGRAM) as sender, target.socket(family, socket.SOCK_DGRAM) as receiver:
        sender.setsockopt(
            *((socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER) if six else (socket.IPPROTO_IP, IP_MTU_DISCOVER)), PROBE
        )
        receiver.bind((target.address6 if six else target.address, 0))
        receiver.settimeout(5)
        sender.sendto(bytes(mtu - header), receiver.getsockname()[:2])
        assert len(receiver.recv(1 << 16)) == mtu - header
        with pytest.raises(OSError, match="too long") as refused:
            sender.sendto(bytes(mtu - header + 1), receiver.getsockname()[:2])
        assert refused.value.errno == errno.EMSGSIZE


def test_not_even_a_raw_frame_is_longer_than_the_mtu(make_link: MakeLink):
    """The port itself refuses it, whatever the sender's IP layer believes."""
    link = make_link(mtu=1500, speed_bps=None)
    with link.a.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((link.a.interface, 0x88B5))  # for experiments
        head = bytes.fromhex(link.b.mac.replace(":", "") + link.a.mac.replace(":", "")) + struct.pack("!H", 0x88B5)
        assert sender.send(head + bytes(1500)) == 1514
        with pytest.raises(OSError, match="too long"):
            sender.send(head + bytes(1505))  # 4 bytes are for a VLAN tag


def test_the_ends_see_one_another_and_nothing_else(link: Link):
    ours = os.stat("/proc/self/ns/net").st_ino  # noqa: PTH116
    assert len({link.a.namespace, link.b.namespace, ours}) == 3
    for endpoint, peer in ((link.a, link.b), (link.b, link.a)):
        names = {port["ifname"] for port in json.loads(endpoint.run(["ip", "-json", "link"]).stdout)}
        assert {name for name in names if name.startswith("np")} == {endpoint.interface}
        inode = endpoint.run(["readlink", "/proc/self/ns/net"]).stdout.strip()
        assert inode == f"net:[{endpoint.namespace}]"
        neighbours = json.loads(endpoint.run(["ip", "-json", "neighbour", "show", peer.address]).stdout)
        assert [found["lladdr"] for found in neighbours] == [peer.mac]
        routes = json.loads(endpoint.run(["ip", "-json", "route"]).stdout)
        assert [route["dst"] for route in routes] == [
            endpoint.address.rsplit(".", 1)[0] + f".{link.index * 4 % 256}/30"
        ]


def test_counters_count_each_frame_once_at_each_end(make_link: MakeLink):
    link = make_link(mtu=1500, speed_bps=None)
    before = link.counters()
    frames, length = 100, 1000
    with link.a.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender, link.b.socket(kind=socket.SOCK_DGRAM) as receiver:
        receiver.bind((link.b.address, 0))
        for _ in range(frames):
            sender.sendto(bytes(length), receiver.getsockname())
            receiver.recv(2000)
    after = link.counters()
    deltas = [
        {name: getattr(now, name) - getattr(then, name) for name in PortCounters.__struct_fields__}
        for then, now in zip(before, after, strict=True)
    ]
    size = frames * (length + 28 + ETHERNET_BYTES)
    a, b = deltas
    for frame_count, byte_count in ((a["tx_packets"], a["tx_bytes"]), (b["rx_packets"], b["rx_bytes"])):
        assert frames <= frame_count <= frames + OTHER_FRAMES
        assert size <= byte_count <= size + OTHER_FRAMES * 130
    for frame_count in (b["tx_packets"], a["rx_packets"]):
        assert frame_count <= OTHER_FRAMES
    assert not any(value for delta in deltas for name, value in delta.items() if "errors" in name or "dropped" in name)


def test_datagrams_that_the_program_did_not_read_are_the_testers_loss(make_link: MakeLink):
    link = make_link(mtu=1500, speed_bps=None)
    with link.a.socket(kind=socket.SOCK_DGRAM) as sender, link.b.socket(kind=socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        receiver.bind((link.b.address, 0))
        for _ in range(200):
            sender.sendto(bytes(1000), receiver.getsockname())
        wait_until(lambda: link.counters()[1].udp_buffer_errors, "the drops are counted", 5)
    a, b = link.counters()
    assert a.udp_buffer_errors == 0
    assert 0 < b.udp_buffer_errors <= 200
    assert b.rx_dropped == 0


def test_links_share_nothing(owner: Owner):
    """Over several keepers, as with several workers or users."""
    others = [Owner(), Owner()]
    links: list[Link] = []
    try:
        for round_ in range(4):
            for keeper in (owner, *others):
                links.append(bring_up(keeper, f"shares-{round_}", name="x", speed_bps=None, mtu=1500))
        ends = [endpoint for link in links for endpoint in (link.a, link.b)]
        for what in ("interface", "address", "address6", "mac", "namespace"):
            values = [getattr(endpoint, what) for endpoint in ends]
            assert len(set(values)) == len(ends) or values == [None] * len(ends), what
        ports = [link.next_port() for link in links for _ in range(16)]
        assert len(set(ports)) == len(ports)
        assert all(1024 < port < 65536 for port in ports)
        with links[0].a.socket(kind=socket.SOCK_DGRAM) as sender, pytest.raises(OSError, match="unreachable"):
            sender.connect((links[1].b.address, 9))
    finally:
        for link in links:
            link.close()
        for keeper in others:
            keeper.close()


def test_an_unshaped_link(make_link: MakeLink):
    link = make_link(speed_bps=None)
    assert (link.speed, link.speed_bps, link.burst_bits) == (None, None, 0.0)
    assert link.ceiling() is None
    assert link.shape(1500) == {"a": None, "b": None}
    assert "qdisc tbf" not in link.a.run(["tc", "qdisc"]).stdout


def test_a_shaped_link_can_be_reshaped(make_link: MakeLink):
    link = make_link(speed_bps=GIGABIT, mtu=9000)
    for size, share in ((9000, 9014 / 9038), (1500, 1514 / 1538), (20, 34 / 84)):
        assert link.shape(size) == {"a": GIGABIT, "b": GIGABIT}
        for endpoint in (link.a, link.b):
            (qdisc,) = [
                found
                for found in json.loads(endpoint.run(["tc", "-json", "qdisc", "show"]).stdout)
                if found["kind"] == "tbf" and found["root"]
            ]
            assert qdisc["options"]["rate"] == pytest.approx(GIGABIT * share / 8, abs=1)  # bytes/s


def test_a_speed_beyond_the_shaper_is_unshaped_and_says_so(make_link: MakeLink):
    link = make_link(speed_bps=100e9)
    assert link.shape(1500) == {"a": None, "b": None}


# What runs on it


def test_run_is_like_subprocess_run(link: Link):
    done = link.a.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert isinstance(done, subprocess.CompletedProcess)
    assert (done.args[0], done.returncode, done.stdout, done.stderr) == ("sh", 3, "out\n", "err\n")
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        link.a.run(["sh", "-c", "exit 3"], check=True)
    assert link.b.run(["sh", "-c", "kill -9 $$"]).returncode == -signal.SIGKILL
    assert link.b.run([Path("/bin/echo"), 1, 2.5]).stdout == "1 2.5\n"
    assert link.b.run(["printf", "\\377"]).stdout == "�"


def test_run_uses_this_process_s_folder_and_environment_of_now(
    link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program = tmp_path / "greet"
    program.write_text('#!/bin/sh\necho "$GREETING from $(pwd)"\n')
    program.chmod(0o755)
    monkeypatch.setenv("GREETING", "hello")
    monkeypatch.chdir(tmp_path)
    expected = f"hello from {tmp_path}\n"
    assert link.a.run(["./greet"]).stdout == expected
    with pytest.raises(LinkError, match="cannot run 'greet'"):
        link.a.run(["greet"])
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert link.a.run(["greet"]).stdout == expected
    assert link.a.run(["greet"], env={"PATH": f"{tmp_path}:/bin"}).stdout == f" from {tmp_path}\n"


def test_a_program_that_cannot_be_run(link: Link, tmp_path: Path):
    with pytest.raises(LinkError, match=r"cannot run 'no-such-program' in the namespace of end a: there is no such"):
        link.a.run(["no-such-program"])
    (tmp_path / "text").write_text("no program")
    with pytest.raises(LinkError, match=r"cannot run '.*text'.*not executable"):
        link.b.run([tmp_path / "text"])
    (tmp_path / "text").chmod(0o755)
    with pytest.raises(LinkError, match=r"cannot run '.*text' in the namespace of end b: Exec format error"):
        link.b.run([tmp_path / "text"])
    assert link.a.run(["true"]).returncode == 0


@pytest.mark.parametrize("argv", ["ping -c1 198.18.0.1", b"ls", [], ()])
def test_arguments_that_are_no_list(link: Link, argv: object):
    with pytest.raises(ConfigError, match="expected a list of a program and its arguments"):
        link.a.run(argv)  # type: ignore[arg-type]


def test_a_stdin_that_is_none(link: Link):
    with pytest.raises(ConfigError, match=r"stdin=-1 is not an open file descriptor"):
        link.a.popen(["cat"], stdin=-1)
    read, write = os.pipe()
    os.close(read)
    os.close(write)
    with pytest.raises(ConfigError, match="is not an open file descriptor"):
        link.a.popen(["cat"], stdin=read)


@pytest.mark.parametrize("size", [1, 65_536, 65_537, 3_000_000])
def test_output_of_any_length_on_both_pipes(link: Link, size: int):
    done = link.a.run(["sh", "-c", f"head -c {size} /dev/zero >&2; head -c {size} /dev/zero"], timeout=30)
    assert (len(done.stdout), len(done.stderr)) == (size, size)


def test_without_stdin_a_program_reads_nothing(link: Link):
    assert link.a.run(["cat"], timeout=5).stdout == ""


def test_stdin_from_a_file_and_a_pipe(link: Link, tmp_path: Path):
    (tmp_path / "input").write_text("from a file")
    with (tmp_path / "input").open() as file, link.a.popen(["cat"], stdin=file.fileno()) as process:
        assert process.wait(5)
        assert process.stdout == "from a file"
    read, write = os.pipe()
    with link.a.popen(["cat"], stdin=read) as process:
        os.close(read)
        assert not process.wait(0.05)
        os.write(write, b"from a pipe")
        os.close(write)  # the end of file must reach the program: nobody else holds this end
        assert process.wait(5)
        assert process.stdout == "from a pipe"


def test_a_process_that_waits_for_one_with_a_full_pipe_comes_to_its_end(link: Link):
    writes = "head -c 300000 /dev/zero && touch written"  # more than a pipe holds: it stands until somebody reads
    with tempfile.TemporaryDirectory() as folder:
        writer = link.b.popen(["sh", "-c", f"cd {folder} && {writes}"])
        waiter = link.a.popen(["sh", "-c", f"until [ -e {folder}/written ]; do sleep 0.01; done"])
        with writer, waiter:
            assert not waiter.wait(0.2)
            assert waiter.wait(10, reading=writer)
            assert writer.wait(5)
            assert len(writer.stdout) == 300_000


@pytest.mark.parametrize("command", ["sleep 1000", "yes", "trap '' INT TERM; while :; do sleep 0.1; done"])
def test_a_timeout_kills(link: Link, command: str, processes_in: Callable[[Endpoint], list[int]]):
    """Also one that talks without end, or does not listen."""
    started = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired) as expired:
        link.a.run(["sh", "-c", f"echo begun; {command}"], timeout=0.3)
    assert time.monotonic() - started < 5
    assert expired.value.timeout == 0.3
    assert str(expired.value.stdout).startswith("begun\n")
    wait_until(lambda: not processes_in(link.a), "the program is gone", 2)


@pytest.mark.parametrize("noise", ["sleep 1000", "yes"])
def test_a_daemon_does_not_hold_run(link: Link, noise: str, processes_in: Callable[[Endpoint], list[int]]):
    """A grandchild that keeps the pipes open, silent or not."""
    started = time.monotonic()
    done = link.a.run(["sh", "-c", f"setsid {noise} & echo said; exit 4"])
    assert time.monotonic() - started < 5
    assert done.returncode == 4
    assert "said\n" in done.stdout
    if noise == "yes":  # it finds its pipe closed
        wait_until(lambda: not processes_in(link.a), "the daemon is gone", 2)
    else:
        (daemon,) = processes_in(link.a)
        os.kill(daemon, signal.SIGKILL)


def test_a_process_can_be_watched_signalled_and_ended(link: Link):
    with link.b.popen(
        ["sh", "-c", "trap 'echo term; exit 7' TERM; echo ready; while :; do sleep 0.01; done"]
    ) as process:
        wait_until(lambda: process.wait(0.01) or process.stdout, "it is ready", 5)
        assert process.returncode is None
        assert process.send_signal(signal.SIGTERM)
        assert process.wait(5)
        assert (process.returncode, process.stdout) == (7, "ready\nterm\n")
        assert process.wait()
        assert not process.send_signal(signal.SIGTERM)
    process.end()
    stubborn = link.b.popen(["sh", "-c", "trap '' INT; echo ready; while :; do sleep 0.01; done"])
    wait_until(lambda: stubborn.wait(0.01) or stubborn.stdout, "it is ready", 5)
    stubborn.end(grace=0.1)
    assert stubborn.returncode == -signal.SIGKILL


@pytest.mark.parametrize("ends", ["at the end of the block", "before"])
def test_a_whole_group_is_ended(link: Link, processes_in: Callable[[Endpoint], list[int]], ends: str):
    """A shell's background jobs ignore SIGINT, of which the shell itself ends."""
    with link.a.popen(["sh", "-c", f"sleep 1000 & sleep 1000 & {'wait' if ends != 'before' else ''}"]) as process:
        wait_until(lambda: len(processes_in(link.a)) == (3 if ends != "before" else 2), "they run", 5)
        if ends == "before":
            assert process.wait(5)
    wait_until(lambda: not processes_in(link.a), "the group is gone", 2)


def test_the_background_of_a_run_goes_on(make_link: MakeLink, processes_in: Callable[[Endpoint], list[int]]):
    """As with subprocess.run."""
    link = make_link(speed_bps=None)
    assert link.a.run(["sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo started"]).stdout == "started\n"
    assert len(processes_in(link.a)) == 1


def test_background_programs_still_hear_sigint(owner: Owner):
    """pytest in the background of a script ignores SIGINT; iperf3 needs it to say its last words."""
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        keeper = Owner()
    finally:
        signal.signal(signal.SIGINT, old)
    link = bring_up(keeper, "x", name="x", speed_bps=None, mtu=1500)
    process = link.a.popen(["sleep", "1000"])
    process.send_signal(signal.SIGINT)
    assert process.wait(5)
    assert process.returncode == -signal.SIGINT
    process.end()
    keeper.close()


def test_sockets_in_this_process(link: Link):
    with link.b.socket() as listener, link.a.socket() as client:
        assert not listener.get_inheritable()
        listener.bind((link.b.address, 0))
        port = listener.getsockname()[1]
        assert not link.b.is_listening(port)
        listener.listen()
        assert link.b.is_listening(port)
        assert not link.a.is_listening(port)
        client.settimeout(5)
        client.connect((link.b.address, port))
        accepted, peer = listener.accept()
        with accepted:
            assert peer[0] == link.a.address
            client.sendall(b"through the link")
            assert accepted.recv(100) == b"through the link"
    with link.b.socket(socket.AF_INET6) as listener:
        listener.bind(("::", 0))
        listener.listen()
        assert link.b.is_listening(listener.getsockname()[1])


def test_sockets_of_a_kind_that_does_not_exist(link: Link):
    with pytest.raises(LinkError, match=r"cannot make a socket of family 2 and kind 77 at end a: Invalid argument"):
        link.a.socket(socket.AF_INET, 77)  # type: ignore[arg-type]


# What it carries


def one_run(link: Link, *, direction: str = "forward") -> float:
    """Goodput of a second of TCP, judged against the bound, as a share of the ceiling."""
    workload = Workload(duration_s=1.0, omit_s=1.0, interval_s=0.5, direction=direction)  # type: ignore[arg-type]
    with measurement_slot(1):
        link.shape(packet_bytes(workload, link.mtu))
        result = make_engine("iperf3").run(link, workload)
    assert result.trusted, result.reason
    (flow,) = result.flows
    assert flow.received_bps is not None
    ceiling = link.ceiling()
    assert ceiling is not None
    assert link.speed_bps is not None
    bound = bound_bps(workload, link.speed_bps, link.mtu) + link.burst_bits / workload.duration_s
    assert flow.received_bps <= bound * ABOVE, f"{flow.received_bps:.0f} bit/s, but no more than {bound:.0f} can be"
    return flow.received_bps / ceiling


@pytest.mark.alone
@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("speed_bps", [1e9, 2.5e9])
def test_goodput_is_that_of_the_wire(make_link: MakeLink, speed_bps: float, mtu: int):
    link = make_link(speed_bps=speed_bps, mtu=mtu)
    shares = []
    for _ in range(RUNS):
        shares.append(one_run(link))
        if abs(shares[-1] - 1) <= FIDELITY:
            return
    pytest.fail(f"never within {FIDELITY:.1%} of the ceiling: {shares}")


@pytest.mark.alone
@pytest.mark.parametrize("direction", ["a-to-b", "b-to-a", "both"])
def test_a_rate_fault_slows_its_direction_only(make_link: MakeLink, direction: str):
    link = make_link(speed_bps=1e9, fault={"rate_bps": 400e6, "direction": direction})
    assert link.faulted
    slow = {"a-to-b": {"forward"}, "b-to-a": {"reverse"}, "both": {"forward", "reverse"}}[direction]
    for way in ("forward", "reverse"):
        shares = []
        expected = 0.4 if way in slow else 1.0
        for _ in range(RUNS):
            shares.append(one_run(link, direction=way))
            assert shares[-1] <= expected * 1.005 + link.burst_bits / 1e9
            if abs(shares[-1] / expected - 1) <= FIDELITY * 2:
                break
        else:
            pytest.fail(f"{way} never came to {expected} of the ceiling: {shares}")
