"""Each verdict: what it means and what to do next. Printed on every sheet; the texts are those of a language."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.report.language import Words

__all__ = ["device_legend", "row_legend", "verdict_class"]

_Enum = TypeVar("_Enum", bound=Enum)


def row_legend(words: Words) -> list[tuple[Verdict, str, str]]:
    """Verdict of a row, its meaning and the next step, in the order of the file of texts."""
    return _legend("row", Verdict, words)


def device_legend(words: Words) -> list[tuple[DeviceVerdict, str, str]]:
    """The same of a device."""
    return _legend("device", DeviceVerdict, words)


def _legend(section: str, verdicts: Iterable[_Enum], words: Words) -> list[tuple[_Enum, str, str]]:
    order = {key: number for number, key in enumerate(words.texts)}
    ranked = sorted(verdicts, key=lambda verdict: order[f"{section}.{verdict.value}.word"])
    return [
        (verdict, words(f"{section}.{verdict.value}.meaning"), words(f"{section}.{verdict.value}.step"))
        for verdict in ranked
    ]


_CLASSES = {
    Verdict.PASS: "pass",
    Verdict.FAIL: "fail",
    DeviceVerdict.ACCEPTED: "pass",
    DeviceVerdict.REJECTED: "fail",
}


def verdict_class(verdict: Verdict | DeviceVerdict) -> str:
    """The look of a verdict: "pass", "fail" or "unproven"; each has a shape and a colour of its own."""
    return _CLASSES.get(verdict, "unproven")
