"""What a doubt is: a name with a meaning, a way out and an effect on the verdict, and what was seen this time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["EFFECTS", "Doubt", "Kind", "KnownDoubt"]

Kind = Literal["invalid", "tester", "device", "note"]

EFFECTS: dict[Kind, str] = {
    "invalid": "the row is INVALID",
    "tester": "a FAIL becomes INCONCLUSIVE, a limit that was met stays met",
    "device": "none: the device may be the cause, so a FAIL stays",
    "note": "none: for a person to look at",
}
"""What a doubt of each kind does to the verdict of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """One doubt about one run: what was seen, what it means and what to do next, in whole sentences."""

    name: str
    kind: Kind
    seen: str
    meaning: str
    next_step: str

    @property
    def text(self) -> str:
        """The doubt as it stands on a row; it begins with its name."""
        return f"{self.name}: {self.seen} {self.meaning} {self.next_step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDoubt:
    """A doubt that a rule can raise."""

    name: str
    kind: Kind
    sign: str
    """What a rule looks for, with its numbers; for the documentation."""
    meaning: str
    next_step: str
    or_note: bool = False
    """Whether the rule may find it too small to matter, and raise it as a note only."""

    @property
    def effect(self) -> str:
        """What it does to the verdict."""
        return EFFECTS[self.kind] + ("; none where it cannot have mattered" if self.or_note else "")

    def seen(self, what: str, *, note: bool = False) -> Doubt:
        """The doubt with what was seen this time."""
        assert self.or_note or not note, f"{self.name} is never a note only"
        kind: Kind = "note" if note else self.kind
        return Doubt(name=self.name, kind=kind, seen=what, meaning=self.meaning, next_step=self.next_step)
