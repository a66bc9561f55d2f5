"""Profiles: how long a run is, how often it is repeated, and whether it may stop early. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_netperf.errors import ConfigError
from pytest_netperf.quantities import near_misses

__all__ = ["PROFILES", "Profile", "get_profile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The plan of a measurement. Times are seconds."""

    name: str
    duration_s: float
    """Traffic that counts, after ``omit_s``; the most of it when ``sequential``."""
    omit_s: float
    """Traffic at the start that does not count."""
    min_intervals: int
    """No verdict rests on fewer intervals (of one second or longer) than this."""
    repetitions: int = 1
    """Runs with a new connection each."""
    sequential: bool = False
    """Whether the run ends as soon as the always-valid bound decides (`judge.sequential`)."""
    shortest: float = 0.0
    """Share of ``duration_s`` that a recorded series must have to stand for a run of this profile."""
    purpose: str = ""

    @property
    def longest_s(self) -> float:
        """All traffic of one run that is not stopped."""
        return self.omit_s + self.duration_s


# A recorded series that is 60 s long all told still stands for 60 s after an omit of 3: hence 0.9, not 1.
PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="screening",
            duration_s=60,
            omit_s=3,
            min_intervals=10,
            sequential=True,
            purpose="every unit of a series: as short as an honest verdict can be",
        ),
        Profile(
            name="type-test",
            duration_s=60,
            omit_s=3,
            min_intervals=10,
            repetitions=5,
            shortest=0.9,
            purpose="a new model or firmware: five whole runs, and the spread between them",
        ),
        Profile(
            name="soak",
            duration_s=1800,
            omit_s=3,
            min_intervals=10,
            shortest=0.9,
            purpose="what comes with time: heat, trends, rare stalls",
        ),
        Profile(
            name="smoke",
            duration_s=3,
            omit_s=0,
            min_intervals=3,
            shortest=0.9,
            purpose="CI on simulated links: does it work at all",
        ),
        Profile(
            name="fixed",
            duration_s=60,
            omit_s=3,
            min_intervals=10,
            purpose="one whole run, or as much as was recorded of it: what screening is compared with",
        ),
    )
}


def get_profile(name: str) -> Profile:
    """The profile of this name. Raises ConfigError with the near misses for an unknown one."""
    profile = PROFILES.get(name)
    if profile is None:
        raise ConfigError(f"unknown profile {name!r}{near_misses(name, PROFILES)}; known: {', '.join(PROFILES)}.")
    return profile
