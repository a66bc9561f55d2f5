"""Whether a reading can be trusted: every condition in one place, and one sentence for the first that fails."""

from __future__ import annotations

from pytest_netperf.traffic.draft import Draft, error_sentence
from pytest_netperf.traffic.result import Reading, Workload

__all__ = ["conclude"]

REACHED_SHARE = 0.98
"""A run that lasted at least this share of the asked seconds reached its end; timers jitter by some milliseconds."""


_STOPPED = ("interrupt - the client has terminated", "the client has terminated")
"""What the two ends say when the client was told to stop; from 3.19 on, the signal follows."""


def conclude(
    draft: Draft, *, asked: Workload | None, exit_code: int | None, stderr: str, stopped: bool = False
) -> Reading:
    """The reading, trusted only when nothing speaks against it.

    Of a run that we ``stopped`` its early end is no doubt, and neither are the sums, which only whole runs have.
    """
    doubts = [*_stderr_doubts(stderr, draft), *draft.doubts]
    if exit_code and not stopped:  # behind the others: they say why
        doubts.append(
            f"iperf3 ended with exit code {exit_code} instead of 0: read its output and stderr and repeat the run."
        )
    if stopped:
        expected = tuple(error_sentence(said).partition('")')[0] for said in _STOPPED)
        doubts = [doubt for doubt in doubts if not doubt.startswith(expected)]
    if not doubts and not stopped:
        doubts += _rate_doubts(draft)
    if not stopped:
        doubts += _duration_doubts(draft, asked)
    doubts += _workload_doubts(draft, asked)
    doubts += _byte_mode_doubts(draft)
    trusted = not doubts
    if trusted and draft.duration_s is None and asked is None and not draft.byte_mode:
        draft.notes.append(
            "The output does not say how many seconds were asked for, so that an early end cannot be seen."
        )
    return Reading(
        trusted=trusted,
        reason="One complete run without errors, counted by the receiver." if trusted else doubts[0],
        flows=tuple(draft.flows),
        kind=draft.kind,
        role=draft.role,
        iperf3_version=draft.version,
        protocol=draft.protocol,
        duration_s=draft.duration_s,
        omit_s=draft.omit_s,
        streams=draft.streams,
        congestion=draft.congestion,
        host_cpu_percent=draft.host_cpu_percent,
        remote_cpu_percent=draft.remote_cpu_percent,
        notes=tuple(note for note in dict.fromkeys([*draft.notes, *doubts[1:]]) if note not in doubts[:1]),
    )


def _stderr_doubts(stderr: str, draft: Draft) -> list[str]:
    """What the process said beside its output. 3.9 writes its errors only to stderr."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    warnings = [line for line in lines if line.lower().startswith("warning")]
    errors = [line for line in lines if line not in warnings]
    draft.notes.extend(f"iperf3 wrote to stderr: {line[:200]}" for line in warnings)
    return [error_sentence(errors[0].removeprefix("iperf3: "))] if errors else []


def _rate_doubts(draft: Draft) -> list[str]:
    """Every direction that this side can know must have bytes at its receiver."""
    if not draft.flows:
        return ["No iperf3 result was found: give the complete output of an iperf3 client or server."]
    doubts = []
    for flow in draft.flows:
        if flow.received_bps:
            continue
        if flow.received_bytes == 0:
            doubts.append(
                "The receiver counted no bytes: look at the path (link, MTU, firewall, server) and repeat the run."
            )
        elif draft.role == "server" and flow.direction == "reverse":
            sentence = "A server that sends does not know what was received in reverse: read the client's output."
            if len(draft.flows) == 1:
                doubts.append(sentence)
            else:
                draft.notes.append(sentence)
        elif draft.protocol == "udp" and flow.sent_bps:
            doubts.append(
                "Only the sent rate of this UDP run is known, which says nothing about the receiver: "
                "use iperf3 3.11 or later on both ends."
            )
        else:
            doubts.append("The output has no received rate: capture the whole output, to its end, and read that.")
    return doubts


def _duration_doubts(draft: Draft, asked: Workload | None) -> list[str]:
    wanted_s = asked.duration_s if asked else draft.duration_s
    if not wanted_s:
        return []
    doubts = []
    for flow in draft.flows:
        lasted_s = max(flow.received_seconds or 0.0, flow.sent_seconds or 0.0)
        if not flow.received_bps:
            continue
        if lasted_s < REACHED_SHARE * wanted_s:
            doubts.append(
                f"The run lasted {lasted_s:.3g} s of the {wanted_s:g} s asked for: let it end by itself and repeat it."
            )
        elif lasted_s > 1.1 * wanted_s + 0.5:
            draft.notes.append(f"The {flow.direction} direction took {lasted_s:.1f} s instead of {wanted_s:g} s.")
    return doubts


def _byte_mode_doubts(draft: Draft) -> list[str]:
    """From 3.16 on the end of -n and -k is only noticed when the next interval is reported (1 MiB "takes" a second)."""
    if not draft.byte_mode or not any(flow.received_bps for flow in draft.flows):
        return []
    if draft.release is None or draft.release >= (3, 16):
        return [
            "The test was so many bytes (-n or -k), whose end iperf3 from 3.16 on notices too late: use -t SECONDS."
        ]
    draft.notes.append("The test was so many bytes (-n or -k); -t SECONDS gives a steadier rate.")
    return []


def _workload_doubts(draft: Draft, asked: Workload | None) -> list[str]:
    """The output must be of the run that was asked for."""
    if asked is None or not draft.flows:
        return []
    doubts = []
    found = "bidirectional" if len(draft.flows) == 2 else draft.flows[0].direction
    if found != asked.direction:
        doubts.append(f"The output is of a {found} run, but {asked.direction} was asked for: read that run's output.")
    if draft.protocol is not None and draft.protocol != asked.protocol:
        doubts.append(
            f"The output is of a {draft.protocol} run, but {asked.protocol} was asked for: read that run's output."
        )
    if draft.streams is not None and draft.streams != asked.streams:
        doubts.append(
            f"The output is of {draft.streams} streams, but {asked.streams} were asked for: read that run's output."
        )
    return doubts
