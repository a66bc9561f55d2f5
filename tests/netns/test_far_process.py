"""Programs on another host: what they print, how they end, and that none outlives our connection or our silence."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from aftermath import wait_until
from real_sshd import SshHost

from pytest_netperf.errors import SshError
from pytest_netperf.links.process import Process
from pytest_netperf.remote import far_process
from pytest_netperf.remote.far_host import FarHost
from pytest_netperf.remote.far_process import start, supervised
from pytest_netperf.remote.ssh import SshConnection, connect

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="a host with an sshd of its own needs root"),
]
STUBBORN = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]
Start = Callable[..., Process]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHost]:
    with SshHost(tmp_path_factory.mktemp("far")) as host:
        yield host


@pytest.fixture
def connection(host: SshHost) -> Iterator[SshConnection]:
    with connect(host.target) as connection:
        yield connection


@pytest.fixture
def begin(connection: SshConnection) -> Iterator[Start]:
    """``begin("sleep", "9")``: the program as it runs there."""
    made: list[Process] = []

    def begin(*argv: str, silence_s: int = 30) -> Process:
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        control = start(connection, supervised(argv, silence_s), *(writer for _, writer in pipes))
        made.append(Process(control, argv, (0, 0), *(reader for reader, _ in pipes)))
        return made[-1]

    yield begin
    for process in made:
        process.end(grace=0.1)


def nothing_left(host: SshHost, seconds: float) -> None:
    try:
        wait_until(lambda: not host.processes(), "nothing of ours runs there", seconds)
    except AssertionError:
        raise AssertionError(host.processes()) from None


def said(process: Process, words: str) -> None:
    wait_until(lambda: process.wait(0.01) or words in process.stdout, f"it says {words}", 10.0)
    assert words in process.stdout


def test_its_output_and_its_end_are_those_of_the_program(host: SshHost, begin: Start):
    process = begin("sh", "-c", "echo out; echo err >&2; read line; echo got=$line; exit 3")
    assert process.wait(10)
    assert (process.returncode, process.stdout, process.stderr) == (3, "out\ngot=\n", "err\n")
    large = begin("head", "-c", "2000000", "/dev/zero")
    assert large.wait(20)
    assert (large.returncode, len(large.stdout)) == (0, 2_000_000)
    killed = begin("sh", "-c", "kill -9 $$")
    assert killed.wait(10)
    assert killed.returncode == -signal.SIGKILL
    nothing_left(host, 1.5)


def test_it_can_be_told_to_end_and_one_that_does_not_listen_is_killed(host: SshHost, begin: Start):
    process = begin("sleep", "60")
    process.end(grace=5.0)
    assert process.returncode == -signal.SIGTERM
    stubborn = begin(*STUBBORN)
    said(stubborn, "ready")
    began = time.monotonic()
    stubborn.end(grace=0.1)
    assert stubborn.returncode == -signal.SIGKILL
    assert time.monotonic() - began < 5
    nothing_left(host, 3.0)


def test_it_ends_when_nothing_is_heard_of_us(host: SshHost, begin: Start):
    """As when the controller lost its power: the far host is told nothing, and waits for the next sign of life."""
    process = begin("sleep", "60", silence_s=1)
    assert process.wait(4.0)
    assert process.returncode == -signal.SIGTERM


def test_signs_of_life_keep_it(begin: Start, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(far_process, "_BEAT_SECONDS", 1.0)
    process = begin("sleep", "4", silence_s=2)
    assert process.wait(12.0)
    assert process.returncode == 0


def test_it_ends_with_the_connection_and_takes_back_what_it_did(host: SshHost, connection: SshConnection, begin: Start):
    file = f"/sys/class/net/{host.cable().far}/mtu"
    held = begin(*FarHost(connection).hold_mtu(file.split("/")[4], 9000))
    said(held, "held")
    assert host.run("cat", file) == "9000\n"
    stubborn = begin(*STUBBORN)
    said(stubborn, "ready")
    host.run("pkill", "-KILL", "-f", "sshd: root@notty")
    with pytest.raises(SshError, match="the connection was lost while 'sh' ran there"):
        stubborn.wait(10)
    assert connection.is_open is False
    nothing_left(host, 6.0)
    assert host.run("cat", file) == "1500\n"
