"""What is kept of a long measurement while it runs: handed to the journal, a few seconds at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_netperf.observe.course import Arrival, Keep
    from pytest_netperf.observe.observation import Moment
    from pytest_netperf.session import NetperfSession, TestRun
    from pytest_netperf.traffic.result import Workload

__all__ = ["keeper_of"]


def keeper_of(session: NetperfSession, running: TestRun, workload: Workload) -> Keep | None:
    """What writes the course of a traffic run into the journal; None in a worker of xdist, which has no journal."""
    write = session.keep_stretch
    if write is None or running.plan is None:
        return None
    from pytest_netperf.judge.soak import course_facts
    from pytest_netperf.quantities import get_quantity
    from pytest_netperf.record.schema import SeriesPoint
    from pytest_netperf.record.stretch import Stretch

    traffic = len(running.measured)

    worst: dict[str, float] = {}

    def keep(arrivals: list[Arrival], moments: list[Moment], probed: list[tuple[str, float, float]]) -> None:
        samples: dict[str, list[float]] = {}
        for quantity, at_s, value in probed:
            samples.setdefault(f"{quantity}_at_s", []).append(at_s)
            samples.setdefault(f"{quantity}_samples", []).append(value)
            pick = min if get_quantity(quantity).better == "higher" else max
            worst[quantity] = pick(worst.get(quantity, value), value)
        if moments:
            worst["errors"] = float(moments[-1].errors)
            worst["carrier_changes"] = float(moments[-1].carrier_changes)
        write(
            Stretch(
                test=running.nodeid,
                traffic=traffic,
                points=tuple(
                    SeriesPoint(
                        start_s=round(each.start_s - workload.omit_s, 3),
                        seconds=each.seconds,
                        throughput_bps=each.bps,
                        omitted=each.start_s < workload.omit_s,
                    )
                    for each in arrivals
                ),
                moments={**course_facts(moments), **samples},
                worst=dict(worst),
            )
        )

    return keep
