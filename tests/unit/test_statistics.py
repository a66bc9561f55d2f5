"""What a series says: each number against one that was worked out another way, and error rates by simulation."""

from __future__ import annotations

import math
import random
import statistics as plain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.judge import stationarity
from pytest_netperf.judge.statistics import (
    BURST_BITS,
    SCALE,
    Noise,
    Sample,
    Uncertainty,
    autocorrelations,
    correlation_time,
    floor_sd_bps,
    mean_rate_bps,
    mser5,
    noise_of,
    persistence,
    quantile,
    regroup,
    small_sample_factor,
    uncertainty_of,
    without_tail,
)

RATES = st.lists(st.floats(1e6, 1e11), min_size=10, max_size=60)


def samples_of(rates, seconds=1.0):
    return [Sample(seconds, rate * seconds) for rate in rates]


def ar1(rng, count, phi, sd=0.01, mean=2.3e9):
    noise, made = rng.gauss(0, 1), []
    for _ in range(count):
        made.append(mean * (1 + sd * noise))
        noise = phi * noise + math.sqrt(1 - phi * phi) * rng.gauss(0, 1)
    return made


# ---- the window ------------------------------------------------------------------------------------------------------


def test_the_value_weighs_intervals_by_their_length():
    samples = [Sample(1.0, 1e9), Sample(3.0, 6e9)]
    assert mean_rate_bps(samples) == 7e9 / 4  # the mean of the two rates would be 1.5e9
    with pytest.raises(ValueError, match="at least one interval"):
        mean_rate_bps([])


@pytest.mark.parametrize(("tail_s", "kept"), [(0.09, 10), (0.099, 10), (0.11, 11), (1.0, 11)])
def test_a_tail_below_a_tenth_is_dropped(tail_s, kept):
    samples = [*samples_of([1e9] * 10), Sample(tail_s, 3e9 * tail_s)]
    assert len(without_tail(samples)) == kept
    assert without_tail(samples[:1]) == samples[:1]


def test_short_intervals_are_joined_and_nothing_is_lost():
    samples = [Sample(0.1, 1e8 + index) for index in range(25)]
    joined = regroup(samples)
    assert [round(sample.seconds, 6) for sample in joined] == [1.0, 1.0, 0.5]
    assert sum(sample.bits for sample in joined) == sum(sample.bits for sample in samples)
    seconds = [Sample(0.998, 1e9), Sample(1.002, 1e9), Sample(10.0, 1e10)]
    assert regroup(seconds) == seconds


def naive_mser5(values):
    """The definition, without any running sums."""
    means = [plain.fmean(values[at : at + 5]) for at in range(0, len(values) - len(values) % 5, 5)]
    errors = {
        cut: plain.pvariance(means[cut:]) / len(means[cut:])
        for cut in range(len(means))
        if len(means) - cut > 1 and cut * 5 <= len(values) / 2
    }
    return 5 * min(errors, key=errors.get) if errors else 0


@pytest.mark.parametrize("seed", range(30))
def test_mser5_is_its_definition(seed):
    rng = random.Random(seed)
    values = [rng.gauss(10, 1) - (5 if index < rng.choice((0, 7, 15)) else 0) for index in range(rng.randint(0, 70))]
    assert mser5(values) == naive_mser5(values)


@pytest.mark.parametrize(("low", "cut"), [(0, 0), (3, 5), (5, 5), (12, 15)])
def test_mser5_cuts_a_ramp(low, cut):
    assert mser5([1.0] * low + [2.0 + 0.001 * (index % 3) for index in range(60 - low)]) == cut


@given(RATES)
def test_mser5_never_cuts_more_than_half(rates):
    assert 0 <= mser5(rates) <= len(rates) / 2


def test_quantiles_are_those_of_the_standard_library():
    values = [7.0, 1.0, 5.0, 3.0, 9.0, 2.0]
    cuts = plain.quantiles(values, n=20, method="inclusive")
    assert [quantile(values, share / 20) for share in range(1, 20)] == pytest.approx(cuts)
    assert (quantile(values, 0), quantile(values, 1)) == (1.0, 9.0)
    for values, share in (([], 0.5), ([1.0], 1.1), ([1.0], math.nan)):
        with pytest.raises(ValueError, match="share from 0 to 1"):
            quantile(values, share)


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_autocorrelation_of_a_series_worked_out_by_hand():
    # Deviations -1.5, -0.5, 0.5, 1.5: squares 5; lag 1: 0.75 - 0.25 + 0.75; lag 2: -0.75 - 0.75.
    assert autocorrelations([1.0, 2.0, 3.0, 4.0], 2) == pytest.approx([1, 1.25 / 5, -1.5 / 5])
    assert autocorrelations([5.0] * 4, 2) == [1, 0, 0]


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.8])
def test_the_correlation_time_of_long_series(phi):
    rng = random.Random(1)
    found = plain.fmean(correlation_time(ar1(rng, 2000, phi)) for _ in range(10))
    assert found == pytest.approx((1 + phi) / (1 - phi), rel=0.15)


def test_the_correlation_time_is_at_least_one():
    assert correlation_time([1.0, 2.0] * 30) == 1.0
    assert correlation_time([1.0] * 30) == 1.0
    assert correlation_time([1.0, 2.0]) == 1.0


def test_short_series_are_drawn_towards_a_typical_link_and_long_ones_are_not():
    assert persistence(0.0, 10_000) == pytest.approx(0, abs=0.01)
    assert persistence(0.7, 10_000) == pytest.approx(0.7, abs=0.01)
    assert 0.25 < persistence(0.0, 10) < 0.45
    assert persistence(0.0, 10, usual_s=10.0) < persistence(0.0, 10), "after ten seconds less is left of it"
    assert persistence(-1.0, 10_000) == 0.0
    assert persistence(1.0, 200) == 0.92
    assert persistence(0.5, 3) < 0.6, "nothing to correct with"


def test_noise_of_a_constant_series_is_what_clocks_and_lots_leave_open():
    noise = noise_of(samples_of([2.353e9] * 20))
    assert noise == Noise(20, floor_sd_bps(2.353e9, 1.0), 1.0)
    assert noise.n_eff == 20
    assert 2.353e9 * SCALE < noise.sd_bps < 2.353e9 * 3e-4
    assert floor_sd_bps(1e9, 10.0) < floor_sd_bps(1e9, 1.0), "the edge of a long interval weighs less"
    assert floor_sd_bps(1e5, 1.0) < 1e5 * 1e-3, "a slow link is not counted in lots of 64 KiB"
    assert noise_of(samples_of([0.0] * 20)) == Noise(20, 0.0, 1.0)
    assert noise_of(samples_of([1e9])).intervals == 1


def test_a_creep_of_a_ppm_is_no_uncertainty():
    creeping = noise_of(samples_of([2.353e9 * (1 + 1e-7 * index) for index in range(20)]))
    assert creeping.tau == pytest.approx(1.0, abs=0.01)


# ---- uncertainty -----------------------------------------------------------------------------------------------------


def test_the_parts_of_the_uncertainty_add_as_squares_and_the_unknown_is_not_zero():
    assert Uncertainty(3.0, None, 4.0).expanded_bps == 10.0
    assert Uncertainty(3.0, 12.0, 4.0).expanded_bps == 26.0
    samples = samples_of([1e9] * 30)
    noise = noise_of(samples)
    assert uncertainty_of(samples, noise).between_bps is None
    assert uncertainty_of(samples, noise, run_values_bps=[1e9]).between_bps is None, "one run has no spread"
    assert uncertainty_of(samples, noise, declared_between=0.0087).between_bps == 0.0087e9
    values = [1.00e9, 1.01e9, 0.99e9, 1.02e9, 0.98e9]
    expected = plain.stdev(values) / math.sqrt(5) * math.sqrt(4 / 2)
    repeated = uncertainty_of(samples, noise, run_values_bps=values, declared_between=0.5)
    assert repeated.between_bps == pytest.approx(expected), "what was seen goes before what was declared"


def test_the_resolution_is_that_of_two_edges_and_two_clocks():
    samples = samples_of([1e9] * 10)
    edges, clocks = BURST_BITS * math.sqrt(2 / 12) / 10, 1e-4 * 1e9 / math.sqrt(3)
    assert uncertainty_of(samples, noise_of(samples)).resolution_bps == pytest.approx(math.hypot(edges, clocks))


def test_students_factor():
    assert small_sample_factor(1e9) == pytest.approx(1)
    assert small_sample_factor(10) == math.sqrt(9 / 7)
    assert small_sample_factor(1.0) == small_sample_factor(4.0) == math.sqrt(3)


@pytest.mark.parametrize(("phi", "least"), [(0.0, 0.93), (0.3, 0.91), (0.6, 0.86)])
def test_u_covers_the_true_rate(phi, least):
    """About 95 % is what k = 2 promises; taking the intervals for independent covers 62 % at phi 0.6."""
    rng = random.Random(2)
    covered = independent = 0
    for _ in range(300):
        samples = samples_of(ar1(rng, 30, phi))
        noise = noise_of(samples)
        off = abs(mean_rate_bps(samples) - 2.3e9)
        covered += off <= uncertainty_of(samples, noise).expanded_bps
        independent += off <= 2 * noise.sd_bps / math.sqrt(30)
    assert covered / 300 >= least
    assert phi < 0.6 or independent / 300 < 0.75


@given(RATES)
def test_whatever_the_rates_the_numbers_are_finite(rates):
    samples = samples_of(rates)
    noise = noise_of(samples)
    uncertainty = uncertainty_of(samples, noise)
    assert 1 <= noise.tau < math.inf
    assert 0 < noise.sd_bps < math.inf
    assert 0 < uncertainty.expanded_bps < math.inf
    assert noise_of(samples) == noise


# ---- shapes ----------------------------------------------------------------------------------------------------------


def test_a_step_is_found_where_it_is():
    rng = random.Random(3)
    shape = stationarity.step(samples_of(ar1(rng, 20, 0.3, 0.001) + ar1(rng, 30, 0.3, 0.001, 2.2e9)))
    assert shape is not None
    assert (shape.kind, shape.at) == ("step", 20)
    assert shape.levels_bps == pytest.approx((2.3e9, 2.2e9), rel=1e-3)
    assert shape.unexplained < 0.02


def test_the_best_step_is_that_of_an_exhaustive_search():
    rng = random.Random(4)
    rates = [rng.gauss(1e9, 1e6) + (5e7 if index >= 17 else 0) for index in range(40)]
    squares = {
        at: sum(len(part) * plain.pvariance(part) for part in (rates[:at], rates[at:]))
        for at in range(3, len(rates) - 2)
    }
    shape = stationarity.step(samples_of(rates))
    assert shape is not None
    assert shape.at == min(squares, key=squares.get) == 17
    assert shape.unexplained == pytest.approx(min(squares.values()) / (40 * plain.pvariance(rates)))


@pytest.mark.parametrize("find", [stationarity.step, stationarity.trend, stationarity.bimodality])
def test_what_does_not_matter_or_cannot_be_seen_is_no_shape(find):
    assert find(samples_of([1e9] * 9)) is None, "too few"
    assert find(samples_of([1e9] * 5 + [1e6] * 4)) is None, "too few, however far"
    assert find(samples_of([1e9] * 60)) is None, "constant"
    assert find(samples_of([1e9] * 30 + [1.0005e9] * 30)) is None, "0.05 % matters to nobody"
    assert find(samples_of([0.0] * 60)) is None, "nothing"


def test_a_trend():
    rng = random.Random(5)
    rates = [rate * (1 - 0.001 * index) for index, rate in enumerate(ar1(rng, 60, 0.3, 0.002))]
    shape = stationarity.trend(samples_of(rates))
    assert shape is not None
    assert shape.levels_bps == pytest.approx((2.3e9, 2.3e9 * 0.941), rel=5e-3)
    stepped = stationarity.step(samples_of(rates))
    assert stepped is None or shape.unexplained < stepped.unexplained, "a line describes it better than a step"


def test_two_modes():
    rng = random.Random(6)
    rates = [rng.choice((2.35e9, 2.35e9, 1.9e9)) * rng.gauss(1, 0.002) for _ in range(60)]
    shape = stationarity.bimodality(samples_of(rates))
    assert shape is not None
    assert shape.levels_bps == pytest.approx((1.9e9, 2.35e9), rel=2e-3)
    assert stationarity.bimodality(samples_of([rng.uniform(1e9, 2e9) for _ in range(60)])) is None
    one_dip = [2.35e9 * rng.gauss(1, 0.002) for _ in range(59)] + [1e9]
    assert stationarity.bimodality(samples_of(one_dip)) is None
    assert stationarity.outliers(samples_of(one_dip)) == [59]


def test_stalls_and_outliers():
    rates = [1e9, 1.001e9] * 10
    assert stationarity.outliers(samples_of(rates)) == []
    assert stationarity.stalls(samples_of(rates)) == []
    rates[3] = 0.0
    rates[7] = 5e6
    assert stationarity.stalls(samples_of(rates)) == [3, 7]
    assert stationarity.outliers(samples_of(rates)) == [3, 7]
    assert stationarity.stalls(samples_of([0.0] * 4)) == [0, 1, 2, 3]
    assert stationarity.stalls([]) == []
    assert stationarity.outliers(samples_of([1e9] * 30 + [1.005e9])) == [], "half a percent is none"


@pytest.mark.parametrize("count", [12, 57])
@pytest.mark.parametrize(("phi", "most"), [(0.0, 0.01), (0.3, 0.015), (0.6, 0.03)])
def test_steady_series_are_seldom_called_unsteady(phi, count, most):
    rng = random.Random(7)
    false = 0
    for _ in range(400):
        samples = samples_of(ar1(rng, count, phi, 0.02))
        false += stationarity.step(samples) is not None or stationarity.bimodality(samples) is not None
    assert false / 400 <= most


def test_a_step_of_five_standard_deviations_is_seldom_missed():
    rng = random.Random(8)
    seen = 0
    for _ in range(100):
        rates = ar1(rng, 30, 0.3, 0.005) + ar1(rng, 30, 0.3, 0.005, 2.3e9 * 0.975)
        seen += stationarity.step(samples_of(rates)) is not None
    assert seen >= 97


def test_a_long_series_takes_linear_time():
    """5,000 intervals, all of it, within what a quadratic algorithm in plain Python would never do."""
    import time

    samples = samples_of(ar1(random.Random(9), 5000, 0.6))
    began = time.process_time()
    uncertainty_of(samples, noise_of(samples))
    for find in (stationarity.step, stationarity.trend, stationarity.bimodality, stationarity.outliers):
        find(samples)
    mser5([sample.rate_bps for sample in samples])
    assert time.process_time() - began < 2
