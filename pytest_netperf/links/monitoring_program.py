"""What a traffic graph does, as a program: it reads the counters of all ports and the table of connections, again and
again. Started by `links.device_programs` in the namespace of a simulated device; on SIGINT it prints what it did.

It imports nothing of the package, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import json
import signal
import socket
import struct
import sys
import time
from pathlib import Path

_NETLINK_NETFILTER = 12
_GET_CONNECTIONS = 1 << 8 | 1  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET
_REQUEST_DUMP = 0x301
_DONE, _ERROR = 3, 2


def _connections(table: socket.socket) -> int | None:
    """Dump the table of tracked connections, as ``conntrack -L`` does; None where the kernel does not give it."""
    table.send(struct.pack("=IHHIIBBH", 20, _GET_CONNECTIONS, _REQUEST_DUMP, 1, 0, 0, 0, 0))
    found = 0
    while True:
        data = table.recv(1 << 16)
        place = 0
        while place < len(data):
            length, kind = struct.unpack_from("=IH", data, place)
            if kind == _ERROR:
                return None
            if kind == _DONE:
                return found
            found += 1
            place += length + 3 & ~3


def _packets() -> dict[str, int]:
    """Interface -> packets received and sent."""
    found = {}
    for line in Path("/proc/self/net/dev").read_text().splitlines()[2:]:
        name, _, rest = line.partition(":")
        numbers = rest.split()
        found[name.strip()] = int(numbers[1]) + int(numbers[9])
    return found


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def main(per_second: float) -> None:
    """Read until SIGINT."""
    signal.signal(signal.SIGINT, _stop)
    table = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
    table.settimeout(1.0)
    readings, most = 0, None
    first = last = _packets()
    print("reading", flush=True)
    began = time.monotonic()
    try:
        while True:
            last = _packets()
            try:
                tracked = _connections(table)
            except OSError:
                tracked = None
            if tracked is not None:
                most = max(tracked, most or 0)
            readings += 1
            time.sleep(max(0.0, began + readings / per_second - time.monotonic()))
    except KeyboardInterrupt:
        said = {"readings": readings, "seconds": time.monotonic() - began, "connections": most}
        print(json.dumps({**said, "packets": {name: last[name] - first.get(name, 0) for name in last}}), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
