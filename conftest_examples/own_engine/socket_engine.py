"""A traffic engine of one's own: one TCP stream over plain sockets, counted by the receiver.

This file is both ends too: `socket_engine.py receive ...` and `socket_engine.py send ...` run in the namespaces of a
link.
"""

import json
import socket
import sys
import time

from pytest_netperf.errors import MarkError
from pytest_netperf.traffic.engine import EngineFailure, Look
from pytest_netperf.traffic.result import Flow, Interval, Result, Workload

CANNOT = ("mss_bytes", "window_bytes", "congestion", "bitrate_bps", "length_bytes", "dscp")
PATIENCE_S = 5.0


class SocketEngine:
    name = "sockets"
    version = "sockets 1.0"
    can_stop = False

    def check(self, workload):
        """Refuse what this engine cannot do, before anything runs."""
        default = Workload()
        refused = [f"{key}={getattr(workload, key)!r}" for key in CANNOT if getattr(workload, key) is not None]
        for key in ("protocol", "streams", "zerocopy", "ip_version"):
            if getattr(workload, key) != getattr(default, key):
                refused.append(f"{key}={getattr(workload, key)!r}")
        if workload.direction == "bidirectional":
            refused.append("direction='bidirectional'")
        if refused:
            raise MarkError(f"{', '.join(refused)}: the engine {self.name} sends one plain TCP stream; choose iperf3")

    def run(self, link, workload, watch=None):
        """Both ends as processes in the namespaces of the link, ended whatever happens."""
        self.check(workload)
        receiver, sender = (link.b, link.a) if workload.direction == "forward" else (link.a, link.b)
        port, begun = link.next_port(), time.monotonic()
        window = [workload.omit_s, workload.duration_s]
        program = [sys.executable, "-B", __file__]
        receive = [*program, "receive", receiver.address, port, *window, workload.interval_s]
        send = [*program, "send", receiver.address, port, sum(window)]
        with receiver.popen(receive) as taking:
            while not receiver.is_listening(port):
                if taking.wait(0.01) or time.monotonic() - begun > PATIENCE_S:
                    raise EngineFailure(f"the receiver does not listen: {taking.stderr[-300:]}")
            with sender.popen(send) as giving:
                deadline = time.monotonic() + sum(window) + PATIENCE_S
                while not taking.wait(1.0, reading=giving):
                    if watch is not None:
                        watch(Look(port, "", ""))
                    if time.monotonic() > deadline:
                        raise EngineFailure("the traffic did not end in time", {"server": taking.stderr})
                giving.wait(PATIENCE_S)
        if taking.returncode != 0 or giving.returncode != 0:
            said = {"client": giving.stdout + giving.stderr, "server": taking.stdout + taking.stderr}
            raise EngineFailure(f"receiver and sender ended with {taking.returncode} and {giving.returncode}", said)
        counted = json.loads(taking.stdout)
        whole = counted["seconds"] > 0.95 * workload.duration_s
        return Result(
            workload=workload,
            trusted=whole,
            reason="One whole run, counted by the receiver." if whole else "The sender stopped too early.",
            flows=(
                Flow(
                    direction=workload.direction,
                    received_bytes=counted["bytes"],
                    received_seconds=counted["seconds"],
                    received_bps=counted["bytes"] * 8 / counted["seconds"] if counted["seconds"] else None,
                    intervals=tuple(Interval(**each) for each in counted["intervals"]),
                    intervals_from="receiver",
                ),
            ),
            engine=self.name,
            client_version=self.version,
            server_version=self.version,
            client_command=tuple(map(str, send)),
            server_command=tuple(map(str, receive)),
            client_output=giving.stdout,
            server_output=taking.stdout,
            elapsed_s=time.monotonic() - begun,
        )


def receive(address, port, omit_s, duration_s, interval_s):
    """Take what comes until the sender closes, and print what came after the omitted seconds, within the duration."""
    with socket.create_server((address, port)) as server:
        connection, _ = server.accept()
    buffer = bytearray(1 << 20)
    received = connection.recv_into(buffer)
    begun = time.monotonic() + omit_s  # of what counts
    total, seconds, intervals = 0, 0.0, []
    edge, inside = 0.0, 0
    while received:
        received = connection.recv_into(buffer)
        now = time.monotonic() - begun
        if now < 0 or edge >= duration_s:
            continue
        inside += received
        if now >= min(edge + interval_s, duration_s) or not received:
            intervals.append({"start_s": edge, "seconds": now - edge, "bytes": inside})
            total, seconds, edge, inside = total + inside, now, now, 0
    print(json.dumps({"bytes": total, "seconds": seconds, "intervals": intervals}))


def send(address, port, seconds):
    """Send as fast as the link takes it."""
    data = memoryview(bytes(1 << 18))
    with socket.create_connection((address, port)) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(data)


if __name__ == "__main__":
    role, address, port, *numbers = sys.argv[1:]
    {"receive": receive, "send": send}[role](address, int(port), *map(float, numbers))
