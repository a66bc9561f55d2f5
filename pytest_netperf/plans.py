"""The rows that a run is expected to deliver, on their way to the controller.

Under xdist the workers make the plan; a worker leaves it in a memory file of the controller's.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from pytest_netperf.collection import ItemPlan
    from pytest_netperf.record.schema import Planned

__all__ = ["RECORDER", "PlanFiles", "announce"]

RECORDER = "netperf-recorder"
"""Name of the controller's plugin that takes the plan."""

_KEY = "netperf_plan_file"


def announce(config: pytest.Config, plans: Iterable[tuple[ItemPlan, bool]], unasked: Iterable[Planned]) -> None:
    """Write down the rows that are expected: into the journal, or from a worker into the controller's memory file."""
    planned = [row for plan, selected in plans for row in plan.planned(selected)]
    planned += unasked
    workerinput = getattr(config, "workerinput", None)
    if workerinput is None:
        recorder = config.pluginmanager.get_plugin(RECORDER)
        if recorder is not None:
            recorder.plan(planned)
        return
    _end_with_controller()
    if _KEY not in workerinput:
        return
    import msgspec

    path, target = map(Path, workerinput[_KEY])
    with contextlib.suppress(OSError):  # another host's worker: the journal then says that it has no plan
        if path.readlink() == target:
            path.write_bytes(msgspec.json.encode(planned))


def _end_with_controller() -> None:
    """End this worker when its controller is killed; by itself it would go on with its test for another 5 to 15 s."""
    from pytest_netperf.links.kernel import die_with_parent

    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    die_with_parent(signal.SIGINT if interruptible else signal.SIGTERM)  # the former lets fixtures tear down


class PlanFiles:
    """The controller's memory files, one for each worker; they go with this process."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._descriptors: dict[str, int] = {}

    def hand_out(self, workerinput: dict[str, Any]) -> None:
        """Tell a worker where to leave its plan."""
        worker = workerinput["workerid"]
        name = f"netperf-plan-{self._run_id}-{worker}"
        fd = self._descriptors[worker] = os.memfd_create(name)
        workerinput[_KEY] = [f"/proc/{os.getpid()}/fd/{fd}", f"/memfd:{name} (deleted)"]

    def take(self, workerinput: dict[str, Any]) -> list[Planned] | None:
        """What a worker left there, once; None when it left nothing."""
        fd = self._descriptors.pop(workerinput["workerid"], None)
        if fd is None:
            return None
        with os.fdopen(fd, "rb") as file:
            data = file.read()
        if not data:
            return None
        import msgspec

        from pytest_netperf.record.schema import Planned

        return msgspec.json.decode(data, type=list[Planned])

    def close(self) -> None:
        """Let go those of workers that never got as far."""
        for fd in self._descriptors.values():
            os.close(fd)
        self._descriptors.clear()
