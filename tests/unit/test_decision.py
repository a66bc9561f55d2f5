"""Decision rules and profiles."""

from __future__ import annotations

import pytest

from pytest_netperf.errors import ConfigError
from pytest_netperf.judge.decision import ROLES, RULES, DecisionRule, get_rule
from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.profile import PROFILES, get_profile
from pytest_netperf.judge.verdict import Verdict

AT_LEAST = ResolvedLimit("throughput", 100.0, None, ">= 100")
AT_MOST = ResolvedLimit("retransmits", None, 100.0, "<= 100")
BETWEEN = ResolvedLimit("throughput", 100.0, 200.0, "between")
P, F, I = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE  # noqa: E741


@pytest.mark.parametrize(
    ("rule", "limit", "values"),
    [
        (get_rule("simple"), AT_LEAST, {99.99: F, 100: P, 100.01: P}),
        (get_rule("simple"), AT_MOST, {99.99: P, 100: P, 100.01: F}),
        (get_rule("simple"), BETWEEN, {99: F, 100: P, 200: P, 201: F}),
        (get_rule("guarded", "vendor"), AT_LEAST, {94: F, 99.99: F, 100: I, 104.99: I, 105: P}),
        (get_rule("guarded", "buyer"), AT_LEAST, {94.99: F, 95: I, 99.99: I, 100: P, 104: P}),
        (get_rule("guarded", "vendor"), AT_MOST, {95: P, 95.01: I, 100: I, 100.01: F}),
        (get_rule("guarded", "buyer"), AT_MOST, {100: P, 100.01: I, 105: I, 105.01: F}),
        (get_rule("guarded", "vendor"), BETWEEN, {99: F, 104: I, 105: P, 195: P, 196: I, 201: F}),
        (get_rule("guarded", "buyer"), BETWEEN, {94: F, 96: I, 100: P, 200: P, 204: I, 206: F}),
    ],
    ids=lambda value: f"{value.name}-{value.role}" if isinstance(value, DecisionRule) else None,
)
def test_each_rule_around_its_limits(rule, limit, values):
    assert {value: rule.decide(value, 5.0, limit) for value in values} == values


def test_a_guard_band_that_is_not_known_decides_nothing():
    for role in ROLES:
        rule = get_rule("guarded", role)
        for unknown in (None, float("nan"), -1.0):
            assert rule.decide(1e9, unknown, AT_LEAST) is I
            assert rule.decide(0.0, unknown, AT_LEAST) is I
    assert get_rule().decide(1e9, None, AT_LEAST) is P


def test_nan_never_passes():
    for rule in (get_rule(), get_rule("guarded", "vendor"), get_rule("guarded", "buyer")):
        for limit in (AT_LEAST, AT_MOST, BETWEEN):
            assert rule.decide(float("nan"), 1.0, limit) is not P


@pytest.mark.parametrize("value", [90.0 + step / 4 for step in range(80)])
def test_a_guard_band_only_takes_from_the_side_that_claims(value):
    simple = get_rule().decide(value, 5.0, AT_LEAST)
    vendor, buyer = (get_rule("guarded", role).decide(value, 5.0, AT_LEAST) for role in ROLES)
    assert vendor in (simple, I)
    assert buyer in (simple, I)
    assert (vendor is F) == (simple is F), "the vendor's rule makes no FAIL milder"
    assert (buyer is P) == (simple is P)


def test_every_rule_says_what_it_is_and_its_risk():
    texts = {rule.text for rule in (get_rule(), get_rule("guarded", "vendor"), get_rule("guarded", "buyer"))}
    assert len(texts) == 3
    assert "accepted" in get_rule("guarded", "vendor").risk
    assert "rejected" in get_rule("guarded", "buyer").risk
    assert "chance" in get_rule().risk


@pytest.mark.parametrize(
    ("name", "role", "says"),
    [
        ("gaurded", "vendor", "unknown decision rule 'gaurded' (did you mean 'guarded'?); known: simple, guarded."),
        ("guarded", None, "needs a role: vendor (proves conformity) or buyer"),
        ("guarded", "byer", "unknown role 'byer' (did you mean 'buyer'?); known: vendor, buyer."),
        ("simple", "vendor", "role 'vendor' has no meaning under the simple rule"),
        ("", None, "unknown decision rule ''; known"),
    ],
)
def test_wrong_rules(name, role, says):
    with pytest.raises(ConfigError) as error:
        get_rule(name, role)
    assert says in str(error.value)


def test_rules_that_exist():
    assert RULES == ("simple", "guarded")
    assert get_rule() == DecisionRule()


# ---- profiles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "duration_s", "omit_s", "fewest", "repetitions", "sequential"),
    [
        ("screening", 60, 3, 10, 1, True),
        ("type-test", 60, 3, 10, 5, False),
        ("soak", 1800, 3, 10, 1, False),
        ("smoke", 3, 0, 3, 1, False),
        ("fixed", 60, 3, 10, 1, False),
    ],
)
def test_profiles(name, duration_s, omit_s, fewest, repetitions, sequential):
    profile = get_profile(name)
    assert (profile.duration_s, profile.omit_s, profile.min_intervals) == (duration_s, omit_s, fewest)
    assert (profile.repetitions, profile.sequential) == (repetitions, sequential)
    assert profile.longest_s == duration_s + omit_s
    assert profile.purpose
    with pytest.raises(AttributeError):
        profile.duration_s = 1


def test_only_one_profile_stops_early():
    assert [name for name, profile in PROFILES.items() if profile.sequential] == ["screening"]
    assert all(name == profile.name for name, profile in PROFILES.items())


def test_an_unknown_profile():
    with pytest.raises(ConfigError) as error:
        get_profile("screning")
    assert "unknown profile 'screning' (did you mean 'screening'?); known: screening, type-test" in str(error.value)
