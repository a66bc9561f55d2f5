"""What `pytest-netperf import` says about files that hold iperf3 output."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pytest_netperf.traffic.output import read_output
from pytest_netperf.traffic.result import Flow, Reading

__all__ = ["LARGEST_BYTES", "describe", "import_files", "render"]

LARGEST_BYTES = 256 * 2**20
"""A larger file is no output of one iperf3 run (a day of 1-s intervals with 100 streams is about this much)."""


def describe(name: str, reading: Reading) -> dict[str, Any]:
    """One file as an object of the report.

    ``throughput_bps`` lists the received rate of each direction in bit/s, client to server first: one entry for a
    single direction, whichever it is, two for a bidirectional run (null where it is not known), null when no direction
    has one. ``retransmits`` and ``frame_loss_ratio`` (0..1) are a number or null, a list of two when bidirectional.
    """
    rates = [flow.received_bps or None for flow in reading.flows]
    return {
        "file": name,
        "trusted": reading.trusted,
        "reason": reading.reason,
        "throughput_bps": rates if any(rates) else None,
        "retransmits": _by_direction(reading.flows, lambda flow: flow.retransmits),
        "frame_loss_ratio": _by_direction(reading.flows, lambda flow: flow.frame_loss_ratio),
        "iperf3_version": reading.iperf3_version,
    }


def _by_direction(flows: tuple[Flow, ...], value: Callable[[Flow], Any]) -> Any:
    if len(flows) == 2:
        return [value(flow) for flow in flows]
    return value(flows[0]) if flows else None


def import_files(paths: Iterable[str | os.PathLike[str]], as_json: bool) -> tuple[str, int]:
    """The report on files, and the exit code: 0 all trusted, 1 one is not, 2 one is unreadable or none given."""
    entries: list[dict[str, Any]] = []
    unreadable = False
    for path in paths:
        name = os.fspath(path)
        try:
            content = _read(Path(name))
        except (OSError, ValueError) as error:
            unreadable = True
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            reason = f"The file cannot be read ({why}): give the path of a file with iperf3 output."
            entries.append(describe(name, Reading(trusted=False, reason=reason)))
        else:
            entries.append(describe(name, read_output(content)))
    text = json.dumps(entries, indent=2, allow_nan=False, ensure_ascii=True) if as_json else render(entries)
    if unreadable or not entries:
        return text, 2
    return text, 0 if all(entry["trusted"] for entry in entries) else 1


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise ValueError(f"it is larger than {LARGEST_BYTES // 2**20} MiB")
    return content


def render(entries: list[dict[str, Any]]) -> str:
    """The report for people: a line per file with its numbers, below it why it can or cannot be trusted."""
    if not entries:
        return "No file was given."
    lines = []
    for entry in entries:
        facts = [_throughput_words(entry["throughput_bps"])]
        if (retransmits := _pair_words(entry["retransmits"], "{}")) is not None:
            facts.append(f"retransmits {retransmits}")
        if (loss := _pair_words(entry["frame_loss_ratio"], "{:.4%}")) is not None:
            facts.append(f"frame loss {loss}")
        if entry["iperf3_version"]:
            facts.append(f"iperf3 {entry['iperf3_version']}")
        lines.append(f"{'TRUSTED' if entry['trusted'] else 'NOT TRUSTED':<11}  {entry['file']}")
        lines.append(f"             {', '.join(facts)}")
        lines.append(f"             {entry['reason']}")
    good = sum(entry["trusted"] for entry in entries)
    lines.append(f"{good} of {len(entries)} can be trusted.")
    return "\n".join(lines)


def _throughput_words(rates: list[float | None] | None) -> str:
    if rates is None:
        return "no received rate"
    names = ("forward", "reverse") if len(rates) == 2 else ("received",)
    return ", ".join(
        f"{name} {_rate_words(rate)}" if rate else f"{name} unknown" for name, rate in zip(names, rates, strict=True)
    )


def _pair_words(value: Any, form: str) -> str | None:
    values = value if isinstance(value, list) else [value]
    if all(one is None for one in values):
        return None
    return " / ".join("unknown" if one is None else form.format(one) for one in values)


def _rate_words(rate_bps: float) -> str:
    for scale, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if rate_bps >= scale:
            return f"{rate_bps / scale:.4g} {unit}"
    return f"{rate_bps:.4g} bit/s"
