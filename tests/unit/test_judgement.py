"""One measurement against one limit: every verdict, its words and its numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.judge.judgement import Measured, judge
from pytest_netperf.judge.limit_text import parse_limit
from pytest_netperf.judge.limits import ResolvedLimit, resolve
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import get_quantity, parse_rate

CEILING_BPS = 2_353_706_111.8


def measured(value: float | None = 2.35e9, quantity: str = "throughput", **known) -> Measured:
    about = get_quantity(quantity)
    known.setdefault("trusted", True)
    return Measured(quantity=about.name, unit=about.unit, better=about.better, value=value, **known)


def required(text: str, quantity: str = "throughput", **known) -> ResolvedLimit:
    return resolve(parse_limit(quantity, text), **known)


@pytest.mark.parametrize(
    ("quantity", "value", "text", "verdict", "reason", "margin"),
    [
        (
            "throughput",
            1.897e9,
            ">= 2.3 Gbps",
            "FAIL",
            "1.897 Gbit/s is below the required 2.3 Gbit/s (17.5 % short).",
            -0.17522,
        ),
        (
            "throughput",
            2.35e9,
            ">= 2.3 Gbps",
            "PASS",
            "2.35 Gbit/s meets the required 2.3 Gbit/s (2.17 % above).",
            0.02174,
        ),
        ("throughput", 2.3e9, ">= 2.3 Gbps", "PASS", "2.3 Gbit/s meets the required 2.3 Gbit/s.", 0),
        (
            "throughput",
            2.2999999e9,
            ">= 2.3 Gbps",
            "FAIL",
            "2.2999999 Gbit/s is below the required 2.3 Gbit/s (0.00000435 % short).",
            -4.3478e-8,
        ),
        ("retransmits", 120, "<= 50", "FAIL", "120 is above the allowed 50 (140 % over).", -1.4),
        ("retransmits", 51, "<= 50", "FAIL", "51 is above the allowed 50 (2 % over).", -0.02),
        ("retransmits", 50, "<= 50", "PASS", "50 is within the allowed 50.", 0),
        ("retransmits", 0, "<= 50", "PASS", "0 is within the allowed 50.", 1),
        ("retransmits", 0, "<= 0", "PASS", "0 is within the allowed 0.", None),
        ("retransmits", 1, "<= 0", "FAIL", "1 is above the allowed 0.", None),
        (
            "throughput",
            2.4e9,
            "between 2.3 and 2.5 Gbps",
            "PASS",
            "2.4 Gbit/s is between 2.3 Gbit/s and 2.5 Gbit/s.",
            0.04,
        ),
        (
            "throughput",
            2.6e9,
            "between 2.3 and 2.5 Gbps",
            "FAIL",
            "2.6 Gbit/s is above the allowed 2.5 Gbit/s (4 % over).",
            -0.04,
        ),
        (
            "throughput",
            2.2e9,
            "between 2.3 and 2.5 Gbps",
            "FAIL",
            "2.2 Gbit/s is below the required 2.3 Gbit/s (4.35 % short).",
            -0.04348,
        ),
        ("temperature", -7, "between -5 and 60 degC", "FAIL", "-7 \u00b0C is below the required -5 \u00b0C.", None),
        (
            "temperature",
            70,
            "between -5 and 60 degC",
            "FAIL",
            "70 \u00b0C is above the allowed 60 \u00b0C (16.7 % over).",
            -0.16667,
        ),
        (
            "temperature",
            61.5,
            "<= 60 degC",
            "FAIL",
            "61.5 \u00b0C is above the allowed 60 \u00b0C (2.5 % over).",
            -0.025,
        ),
        ("jitter", 13.2e-3, "<= 1 ms", "FAIL", "13.2 ms is above the allowed 1 ms (1220 % over).", -12.2),
        ("frame_loss_ratio", 0.005, "<= 0.1 %", "FAIL", "0.5 % is above the allowed 0.1 % (400 % over).", -4),
        ("power", 13.5, "<= 15 W", "PASS", "13.5 W is within the allowed 15 W.", 0.1),
    ],
)
def test_verdict_reason_and_margin(quantity, value, text, verdict, reason, margin):
    found = judge(measured(value, quantity), required(text, quantity))
    assert found.verdict is Verdict[verdict]
    assert found.reason == reason
    assert found.margin == (None if margin is None else pytest.approx(margin, rel=1e-4))
    assert (found.next_step is None) == (verdict == "PASS")


def test_the_smallest_miss_is_a_fail_and_shows():
    value = math.nextafter(2.3e9, 0)
    found = judge(measured(value), required(">= 2.3 Gbps"))
    assert found.verdict is Verdict.FAIL
    shown = found.reason.split(" is below the required ")[0]
    assert parse_rate(shown) == value
    assert shown != "2.3 Gbit/s"
    assert found.margin is not None
    assert found.margin < 0


def test_a_relative_limit_says_what_it_relates_to():
    limit = required(">= 98 % of ceiling", ceiling=CEILING_BPS)
    assert judge(measured(1.897e9), limit).reason == (
        "1.897 Gbit/s is below the required 2.307 Gbit/s, 98 % of ceiling (17.8 % short)."
    )
    assert judge(measured(2.35e9), limit).reason == (
        "2.35 Gbit/s meets the required 2.307 Gbit/s, 98 % of ceiling (1.88 % above)."
    )


INVALID = [
    ({"value": math.nan}, "The value nan is not a finite number."),
    ({"value": math.inf}, "The value inf is not a finite number."),
    ({"value": -math.inf}, "The value -inf is not a finite number."),
    ({"value": 10**400}, "is not a finite number"),
    ({"value": True}, "The value True is not a finite number."),
    ({"value": "9.8 Gbps"}, "The value '9.8 Gbps' is not a finite number."),
    ({"value": -1.0}, "-1 bit/s is below zero, which throughput cannot be."),
    ({"value": 0.0}, "Nothing was received: throughput is 0."),
    ({"received_bytes": 0}, "No payload byte reached the receiver."),
    ({"trusted": False, "trust_reason": "The run was cut short."}, "cannot be trusted: The run was cut short."),
    ({"trusted": False, "value": None}, "cannot be trusted: no reason was given."),
    ({"invalid": ("The counters disagree.", "Twice.")}, "The counters disagree. Twice."),
    ({"invalid": ("Reset.",), "value": None}, "Reset."),
    ({"value": 2.36e9, "bound": CEILING_BPS}, "2.36 Gbit/s is above 2.354 Gbit/s, the most that physics allows here"),
    ({"bound": math.nan}, "the most that physics allows here"),
]


@pytest.mark.parametrize(("known", "reason"), INVALID)
@pytest.mark.parametrize("text", [">= 1 bit/s", "<= 1 Tbit/s", None])
def test_what_cannot_be_true_is_invalid_whatever_is_required(known, reason, text):
    found = judge(replace(measured(), **known), required(text) if text else None)
    assert found.verdict is Verdict.INVALID
    assert reason in found.reason
    assert found.next_step
    assert found.margin is None


def test_a_value_may_exceed_the_bound_by_clock_tolerance_and_burst_only():
    limit = required(">= 2.3 Gbps")
    within, beyond = CEILING_BPS * (1 + 199e-6), CEILING_BPS * (1 + 201e-6)
    assert judge(measured(within, bound=CEILING_BPS), limit).verdict is Verdict.PASS
    assert judge(measured(beyond, bound=CEILING_BPS), limit).verdict is Verdict.INVALID
    assert judge(measured(beyond, bound=CEILING_BPS, bound_tolerance=1e-4), limit).verdict is Verdict.PASS
    assert (
        judge(measured(CEILING_BPS * (1 + 301e-6), bound=CEILING_BPS, bound_tolerance=1e-4), limit).verdict
        is Verdict.INVALID
    )
    close = judge(measured(beyond, bound=CEILING_BPS), limit).reason
    assert "2.3542 Gbit/s is above 2.3537 Gbit/s" in close
    assert "(0.0201 % over)" in close


def test_zero_is_a_fine_count_but_not_of_a_run_without_bytes():
    limit = required("<= 50", "retransmits")
    assert judge(measured(0, "retransmits"), limit).verdict is Verdict.PASS
    assert judge(measured(0, "retransmits", received_bytes=0), limit).verdict is Verdict.INVALID
    assert judge(measured(-1, "retransmits"), limit).verdict is Verdict.INVALID
    assert judge(measured(-4.0, "temperature"), required("<= 60 degC", "temperature")).verdict is Verdict.PASS


def test_the_bench_is_to_blame_before_anything_else():
    broken = measured(None, error="iperf3 is not installed.", trusted=False, invalid=("x",), tester_limited="y")
    found = judge(broken, None)
    assert (found.verdict, found.reason) == (Verdict.ERROR, "iperf3 is not installed.")
    assert "not to blame" in found.next_step


def test_never_measured_is_not_proven():
    found = judge(measured(None, "power"), required("<= 15 W", "power"))
    assert (found.verdict, found.reason) == (Verdict.INCONCLUSIVE, "power was never measured.")
    assert "netperf_record()" in found.next_step


def test_without_a_limit_nothing_is_proven():
    found = judge(measured(2.35e9), None)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason == "2.35 Gbit/s was measured, but no limit applies to it."
    assert "netperf_limit" in found.next_step
    assert judge(measured(), None, no_limit="The ceiling is not known.").reason == "The ceiling is not known."


def test_a_limit_of_another_quantity_is_our_fault_and_never_a_pass():
    found = judge(measured(40, "retransmits"), required("<= 60 degC", "temperature"))
    assert found.verdict is Verdict.ERROR
    assert "fault of pytest-netperf" in found.reason


CPU = "CPU 1 of this machine was 99 % busy."


@pytest.mark.parametrize(
    ("quantity", "value", "text", "bound", "verdict"),
    [
        # A lower bound that is met stays met; one that is missed may be the tester's doing.
        ("throughput", 2.35e9, ">= 2.3 Gbps", None, "PASS"),
        ("throughput", 1.9e9, ">= 2.3 Gbps", None, "INCONCLUSIVE"),
        # A device must hold a rate down: a tester that is too slow cannot prove it, and cannot excuse it.
        ("throughput", 0.9e9, "<= 1 Gbps", None, "INCONCLUSIVE"),
        ("throughput", 1.1e9, "<= 1 Gbps", None, "FAIL"),
        ("throughput", 0.9e9, "<= 1 Gbps", 0.95e9, "PASS"),  # no faster tester could make it more
        ("throughput", 2.35e9, "between 2.3 and 2.5 Gbps", CEILING_BPS, "PASS"),
        ("throughput", 2.35e9, "between 2.3 and 2.35 Gbps", CEILING_BPS, "INCONCLUSIVE"),
        ("throughput", 2.2e9, "between 2.3 and 2.5 Gbps", CEILING_BPS, "INCONCLUSIVE"),
        ("retransmits", 10, "<= 50", None, "PASS"),
        ("retransmits", 90, "<= 50", None, "INCONCLUSIVE"),
        ("retransmits", 90, ">= 50", None, "INCONCLUSIVE"),
        ("retransmits", 10, ">= 50", None, "FAIL"),
        ("jitter", 2e-3, "<= 1 ms", None, "INCONCLUSIVE"),
        # What a busy tester does not change is judged as ever.
        ("link_speed", 1e9, ">= 2.5 Gbps", None, "FAIL"),
        ("power", 16, "<= 15 W", None, "FAIL"),
    ],
)
def test_a_limited_tester(quantity, value, text, bound, verdict):
    found = judge(measured(value, quantity, bound=bound, tester_limited=CPU), required(text, quantity))
    assert found.verdict is Verdict[verdict]
    if verdict == "INCONCLUSIVE":
        assert found.reason.endswith(f", but the tester may be the cause: {CPU}")
        assert "faster tester" in found.next_step


def test_an_open_quantity_with_a_limited_tester_proves_nothing():
    from pytest_netperf.quantities import Quantity

    about = Quantity("x", "dBA", "none", "", "")
    limit = ResolvedLimit("x", None, 50, "<= 50 dBA")
    base = Measured(quantity="x", unit=about.unit, better="none", value=40.0, trusted=True)
    assert judge(base, limit).verdict is Verdict.PASS
    assert judge(replace(base, tester_limited=CPU), limit).verdict is Verdict.INCONCLUSIVE


numbers = st.floats() | st.floats(0, 3e9) | st.integers(-5, 5) | st.none()
cases = st.builds(
    measured,
    numbers,
    st.sampled_from(["throughput", "retransmits"]),
    bound=st.none() | st.floats(1e8, 3e9),
    trusted=st.booleans(),
    received_bytes=st.none() | st.integers(0, 2),
    invalid=st.sampled_from([(), (), ("no",)]),
    error=st.sampled_from([None, None, "no"]),
    tester_limited=st.sampled_from([None, CPU]),
)
bounds = st.none() | st.floats(0, 3e9)


@given(cases, bounds, bounds)
def test_a_pass_always_has_evidence(case, low, high):
    limit = None if low is None and high is None else ResolvedLimit(case.quantity, low, high, "some")
    found = judge(case, limit)
    assert found.reason
    if found.verdict is Verdict.PASS:
        assert limit is not None
        assert case.trusted
        assert case.error is None
        assert case.invalid == ()
        assert case.received_bytes != 0
        assert case.value is not None
        assert math.isfinite(case.value)
        assert low is None or case.value >= low
        assert high is None or case.value <= high
        assert case.bound is None or case.value <= case.bound * 1.0002
    elif found.verdict is Verdict.FAIL:
        assert found.margin is None or found.margin <= 0
        assert (low is not None and case.value < low) or (high is not None and case.value > high)
        assert case.trusted
        assert case.error is None
    else:
        assert found.next_step


@given(cases, bounds, bounds)
def test_nothing_that_is_held_against_a_value_turns_it_into_a_pass(case, low, high):
    limit = ResolvedLimit(case.quantity, low, high, "some") if (low, high) != (None, None) else None
    plain = replace(case, invalid=(), error=None, tester_limited=None, trusted=True, received_bytes=None)
    if judge(plain, limit).verdict is not Verdict.PASS:
        assert judge(case, limit).verdict is not Verdict.PASS
    if judge(plain, limit).verdict is not Verdict.FAIL:
        assert judge(case, limit).verdict is not Verdict.FAIL


@given(st.floats(1, 1e12), st.floats(1, 1e12))
def test_a_reason_never_says_that_a_number_is_below_itself(value, low):
    found = judge(measured(value), ResolvedLimit("throughput", low, None, "some"))
    if found.verdict is Verdict.FAIL:
        shown, _, rest = found.reason.partition(" is below the required ")
        assert not rest.startswith((f"{shown} ", f"{shown}."))
        assert "(0 % short)" not in found.reason
