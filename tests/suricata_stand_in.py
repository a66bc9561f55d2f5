"""In place of Suricata, which Debian 12 does not package: as much of its command line as the driver uses.

    stand_in(folder)     # puts `suricata` and `suricatasc` into a folder

It really takes packets from NFQUEUE, drops those that hold the text of a ``content`` of its rules, and lets the others
pass; it answers its control socket by the documented protocol, JSON after an exchange of versions. It knows nothing of
af-packet but the counters of the interfaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path

NETLINK_NETFILTER = 12
QUEUE = 3 << 8  # NFNL_SUBSYS_QUEUE
PACKET, VERDICT, CONFIG = QUEUE | 0, QUEUE | 1, QUEUE | 2
DROP, ACCEPT = 0, 1


def stand_in(folder: Path, broken: str = "") -> Path:
    """``broken``: "silent" (it never answers), "no rules", "blind" (it drops nothing)."""
    folder.mkdir(exist_ok=True)
    for name in ("suricata", "suricatasc"):
        script = folder / name
        script.write_text(f"#!/bin/sh\nexec env BROKEN='{broken}' {sys.executable} -S {Path(__file__)} {name} \"$@\"\n")
        script.chmod(0o755)
    return folder


def message(kind: int, queue: int, attributes: bytes, flags: int = 1) -> bytes:
    body = struct.pack("=BBH", 0, 0, socket.htons(queue)) + attributes
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


class Queue:
    """One queue of the kernel (linux/netfilter/nfnetlink_queue.h)."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.setsockopt(270, 5, 1)  # SOL_NETLINK, NETLINK_NO_ENOBUFS
        self.socket.bind((0, 0))
        self.socket.send(message(CONFIG, number, attribute(1, struct.pack("=BBH", 1, 0, 0))))  # bind
        self.socket.send(message(CONFIG, number, attribute(2, struct.pack(">IB", 0xFFFF, 2))))  # whole packets
        self.packets = 0

    def take(self, patterns: list[bytes]) -> None:
        data = self.socket.recv(1 << 17)
        place = 0
        while place < len(data):
            length, kind = struct.unpack_from("=IH", data, place)
            if kind == PACKET:
                self.packets += 1
                self.decide(data[place + 20 : place + length], patterns)
            place += length + 3 & ~3

    def decide(self, attributes: bytes, patterns: list[bytes]) -> None:
        number, place = 0, 0
        payload = b""
        while place < len(attributes):
            length, kind = struct.unpack_from("=HH", attributes, place)
            value = attributes[place + 4 : place + length]
            if kind == 1:
                (number,) = struct.unpack_from(">I", value)
            elif kind == 10:
                payload = value
            place += length + 3 & ~3
        verdict = DROP if any(pattern in payload for pattern in patterns) else ACCEPT
        self.socket.send(message(VERDICT, self.number, attribute(2, struct.pack(">II", verdict, number))))


def suricata(arguments: list[str]) -> int:
    if arguments == ["-V"]:
        print("This is Suricata version 7.0.10 RELEASE")
        return 0
    given: dict[str, list[str]] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        takes = name in ("-c", "-s", "-l", "-q", "-i", "--pidfile", "--set")
        given.setdefault(name, []).append(value if equals and not takes else next(words) if takes else "")
    if not Path(given["-c"][0]).exists():
        print(f"Error: conf: Failed to open file: {given['-c'][0]}: No such file", file=sys.stderr)
        return 1
    settings = dict(each.split("=", 1) for each in given["--set"])
    assert settings["unix-command.enabled"] == "yes"
    assert "-D" in given
    patterns = [each.encode() for each in re.findall(r'drop .*content:"([^"]+)"', Path(given["-s"][0]).read_text())]
    queues = [Queue(int(number)) for number in given.get("-q", [])]
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.bind(settings["unix-command.filename"])
    control.listen()
    if os.fork():
        return 0
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    Path(given["--pidfile"][0]).write_text(f"{os.getpid()}\n")
    with contextlib.suppress(KeyboardInterrupt):
        serve(control, queues, [] if os.environ["BROKEN"] == "blind" else patterns, bool(queues))
    Path(settings["unix-command.filename"]).unlink()
    return 0


def serve(control: socket.socket, queues: list[Queue], patterns: list[bytes], inline: bool) -> None:
    began = time.monotonic()
    answers = {
        "uptime": lambda: int(time.monotonic() - began),
        "running-mode": lambda: "workers",
        "capture-mode": lambda: "NFQ" if inline else "AF_PACKET_DEV",
        "ruleset-stats": lambda: [
            {"id": 0, "rules_loaded": 0 if os.environ["BROKEN"] == "no rules" else 1, "rules_failed": 0}
        ],
        "iface-stat": lambda: {"pkts": 5, "drop": 0, "bypassed": 0, "invalid-checksums": 0},
        "shutdown": lambda: "Closing Suricata",
    }
    while True:
        ready, _, _ = select.select([control, *(queue.socket for queue in queues)], [], [])
        for queue in queues:
            if queue.socket in ready:
                queue.take(patterns)
        if control in ready:
            client, _ = control.accept()
            with client:
                if os.environ["BROKEN"] == "silent":
                    continue
                assert json.loads(client.recv(4096))["version"] in ("0.1", "0.2")
                client.sendall(b'{"return": "OK"}\n')
                asked = json.loads(client.recv(4096))
                answer = answers.get(asked["command"])
                said = {"message": answer(), "return": "OK"} if answer else {"message": "Unknown", "return": "NOK"}
                client.sendall(json.dumps(said).encode() + b"\n")
            if asked["command"] == "shutdown":
                return


def suricatasc(arguments: list[str]) -> int:
    command, *more = arguments[arguments.index("-c") + 1].split()
    where = arguments[2] if len(arguments) > 2 else "/var/run/suricata/suricata-command.socket"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(2)
            control.connect(where)
            control.sendall(b'{"version": "0.2"}\n')
            json.loads(control.recv(4096))
            wanted = {"command": command, **({"arguments": {"iface": more[0]}} if more else {})}
            control.sendall(json.dumps(wanted).encode() + b"\n")
            print(control.recv(65536).decode().strip())
    except (OSError, ValueError) as error:
        print(f"Unable to connect to socket {where}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit({"suricata": suricata, "suricatasc": suricatasc}[sys.argv[1]](sys.argv[2:]))
