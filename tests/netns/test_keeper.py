"""The keeper: what its owner can do to it, what becomes of it, and that it leaks nothing."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aftermath import Traces, keeper_of, wait_until

from pytest_netperf.errors import ConfigError, KeeperError, LinkError
from pytest_netperf.links import owner as owner_module
from pytest_netperf.links.link import Link, bring_up
from pytest_netperf.links.owner import Owner

pytestmark = pytest.mark.netns

QUICK = 5.0
"""Seconds within which anything here is over, unless it hangs."""

MakeLink = Callable[..., Link]


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    """Traces of the keepers that the test starts, none of which may be left after it."""
    traces = Traces()
    monkeypatch.setenv("NETPERF_TEST_TAG", traces.tag)
    yield traces
    traces.assert_gone()


@pytest.fixture
def keeper(traces: Traces, owner: Owner) -> Iterator[Owner]:  # owner: skips where there can be none
    """A keeper of the test's own, which it may maltreat."""
    keeper = Owner()
    yield keeper
    keeper.close()


def up(keeper: Owner, key: str = "link", **settings: object) -> Link:
    given = {"name": key, "speed_bps": 1e9, "mtu": 1500, **settings}
    return bring_up(keeper, key, **given)  # type: ignore[arg-type]


def script(text: str, traces: Traces) -> subprocess.Popen[str]:
    """A Python process that owns a keeper; ``print`` reaches us at once."""
    head = (
        "import functools, os, signal, sys, time\nprint = functools.partial(print, flush=True)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # whoever runs the tests with nohup, or in the background
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pytest_netperf.links.owner import Owner\nfrom pytest_netperf.links.link import bring_up\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + text],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **traces.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )


# The end


def test_close_ends_everything_and_waits_for_it(keeper: Owner, traces: Traces):
    link = up(keeper)
    link.a.popen(["sleep", "1000"])
    link.b.popen(["sh", "-c", "setsid sleep 1000 & setsid sh -c 'trap \"\" TERM INT HUP; sleep 1000' & wait"])
    wait_until(lambda: len(traces.processes()) >= 6, "the processes run")  # without the shells that exec
    traces.take()
    assert len(traces.namespaces) >= 2
    keeper.close()
    assert traces.left() == []
    keeper.close()  # again


def test_a_child_that_is_frozen_or_ignores_signals_goes_too(keeper: Owner, traces: Traces):
    link = up(keeper)
    frozen = link.a.popen(["sleep", "1000"])
    frozen.send_signal(signal.SIGSTOP)
    keeper.close()
    assert traces.left() == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_death_of_the_owner_takes_all_with_it(number: signal.Signals, traces: Traces, owner: Owner):
    process = script(
        "o = Owner(); l = bring_up(o, 'x', name='x', speed_bps=None, mtu=1500)\n"
        "l.a.popen(['sleep', '1000']); l.b.popen(['sh', '-c', 'setsid sleep 1000 & wait'])\n"
        "print('up'); time.sleep(1000)",
        traces,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        traces.take()
        process.send_signal(number)
    traces.assert_gone()


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.03, 0.05, 0.1, 0.2])
def test_the_owner_dies_while_the_keeper_starts(delay_s: float, traces: Traces, owner: Owner):
    process = script(
        "print('go'); o = Owner(); n = 0\n"
        "while True: n += 1; bring_up(o, str(n), name='x', speed_bps=1e9, mtu=1500).close()",
        traces,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(delay_s)
        process.kill()
    traces.assert_gone()


def test_a_frozen_keeper_does_not_outlive_its_owner(traces: Traces, owner: Owner):
    process = script(
        "o = Owner(); bring_up(o, 'x', name='x', speed_bps=None, mtu=1500); print('up'); time.sleep(1000)", traces
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        os.kill(keeper_of(traces)[1].pid, signal.SIGSTOP)
        process.kill()
    traces.assert_gone()


def test_close_does_not_wait_for_a_frozen_keeper(keeper: Owner, traces: Traces, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(owner_module, "_END_SECONDS", 0.2)
    up(keeper)
    os.kill(keeper_of(traces)[1].pid, signal.SIGSTOP)
    keeper.close()
    traces.assert_gone()


def test_a_keeper_that_does_not_answer_is_given_up(keeper: Owner, traces: Traces):
    link = up(keeper)
    keeper._channel.settimeout(0.2)
    os.kill(keeper_of(traces)[1].pid, signal.SIGSTOP)
    with pytest.raises(KeeperError, match="did not answer 'counters' in time"):
        link.counters()
    started = time.monotonic()
    with pytest.raises(KeeperError, match="is gone"):
        link.counters()
    assert time.monotonic() - started < QUICK


@pytest.mark.parametrize(
    ("victim", "number"), [("keeper", signal.SIGKILL), ("guard", signal.SIGKILL), ("guard", signal.SIGTERM)]
)
def test_a_keeper_that_was_killed_is_named(keeper: Owner, traces: Traces, victim: str, number: signal.Signals):
    link = up(keeper)
    running = link.a.popen(["sleep", "1000"])
    guard, inner = keeper_of(traces)
    os.kill(guard.pid if victim == "guard" else inner.pid, number)
    started = time.monotonic()
    with pytest.raises(KeeperError, match=rf"keeper process, .* is gone \(killed by {number.name}\) at 'sleep'"):
        running.wait()
    running.end()
    assert running.returncode == -signal.SIGKILL
    for use in (link.counters, lambda: link.a.run(["true"]), link.a.socket, lambda: up(keeper, "other"), link.close):
        with pytest.raises(KeeperError, match=rf"is gone \(killed by {number.name}\)"):
            use()
    assert time.monotonic() - started < QUICK
    keeper.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_keeper_is_deaf_to_polite_signals(keeper: Owner, traces: Traces, number: signal.Signals):
    link = up(keeper)
    os.kill(keeper_of(traces)[1].pid, number)
    assert link.a.run(["true"]).returncode == 0


def test_a_second_keeper_after_the_first_was_killed(keeper: Owner, traces: Traces):
    up(keeper)
    os.kill(keeper_of(traces)[1].pid, signal.SIGKILL)
    keeper.close()
    fresh = Owner()
    assert up(fresh).a.run(["true"]).returncode == 0
    fresh.close()


# Forks


@pytest.mark.parametrize("how", ["os.fork", "multiprocessing"])
def test_a_forked_child_neither_hangs_nor_harms(keeper: Owner, how: str):
    link = up(keeper)

    def use() -> int:
        try:
            link.a.run(["true"])
        except KeeperError as error:
            keeper.close()  # what an exit handler would do
            return 42 if "forked child" in str(error) else 1
        return 2

    if how == "os.fork":
        pid = os.fork()
        if pid == 0:
            os._exit(use())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    else:
        process = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(use()))
        process.start()
        process.join(QUICK)
        code = process.exitcode
    assert code == 42
    assert link.a.run(["echo", "alive"]).stdout == "alive\n"


def test_close_does_not_wait_for_a_forked_child(keeper: Owner, traces: Traces):
    up(keeper)
    pid = os.fork()
    if pid == 0:
        time.sleep(30)  # it holds a copy of the connection all the while
        os._exit(0)
    try:
        started = time.monotonic()
        keeper.close()
        assert time.monotonic() - started < QUICK
        assert traces.left() == []
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_the_death_of_the_owner_is_seen_although_its_child_lives(traces: Traces, owner: Owner):
    process = script(
        "o = Owner(); bring_up(o, 'x', name='x', speed_bps=None, mtu=1500).a.popen(['sleep', '1000'])\n"
        "pid = os.fork()\n"
        "if pid == 0: time.sleep(30); os._exit(0)\n"
        "print(pid); time.sleep(30)",
        traces,
    )
    with process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        traces.take()
        process.kill()
        process.wait()
        try:
            wait_until(lambda: [seen.pid for seen in traces.processes()] == [child], "only the child is left", 2.0)
        finally:
            os.kill(child, signal.SIGKILL)


# The user's own process


def test_the_owner_keeps_its_user_namespace_and_threads(traces: Traces, owner: Owner):
    def state() -> tuple[object, ...]:
        spaces = {name: os.stat(f"/proc/self/ns/{name}").st_ino for name in ("net", "user", "pid", "mnt")}  # noqa: PTH116
        tasks = [entry.name for entry in Path("/proc/self/task").iterdir()]
        return (
            os.getresuid(),
            os.getresgid(),
            os.getgroups(),
            spaces,
            tasks,
            Path.cwd(),
            signal.getsignal(signal.SIGCHLD),
        )

    before = state()
    keeper = Owner()
    link = up(keeper)
    link.a.run(["true"])
    assert state() == before
    keeper.close()
    assert state() == before


def test_inside_a_running_event_loop(traces: Traces, owner: Owner):
    async def use() -> str:
        keeper = Owner()
        link = up(keeper)
        beside = asyncio.create_task(asyncio.sleep(0.01, "the loop goes on"))
        link.counters()
        link.shape(1000)
        answer = link.a.run(["echo", "ran"]).stdout + await beside
        keeper.close()
        return answer

    assert asyncio.run(use()) == "ran\nthe loop goes on"


def test_from_several_threads(keeper: Owner):
    links = [up(keeper, f"link-{number}") for number in range(3)]
    wrong: list[object] = []

    def use(number: int) -> None:
        for turn in range(10):
            said = links[number].a.run(["echo", f"{number} {turn}"]).stdout
            if said != f"{number} {turn}\n":
                wrong.append(said)
            if links[number].counters()[0].rx_errors:
                wrong.append("counters")

    threads = [threading.Thread(target=use, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert wrong == []


def test_ctrl_c_in_a_request_leaves_no_answer_for_the_next(keeper: Owner, monkeypatch: pytest.MonkeyPatch):
    link = up(keeper)
    receive = keeper._channel.receive
    monkeypatch.setattr(keeper._channel, "receive", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        link.a.socket()
    monkeypatch.setattr(keeper._channel, "receive", receive)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert link.a.is_listening(1) is False
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - the socket of the late answer is closed


def test_blocked_signals_of_the_owner_do_not_reach_the_keeper(traces: Traces, owner: Owner):
    old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGINT])
    try:
        keeper = Owner()
        assert up(keeper).a.run(["true"], timeout=QUICK).returncode == 0
        keeper.close()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


@pytest.mark.parametrize("name", ["queue.py", "selectors.py", "json.py", "pyroute2.py"])
def test_a_file_named_like_a_module_does_not_reach_the_keeper(
    name: str, traces: Traces, owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / name).write_text("raise SystemExit('the wrong one')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    keeper = Owner()
    assert up(keeper).a.run(["true"]).returncode == 0
    keeper.close()


def test_warnings_as_errors_do_not_reach_the_keeper(
    traces: Traces, owner: Owner, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    keeper = Owner()
    assert up(keeper).a.run(["true"]).returncode == 0
    keeper.close()
    assert capfd.readouterr() == ("", "")


# Leaks


def test_many_links_up_and_down_leave_nothing(keeper: Owner, traces: Traces):
    up(keeper, "first").close()
    _, inner = keeper_of(traces)

    def held() -> tuple[int, int]:
        """Descriptors and threads of the keeper once it is idle."""
        deadline = time.monotonic() + QUICK
        last, since = None, 0.0
        while time.monotonic() < deadline:
            now = tuple(len(os.listdir(f"/proc/{inner.pid}/{table}")) for table in ("fd", "task"))  # noqa: PTH208
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > 0.2:
                break
            time.sleep(0.02)
        assert last is not None
        return last  # type: ignore[return-value]

    before = held()
    ours = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for number in range(30):
        link = up(keeper, f"link-{number}", fault={"loss_ratio": 0.01} if number % 3 == 0 else None)
        link.a.run(["true"])
        link.a.socket().close()
        link.b.popen(["sleep", "1000"]).end()
        link.counters()
        link.close()
    assert held() == before
    assert len(os.listdir("/proc/self/fd")) == ours  # noqa: PTH208
    assert [seen for seen in traces.processes() if not seen.is_keeper] == []


def test_thirty_links_at_once(keeper: Owner, traces: Traces):
    links = [up(keeper, f"link-{number}", speed_bps=None) for number in range(30)]
    ends = [endpoint for link in links for endpoint in (link.a, link.b)]
    assert len({endpoint.namespace for endpoint in ends}) == 60
    assert len({endpoint.address for endpoint in ends}) == 60
    traces.take()
    assert {endpoint.namespace for endpoint in ends} <= traces.namespaces
    keeper.close()
    assert traces.left() == []


def test_the_kernel_has_room_again_for_every_namespace_that_went(traces: Traces, owner: Owner):
    """In a user namespace that may hold 8 network namespaces, 20 links come and go, each with traffic cut off."""
    text = (
        "open('/proc/sys/user/max_net_namespaces', 'w').write('8')\n"
        "from pytest_netperf.errors import KeeperError\n"
        "o = Owner()\n"
        "for n in range(20):\n"
        "    end = time.monotonic() + 10\n"
        "    while True:\n"
        "        try: l = bring_up(o, str(n), name='x', speed_bps=1e9, mtu=1500); break\n"
        "        except KeeperError as e:\n"
        "            assert 'limit on namespaces' in str(e), e\n"
        "            assert time.monotonic() < end, 'never room again'\n"
        "            time.sleep(0.02)\n"
        "    l.b.popen(['iperf3', '-s', '-1']); end = time.monotonic() + 10\n"
        "    while not l.b.is_listening(5201): assert time.monotonic() < end\n"
        "    l.a.popen(['iperf3', '-c', l.b.address, '-t', '60'])\n"
        "    while l.counters()[1].rx_bytes < 1000000: assert time.monotonic() < end\n"
        "    l.close()\n"
        "print('done')\n"
    )
    head = "import time\nfrom pytest_netperf.links.owner import Owner\nfrom pytest_netperf.links.link import bring_up\n"
    command = [sys.executable, "-c", head + text]
    if os.getuid() == 0:
        command = ["unshare", "--user", "--map-root-user", *command]
    else:
        pytest.skip("only root of a user namespace may write its limits")
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **traces.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_no_descriptor_of_the_keeper_reaches_a_program(keeper: Owner):
    link = up(keeper)
    with link.a.popen(["sleep", "1000"]):
        names = link.a.run(["ls", "-l", "/proc/self/fd"]).stdout
    numbers = {line.split(" -> ")[0].rsplit(" ", 1)[1] for line in names.splitlines() if " -> " in line}
    assert numbers == {"0", "1", "2", "3"}  # 3 is the folder that ls reads


def test_a_link_that_cannot_be_made_leaves_nothing_behind(keeper: Owner, traces: Traces):
    up(keeper, "first").close()
    traces.take()
    sockets = set(traces.sockets)
    with pytest.raises(ConfigError, match="loss ratio"):
        up(keeper, fault={"loss_ratio": 7.0})  # the last thing that is done to a link
    with pytest.raises(LinkError):
        up(keeper, mtu=65536 + 1)
    with pytest.raises(LinkError):
        keeper.call("up", link="raw", spec={"mtu": 10**6, "speed_bps": None, "fault": {}})  # what the kernel refuses
    traces.sockets.clear()
    traces.take()
    assert traces.sockets <= sockets  # no claim on a subnet is left
    with pytest.raises(LinkError, match="taken down"):
        keeper.call("counters", link="raw")
    assert up(keeper).a.run(["true"]).returncode == 0


def test_a_link_that_is_down_says_so(keeper: Owner):
    link = up(keeper)
    sleeping = link.a.popen(["sleep", "1000"])
    link.close()
    assert sleeping.wait(QUICK)
    assert sleeping.returncode == -signal.SIGKILL
    sleeping.end()
    for use in (link.counters, lambda: link.a.run(["true"]), link.a.socket, link.close, lambda: link.shape(100)):
        with pytest.raises(LinkError, match="this link was taken down"):
            use()


def test_a_large_environment_passes(keeper: Owner):
    """Half a megabyte: more than a socket's buffer takes in one message where the machine keeps its defaults."""
    link = up(keeper)
    environment = {"PATH": os.environ["PATH"], **{f"BIG{number}": "x" * 100_000 for number in range(5)}}
    assert len(link.a.run(["sh", "-c", "echo $BIG0$BIG4"], env=environment).stdout) == 200_001


def test_the_environment_is_passed_as_it_is(keeper: Owner):
    link = up(keeper)
    raw = os.fsdecode(b"\xff\xfe no UTF-8")
    done = link.a.run(
        ["sh", "-c", 'printf %s "$RAW" | od -An -tx1; env | wc -l'], env={"PATH": "/usr/bin:/bin", "RAW": raw}
    )
    assert done.stdout.split("\n")[0].strip().startswith("ff fe 20 6e 6f")


def test_every_subnet_in_use_is_said(keeper: Owner, monkeypatch: pytest.MonkeyPatch):
    claimed = []
    try:
        for index in range(1, 60):  # others hold some of them
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                claim.bind(f"\0pytest-netperf/subnet/{index}")
            except OSError:
                claim.close()
            else:
                claimed.append(claim)
        assert up(keeper).index >= 60
    finally:
        for claim in claimed:
            claim.close()
