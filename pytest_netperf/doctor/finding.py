"""One thing that was looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["Finding", "good", "note", "problem", "text_lines"]

State = Literal["ok", "note", "problem"]
_WIDTH: Final = len("problem")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was looked at, what was seen, and what to do."""

    area: str
    """"system", "links", "iperf3", "tester", "ports" or "speeds"."""
    name: str
    state: State
    """``ok``; ``note``: runs work, and it is good to know; ``problem``: some run will not work, or not be trusted."""
    seen: str
    todo: str = ""
    """Empty for what is well."""


def good(area: str, name: str, seen: str) -> Finding:
    """All is well."""
    return Finding(area=area, name=name, state="ok", seen=seen)


def note(area: str, name: str, seen: str, todo: str = "") -> Finding:
    """Something to know, which stops nothing."""
    return Finding(area=area, name=name, state="note", seen=seen, todo=todo)


def problem(area: str, name: str, seen: str, todo: str) -> Finding:
    """Something that must be mended before runs work, or can be trusted."""
    return Finding(area=area, name=name, state="problem", seen=seen, todo=todo)


def text_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """For people: the areas in their order, a line each, and below it what to do."""
    area = None
    for each in findings:
        if each.area != area:
            area = each.area
            yield area
        yield f"  {each.state:{_WIDTH}}  {each.name}: {each.seen}"
        if each.todo:
            yield f"  {'':{_WIDTH}}  -> {each.todo}"
