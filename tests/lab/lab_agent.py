"""Process 1 of the lab's guest: loads the drivers, then runs what the host asks for, several commands at once.

Over a virtio serial port, one JSON object per line:

    host:   {"id": 1, "command": [...], "env": {...}, "folder": "/"}      {"id": 1, "signal": 2, "group": false}
            {"warm_up": {"python": "/...", "path": "/..."}}     then "warm": true in a command
    guest:  {"ready": ...}   {"id": 1, "pid": 123}   {"id": 1, "returncode": 0, "stdout": "...", "stderr": "..."}

A command of Python that is to be "warm" is forked by `lab_warm`, which has its modules already.
The guest switches itself off when the host closes the port. Only the standard library, and nothing of the project.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

PORT_NAME = "lab.agent"
_POWER_OFF = 0x4321FEDC
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}


def _process_one() -> None:
    """Reaps orphans for as long as the agent, its child, lives; then switches off."""
    agent = os.fork()
    if agent == 0:
        os.setsid()
        try:
            _serve()
        finally:
            os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.wait()[0] != agent:
        pass
    ctypes.CDLL(None).reboot(_POWER_OFF)


def _load_drivers() -> None:
    """What udev does on any machine: a driver for each card, and the names that this distribution gives to ports."""
    subprocess.run(["/lib/systemd/systemd-udevd", "--daemon"], check=True)
    # Of everything that the machine has only cards and ports: asking about each terminal costs seconds here.
    for trigger in (["--subsystem-match=pci", "--subsystem-match=virtio"], ["--subsystem-match=net"]):
        subprocess.run(["udevadm", "trigger", "--action=add", *trigger], check=True)
        subprocess.run(["udevadm", "settle", "--timeout=60"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def _port() -> int:
    """The serial port, found by its name in sysfs."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for name in Path("/sys/class/virtio-ports").glob("*/name"):
            if name.read_text().strip() == PORT_NAME:
                return os.open(f"/dev/{name.parent.name}", os.O_RDWR)
        time.sleep(0.05)
    raise SystemExit(f"lab: no serial port is called {PORT_NAME}")


class _Forked:
    """A process that `lab_warm` forked, as subprocess shows one."""

    def __init__(self) -> None:
        self.pid = self.returncode = None
        self.news = threading.Condition()

    def tell(self, message: dict[str, Any]) -> None:
        with self.news:
            self.pid, self.returncode = message.get("pid", self.pid), message.get("returncode")
            self.news.notify_all()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, started: bool = False) -> None:
        with self.news:
            self.news.wait_for(lambda: self.returncode is not None or (started and self.pid is not None))


class _Warm:
    """The Python that forks; started with the first command for it, or before."""

    def __init__(self, python: str, path: str) -> None:
        self.asked: dict[int, _Forked] = {}
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [python, str(Path(__file__).with_name("lab_warm.py")), str(theirs.fileno())]
        environment = _ENVIRONMENT | {"PYTHONPATH": path}
        subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, pass_fds=(theirs.fileno(),))
        theirs.close()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        while data := self.socket.recv(65536):
            message = json.loads(data)
            self.asked[message["id"]].tell(message)
        for each in self.asked.values():  # it died, and says why on the console
            each.tell({"returncode": each.returncode or 125})

    def fork(self, request: dict[str, Any], out: Any, err: Any) -> _Forked:
        forked = self.asked[request["id"]] = _Forked()
        request["argv"] = request.pop("command")[1:]
        socket.send_fds(self.socket, [json.dumps(request).encode()], [out.fileno(), err.fileno()])
        forked.wait(started=True)
        return forked


class _Agent:
    def __init__(self, port: int) -> None:
        self.port = port
        self.writing = threading.Lock()
        self.running: dict[int, subprocess.Popen[bytes] | _Forked] = {}
        self.warm: _Warm | None = None

    def say(self, **message: Any) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self.writing:
            while line:
                line = line[os.write(self.port, line) :]

    def run(self, request: dict[str, Any]) -> None:
        """One command in a session of its own, its output in files, which a grandchild may keep open."""
        number = request["id"]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            request["env"] = _ENVIRONMENT | request["env"]
            try:
                if request.get("warm"):
                    child = self.warm.fork(request, out, err)
                else:
                    child = subprocess.Popen(
                        request["command"],
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=err,
                        env=request["env"],
                        cwd=request["folder"],
                        start_new_session=True,
                    )
            except OSError as error:
                self.say(id=number, returncode=127, stdout="", stderr=str(error))
                return
            self.running[number] = child
            self.say(id=number, pid=child.pid)
            child.wait()
            texts = {}
            for name, file in (("stdout", out), ("stderr", err)):
                file.seek(0)
                texts[name] = file.read().decode(errors="replace")
            self.say(id=number, returncode=child.returncode, **texts)

    def hear(self, line: bytes) -> None:
        request = json.loads(line)
        if "warm_up" in request:
            self.warm = _Warm(**request["warm_up"])
            return
        if "signal" in request:
            child = self.running.get(request["id"])
            if child is not None and child.poll() is None:
                (os.killpg if request["group"] else os.kill)(child.pid, request["signal"])
            return
        threading.Thread(target=self.run, args=(request,), daemon=True).start()


def _serve() -> None:
    os.environ.update(_ENVIRONMENT)
    agent = _Agent(_port())
    _load_drivers()
    agent.say(ready=os.uname().release)
    rest = b""
    while data := os.read(agent.port, 65536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            agent.hear(line)


if __name__ == "__main__":
    if os.getpid() == 1:
        _process_one()
    else:
        sys.exit("this is process 1 of the lab's guest; the lab's tests start it")
