import json
import time
from typing import NamedTuple

import pytest

from pytest_netperf.quantities import register_quantity

register_quantity("frames_unaccounted", "1", better="lower", description="frames that vanished uncounted")


class Frames(NamedTuple):
    sent: int
    """IPv4 packets that a has sent, one frame each."""
    arrived: int
    """IPv4 packets that b got."""
    dropped: int
    """Frames that the router dropped at its port to b, by its own count."""
    waiting: int
    """Frames that wait in its queue there."""


@pytest.fixture(scope="session")
def count_frames(netperf_link):
    def ip_counters(end):
        lines = end.run(["cat", "/proc/net/snmp"], check=True).stdout.splitlines()
        names, values = (line.split()[1:] for line in lines if line.startswith("Ip:"))
        return dict(zip(names, map(int, values), strict=True))

    def now():
        port = netperf_link.device_ports["device_b"]
        queues = json.loads(port.run(["tc", "-s", "-j", "qdisc", "show", "dev", port.interface], check=True).stdout)
        return Frames(
            sent=ip_counters(netperf_link.a)["OutRequests"],
            arrived=ip_counters(netperf_link.b)["InReceives"],
            dropped=sum(queue["drops"] for queue in queues),
            waiting=sum(queue["qlen"] for queue in queues),
        )

    def when_quiet():
        """The counts when nothing is on its way any more: the same twice, with an empty queue."""
        for _ in range(100):
            seen = now()
            time.sleep(0.05)
            if seen.waiting == 0 and now() == seen:
                return seen
        pytest.fail(f"the link does not come to rest: {seen}")

    return when_quiet
