"""A real OpenSSH server on a host of its own: network, process and mount namespaces, reached over a veth pair.

    with SshHost(folder) as far:               # as root
        far.target                             # SshTarget: root at 198.18.x.2, our key, its host key known
        far.run("ip", "link")                  # a command in it, as this process
        cable = far.cable()                    # a second veth pair, the link under test: its near end is here

Nothing of this machine is touched: its sshd, configuration, ports, keys and users are its own; ``sshd`` is taken from
PATH, or from Debian's package, unpacked into .cache and never installed. All that runs there ends with `stop`, or with
this process.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_netperf.bench.ssh_target import SshTarget

__all__ = ["Cable", "SshHost", "find_sshd"]

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "sshd"

_CONFIG = """
HostKey {folder}/host_key
AuthorizedKeysFile /run/authorized_keys
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
LogLevel VERBOSE
SetEnv {environment}
{more}
"""
# What a host has of its own, so that a session there sees its interfaces and processes, and this machine nothing of it.
_START = """
set -e
mount -t sysfs sysfs /sys
mount --bind {folder}/passwd /etc/passwd
mount --bind {folder}/shadow /etc/shadow
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd
cp {folder}/authorized_keys /run
chmod 644 /run/authorized_keys
ip link set lo up
exec {sshd} -D -e -f {folder}/sshd_config
"""


def find_sshd() -> tuple[Path, dict[str, str]]:
    """The server program and the environment that it needs; fetched from Debian where this machine has none."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if found is not None:
        return Path(found).resolve(), {}
    program = CACHE / "usr/sbin/sshd"
    if not program.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE.parent / "sshd.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another test session may be fetching it just now
            if not program.exists():
                _fetch()
    (library,) = CACHE.glob("usr/lib/*/libwrap.so.0")
    return program, {"LD_LIBRARY_PATH": str(library.parent)}


def _fetch() -> None:
    with tempfile.TemporaryDirectory(prefix="sshd-") as work:
        for package in ("libwrap0", "openssh-server"):  # the program itself last: when it is there, all is
            command = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package]
            done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=120, check=False)
            if done.returncode:
                raise RuntimeError(
                    f"`{' '.join(command)}` failed: {done.stderr.strip()[-500:]}\nInstall openssh-server, or run "
                    "apt-get update with a mirror"
                )
            (archive,) = Path(work).glob(f"{package}_*.deb")
            subprocess.run(["dpkg-deb", "--extract", archive, CACHE], check=True)


@dataclass
class Cable:
    """A port of this namespace and one of the host, which are connected."""

    tag: str

    def __post_init__(self) -> None:
        self.near, self.far = f"npc{self.tag}a", f"npc{self.tag}b"
        self.near_mac = f"02:00:5e:{self.tag[:2]}:{self.tag[2:4]}:{self.tag[4:]}"
        number = int(self.tag, 16) % 0x3FFF
        base = int.from_bytes(socket.inet_aton("198.18.0.0"), "big") + 4 * number
        self.near_address, self.far_address = (socket.inet_ntoa((base + host).to_bytes(4, "big")) for host in (1, 2))
        self.near_address6, self.far_address6 = (f"2001:db8:fe:{number:x}::{host}" for host in (1, 2))


class SshHost:
    """Another host, as far as ssh and the network can tell. Addresses and names are of this one only."""

    def __init__(self, folder: Path, *, environment: str = "LC_ALL=C", more: str = "") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        tag = secrets.token_hex(3)
        number = int(tag, 16) % 0x3FFF
        self.port_here, self.port_there = f"nps{tag}a", f"nps{tag}b"
        base = int.from_bytes(socket.inet_aton("198.19.0.0"), "big") + 4 * number
        self.address_here, self.address = (socket.inet_ntoa((base + host).to_bytes(4, "big")) for host in (1, 2))
        self.address6_here, self.address6 = (f"2001:db8:ff:{number:x}::{host}" for host in (1, 2))
        self.known_hosts = folder / "known_hosts"
        self._write(environment, more)
        self._process: subprocess.Popen[bytes] | None = None
        self._cables: list[Cable] = []

    def _write(self, environment: str, more: str) -> None:
        folder = self.folder
        for name in ("host_key", "key", "other_key"):
            if not (folder / name).exists():
                _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name))
        shutil.copy(folder / "key.pub", folder / "authorized_keys")
        host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
        self.known_hosts.write_text(f"{self.address} {host_key}\n{self.address6} {host_key}\n")
        (folder / "sshd_config").write_text(_CONFIG.format(folder=folder, environment=environment, more=more))
        (folder / "home").mkdir(exist_ok=True)
        users = (
            f"root:x:0:0:root:{folder}/home:/bin/sh",
            "tester:x:65501:65534::/:/bin/sh",
            "sshd:x:65500:65534::/run/sshd:/usr/sbin/nologin",
            "",
        )
        (folder / "passwd").write_text("\n".join(users))
        (folder / "shadow").write_text("root:*:19000:0:99999:7:::\ntester:*:19000:0:99999:7:::\n")

    @property
    def target(self) -> SshTarget:
        """How to log in there as root over IPv4; there is a user ``tester`` too."""
        return SshTarget(
            host=self.address, user="root", key=str(self.folder / "key"), known_hosts=str(self.known_hosts)
        )

    @property
    def target6(self) -> SshTarget:
        """The same over IPv6."""
        return replace(self.target, host=self.address6)

    @property
    def pid(self) -> int:
        """Of the server: process id 1 there; as this process sees it."""
        assert self._process is not None
        (child,) = _children(self._process.pid)
        return child

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def __enter__(self) -> SshHost:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        sshd, environment = find_sshd()
        script = _START.format(folder=self.folder, sshd=sshd)
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                preexec_fn=_die_with_parent,
            )
        try:
            self._wait_for("Server listening on :: port 22")
            _run("ip", "link", "add", self.port_here, "type", "veth", "peer", "name", self.port_there)
            self.add_port(self.port_there)
            self.run("ip", "addr", "add", f"{self.address}/30", "dev", self.port_there)
            self.run("ip", "addr", "add", f"{self.address6}/64", "dev", self.port_there, "nodad")
            self.run("ip", "link", "set", self.port_there, "up")
            _run("ip", "link", "set", self.port_here, "up")
            _run("ip", "addr", "add", f"{self.address_here}/30", "dev", self.port_here)
            _run("ip", "addr", "add", f"{self.address6_here}/64", "dev", self.port_here, "nodad")
        except BaseException:
            self.stop()
            raise

    def _wait_for(self, words: str) -> None:
        assert self._process is not None
        deadline = time.monotonic() + 10
        while words not in self.log:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sshd does not say {words!r}: {self.log}")
            time.sleep(0.01)

    def cable(self) -> Cable:
        """Another veth pair between this namespace and the host, whose far port has addresses."""
        tag = secrets.token_hex(3)
        cable = Cable(tag)
        _run("ip", "link", "add", cable.near, "address", cable.near_mac, "type", "veth", "peer", "name", cable.far)
        self._cables.append(cable)
        self.add_port(cable.far)
        self.run("ip", "addr", "add", f"{cable.far_address}/30", "dev", cable.far)
        self.run("ip", "addr", "add", f"{cable.far_address6}/64", "dev", cable.far, "nodad")
        self.run("ip", "link", "set", cable.far, "up")
        return cable

    def add_port(self, interface: str) -> None:
        """Move an interface of this process's namespace into the host."""
        _run("ip", "link", "set", interface, "netns", str(self.pid))

    def run(self, *argv: str) -> str:
        """A command in the host, not over ssh."""
        return _run("nsenter", "--target", str(self.pid), "--net", "--mount", "--pid", *argv)

    def processes(self) -> list[str]:
        """Command lines of all that runs there, but the server and those that serve a connection."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _namespace(entry.name) == _namespace(str(self.pid)):
                try:
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
                except OSError:
                    continue
                if command and not command.startswith(("sshd:", str(find_sshd()[0]))):
                    found.append(command)
        return found

    def stop(self) -> None:
        """Kill it with everything in it. Safe to repeat."""
        process, self._process = self._process, None
        if process is not None:
            (first,) = _children(process.pid) or (process.pid,)  # with process 1 goes all that runs there
            os.kill(first, signal.SIGKILL)
            process.wait(10)
        for port in (self.port_here, *(cable.near for cable in self._cables)):
            subprocess.run(["ip", "link", "delete", port], capture_output=True, check=False)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _namespace(pid: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout
