"""Series judged as if live, the CSV they come from, and the rows of a journal judged again."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_statistics import ar1, samples_of

from pytest_netperf.errors import RecordError
from pytest_netperf.judge.decision import get_rule
from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.limits_file import parse_limits_file
from pytest_netperf.judge.profile import PROFILES, get_profile
from pytest_netperf.judge.replay import judge_row, parse_series
from pytest_netperf.judge.series import SeriesJudge, judge_series
from pytest_netperf.judge.statistics import Sample, mean_rate_bps
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.physics import goodput_ceiling_bps
from pytest_netperf.record.schema import DeviceInfo, Evidence, Row, SeriesPoint

LIMIT = ResolvedLimit("throughput", 2.3e9, None, ">= 2.3 Gbit/s")
BOUND = goodput_ceiling_bps(2.5e9, 1500)
SCREENING, FIXED, SIMPLE = get_profile("screening"), get_profile("fixed"), get_rule()


def steady(factor=1.02, count=63, phi=0.3, sd=0.002, seed=1):
    return samples_of(ar1(random.Random(seed), count, phi, sd, 2.3e9 * factor))


def screened(samples, **more):
    return judge_series(samples, LIMIT, SCREENING, SIMPLE, **more)


# ---- the file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "seconds,bits\n1,100\n1.5,2e2\n",
        "seconds,bits\n1,100\n1.5,200",
        "\ufeffseconds,bits\r\n1,100\r\n1.5,200\r\n",
        "# iperf3 -J\nseconds , bits\n 1 , 100 \n# half-way\n\t1.50,200.0\n\n\n",
        "seconds,bits\n+1.,.1e3\n1.5,+200\n",
    ],
)
def test_what_a_series_file_may_look_like(text):
    assert parse_series(text, "a.csv") == [Sample(1.0, 100.0), Sample(1.5, 200.0)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a.csv: the file is empty; expected the header seconds,bits"),
        ("\n\n# only\n", "a.csv, line 1: found an empty line; expected the header"),
        ("# only\n", "a.csv: the file is empty"),
        ("seconds,bits\n", "a.csv: no interval follows the header"),
        ("1.0,2353000000\n", "a.csv, line 1: found '1.0,2353000000'; expected the header seconds,bits."),
        ("bits,seconds\n1,1\n", "a.csv, line 1: found 'bits,seconds'; expected the header"),
        ("seconds,bits,retransmits\n1,1,0\n", "line 1: found 'seconds,bits,retransmits'"),
        ("seconds;bits\n1;1\n", "line 1: found 'seconds;bits'"),
        ("seconds,bits\n1,1\n1\n", "a.csv, line 3: found '1'; expected two numbers"),
        ("seconds,bits\n1,1,1\n", "line 2: found '1,1,1'"),
        ("seconds,bits\n1,1\n\n1,1\n", "line 3: found an empty line"),
        ("seconds,bits\n1,\n", "line 2: bits is empty; expected a number."),
        ("seconds,bits\n,5\n", "line 2: seconds is empty"),
        ("seconds,bits\n1,NaN\n", "line 2: bits is NaN; expected a finite number."),
        ("seconds,bits\ninf,5\n", "line 2: seconds is inf"),
        ("seconds,bits\n1,-Infinity\n", "line 2: bits is -Infinity; expected a finite"),
        ("seconds,bits\n1,-5\n", "line 2: bits is '-5', below zero"),
        ("seconds,bits\n-1,5\n", "line 2: seconds is '-1', below zero"),
        ("seconds,bits\n0,5\n", "line 2: seconds is 0; expected the length of the interval, above zero."),
        ("seconds,bits\n1e-300,5\n", "seconds is 1e-300; expected the length"),
        ("seconds,bits\n1e7,5\n", "seconds is 1e7; expected the length"),
        ("seconds,bits\n1,1e999\n", "bits is 1e999, more than any link"),
        ("seconds,bits\n1,2.3 Gbit\n", "line 2: bits is '2.3 Gbit'; expected a plain number"),
        ("seconds,bits\n1,1_000\n", "bits is '1_000'"),
        ("seconds,bits\n1,0x10\n", "bits is '0x10'"),
        ('seconds,bits\n"1","5"\n', "seconds is '\"1\"'"),
        ("seconds,bits\n1,\u0661\n", "bits is '\u0661'"),
        ("seconds,bits\n1," + "9" * 60 + "x\n", "..."),
    ],
)
def test_everything_else_is_refused_with_its_place(text, says):
    with pytest.raises(RecordError) as error:
        parse_series(text, "a.csv")
    assert says in str(error.value)
    assert str(error.value).startswith("a.csv")


@given(st.text(max_size=200) | st.text(alphabet="seconds,bits\n\r0123456789.eE+-# ", max_size=200))
def test_no_text_is_anything_but_samples_or_a_reason(text):
    try:
        samples = parse_series(text, "f")
    except RecordError:
        return
    assert samples
    assert all(sample.seconds > 0 and sample.bits >= 0 for sample in samples)


@given(st.lists(st.tuples(st.floats(1e-3, 100), st.floats(0, 1e12)), min_size=1, max_size=30))
def test_what_is_written_is_read(numbers):
    text = "seconds,bits\n" + "".join(f"{seconds!r},{bits!r}\n" for seconds, bits in numbers)
    assert [tuple(sample) for sample in parse_series(text, "f")] == numbers


# ---- screening -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "verdict"), [(1.02, Verdict.PASS), (0.98, Verdict.FAIL)])
def test_a_clear_series_stops_early(factor, verdict):
    found = screened(steady(factor))
    assert found.verdict is verdict
    assert found.stopped_early
    assert 13 <= found.seconds_used <= 20
    assert found.time_saved_s == 63 - found.seconds_used
    assert found.value_bps == pytest.approx(2.3e9 * factor, rel=0.003)
    assert found.margin == pytest.approx(found.value_bps / 2.3e9 - 1)
    assert found.doubts == ()
    assert "always-valid bound (1 % on either side)" in found.reason


def test_a_line_limited_series_without_noise_waits_for_ten_intervals():
    for count, verdict in ((12, Verdict.INCONCLUSIVE), (13, Verdict.PASS), (63, Verdict.PASS)):
        found = screened(samples_of([2.353e9] * count), bound_bps=BOUND)
        assert found.verdict is verdict
        assert found.seconds_used == min(count, 13)
    assert found.value_bps == 2.353e9
    assert found.n_eff == 10


@pytest.mark.parametrize("count", [1, 3, 4, 12])
def test_a_short_series_is_inconclusive(count):
    found = screened(steady(1.2, count))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert f"{max(0, count - 3)} intervals after 3 s of omit, 10 are needed" in found.reason
    assert (found.value_bps is None) == (count <= 3)
    assert not found.stopped_early
    assert found.time_saved_s == 0
    assert found.next_step


def test_what_comes_after_the_stop_is_never_looked_at():
    samples = steady(count=63)
    first = screened(samples)
    used = int(first.seconds_used)
    assert screened(samples[:used]) == first
    assert screened(samples[:used] + samples_of([1e6] * 50)) == first


def test_the_omitted_seconds_do_not_count_and_are_traffic():
    found = screened(samples_of([1.0, 1.0, 1.0]) + samples_of([2.353e9] * 60))
    assert found.verdict is Verdict.PASS
    assert found.value_bps == 2.353e9
    assert found.seconds_used == 13


def test_a_run_ends_with_its_profile():
    samples = steady(1.0, 200, sd=0.02, seed=5)
    found = screened(samples)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.seconds_used == 63
    assert "do not decide it" in found.reason
    assert screened(samples[:63]) == found


def test_live_and_replayed_are_one():
    samples = steady(1.02, sd=0.01)
    live = SeriesJudge(LIMIT, SCREENING, SIMPLE)
    fed = 0
    while not live.add(samples[fed]):
        fed += 1
    assert live.verdict() == screened(samples)
    assert live.verdict() == live.verdict()


def test_tenths_of_a_second_are_not_ten_times_the_evidence():
    tenths = [Sample(0.1, 2.353e8)] * 630
    found = screened(tenths)
    assert found.verdict is Verdict.PASS
    assert found.seconds_used == pytest.approx(13)
    assert screened(tenths[:60]).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("at", [8, 12])
@pytest.mark.parametrize(("first", "second"), [(1.02, 0.95), (1.02, 0.8)])
def test_a_fall_across_the_limit_before_the_stop_is_not_decided(seed, at, first, second):
    samples = steady(first, at, seed=seed) + steady(second, 63 - at, seed=seed + 100)
    found = screened(samples)
    assert found.verdict is Verdict.INCONCLUSIVE, found.reason
    assert found.seconds_used == 63
    assert "both sides of the limit" in found.reason
    assert found.doubts[0].startswith("Rate step: ")


@pytest.mark.parametrize(("odd", "rest", "verdict"), [(1.02, 0.95, Verdict.FAIL), (0.8, 1.05, Verdict.PASS)])
def test_single_intervals_across_the_limit_keep_the_run_going(odd, rest, verdict):
    samples = steady(rest)
    samples[8] = steady(odd)[8]
    found = screened(samples)
    assert not found.stopped_early, "it may have been the first of a second mode"
    assert found.verdict is verdict
    assert found.doubts[0].startswith("Outlier intervals: 1 of 60")


@pytest.mark.parametrize("at", [20, 30])
def test_a_whole_run_sees_a_late_step_that_screening_cannot(at):
    samples = steady(1.02, at) + steady(0.95, 63 - at, seed=2)
    assert screened(samples).verdict is Verdict.PASS, "the documented price of stopping"
    found = judge_series(samples, LIMIT, FIXED, SIMPLE)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert f"for {at - 3} s" in found.reason


def test_a_step_that_stays_on_one_side_is_doubted_and_decided():
    samples = steady(1.2, 8) + steady(1.1, 55, seed=2)
    found = screened(samples)
    assert found.verdict is Verdict.PASS
    assert not found.stopped_early, "an unsteady run is not cut short"
    assert found.seconds_used == 63
    assert found.doubts[0].startswith("Rate step: The rates were 2.7")


def test_a_ramp_of_five_seconds_is_warm_up_and_a_longer_one_is_a_finding():
    ramp = samples_of([0.2e9, 0.8e9, 1.4e9, 1.7e9, 1.9e9, 2.0e9])
    found = judge_series(ramp + steady(1.02, 57), LIMIT, FIXED, SIMPLE)
    assert found.verdict is Verdict.PASS
    assert found.doubts[0].startswith("Warm-up: the first 5 s after the omit")
    assert found.value_bps == pytest.approx(2.3e9 * 1.02, rel=0.002)
    longer = judge_series(steady(0.8, 18) + steady(1.02, 45, seed=3), LIMIT, FIXED, SIMPLE)
    assert longer.verdict is Verdict.INCONCLUSIVE
    assert longer.doubts[0].startswith("Rate step")


def test_a_fall_is_never_taken_for_warm_up():
    found = judge_series(steady(1.02, 7) + steady(0.9, 56, seed=3), LIMIT, FIXED, SIMPLE)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert not any(doubt.startswith("Warm-up") for doubt in found.doubts)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("share", [0.4, 0.5, 0.6])
def test_two_modes_around_the_limit_are_not_decided(seed, share):
    rng = random.Random(seed)
    both = steady(1.02, seed=seed), steady(0.8, seed=seed + 50)
    samples = [both[rng.random() < share][second] for second in range(63)]
    found = screened(samples)
    assert found.verdict is Verdict.INCONCLUSIVE, found.reason
    assert any(doubt.startswith("Bimodal intervals: ") for doubt in found.doubts)


def test_a_stall_is_not_cut_short_and_is_named():
    samples = steady(1.2)
    samples[6] = Sample(1.0, 0.0)
    found = screened(samples)
    assert not found.stopped_early
    assert any(
        doubt.startswith("Data stall: Next to nothing arrived in 1 of 60 intervals, first 3 s after the omit.")
        for doubt in found.doubts
    )


def test_outliers_are_named():
    samples = steady(1.02, sd=0.0005)
    samples[40] = Sample(1.0, 1.9e9)
    (doubt,) = judge_series(samples, LIMIT, FIXED, SIMPLE).doubts
    assert doubt.startswith(
        "Outlier intervals: 1 of 60 intervals are far from the others, the slowest of them with 1.9 Gbit/s"
    )


# ---- what cannot be true ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_a_value_above_the_ceiling_is_invalid(profile):
    samples = samples_of([BOUND * 1.002] * int(profile.longest_s))
    found = judge_series(samples, LIMIT, profile, SIMPLE, bound_bps=BOUND)
    assert found.verdict is Verdict.INVALID
    assert "above 2.354 Gbit/s, the most that physics allows" in found.reason
    at_it = judge_series(samples_of([BOUND] * int(profile.longest_s)), LIMIT, profile, SIMPLE, bound_bps=BOUND)
    assert at_it.verdict is Verdict.PASS


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_nothing_received_is_invalid(profile):
    found = judge_series(samples_of([0.0] * int(profile.longest_s)), LIMIT, profile, SIMPLE)
    assert found.verdict is Verdict.INVALID
    assert "Nothing was received" in found.reason


@pytest.mark.parametrize(("ratio", "unit"), [(1e9 / 2**30, "Gibit/s"), (1e6 / 2**20, "Mibit/s")])
def test_what_looks_like_binary_units_is_doubted(ratio, unit):
    found = screened(samples_of([BOUND * ratio] * 63), bound_bps=BOUND)
    assert [doubt for doubt in found.doubts if unit in doubt]
    assert not screened(samples_of([BOUND * 0.99] * 63), bound_bps=BOUND).doubts


# ---- rules and profiles ----------------------------------------------------------------------------------------------


def test_the_guard_band_is_the_uncertainty():
    samples = samples_of(ar1(random.Random(4), 63, 0.3, 0.02, 2.3e9 * 1.004))
    whole = judge_series(samples, LIMIT, FIXED, SIMPLE)
    value, expanded = whole.value_bps, whole.uncertainty.expanded_bps
    for share, role, verdict in (
        (0.9, "vendor", Verdict.INCONCLUSIVE),
        (1.1, "vendor", Verdict.PASS),
        (0.1, "buyer", Verdict.PASS),
        (-0.1, "vendor", Verdict.FAIL),
        (-0.9, "buyer", Verdict.INCONCLUSIVE),
        (-1.1, "buyer", Verdict.FAIL),
    ):
        limit = ResolvedLimit("throughput", value - share * expanded, None, "limit")
        found = judge_series(samples, limit, FIXED, get_rule("guarded", role))
        assert found.verdict is verdict, (share, role)
        if verdict is Verdict.INCONCLUSIVE:
            assert f"(rule guarded, {role})" in found.reason


def test_a_declared_spread_between_runs_widens_the_guard_band():
    samples = steady(1.01, sd=0.001)
    rule = get_rule("guarded", "vendor")
    assert judge_series(samples, LIMIT, SCREENING, rule).verdict is Verdict.PASS
    found = judge_series(samples, LIMIT, SCREENING, rule, declared_between=0.0087)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.seconds_used == 63, "more of the same run does not cure it, but nobody could know before"


@pytest.mark.parametrize(
    ("name", "count", "verdict"),
    [
        ("type-test", 60, Verdict.PASS),
        ("type-test", 50, Verdict.INCONCLUSIVE),
        ("fixed", 20, Verdict.PASS),
        ("smoke", 3, Verdict.PASS),
        ("smoke", 2, Verdict.INCONCLUSIVE),
        ("soak", 1800, Verdict.PASS),
        ("soak", 600, Verdict.INCONCLUSIVE),
    ],
)
def test_each_profile_asks_for_its_length(name, count, verdict):
    found = judge_series(samples_of([2.353e9] * count), LIMIT, get_profile(name), SIMPLE)
    assert found.verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        assert "too short" in found.reason


def test_one_run_of_a_type_test_says_so():
    alone = judge_series(steady(), LIMIT, get_profile("type-test"), SIMPLE)
    assert any(doubt.startswith("One run: profile type-test asks for 5") for doubt in alone.doubts)
    assert alone.uncertainty.between_bps is None
    known = judge_series(steady(), LIMIT, get_profile("type-test"), SIMPLE, declared_between=0.001)
    assert known.doubts == ()
    assert known.uncertainty.between_bps == pytest.approx(0.001 * known.value_bps)


@given(
    st.lists(st.tuples(st.floats(0.05, 10), st.floats(0, 3e10)), max_size=80),
    st.sampled_from(list(PROFILES.values())),
    st.sampled_from([get_rule(), get_rule("guarded", "vendor"), get_rule("guarded", "buyer")]),
)
def test_any_series_has_a_verdict_and_the_same_one_twice(numbers, profile, rule):
    samples = [Sample(*each) for each in numbers]
    found = judge_series(samples, LIMIT, profile, rule, bound_bps=BOUND)
    assert found == judge_series(list(samples), LIMIT, profile, rule, bound_bps=BOUND)
    assert found.verdict in (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.INVALID)
    assert found.reason
    if found.verdict is Verdict.PASS:
        assert found.value_bps >= LIMIT.low
        assert found.value_bps <= BOUND * 1.01
    if found.verdict is Verdict.FAIL:
        assert found.value_bps < LIMIT.low
    assert found.seconds_used <= sum(sample.seconds for sample in samples) + 1e-6


# ---- journals --------------------------------------------------------------------------------------------------------


def row(**more):
    series = tuple(
        SeriesPoint(start_s=float(index), seconds=1.0, throughput_bps=sample.rate_bps, omitted=index < 3)
        for index, sample in enumerate(steady(1.02))
    )
    known = {
        "id": "t.py::test_rate[A/p1]::throughput",
        "test": "t.py::test_rate[A/p1]",
        "device": DeviceInfo(serial="A", model="M"),
        "link": "p1",
        "quantity": "throughput",
        "unit": "bit/s",
        "value": 2.346e9,
        "ceiling": BOUND,
        "limit": ">= 2 Gbit/s",
        "limit_low": 2e9,
        "verdict": Verdict.PASS,
        "reason": "met",
        "conditions": {"speed": 2.5e9, "mtu": 1500, "direction": "forward"},
        "evidence": Evidence(series=series, facts={"received_bytes": 1000}),
    }
    return Row(**{**known, **more})


def limits(text):
    return parse_limits_file(f'[[limit]]\nsource = "a test"\n{text}\n', "limits.toml")


def again(recorded, text, rule=SIMPLE):
    return judge_row(recorded, limits(text), rule, source="limits.toml")


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('throughput = ">= 2.3 Gbps"', Verdict.PASS),
        ('throughput = ">= 2.35 Gbps"', Verdict.FAIL),
        ('throughput = ">= 99 % of ceiling"', Verdict.PASS),
        ('throughput = ">= 94 % of link speed"', Verdict.FAIL),
        ('throughput = ">= 2.35 Gbps"\nmtu = 9000', Verdict.INCONCLUSIVE),
        ('throughput = ">= 2.35 Gbps"\nmodel = "M*"\nspeed = "2.5G"', Verdict.FAIL),
        ('throughput = ">= 2.35 Gbps"\ntest = "test_rate"\nlink = "p1"\ndevice = "A"', Verdict.FAIL),
        ('throughput = ">= 2.35 Gbps"\nsimulated = true', Verdict.INCONCLUSIVE),
        ('throughput = ">= 90 % of baseline X"', Verdict.INCONCLUSIVE),
        ('power = "<= 15 W"', Verdict.INCONCLUSIVE),
    ],
)
def test_a_row_under_other_limits(text, verdict):
    found = again(row(), text)
    assert (found.old, found.new) == (Verdict.PASS, verdict)
    assert found == again(row(), text)
    if text.startswith("power"):
        assert "No limit of limits.toml applies to this throughput." in found.reason


@pytest.mark.parametrize(
    "verdict", [each for each in Verdict if each not in (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE)]
)
def test_no_limit_mends_a_measurement_that_failed(verdict):
    found = again(row(verdict=verdict, reason="why"), 'throughput = ">= 1 bps"')
    assert (found.new, found.reason) == (verdict, "why")


def test_a_tester_that_limited_the_run_still_does():
    stricter = 'throughput = ">= 2.35 Gbps"'
    by_doubt = row(evidence=Evidence(doubts=("Tester-limited: CPU 0 of this machine was 99 % busy.",)))
    by_reason = row(
        verdict=Verdict.INCONCLUSIVE, reason="low, but the tester may be the cause: CPU 0 of this machine was busy."
    )
    for recorded in (by_doubt, by_reason):
        assert again(recorded, stricter).new is Verdict.INCONCLUSIVE
        assert again(recorded, 'throughput = ">= 2.3 Gbps"').new is Verdict.PASS, "a PASS stays valid"
    counts = row(quantity="retransmits", unit="1", value=30.0, evidence=Evidence(facts={"cpu_busy": [0.2, 0.99]}))
    assert again(counts, 'retransmits = "<= 10"').new is Verdict.INCONCLUSIVE
    stolen = msgspec.structs.replace(counts, evidence=Evidence(facts={"cpu_busy": [0.2], "cpu_steal": 0.2}))
    assert again(stolen, 'retransmits = "<= 10"').new is Verdict.INCONCLUSIVE
    idle = msgspec.structs.replace(counts, evidence=Evidence(facts={"cpu_busy": [0.2, 0.3]}))
    assert again(idle, 'retransmits = "<= 10"').new is Verdict.FAIL


@pytest.mark.parametrize("value", [None, float("nan"), 0.0])
def test_a_row_without_a_number_never_passes(value):
    assert again(row(value=value), 'throughput = ">= 1 bps"').new is not Verdict.PASS


def test_a_quantity_that_nobody_knows_here_is_not_judged():
    found = again(row(quantity="widgets", unit="1"), 'throughput = ">= 1 bps"')
    assert found.new is Verdict.INCONCLUSIVE
    assert "unknown quantity 'widgets'" in found.reason


def test_a_guard_band_over_a_journal():
    vendor = get_rule("guarded", "vendor")
    value = mean_rate_bps([Sample(each.seconds, each.throughput_bps) for each in row().evidence.series[3:]])
    assert again(row(value=value), 'throughput = ">= 2.3 Gbps"', vendor).new is Verdict.PASS
    near = again(row(value=value), f'throughput = ">= {value * 0.9999:.0f} bps"', vendor)
    assert near.new is Verdict.INCONCLUSIVE
    assert "within the guard band" in near.reason
    power = row(quantity="power", unit="W", value=14.0, ceiling=None)
    assert again(power, 'power = "<= 15 W"').new is Verdict.PASS
    assert "its uncertainty is not known" in again(power, 'power = "<= 15 W"', vendor).reason
