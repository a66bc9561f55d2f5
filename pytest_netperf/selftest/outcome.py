"""What came out of a case of the selftest, and whether that is what must come out. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pytest_netperf.selftest.cases import Case

__all__ = ["Outcome"]

_IMPOSSIBLE: Final = ("this kernel does not have", "this kernel cannot", "on this machine")
_OTHERS_BUSY: Final = ("Another process busy:", "Tester CPU bound:", "CPU taken by a hypervisor:")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out of a case, one time."""

    case: Case
    time: int
    verdict: str
    """Of the row; NOT RUN without one."""
    reason: str = ""
    doubts: tuple[str, ...] = ()
    attempts: int = 1

    @property
    def words(self) -> str:
        """Everything that the row says."""
        return "\n".join((self.reason, *self.doubts))

    @property
    def impossible(self) -> bool:
        """Whether this machine cannot make the fault; a good link it must be able to make."""
        return not self.case.good and self.verdict == "ERROR" and any(words in self.reason for words in _IMPOSSIBLE)

    @property
    def disturbed(self) -> bool:
        """Whether something else on this machine, named on the row, kept a fault of the device from its verdict."""
        busy = any(words in self.reason for words in _OTHERS_BUSY)
        return busy and self.verdict == "INCONCLUSIVE" and self.case.verdict in ("FAIL", "PASS") and not self.case.good

    @property
    def made_again(self) -> bool:
        """Whether the case is worth a second try: something else may be why it did not come out as it must."""
        busy = any(words in self.words for words in _OTHERS_BUSY) or self.verdict == "ERROR"
        right = self.case.expects(self.verdict) and self.case.says(self.words)
        return busy and not right and self.verdict != "PASS" and not self.impossible and not self.case.good

    @property
    def holds(self) -> bool:
        """Whether the case came out as it must."""
        expected = self.case.expects(self.verdict) or self.disturbed
        return self.impossible or (expected and self.case.says(self.words))
