"""The always-valid bound: the formula against its definition, and how often it decides wrongly."""

from __future__ import annotations

import math
import random

import pytest
from test_statistics import ar1, samples_of

from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.sequential import ALPHA, evidence, log_e_value, side_of, side_of_limit

L = 2.3e9


def marginal(values, precision, *, effects):
    """Likelihood of values over all sigma (prior 1/sigma) and effects, by plain numerical integration."""
    total = 0.0
    count = len(values)
    for step in range(-240, 241):  # log sigma
        sigma = math.exp(step / 40)
        for effect in effects:
            weight = math.exp(-precision * effect * effect / 2) * math.sqrt(precision / (2 * math.pi))
            squares = sum((value / sigma - effect) ** 2 for value in values)
            total += weight * math.exp(-squares / 2) * sigma**-count
    return total


def test_the_formula_is_the_ratio_of_likelihoods():
    """E of the closed form against the integral that it stands for, without any of its algebra."""
    precision, grid = 0.1, 0.1
    for values in ([1.0, 1.5, 0.7, 1.2, 0.9], [0.3, -0.5, 0.9, -0.1], [2.0, 2.2, 1.8, 2.1, 1.9, 2.05]):
        count = len(values)
        mean = sum(values) / count
        sd = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
        effects = [grid * index for index in range(-250, 251)]
        alternative = marginal(values, precision, effects=effects) * grid
        null = marginal(values, precision, effects=[0.0]) / math.sqrt(precision / (2 * math.pi))
        assert log_e_value(mean, sd, count) == pytest.approx(math.log(alternative / null), abs=0.01)


def test_its_mean_at_the_limit_is_one_or_less():
    """What makes it an e-value: on independent normal intervals at the limit its expectation is at most 1."""
    rng = random.Random(1)
    values = []
    for _ in range(4000):
        draws = [rng.gauss(0, 1) for _ in range(10)]
        mean = sum(draws) / 10
        sd = math.sqrt(sum((draw - mean) ** 2 for draw in draws) / 9)
        values.append(math.exp(log_e_value(mean, sd, 10)))
    assert sum(values) / len(values) < 1.6  # heavy-tailed: the mean of 4000 scatters
    assert sum(value >= 50 for value in values) / len(values) <= 0.02  # Markov


def test_few_effective_intervals_never_decide():
    enough = math.log(1 / (2 * ALPHA))
    for n_eff in (0.5, 1.0, 2.0, 3.0):
        assert log_e_value(1e12, 1.0, n_eff) < enough
    assert log_e_value(1e12, 1.0, 4.0) > enough
    assert log_e_value(1e300, 1e-300, 10) > enough, "too far for a float is far"
    assert log_e_value(1.0, 0.0, 10) == 0.0, "no scale, no evidence"


@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_a_line_limited_series_decides_without_any_noise(factor):
    samples = samples_of([L * factor] * 10)
    assert side_of(samples, L) == ("above" if factor > 1 else "below")
    assert evidence(samples, L).decides
    assert side_of(samples, L * factor) is None, "at the limit itself nothing decides"


def test_the_last_quarter_must_agree():
    samples = samples_of([L * 1.05] * 30)
    assert side_of(samples, L) == "above"
    crossed = samples[:27] + samples_of([L * 0.999] * 3)
    assert evidence(crossed, L).decides
    assert side_of(crossed[-12:], L) is None


@pytest.mark.parametrize(
    ("low", "high", "factor", "side"),
    [
        (L, None, 1.02, "good"),
        (L, None, 0.98, "bad"),
        (None, L, 0.98, "good"),
        (None, L, 1.02, "bad"),
        (L, 1.1 * L, 1.05, "good"),
        (L, 1.1 * L, 0.95, "bad"),
        (L, 1.1 * L, 1.15, "bad"),
        (L, 1.1 * L, 1.1, None),
    ],
)
def test_each_kind_of_limit(low, high, factor, side):
    assert side_of_limit(samples_of([L * factor] * 12), ResolvedLimit("throughput", low, high, "limit")) == side


def looks(rng, phi, margin, sd):
    """The verdict and the interval of a run of 60 that is looked at after each one from 10 on."""
    samples = samples_of(ar1(rng, 60, phi, sd, L * (1 + margin)))
    for count in range(10, 61):
        side = side_of(samples[:count], L)
        if side is not None:
            return side, count
    return None, 60


@pytest.mark.parametrize(("phi", "most"), [(0.0, 0.01), (0.3, 0.02), (0.6, 0.06), (0.8, 0.18)])
def test_at_the_limit_itself_few_runs_decide(phi, most):
    """Both sides together; a t-test repeated as often decides in 7, 23, 58 and 86 % of them."""
    rng = random.Random(10)
    assert sum(looks(rng, phi, 0.0, 0.005)[0] is not None for _ in range(300)) / 300 <= most


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("margin", [-0.02, -0.01, 0.01, 0.02])
def test_a_margin_of_one_percent_is_decided_rightly_and_soon(phi, margin):
    rng = random.Random(11)
    found = [looks(rng, phi, margin, 0.005) for _ in range(100)]
    right, wrong = ("above", "below") if margin > 0 else ("below", "above")
    assert sum(side == wrong for side, _ in found) == 0
    assert sum(side == right for side, _ in found) >= 95
    assert sum(count for _, count in found) / 100 <= (20 if phi < 0.6 else 22)


def test_it_is_deterministic():
    samples = samples_of(ar1(random.Random(12), 40, 0.5))
    assert {evidence(samples, L) for _ in range(3)} == {evidence(list(samples), L)}
