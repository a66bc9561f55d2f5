"""When a running measurement has said enough: the limit of its test, judged while the traffic flows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_netperf.errors import LimitError, MarkError
from pytest_netperf.judge.limits import applies, resolve, select_limit
from pytest_netperf.judge.series import SeriesJudge
from pytest_netperf.judge.statistics import Sample
from pytest_netperf.judge.values import TRAFFIC_QUANTITIES
from pytest_netperf.trials import ceilings_of, conditions_of

if TYPE_CHECKING:
    from pytest_netperf.collection import ItemPlan
    from pytest_netperf.judge.decision import DecisionRule
    from pytest_netperf.observe.watch import Arrived, Way
    from pytest_netperf.session import TrafficCall
    from pytest_netperf.traffic.engine import Engine
    from pytest_netperf.traffic.result import Workload

__all__ = ["Screening", "screening_of"]

_BAD = "FAIL"


class Screening:
    """Judges each direction of one run as it goes on; enough when all of them, or one that fails, are decided."""

    def __init__(self, judges: Mapping[Way, SeriesJudge]) -> None:
        self._judges = dict(judges)
        self._decided: set[Way] = set()

    @property
    def sure(self) -> float:
        """How much of the evidence is there that decides, 0 to 1; of the direction with the least."""
        undecided = [judging.evidence_share for way, judging in self._judges.items() if way not in self._decided]
        return min(undecided, default=1.0)

    def __call__(self, arrived: Mapping[Way, Arrived]) -> bool:
        """Take what arrived in the last interval; True when that is enough."""
        for way, interval in arrived.items():
            judging = self._judges[way]
            if way in self._decided or interval.seconds <= 0:
                continue
            if judging.add(Sample(interval.seconds, interval.bits)):
                self._decided.add(way)
                if judging.verdict().verdict.value == _BAD:
                    return True
        return len(self._decided) == len(self._judges)


def screening_of(
    plan: ItemPlan, call: TrafficCall, workload: Workload, engine: Engine, rule: DecisionRule
) -> Screening | str:
    """What decides when a run of a call with a sequential profile is over, or why it goes on to its end.

    Only the mean throughput is judged while it grows. A run that another limit judges too is not cut short: a count of
    retransmissions, or the slowest interval, would look better after a third of the time. Raises MarkError for an
    engine that cannot stop.
    """
    profile = call.profile
    assert profile is not None
    if not engine.can_stop:
        raise MarkError(
            f"profile {profile.name} ends a run as soon as enough is known, which --netperf-engine {engine.name} "
            "cannot do; use the iperf3 program, or another profile"
        )
    conditions = conditions_of(plan, workload)
    for limit in plan.limits:
        judged_here = limit.quantity in TRAFFIC_QUANTITIES and applies(limit, conditions)
        if judged_here and limit.key != "throughput":
            return f"the limit on {limit.subject} needs the whole run"
    try:
        limit_here = select_limit([each for each in plan.limits if each.key == "throughput"], conditions)
        if limit_here is None:
            return "no limit on the throughput applies"
        assert plan.link is not None
        ceiling = ceilings_of(plan, workload).get("throughput")
        resolved = resolve(limit_here, ceiling=ceiling, link_speed=plan.link.link.speed_bps)
    except LimitError as error:
        return str(error)
    ways: tuple[Way, ...] = ("forward", "reverse") if workload.direction == "bidirectional" else (workload.direction,)
    rule = plan.method.rule or limit_here.rule or rule
    between = None if call.run_to_run is None else call.run_to_run.relative
    return Screening({way: SeriesJudge(resolved, profile, rule, declared_between=between) for way in ways})
