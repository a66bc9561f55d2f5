"""Round-trip time under load, by irtt: end a asks end b every 10 ms, before the traffic and beside it."""

from __future__ import annotations

import json
import math
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_netperf.errors import TrafficError
from pytest_netperf.observe.observation import Latency

if TYPE_CHECKING:
    from pytest_netperf.links.link import Link
    from pytest_netperf.links.process import Process
    from pytest_netperf.traffic.result import Workload

__all__ = ["LatencyWatch", "latency_of"]

_EVERY_S: Final = 0.01
_BASELINE_S: Final = 1.0
_LEAD_S: Final = 0.5
"""By which the questions begin before the traffic, at most."""
_PATIENCE_S: Final = 15.0
_FEWEST: Final = 20


class LatencyWatch:
    """irtt over one link: `before`, `begin`, `end`; then `latency`. A context manager, which ends both processes.

    Raises TrafficError when irtt is missing, or does not do what it should.
    """

    def __init__(self, link: Link, workload: Workload) -> None:
        if shutil.which("irtt") is None:
            raise TrafficError(
                "the round-trip time under load (rtt=True) is measured with irtt, which is not installed: "
                "sudo apt-get install irtt"
            )
        self._link, self._workload = link, workload
        address = link.b.address6 if workload.ip_version == 6 else link.b.address
        if address is None:
            raise TrafficError(f"irtt: end b has no IPv{workload.ip_version} address")
        self._where = f"[{address}]:{link.next_port()}" if workload.ip_version == 6 else f"{address}:{link.next_port()}"
        self._server: Process | None = None
        self._client: Process | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="netperf-irtt-")  # it prints nothing when it is interrupted
        self._baseline: list[float | None] = []
        self._loaded: list[float | None] = []

    def __enter__(self) -> LatencyWatch:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self._client, self._server):
            if process is not None:
                process.end(grace=0.5)
        self._folder.cleanup()

    def before(self) -> None:
        """Start the far end, and measure the round trip of the idle link for a second."""
        self._server = self._link.b.popen(["irtt", "server", "-b", self._where])
        deadline = time.monotonic() + 5
        while "listener on" not in self._server.stdout:
            if self._server.wait(0.02) or time.monotonic() > deadline:
                said = (self._server.stderr.strip() or self._server.stdout.strip() or "it says nothing").splitlines()[
                    -1
                ]
                raise TrafficError(f"irtt did not start at end b: {said}")
        self._client = self._link.a.popen(self._command(_BASELINE_S))
        self._baseline = _round_trips(self._output(self._client, _BASELINE_S + _PATIENCE_S))

    def begin(self) -> None:
        """The traffic is about to start."""
        self._client = self._link.a.popen(self._command(self._workload.omit_s + self._workload.duration_s))

    def end(self) -> None:
        """The traffic is over; questions that are left are not asked."""
        assert self._client is not None
        if not self._client.wait(_LEAD_S + 1):  # the traffic ended early
            self._client.send_signal(signal.SIGINT)
        document = self._output(self._client, _PATIENCE_S)
        self._loaded = _round_trips(document, skip_s=self._workload.omit_s + _LEAD_S)

    def latency(self) -> Latency:
        """What it saw."""
        return latency_of(self._baseline, self._loaded)

    def _command(self, seconds: float) -> list[str]:
        self._file.unlink(missing_ok=True)
        interval, duration = f"{_EVERY_S * 1000:g}ms", f"{seconds:g}s"
        return ["irtt", "client", "-i", interval, "-d", duration, "-Q", "-o", str(self._file), self._where]

    @property
    def _file(self) -> Path:
        return Path(self._folder.name) / "irtt.json"

    def _output(self, client: Process, patience_s: float) -> dict[str, Any]:
        ended = client.wait(patience_s)
        said = (client.stderr.strip() or "it says nothing").splitlines()[-1]
        if not ended:
            client.end(grace=0.0)
            raise TrafficError("irtt did not end in time")
        try:
            document = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            raise TrafficError(f"irtt gave no result at end a: {said}") from None
        if not isinstance(document, dict) or not isinstance(document.get("round_trips"), list):
            raise TrafficError("irtt gave a document without round trips; this version of it is not known here")
        return document


def _round_trips(document: dict[str, Any], *, skip_s: float = 0.0) -> list[float | None]:
    """Round-trip time in s of each question sent after ``skip_s``; None for one without an answer."""
    found: list[float | None] = []
    first_ns: int | None = None
    for each in document["round_trips"]:
        try:
            sent_ns = int(each["timestamps"]["client"]["send"]["monotonic"])
            rtt_ns = each["delay"].get("rtt") if each["lost"] == "false" else None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise TrafficError(
                "irtt gave a round trip that is not understood; this version is not known here"
            ) from None
        first_ns = sent_ns if first_ns is None else first_ns
        if sent_ns - first_ns >= skip_s * 1e9:
            found.append(None if rtt_ns is None else rtt_ns / 1e9)
    return found


def latency_of(baseline: Sequence[float | None], loaded: Sequence[float | None]) -> Latency:
    """Quantiles by nearest rank, so that each is a round trip that was seen; one without an answer took for ever.

    The buffer delay (RFC 6349, section 4.1.3) is the mean round trip under load over the median of the idle link, less
    1; what got lost is not in its mean.
    """
    idle = _quantile(baseline, 0.5)
    answered = [rtt for rtt in loaded if rtt is not None]
    mean = math.fsum(answered) / len(answered) if answered else None
    return Latency(
        baseline_p50_s=idle,
        p50_s=_quantile(loaded, 0.5),
        p99_s=_quantile(loaded, 0.99),
        mean_s=mean,
        buffer_delay=mean / idle - 1 if mean is not None and idle is not None and len(answered) >= _FEWEST else None,
        asked=len(loaded),
        lost=len(loaded) - len(answered),
    )


def _quantile(trips: Sequence[float | None], share: float) -> float | None:
    """None with too few to tell (20 for the median, 100 for the 99th percentile), or when it got lost."""
    if len(trips) < max(_FEWEST, round(1 / (1 - share))):
        return None
    found = sorted(math.inf if rtt is None else rtt for rtt in trips)[math.ceil(share * len(trips)) - 1]
    return found if found < math.inf else None
