"""A series of intervals judged while it grows, live or replayed: the same code for both. Pure.

    judge = SeriesJudge(limit, profile, rule)
    for sample in samples:
        if judge.add(sample):       # enough: stop the traffic
            break
    judge.verdict()

The questions, in this order; the first answer that is not "go on" is the verdict:

    can the number be true?                                     INVALID when not
    is the series long enough for its profile?                  INCONCLUSIVE when not
    does the mean hide levels on both sides of the limit?       INCONCLUSIVE when it does
    does the evidence decide? (sequential profiles)             INCONCLUSIVE when not
    what does the decision rule say?                            PASS, FAIL, or INCONCLUSIVE inside a guard band
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from pytest_netperf.judge import stationarity
from pytest_netperf.judge.decision import DecisionRule
from pytest_netperf.judge.interval_statistic import statistic_of_samples
from pytest_netperf.judge.judgement import Judgement, Measured, compare, judge
from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.profile import Profile
from pytest_netperf.judge.row_uncertainty import RowUncertainty, guard
from pytest_netperf.judge.sequential import ALPHA, DECIDES, Side, evidence, side_of_limit
from pytest_netperf.judge.series_doubts import describe_shape, doubts_of_profile, doubts_of_rate, doubts_of_window
from pytest_netperf.judge.statistic import MEAN
from pytest_netperf.judge.statistics import (
    BURST_BITS,
    Noise,
    Sample,
    Uncertainty,
    mean_rate_bps,
    mser5,
    noise_of,
    regroup,
    uncertainty_of,
    without_tail,
)
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import format_value

__all__ = ["SeriesJudge", "SeriesVerdict", "judge_series"]

_EDGE: Final = 0.05  # of an interval: clocks of the two ends do not tick together
_LONGEST_WARM_UP_S: Final = 5.0
_MEASURE_LONGER: Final = "Measure longer, or choose a shorter profile."
_FIND_THE_CHANGE: Final = "Find out what changed during the run (speed, heat, other traffic), then run a soak."


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesVerdict:
    """What a series says. Rates are bit/s, times s."""

    verdict: Verdict
    reason: str
    next_step: str | None
    seconds_used: float
    """Traffic up to the verdict, the omitted seconds included."""
    time_saved_s: float
    """Traffic of a whole run of the profile that was not needed; 0 when it was not stopped early."""
    stopped_early: bool
    value_bps: float | None
    uncertainty: Uncertainty | None
    n_eff: float | None
    margin: float | None
    doubts: tuple[str, ...]
    noise: Noise | None = None
    """How the intervals of the window scatter."""


class SeriesJudge:
    """Judges one run as its intervals arrive. ``bound_bps`` is what physics allows, None when that is not known.

    ``declared_between`` is the relative standard deviation from run to run, None when nobody knows it.
    """

    def __init__(
        self,
        limit: ResolvedLimit,
        profile: Profile,
        rule: DecisionRule,
        *,
        bound_bps: float | None = None,
        declared_between: float | None = None,
    ) -> None:
        self.limit, self.profile, self.rule = limit, profile, rule
        self.bound_bps, self.declared_between = bound_bps, declared_between
        self.seconds = 0.0
        """Traffic so far."""
        self.stopped_early = False
        self._counted: list[Sample] = []
        self._counted_s = 0.0

    def add(self, sample: Sample) -> bool:
        """Take one more interval; True when the run has said enough or is as long as its profile allows."""
        start_s = self.seconds
        self.seconds += sample.seconds
        if start_s < self.profile.omit_s - _EDGE * sample.seconds:
            return False
        self._counted.append(sample)
        self._counted_s += sample.seconds
        if self._counted_s >= self.profile.duration_s - _EDGE * sample.seconds:
            return True
        if self.profile.sequential and self.limit.statistic == MEAN and self._enough():
            self.stopped_early = True
        return self.stopped_early

    @property
    def evidence_share(self) -> float:
        """How much of the evidence is there that decides on the limit, 0 to 1. For people: nothing is decided by it."""
        window = regroup(self._counted)
        if len(window) < 2:
            return 0.0
        bounds = [bound for bound in (self.limit.low, self.limit.high) if bound is not None]
        return min(1.0, max(0.0, min(evidence(window, bound).log_e for bound in bounds) / DECIDES))

    def verdict(self) -> SeriesVerdict:
        """The verdict on what was added so far."""
        window = without_tail(regroup(self._counted))
        missing = self._missing(window)
        if not window:
            return self._answer(_open(f"The series is too short: {missing}.", _MEASURE_LONGER, None))
        kept, warm_up_s = _trim(window)
        noise = noise_of(kept)
        value = mean_rate_bps(kept)
        uncertainty = uncertainty_of(kept, noise, declared_between=self.declared_between)
        shapes = _shapes(kept)
        judgement = judge(self._measured(value, kept), self.limit)
        of_interval: float | None = None
        if judgement.verdict in (Verdict.PASS, Verdict.FAIL):
            if missing is not None:
                judgement = _open(f"The series is too short: {missing}.", _MEASURE_LONGER, judgement.margin)
            elif self.limit.statistic != MEAN:
                of_interval, judgement = self._of_intervals(value, window)
            else:
                judgement = self._decide(judgement, value, uncertainty, kept, shapes)
        doubts = (
            *doubts_of_window(kept, window, warm_up_s, shapes),
            *doubts_of_rate(value, self.bound_bps),
            *doubts_of_profile(self.profile, self.declared_between),
        )
        if self.limit.statistic != MEAN:
            return self._answer(judgement, of_interval, None, noise, doubts)
        return self._answer(judgement, value, uncertainty, noise, doubts)

    def _answer(
        self,
        judgement: Judgement,
        value_bps: float | None = None,
        uncertainty: Uncertainty | None = None,
        noise: Noise | None = None,
        doubts: tuple[str, ...] = (),
    ) -> SeriesVerdict:
        return SeriesVerdict(
            verdict=judgement.verdict,
            reason=judgement.reason,
            next_step=judgement.next_step,
            seconds_used=self.seconds,
            time_saved_s=self._saved_s,
            stopped_early=self.stopped_early,
            value_bps=value_bps,
            uncertainty=uncertainty,
            n_eff=None if noise is None else noise.n_eff,
            noise=noise,
            margin=judgement.margin,
            doubts=doubts,
        )

    @property
    def _saved_s(self) -> float:
        return max(0.0, self.profile.longest_s - self.seconds) if self.stopped_early else 0.0

    # ---- while it runs -----------------------------------------------------------------------------------------------

    def _enough(self) -> bool:
        """Whether a verdict now would be the right one to stop for: decided, steady, and outside any guard band."""
        window = regroup(self._counted)
        if len(window) < self.profile.min_intervals or window[-1].seconds < 1 - _EDGE:  # the last one still grows
            return False
        if side_of_limit(window, self.limit) is None and stationarity.step(window) is None:
            return False
        kept, _ = _trim(window)
        if len(kept) < self.profile.min_intervals or side_of_limit(kept, self.limit) is None:
            return False
        if _shapes(kept) or stationarity.stalls(window) or self._crossing(kept):
            return False
        value = mean_rate_bps(kept)
        expanded = uncertainty_of(kept, noise_of(kept), declared_between=self.declared_between).expanded_bps
        return self.rule.decide(value, expanded, self.limit) is not Verdict.INCONCLUSIVE

    def _crossing(self, kept: list[Sample]) -> bool:
        """Whether single outliers lie on the other side of a bound: perhaps the first of a second mode."""
        bounds = [bound for bound in (self.limit.low, self.limit.high) if bound is not None]
        value = mean_rate_bps(kept)
        far = [kept[place].rate_bps for place in stationarity.outliers(kept)]
        return any((rate < bound) != (value < bound) for rate in far for bound in bounds)

    # ---- at its end --------------------------------------------------------------------------------------------------

    def _measured(self, value: float, kept: list[Sample]) -> Measured:
        seconds = math.fsum(sample.seconds for sample in kept)
        return Measured(
            quantity=self.limit.quantity,
            unit="bit/s",
            better="higher",
            value=value,
            trusted=True,
            bound=self.bound_bps,
            bound_tolerance=BURST_BITS / seconds / self.bound_bps if self.bound_bps else 0.0,
        )

    def _missing(self, window: list[Sample]) -> str | None:
        fewest = self.profile.min_intervals
        if len(window) < fewest:
            return f"{len(window)} intervals after {self.profile.omit_s:g} s of omit, {fewest} are needed"
        needed_s = self.profile.shortest * self.profile.duration_s
        if self._counted_s < needed_s * (1 - 1e-3):
            return f"{self._counted_s:.4g} s after the omit, profile {self.profile.name} asks for {needed_s:g} s"
        return None

    def _decide(
        self,
        judgement: Judgement,
        value: float,
        uncertainty: Uncertainty,
        kept: list[Sample],
        shapes: list[stationarity.Shape],
    ) -> Judgement:
        """A PASS or FAIL of the value alone, held against everything that may leave it open."""
        said, margin = judgement.reason.rstrip("."), judgement.margin
        for shape in shapes:
            if self._straddles(shape):
                levels = describe_shape(shape, kept)
                reason = f"{said}, but the mean describes no part of the run: {levels} lie on both sides of the limit."
                return _open(reason, _FIND_THE_CHANGE, margin)
        side = side_of_limit(kept, self.limit) if self.profile.sequential else None
        if self.profile.sequential and side is None:
            reason = (
                f"{said}, but {self.seconds:.4g} s of traffic do not decide it: the intervals scatter too much for a "
                "value so near to the limit."
            )
            return _open(reason, "Run a type-test, or find out why the rate is unsteady.", margin)
        expanded = uncertainty.expanded_bps
        ruled = self.rule.decide(value, expanded, self.limit)
        if ruled is Verdict.INCONCLUSIVE:
            band = f"{format_value(expanded, 'bit/s', 3)} (rule {self.rule.name}, {self.rule.role})"
            reason = f"{said}, but the limit is within the guard band of {band}."
            return _open(reason, "Reduce the uncertainty (longer or repeated runs), or agree on another limit.", margin)
        if ruled is not judgement.verdict or not _agrees(side, ruled):
            return _open(f"{said}, but the evidence and the decision rule do not agree.", "Run a type-test.", margin)
        if not self.stopped_early:
            return judgement
        return replace(
            judgement,
            reason=f"{judgement.reason} Decided after {self.seconds:.4g} s, {self._saved_s:.3g} s saved: the "
            f"always-valid bound ({ALPHA * 100:g} % on either side) excludes the limit.",
        )

    def _of_intervals(self, mean: float, window: list[Sample]) -> tuple[float | None, Judgement]:
        """The verdict on a quantile or extreme of everything after the omit: a slow start is one of its seconds."""
        statistic = self.limit.statistic
        found = statistic_of_samples(statistic, window)
        if found.value_bps is None:
            return None, _open(f"{statistic.text} is not known: {found.missing}.", found.next_step, None)
        judgement = compare(self._measured(mean, window), found.value_bps, self.limit)
        judgement = replace(judgement, reason=f"{statistic.text} ({found.intervals} of them): {judgement.reason}")
        unknown = RowUncertainty(missing=f"none is determined for a limit {statistic.text}")
        return found.value_bps, guard(judgement, found.value_bps, unknown, self.limit, self.rule)

    def _straddles(self, shape: stationarity.Shape) -> bool:
        low, high = min(shape.levels_bps), max(shape.levels_bps)
        return any(bound is not None and low < bound <= high for bound in (self.limit.low, self.limit.high))


def judge_series(
    samples: Iterable[Sample],
    limit: ResolvedLimit,
    profile: Profile,
    rule: DecisionRule,
    *,
    bound_bps: float | None = None,
    declared_between: float | None = None,
) -> SeriesVerdict:
    """Judge a recorded series as a live run would have been: what comes after the stop is never looked at."""
    judging = SeriesJudge(limit, profile, rule, bound_bps=bound_bps, declared_between=declared_between)
    for sample in samples:
        if judging.add(sample):
            break
    return judging.verdict()


def _open(reason: str, next_step: str, margin: float | None) -> Judgement:
    return Judgement(Verdict.INCONCLUSIVE, reason, next_step, margin)


def _agrees(side: Side | None, verdict: Verdict) -> bool:
    return side is None or (side == "good") == (verdict is Verdict.PASS)


def _trim(window: list[Sample]) -> tuple[list[Sample], float]:
    """The window without its warm-up, and the length of that in s.

    MSER-5 proposes and the step says where: only a significant rise within the first 5 s is a warm-up. A longer one is
    a finding, and so is a fall.
    """
    proposed = mser5([sample.rate_bps for sample in window])
    shape = stationarity.step(window) if proposed else None
    if shape is None or shape.levels_bps[0] >= shape.levels_bps[1]:
        return window, 0.0
    cut = min(proposed, 5 * math.ceil(shape.at / 5))
    seconds = math.fsum(sample.seconds for sample in window[:cut])
    if shape.at > cut or seconds > _LONGEST_WARM_UP_S * (1 + _EDGE):
        return window, 0.0
    return window[cut:], seconds


def _shapes(kept: list[Sample]) -> list[stationarity.Shape]:
    """The ways in which a window is not steady; of a step and a trend the one that describes it better."""
    changes = [shape for shape in (stationarity.step(kept), stationarity.trend(kept)) if shape is not None]
    found = [min(changes, key=lambda shape: shape.unexplained)] if changes else []
    modes = stationarity.bimodality(kept)
    if modes is not None and (not found or modes.unexplained < found[0].unexplained):
        found.append(modes)
    return found
