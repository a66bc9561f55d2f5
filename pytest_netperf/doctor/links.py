"""Links: may this user make them, what can this kernel do, and what did earlier runs leave. Tried, not guessed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pytest_netperf.doctor.finding import Finding, good, note, problem
from pytest_netperf.errors import NetperfError, StationError

__all__ = ["leftovers", "privileges", "simulated_links"]

_SHAPED: Final = {"mtu": 1500, "speed_bps": 1e9}
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


def privileges() -> Iterator[Finding]:
    """Who this is, and what that means for ports."""
    from pytest_netperf.links.kernel import has_capabilities

    if has_capabilities():
        yield good("links", "privileges", "root: simulated links and physical ports")
    else:
        yield good(
            "links", "privileges", "an ordinary user: simulated links in a user namespace; physical ports need sudo"
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
    finally:
        owner.close()


def leftovers() -> Iterator[Finding]:
    """What runs that were killed, or asked to keep it, left behind."""
    from pytest_netperf.links.leftovers import kept_namespaces
    from pytest_netperf.links.port_journal import holder_of, journals

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
