"""What the kernel says of a TCP connection while it is open, held against sockets whose state this test makes."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from pytest_netperf.errors import LinkError
from pytest_netperf.links.link import Link, bring_up
from pytest_netperf.links.owner import Owner
from pytest_netperf.observe.observation import TcpConnection

pytestmark = [pytest.mark.netns, pytest.mark.alone]

MakeLink = Callable[..., Link]
PORT = 5301


@contextlib.contextmanager
def connected(link: Link, family: int = socket.AF_INET) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection from a to port 5301 of b; both its sockets."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(link.b.socket(family))
        listener.bind((link.b.address6 if family == socket.AF_INET6 else link.b.address, PORT))
        listener.listen()
        assert link.b.tcp_info(PORT) == (), "one that only listens is no connection"
        client = stack.enter_context(link.a.socket(family))
        client.connect(listener.getsockname()[:2])
        server = stack.enter_context(listener.accept()[0])
        yield client, server


def only(found: tuple[TcpConnection, ...]) -> TcpConnection:
    (connection,) = found
    return connection


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def test_both_ends_of_a_connection(make_link: MakeLink, family: int) -> None:
    link = make_link()
    with connected(link, family) as (client, server):
        port = client.getsockname()[1]
        client.sendall(b"x" * 5000)
        while len(server.recv(8192, socket.MSG_PEEK)) < 5000:
            pass
        here, there = only(link.a.tcp_info(PORT)), only(link.b.tcp_info(PORT))
        assert (here.local_port, here.remote_port) == (port, PORT)
        assert (there.local_port, there.remote_port) == (PORT, port)
        assert only(link.a.tcp_info(port)).local_port == port
        assert here.acked_bytes in (5000, 5001)  # the SYN counts
        assert there.acked_bytes <= 1
        assert here.mss_bytes == (1428 if family == socket.AF_INET6 else 1448)
        assert here.min_rtt_s is not None
        assert 0 < here.min_rtt_s <= here.rtt_s * 2 < 1
        assert here.retransmits == 0
        assert link.a.tcp_info(PORT + 1) == ()


def test_a_receiver_that_does_not_read(make_link: MakeLink) -> None:
    """The sender waits for the window, and for nothing else."""
    link = make_link()
    with connected(link) as (client, _):
        client.setblocking(False)
        begun = time.monotonic()
        times = only(link.a.tcp_info(PORT))
        assert times.busy_s < 0.1
        while times.rwnd_limited_s < 0.3:
            with contextlib.suppress(BlockingIOError):
                client.send(b"x" * 100_000)
            assert time.monotonic() - begun < 20, times
            times = only(link.a.tcp_info(PORT))
        assert times.busy_s >= times.rwnd_limited_s > 10 * times.sndbuf_limited_s
        assert times.busy_s <= time.monotonic() - begun + 0.05
        assert only(link.b.tcp_info(PORT)).busy_s < 0.1, "the receiver has nothing to send"


def test_a_connection_that_is_closed_is_gone(make_link: MakeLink) -> None:
    link = make_link()
    with connected(link):
        assert len(link.a.tcp_info(PORT)) == 1
    assert link.a.tcp_info(PORT) == ()


def test_the_other_links_have_their_own(make_link: MakeLink) -> None:
    link, other = make_link(), make_link()
    with connected(link):
        assert other.a.tcp_info(PORT) == other.b.tcp_info(PORT) == ()


def test_a_link_that_was_taken_down_says_so(owner: Owner) -> None:
    link = bring_up(owner, "tcp-info-gone", name="gone", speed_bps=1e9, mtu=1500)
    link.close()
    with pytest.raises(LinkError, match="this link was taken down"):
        link.a.tcp_info(PORT)
