"""Each verdict: what it means and what to do next. Printed on every sheet."""

from __future__ import annotations

from pytest_netperf.judge.verdict import DeviceVerdict, Verdict

__all__ = ["DEVICE_LEGEND", "ROW_LEGEND", "verdict_class"]

ROW_LEGEND: tuple[tuple[Verdict, str, str], ...] = (
    (Verdict.PASS, "The value keeps the limit and nothing speaks against it.", "Nothing."),
    (Verdict.FAIL, "The value breaks the limit, and the device is the cause.", "Repair or reject the device."),
    (
        Verdict.INVALID,
        "The number cannot be true: above the ceiling, or against the port counters.",
        "Find the fault of the measurement, then repeat it.",
    ),
    (
        Verdict.INCONCLUSIVE,
        "The evidence does not decide: tester too slow, too few samples, no limit that applies.",
        "Remove the cause that the reason names, then repeat it.",
    ),
    (Verdict.ERROR, "The bench failed: a tool, a permission, a peer.", "Repair the bench, then repeat it."),
    (Verdict.CRASHED, "The test process died before it could answer.", "Find out why it died, then repeat it."),
    (Verdict.ABORTED, "A person or a signal ended the run during this test.", "Repeat it."),
    (Verdict.NOT_RUN, "Expected, but the run ended before it, or it was deselected.", "Run it."),
    (Verdict.SKIPPED, "The test decided not to run here.", "Fulfil the condition that the reason names, then run it."),
)

DEVICE_LEGEND: tuple[tuple[DeviceVerdict, str, str], ...] = (
    (DeviceVerdict.ACCEPTED, "Every required row is PASS, and there is at least one.", "Accept the device."),
    (
        DeviceVerdict.ACCEPTED_WITH_WAIVER,
        "A required row is FAIL, and a waiver takes the device all the same; every other required row is PASS.",
        "Accept the device on the conditions of the waiver.",
    ),
    (DeviceVerdict.REJECTED, "At least one required row is FAIL.", "Do not accept the device."),
    (
        DeviceVerdict.NOT_PROVEN,
        "Nothing failed, but not everything is proven.",
        "Do not accept the device yet; see to the rows that are not PASS.",
    ),
)

_CLASSES = {
    Verdict.PASS: "pass",
    Verdict.FAIL: "fail",
    DeviceVerdict.ACCEPTED: "pass",
    DeviceVerdict.REJECTED: "fail",
}


def verdict_class(verdict: Verdict | DeviceVerdict) -> str:
    """The look of a verdict: "pass", "fail" or "unproven"; each has a shape and a colour of its own."""
    return _CLASSES.get(verdict, "unproven")
