"""A machine whose reset button is pressed in the middle of a run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lab_guest import Guest
from lab_suite import Pair, Suite, bench
from test_lab_physical import BENCH, SLOW, clean, in_traffic


@pytest.mark.last
def test_a_restart_of_the_machine(lab: Guest, pair: Callable[[str], Pair], suite: Suite, survived: Callable[..., None]):
    """The journal is on a disk that survives, the ports are new: clean says so, ends it, and touches nothing."""
    ends = pair("virtio-net-pci")
    ends.up()
    state = lab.push({}, "state-that-survives")
    suite.write({"test_it.py": SLOW.replace("DURATION", "200"), "bench.toml": bench("LAB-1", ends)})
    run = suite.begin(BENCH, NETPERF_STATE=state)
    in_traffic(suite, run)
    lab.reset()
    ends = pair("virtio-net-pci")
    before = ends.view()
    said = clean(lab, NETPERF_STATE=state)
    for name in ends.names:
        assert f"port {name}," in said
    assert said.count("the machine was started anew since; there is nothing to put back") == 2
    survived("reset of the machine mid-run, then clean: nothing to put back", before, ends.view())
    assert clean(lab, NETPERF_STATE=state) == "nothing to remove\n"
