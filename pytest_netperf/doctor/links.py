"""Links: what can this kernel do, what did earlier runs leave, and who measures now. Tried, not guessed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_netperf.doctor.finding import Finding, good, note, problem
from pytest_netperf.errors import NetperfError, StationError

if TYPE_CHECKING:
    from pytest_netperf.links.owner import Owner

__all__ = ["leftovers", "simulated_links", "unfinished_runs"]

_SHAPED: Final = {"mtu": 1500, "speed_bps": 1e9}
_SLOTS: Final = 8
"""Of those so many are looked at."""
_NEWEST, _SHOWN, _TAIL_BYTES = 50, 3, 65536
_TRIALS: Final[tuple[tuple[str, Mapping[str, Any], str], ...]] = (
    ("simulated link, 1G", {}, "without it no simulated link has a speed; load the kernel modules veth and sch_tbf"),
    (
        "fault: loss of single frames",
        {"loss_ratio": 0.01},
        "known-bad links with loss cannot be made here; load the kernel modules sch_ingress and cls_bpf, or sch_netem",
    ),
    (
        "fault: loss in bursts",
        {"loss_ratio": 0.01, "burst_frames": 5},
        "known-bad links with bursts cannot be made here; load the kernel module nf_tables",
    ),
    (
        "fault: copies and late frames",
        {"duplicate_ratio": 0.01, "reorder_ratio": 0.01},
        "known-bad links that copy or reorder cannot be made here; load the kernel modules cls_bpf and act_mirred",
    ),
)


def simulated_links() -> Iterator[Finding]:
    """Make one of each kind, and take it down again: some 0.3 s in all."""
    from pytest_netperf.links.owner import Owner

    try:
        owner = Owner()
    except StationError as error:
        yield problem("links", "namespaces", str(error), "see above, or use only tests that need no link")
        return
    try:
        yield good("links", "namespaces", "network and process namespaces can be made")
        for number, (name, fault, todo) in enumerate(_TRIALS):
            try:
                owner.call("up", link=f"doctor-{number}", spec={**_SHAPED, "fault": dict(fault)}, keep=None)
                owner.call("down", link=f"doctor-{number}")
            except NetperfError as error:
                yield (note if fault else problem)("links", name, str(error), todo)
            else:
                yield good("links", name, "works")
        yield from _others(owner)
    finally:
        owner.close()


def _others(owner: Owner) -> Iterator[Finding]:
    """What only some tests need: a device in the middle."""
    trials: tuple[tuple[str, Mapping[str, Any], str], ...] = (
        ("simulated router", {"device": "routed", "device_mtu": None, "state": None}, "routed links cannot be made"),
        (
            "simulated switch",
            {"device": "switched", "device_mtu": None, "state": None},
            "switched links cannot be made; load the kernel module bridge",
        ),
    )
    for number, (name, more, todo) in enumerate(trials):
        link = f"doctor-other-{number}"
        try:
            owner.call("up", link=link, spec={**_SHAPED, "fault": {}, **more}, keep=None)
            owner.call("down", link=link)
        except NetperfError as error:
            yield note("links", name, str(error), todo)
        else:
            yield good("links", name, "works")


def unfinished_runs(output: Path) -> Iterator[Finding]:
    """Journals without an end: of runs that were killed, or that go on at this moment."""
    left = []
    for journal in sorted((output / "journals").glob("*.jsonl"))[-_NEWEST:]:
        with contextlib.suppress(OSError), journal.open("rb") as file:
            file.seek(max(0, journal.stat().st_size - _TAIL_BYTES))
            if b'"kind":"closed"' not in file.read():
                left.append(journal)
    if left:
        shown = ", ".join(journal.stem for journal in left[-_SHOWN:]) + (" and others" if len(left) > _SHOWN else "")
        yield note(
            "links",
            "runs without an end",
            f"{len(left)} of the newest journals below {output}: {shown}",
            f"unless it still runs: pytest-netperf sheet {left[-1]}",
        )


def leftovers() -> Iterator[Finding]:
    """What runs that were killed, or asked to keep it, left behind."""
    from pytest_netperf.links.leftovers import kept_namespaces
    from pytest_netperf.links.port_journal import holder_of, journals
    from pytest_netperf.links.slot import slot_holders

    measuring = slot_holders(most=_SLOTS)
    if measuring:
        yield note(
            "links",
            "measurement slot",
            f"{measuring} measures at this moment",
            "runs take turns, so yours will wait; the live view shows it",
        )
    todo = "pytest-netperf clean"
    kept = kept_namespaces()
    if kept:
        yield note("links", "kept namespaces", ", ".join(kept), todo)
    left = []
    with contextlib.suppress(FileNotFoundError):
        try:
            left = [journal.port_id for journal in journals() if holder_of(journal.port_id) is None]
        except StationError as error:
            yield problem("links", "journals of ports", str(error), todo)
    if left:
        yield problem("links", "ports left changed by a killed run", ", ".join(left), f"sudo {todo}")
    if not kept and not left:
        yield good("links", "leftovers", "none")
