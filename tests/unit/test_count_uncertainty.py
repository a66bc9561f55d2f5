"""The uncertainty of counts: what a share of frames leaves open, what is exact, what a test states itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.judge.count_uncertainty import (
    EXACT_COUNTS,
    STATED,
    counted_uncertainty,
    frames_of,
    loss_uncertainty,
    zero_loss_bound,
)


def binomial_tail(frames: int, at_most: int, share: float) -> float:
    """Probability of no more than so many losses."""
    return math.fsum(
        math.exp(
            math.lgamma(frames + 1) - math.lgamma(lost + 1) - math.lgamma(frames - lost + 1)
            + lost * math.log(share) + (frames - lost) * math.log1p(-share)
        )
        for lost in range(at_most + 1)
    )  # fmt: skip


def test_published_values():
    # binom.test(10, 100) of R: 0.0490 to 0.1762; for none (or all) of 20 the end has a closed form.
    assert 0.1 + loss_uncertainty(0.1, 100) == pytest.approx(0.1762, abs=5e-5)
    assert loss_uncertainty(0.0, 20) == pytest.approx(1 - 0.025 ** (1 / 20), rel=1e-9)
    assert loss_uncertainty(1.0, 20) == pytest.approx(1 - 0.025 ** (1 / 20), rel=1e-9)


@pytest.mark.parametrize("frames", [1, 10, 59, 1000, 250_000])
@pytest.mark.parametrize("lost", [0, 1, 2, 5, 20])
def test_beyond_its_end_so_few_losses_are_seen_in_2_5_percent_of_the_runs(frames, lost):
    lost = min(lost, frames // 2)
    top = lost / frames + loss_uncertainty(lost / frames, frames)
    assert binomial_tail(frames, lost, top) == pytest.approx(0.025, rel=1e-6)


@pytest.mark.parametrize("frames", [10, 59, 1000])
@pytest.mark.parametrize("lost", [1, 2, 5])
def test_the_other_side_is_guarded_more_than_enough(frames, lost):
    below = lost / frames - loss_uncertainty(lost / frames, frames)
    assert below <= 0 or 1 - binomial_tail(frames, lost - 1, below) <= 0.025 + 1e-9


@pytest.mark.parametrize(("frames", "lost"), [(10**7, 10**6), (10**9, 3), (10**6, 500_000)])
def test_large_runs_agree_with_the_normal_distribution(frames, lost):
    ratio = lost / frames
    found = loss_uncertainty(ratio, frames)
    if lost > 1000:
        assert found == pytest.approx(1.96 * math.sqrt(ratio * (1 - ratio) / frames), rel=0.01)
    else:
        assert (lost / frames + found) * frames == pytest.approx(8.767, rel=1e-3)  # Poisson, 3 seen (Garwood 1936)


@pytest.mark.parametrize("frames", [1, 3, 100, 84_321, 10**9])
def test_what_no_loss_leaves_possible(frames):
    bound = zero_loss_bound(frames)
    assert (1 - bound) ** frames == pytest.approx(0.05, rel=1e-6)
    assert bound <= 3 / frames
    assert bound == pytest.approx(3 / frames, rel=0.02 if frames > 99 else 1)
    assert bound < loss_uncertainty(0.0, frames)


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_any_share_has_a_finite_uncertainty_and_more_frames_say_more(counts):
    lost, frames = counts
    found = loss_uncertainty(lost / frames, frames)
    assert 0 < found <= 1
    assert loss_uncertainty(lost / frames, frames * 4) < found


FACTS = {"packets": 1000, "lost_packets": 10, "frame_loss_ratio": 0.01}
BOTH = {
    "forward_packets": 500,
    "forward_frame_loss_ratio": 0.0,
    "reverse_packets": 1000,
    "reverse_frame_loss_ratio": 0.01,
}


def test_frames_are_those_of_the_direction_that_counts():
    assert frames_of(0.01, FACTS) == 1000
    assert frames_of(0.01, BOTH) == 1000
    assert frames_of(0.0, BOTH) == 500
    assert frames_of(0.5, FACTS) is None
    assert frames_of(0.01, {}) is None
    assert frames_of(0.01, {**FACTS, "packets": 0}) is None
    assert frames_of(0.01, {**FACTS, "packets": "many"}) is None


def test_each_kind_says_where_its_uncertainty_comes_from():
    expanded, basis = counted_uncertainty("frame_loss_ratio", 0.01, FACTS)
    assert expanded == loss_uncertainty(0.01, 1000)
    assert "Clopper and Pearson for 1000 frames" in basis
    for quantity in EXACT_COUNTS:
        expanded, basis = counted_uncertainty(quantity, 12.0, {})
        assert (expanded, basis.startswith("exact: ")) == (0.0, True)


@pytest.mark.parametrize(
    ("quantity", "value", "facts", "says"),
    [
        ("frame_loss_ratio", 0.01, {}, "the number of frames is not known"),
        ("frame_loss_ratio", None, FACTS, "there is no value"),
        ("jitter", 0.001, {}, "none is determined for jitter"),
        ("power", 13.2, {"source": "recorded by the test"}, "the test states none: netperf_record("),
        ("errors", 3.0, {"source": "recorded by the test"}, "the test states none"),
        ("retransmits", 3.0, {"source": "recorded by the test", STATED: True}, "the test states none"),
    ],
)
def test_what_is_not_known_says_why(quantity, value, facts, says):
    expanded, why = counted_uncertainty(quantity, value, facts)
    assert expanded is None
    assert says in why


def test_what_a_test_states_counts():
    facts = {"source": "recorded by the test", STATED: 0.2}
    assert counted_uncertainty("power", 13.2, facts) == (0.2, "stated by the test")
    assert counted_uncertainty("frame_loss_ratio", 0.01, facts) == (0.2, "stated by the test")
