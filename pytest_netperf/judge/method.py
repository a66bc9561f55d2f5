"""How a test measures: its profile, its repetitions, and the decision rule of its own. Pure data.

A method is put together from the closest place that says something: the traffic call, then `netperf_method` marks, then
the command line and the ini file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from pytest_netperf.errors import MarkError
from pytest_netperf.judge.decision import DecisionRule
from pytest_netperf.judge.profile import Profile

__all__ = ["BETWEEN_RUNS", "DURATION_S", "MOST_RUNS", "OMIT_S", "BetweenRuns", "Method"]

BetweenRuns = Literal["connection", "link", "cold"]
BETWEEN_RUNS: Final[dict[BetweenRuns, str]] = {
    "connection": "a new connection",
    "link": "the link down and up again, and a new connection",
    "cold": "another link, made anew",
}
"""What lies between two runs of a repeated measurement."""
MOST_RUNS: Final = 1000
DURATION_S: Final = 10.0
OMIT_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """What is decided about the measurements of a test before it runs."""

    profile: Profile | None = None
    """None: runs of a plain length, judged by their value."""
    duration_s: float = DURATION_S
    """Traffic that counts of each run, unless the call says otherwise."""
    omit_s: float = OMIT_S
    repeat: int = 1
    """Runs of each measurement, unless the call says otherwise."""
    between_runs: BetweenRuns = "connection"
    run_to_run: float | None = None
    """Declared relative standard deviation from one run to the next; None when nobody declared one."""
    rtt: bool = False
    """Whether the round-trip time is measured beside the traffic."""
    rule: DecisionRule | None = None
    """The rule that the test's own marks choose; None: that of the limit, or of the run."""

    @property
    def stops_early(self) -> bool:
        """Whether a run ends as soon as enough is known."""
        return self.profile is not None and self.profile.sequential

    def profile_of(self, duration_s: float, omit_s: float, interval_s: float) -> Profile | None:
        """The profile with the times of one call. Raises MarkError where it could never decide."""
        if self.profile is None:
            return None
        shortest_s = self.profile.min_intervals * max(1.0, interval_s)
        if duration_s < shortest_s:
            raise MarkError(
                f"a run of {duration_s:g} s in intervals of {interval_s:g} s: profile {self.profile.name} needs "
                f"{self.profile.min_intervals} intervals of at least 1 s; measure at least {shortest_s:g} s, or choose "
                "another profile"
            )
        return replace(self.profile, duration_s=duration_s, omit_s=omit_s)
