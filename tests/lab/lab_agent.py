"""Process 1 of the lab's guest: loads the drivers, then runs what the host asks for, several commands at once.

Over a virtio serial port, one JSON object per line:

    host:   {"id": 1, "command": [...], "env": {...}, "folder": "/"}      {"id": 1, "signal": 2}
    guest:  {"ready": ...}   {"id": 1, "pid": 123}   {"id": 1, "returncode": 0, "stdout": "...", "stderr": "..."}

The guest switches itself off when the host closes the port. Only the standard library, and nothing of the project.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
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


class _Agent:
    def __init__(self, port: int) -> None:
        self.port = port
        self.writing = threading.Lock()
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def say(self, **message: Any) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self.writing:
            while line:
                line = line[os.write(self.port, line) :]

    def run(self, request: dict[str, Any]) -> None:
        """One command in a session of its own, its output in files, which a grandchild may keep open."""
        number = request["id"]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                child = subprocess.Popen(
                    request["command"],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=_ENVIRONMENT | request["env"],
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
