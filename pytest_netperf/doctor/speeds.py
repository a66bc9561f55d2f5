"""Which speeds this machine can prove, measured over an unshaped link of its own: some ten seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_netperf.doctor.finding import Finding, good, note, problem
from pytest_netperf.errors import NetperfError

__all__ = ["HEADROOM", "SPEEDS_BPS", "provable_bps", "speeds"]

HEADROOM: Final = 1.2
"""What a tester must be able to do above the speed that it shall prove."""
SPEEDS_BPS: Final = (100e6, 1e9, 2.5e9, 5e9, 10e9, 25e9, 40e9, 50e9, 100e9)
_MTUS: Final = (1500, 9000)
_SLOW_BPS: Final = 2.5e9


def provable_bps(reference_bps: float) -> float | None:
    """The fastest usual speed that a tester of this reference can prove, in bit/s; None when it can prove none."""
    return max((speed for speed in SPEEDS_BPS if HEADROOM * speed <= reference_bps), default=None)


def speeds() -> Iterator[Finding]:
    """Measure now, whatever is stored; a run that follows today finds it."""
    from pytest_netperf.quantities import format_speed, format_value
    from pytest_netperf.reference import Wanted, default_store, obtain
    from pytest_netperf.traffic.engine import make_engine

    try:
        found = obtain(
            [Wanted(link=None, mtu=mtu) for mtu in _MTUS], make_engine("iperf3"), default_store(), fresh=True
        )  # fmt: skip
    except NetperfError as error:
        yield problem("speeds", "traffic", str(error), "see above")
        return
    for each in found:
        name = f"MTU {each.mtu}"
        if each.throughput_bps is None:
            yield problem("speeds", name, f"not measured: {each.missing}", "see above")
            continue
        fastest = provable_bps(each.throughput_bps)
        seen = f"{format_value(each.throughput_bps, 'bit/s')} without a device"
        seen += f", so links up to {format_speed(fastest)} can be proven" if fastest else ", so no link can be proven"
        busy = f"it was not idle: {each.note}; run it again when nothing else runs" if each.note else ""
        if fastest is None or fastest < _SLOW_BPS:
            yield problem("speeds", name, seen, busy or "stop what else runs here, or use a faster machine")
        elif busy:
            yield note("speeds", name, seen, busy)
        else:
            yield good("speeds", name, seen)
