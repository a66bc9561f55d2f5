"""Decision rules: from a value and its uncertainty to conformity with a limit (JCGM 106:2012, ISO 14253-1). Pure.

    simple    the value itself is compared with the limit
    guarded   a guard band w = U (k = 2) lies on the side of whoever claims something:
              role vendor claims "it conforms"         PASS only beyond limit + w, between the two INCONCLUSIVE
              role buyer  claims "it does not conform" FAIL only beyond limit - w, between the two INCONCLUSIVE

(for a lower bound; turned round for an upper one).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_netperf.errors import ConfigError
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import near_misses

if TYPE_CHECKING:
    from pytest_netperf.judge.limits import ResolvedLimit

__all__ = ["ROLES", "RULES", "DecisionRule", "get_rule"]

RULES = ("simple", "guarded")
ROLES = ("vendor", "buyer")


@dataclass(frozen=True, slots=True)
class DecisionRule:
    """How a value is compared with a limit."""

    name: Literal["simple", "guarded"] = "simple"
    role: Literal["vendor", "buyer"] | None = None
    """Who has to prove something; only of ``guarded``."""

    @property
    def name_and_role(self) -> str:
        """``simple``, ``guarded (vendor)`` or ``guarded (buyer)``."""
        return self.name if self.role is None else f"{self.name} ({self.role})"

    @property
    def text(self) -> str:
        """The rule as it is printed."""
        if self.name == "simple":
            return "simple: the value is compared with the limit, without a guard band"
        if self.role == "vendor":
            return "guarded (vendor): PASS needs the value better than the limit by U (k = 2), FAIL only the limit"
        return "guarded (buyer): FAIL needs the value worse than the limit by U (k = 2), PASS only the limit"

    @property
    def risk(self) -> str:
        """What can go wrong under this rule, in one sentence."""
        if self.name == "simple":
            return "A device that is exactly at the limit is accepted or rejected by chance, each in half of the runs."
        wrong = "accepted" if self.role == "vendor" else "rejected"
        return f"A device at the limit is wrongly {wrong} in at most 2.5 % of the runs, as far as U is complete."

    def decide(self, value: float, expanded: float | None, limit: ResolvedLimit) -> Verdict:
        """PASS, FAIL, or INCONCLUSIVE inside the guard band. A guard band that is not known decides nothing."""
        verdicts = []
        for bound, sign in ((limit.low, 1), (limit.high, -1)):
            if bound is not None:
                verdicts.append(self._decide(sign * value, expanded, sign * bound))
        if Verdict.FAIL in verdicts:
            return Verdict.FAIL
        return Verdict.PASS if all(each is Verdict.PASS for each in verdicts) else Verdict.INCONCLUSIVE

    def _decide(self, value: float, expanded: float | None, bound: float) -> Verdict:
        if self.name == "simple":
            return Verdict.PASS if value >= bound else Verdict.FAIL
        if expanded is None or not expanded >= 0:
            return Verdict.INCONCLUSIVE
        met, missed = (bound + expanded, bound) if self.role == "vendor" else (bound, bound - expanded)
        if value >= met:
            return Verdict.PASS
        return Verdict.FAIL if value < missed else Verdict.INCONCLUSIVE


def get_rule(name: str = "simple", role: str | None = None) -> DecisionRule:
    """The rule of this name. Raises ConfigError for an unknown name or role, or a role that is missing or in excess."""
    if name not in RULES:
        raise ConfigError(f"unknown decision rule {name!r}{near_misses(name, RULES)}; known: {', '.join(RULES)}.")
    if role is not None and role not in ROLES:
        raise ConfigError(f"unknown role {role!r}{near_misses(role, ROLES)}; known: {', '.join(ROLES)}.")
    if name == "simple":
        if role is not None:
            raise ConfigError(f"role {role!r} has no meaning under the simple rule; use the guarded rule with it.")
        return DecisionRule()
    if role is None:
        raise ConfigError("the guarded rule needs a role: vendor (proves conformity) or buyer (proves the opposite).")
    return DecisionRule("guarded", "vendor" if role == "vendor" else "buyer")
