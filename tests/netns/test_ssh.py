"""Commands over ssh against a real OpenSSH server on a host of its own: what comes back, and what each mistake says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from real_sshd import SshHost

from pytest_netperf.errors import SshError
from pytest_netperf.remote.ssh import SshTarget, connect

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="a host with an sshd of its own needs root"),
]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHost]:
    with SshHost(tmp_path_factory.mktemp("far")) as host:
        yield host


def wrong(host: SshHost, kind: str) -> SshTarget:
    """A target with one mistake in it."""
    target, folder = host.target, host.folder
    key = " ".join((folder / "other_key.pub").read_text().split()[:2])
    (folder / "changed").write_text(f"{host.address} {key}\n")
    (folder / "empty").write_text("")
    (folder / "no_key").write_text("this is no key\n")
    return {
        "refused": replace(target, key=str(folder / "other_key")),
        "unknown": replace(target, known_hosts=str(folder / "empty")),
        "changed": replace(target, known_hosts=str(folder / "changed")),
        "no sshd": replace(target, port=23),
        "no name": replace(target, host="no-such-host.invalid"),
        "no key": replace(target, key=str(folder / "nowhere")),
        "no known_hosts": replace(target, known_hosts=str(folder / "nowhere")),
        "broken key": replace(target, key=str(folder / "no_key")),
    }[kind]


def test_commands_and_their_answers(host):
    with connect(host.target) as connection:
        assert connection.is_open
        answer = connection.run("ls /sys/class/net; echo oops >&2; exit 3")
        assert (answer.status, answer.stdout.split(), answer.stderr) == (3, ["lo", host.port_there], "oops\n")
        assert connection.run(["printf", "%s|", "a b", "$HOME"]).stdout == "a b|$HOME|"
        assert connection.run("cat", stdin="grün\n").stdout == "grün\n"
        assert connection.run("printf '\\377'").stdout == "\ufffd"
        assert connection.run("kill -9 $$").status == -1
        big = connection.run("head -c 3000000 /dev/zero | tr '\\0' x")
        assert len(big.stdout) == 3_000_000
    with pytest.raises(SshError, match="connection was closed"):
        connection.run("true")
    connection.close()


def test_over_ipv6(host):
    with connect(host.target6) as connection:
        assert connection.run("echo $SSH_CONNECTION").stdout.split()[:3:2] == [host.address6_here, host.address6]


def test_what_a_command_that_fails_says(host):
    with connect(host.target) as connection:
        with pytest.raises(SshError, match=r"`false` failed with status 1: nothing") as failed:
            connection.run("false", check=True)
        assert failed.value.kind == "status"
        with pytest.raises(SshError, match=r"there is no such command: `no-such-tool`.*install it there"):
            connection.run(["no-such-tool"], check=True)
        began = time.monotonic()
        with pytest.raises(SshError, match=r"`sleep 3` did not end within 0\.2 s") as late:
            connection.run("sleep 3", timeout=0.2)
        assert late.value.kind == "timeout"
        assert time.monotonic() - began < 2
        assert connection.run("echo still here").stdout == "still here\n"


@pytest.mark.parametrize(
    ("mistake", "kind", "said"),
    [
        ("refused", "refused", r"the login was refused: the key .*other_key is not accepted there; .*ssh-copy-id"),
        ("unknown", "host key", r"the key of the host is not known: .*empty has no line.*ssh-keyscan 198\.19\..* >> "),
        ("changed", "host key", r"another key than the one in .*changed.*ssh-keygen -f .* -R 198\.19\."),
        ("no sshd", "unreachable", r"198\.19\.[0-9.]+:23: cannot be reached: Connection refused; .*does sshd run"),
        ("no name", "unreachable", r"there is no host of this name"),
        ("no key", "key", r"nowhere cannot be read: No such file or directory; it should hold our private key"),
        ("no known_hosts", "key", r"nowhere cannot be read: No such file .*it should hold keys of hosts"),
        ("broken key", "key", r"the key .*no_key cannot be used: .*name a private key without a passphrase"),
    ],
)
def test_what_each_mistake_says(host, mistake, kind, said):
    with pytest.raises(SshError, match=said) as error:
        connect(wrong(host, mistake))
    assert error.value.kind == kind
    assert str(error.value).startswith("ssh root@")
    assert "\n" not in str(error.value)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ssh-")]


def test_the_host_key_may_be_left_unchecked_only_where_asked(host):
    with connect(replace(wrong(host, "changed"), check_host_key=False)) as connection:
        assert connection.run("true").status == 0


def test_the_configuration_of_the_user_is_used(host, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    folder = tmp_path / ".ssh"
    folder.mkdir()
    with pytest.raises(SshError, match=r"the key of the host is not known: .*/\.ssh/known_hosts has no line") as error:
        connect(SshTarget(host=host.address, user="root"))
    assert error.value.kind == "host key"
    (folder / "known_hosts").write_text(host.known_hosts.read_text())
    (folder / "config").write_text(
        f"Host hall-2\n HostName {host.address}\n User root\n IdentityFile {host.folder / 'key'}\n"
    )
    with connect(SshTarget(host="hall-2")) as connection:
        assert connection.run("id -u").stdout == "0\n"
    (folder / "id_ed25519").write_text((host.folder / "other_key").read_text())
    (folder / "config").unlink()
    with pytest.raises(SshError, match=r"the login was refused: no key of the agent or of ~/\.ssh is accepted there"):
        connect(SshTarget(host=host.address, user="root"))


def test_a_port_that_says_nothing_does_not_hang():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        began = time.monotonic()
        with pytest.raises(SshError, match=r"no answer within 0\.5 s; is it switched on") as error:
            connect(SshTarget(host="127.0.0.1", port=mute.getsockname()[1], user="x", key=None, connect_seconds=0.5))
        assert error.value.kind == "timeout"
        assert time.monotonic() - began < 4


def test_a_host_that_goes_away_is_said(tmp_path, host):
    with connect(host.target) as connection:
        threading.Timer(0.3, lambda: host.run("pkill", "-f", "sshd: root@notty")).start()
        with pytest.raises(SshError, match="lost while `sleep 20` ran") as error:
            connection.run("sleep 20")
        assert error.value.kind == "lost"
        with pytest.raises(SshError):
            connection.run("true")
        assert not connection.is_open


def test_without_asyncssh_the_way_out_is_said():
    code = (
        "import importlib.util\n"
        "importlib.util.find_spec = lambda name: None\n"
        "from pytest_netperf.remote.ssh import SshError, SshTarget, connect\n"
        "try:\n    connect(SshTarget(host='far', user='me'))\n"
        "except SshError as error:\n    print(error.kind, error)\n"
        "import sys; print('asyncssh' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == (
        "missing ssh me@far: commands over ssh need asyncssh, which is not installed: "
        "pip install 'pytest-netperf[remote]'\nFalse\n"
    )


def test_nothing_is_left_of_a_host(tmp_path: Path):
    with SshHost(tmp_path / "far") as host:
        pid = host.pid
        port = host.port_here
        assert Path("/sys/class/net", port).exists()
    assert not Path(f"/proc/{pid}").exists()
    assert not Path("/sys/class/net", port).exists()
