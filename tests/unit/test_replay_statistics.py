"""Recorded data judged again by another statistic than the mean: series, and the rows of a journal."""

from __future__ import annotations

import msgspec
import pytest

from pytest_netperf.judge.decision import get_rule
from pytest_netperf.judge.limit_text import parse_limit
from pytest_netperf.judge.limits import resolve
from pytest_netperf.judge.limits_file import parse_limits_file
from pytest_netperf.judge.profile import get_profile
from pytest_netperf.judge.replay import judge_row, judge_rows
from pytest_netperf.judge.series import SeriesJudge, judge_series
from pytest_netperf.judge.statistic import MEAN, Statistic, statistic_of
from pytest_netperf.judge.statistics import Sample
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.schema import DeviceInfo, Evidence, Row, Run, SeriesPoint

PASS, FAIL, OPEN, INVALID = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.INVALID
SIMPLE, VENDOR = get_rule(), get_rule("guarded", "vendor")
DIP = [2.35e9] * 58 + [2.0e9] * 2


def series(rates, text, profile="fixed", rule=SIMPLE, **more):
    samples = [Sample(1.0, 1e6)] * 3 + [Sample(1.0, rate) for rate in rates]  # 3 s of omit
    return judge_series(samples, resolve(parse_limit("throughput", text)), get_profile(profile), rule, **more)


# ---- series ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "verdict", "value"),
    [
        ("p5 of intervals >= 2.3 Gbps", PASS, 2.35e9),
        ("p3 of intervals >= 2.3 Gbps", FAIL, 2.0e9),
        ("min interval >= 2.3 Gbps", FAIL, 2.0e9),
        ("min interval >= 1.9 Gbps", PASS, 2.0e9),
        ("max interval <= 2.4 Gbps", PASS, 2.35e9),
        ("p1 of intervals >= 1 Gbps", OPEN, None),
    ],
)
def test_a_whole_series_by_its_statistic(text, verdict, value):
    found = series(DIP, text)
    assert found.verdict is verdict, found.reason
    assert found.value_bps == value
    assert found.uncertainty is None
    assert found.seconds_used == 63
    assert not found.stopped_early
    assert (found.next_step is None) == (verdict is PASS)


def test_a_series_is_never_cut_short_for_a_statistic():
    judging = SeriesJudge(
        resolve(parse_limit("throughput", "min interval >= 2.3 Gbps")), get_profile("screening"), SIMPLE
    )
    stopped = [judging.add(Sample(1.0, 2.35e9)) for _ in range(62)]
    assert not any(stopped)
    assert not judging.stopped_early


def test_what_makes_a_series_unusable_does_so_for_every_statistic():
    assert series([2.6e9] * 60, "min interval >= 1 Gbps", bound_bps=2.36e9).verdict is INVALID
    short = series(DIP[:5], "min interval >= 1 Gbps")
    assert short.verdict is OPEN
    assert "too short" in short.reason
    guarded = series(DIP, "min interval >= 1 Gbps", rule=VENDOR)
    assert guarded.verdict is OPEN
    assert "none is determined for a limit min interval" in guarded.reason


# ---- rows ------------------------------------------------------------------------------------------------------------


def points(rates):
    return tuple(SeriesPoint(start_s=i, seconds=1, throughput_bps=rate) for i, rate in enumerate(rates))


def row(rates=DIP, **more):
    known = {
        "id": "test_a.py::test_rate[A/p1]::throughput",
        "test": "test_a.py::test_rate[A/p1]",
        "device": DeviceInfo(serial="A"),
        "link": "p1",
        "quantity": "throughput",
        "unit": "bit/s",
        "value": sum(rates) / len(rates),
        "limit": ">= 2.3 Gbit/s",
        "ceiling": 2.3537e9,
        "verdict": PASS,
        "reason": "old",
        "conditions": {"protocol": "tcp", "speed": 2.5e9, "mtu": 1500},
        "evidence": Evidence(
            series=points(rates), series_from="receiver", facts={"received_bps": sum(rates) / len(rates)}
        ),
    }
    return Row(**(known | more))


def limits(*texts, more=""):
    listed = ", ".join(repr(text) for text in texts)
    return parse_limits_file(f"[[limit]]\nsource = 's'\nthroughput = [{listed}]\n{more}", "limits.toml")


STATISTICS = [MEAN, Statistic("min"), Statistic("max"), Statistic("runs"), Statistic("runs", needed=4, runs=5)] + [
    Statistic("quantile", percent=percent) for percent in (1, 5, 50, 99)
]


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda each: each.text)
def test_a_row_is_judged_again_by_its_own_statistic(statistic):
    assert statistic_of(statistic.key_of("throughput")) == statistic
    if statistic == MEAN:
        return
    recorded = row(statistic=statistic.text, id=f"test_a.py::test_rate[A/p1]::throughput.{statistic.key}", value=1.0)
    found = judge_row(recorded, limits(statistic.of(">= 1 Gbps")), SIMPLE, source="limits.toml")
    assert found.statistic == statistic.text
    expected = OPEN if statistic.percent in (1, 99) or statistic.runs == 5 else PASS
    assert found.new is expected, found.reason
    other = judge_row(recorded, limits(">= 1 Gbps"), SIMPLE, source="limits.toml")
    assert other.new is OPEN
    assert other.reason == f"No limit of limits.toml applies to this throughput {statistic.text}."


def test_a_statistic_of_another_version_is_not_judged():
    found = judge_row(row(statistic="mode of intervals"), limits(">= 1 Gbps"), SIMPLE, source="limits.toml")
    assert found.new is OPEN
    assert "mode of intervals" in found.reason


def test_the_value_of_a_quantile_is_never_taken_for_the_mean():
    recorded = row(statistic="p5 of intervals", value=None)  # too few intervals at the time
    found = judge_row(recorded, limits("p5 of intervals >= 2.3 Gbps"), SIMPLE, source="limits.toml")
    assert (found.new, found.value) == (PASS, 2.35e9)


def test_a_limit_that_nobody_asked_for_is_judged_from_the_measurement():
    found = judge_rows([row()], limits(">= 2.3 Gbps", "min interval >= 2.3 Gbps"), SIMPLE, source="limits.toml")
    assert [(each.id.rsplit("::", 1)[1], each.old, each.new) for each in found] == [
        ("throughput", PASS, PASS),
        ("throughput.min", None, FAIL),
    ]
    assert found[1].value == 2.0e9
    second = row(id="test_a.py::test_rate[A/p1]::throughput#2")
    found = judge_rows([row(), second], limits("min interval >= 2.3 Gbps"), SIMPLE, source="limits.toml")
    assert [each.id.rsplit("::", 1)[1] for each in found] == [
        "throughput", "throughput.min", "throughput#2", "throughput.min#2",
    ]  # fmt: skip


def test_what_has_its_row_is_not_judged_twice_and_what_does_not_apply_not_at_all():
    own = row(id="test_a.py::test_rate[A/p1]::throughput.min", statistic="min interval", value=2.0e9)
    found = judge_rows([row(), own], limits("min interval >= 2.3 Gbps"), SIMPLE, source="limits.toml")
    assert [each.id for each in found] == [row().id, own.id]
    elsewhere = limits("min interval >= 2.3 Gbps", more="mtu = 9000\n")
    assert len(judge_rows([row()], elsewhere, SIMPLE, source="limits.toml")) == 1
    recorded = row(evidence=Evidence(facts={"source": "recorded by the test"}))
    assert len(judge_rows([recorded], limits("min interval >= 2.3 Gbps"), SIMPLE, source="limits.toml")) == 1


def test_a_measurement_that_failed_passes_no_statistic():
    for verdict in (INVALID, Verdict.ERROR, Verdict.NOT_RUN):
        found = judge_rows([row(verdict=verdict)], limits("min interval >= 1 bps"), SIMPLE, source="limits.toml")
        assert [each.new for each in found] == [verdict, verdict]


def test_runs_are_counted_from_the_row():
    runs = tuple(
        Run(throughput_bps=value, evidence=Evidence(series=points([value] * 20), series_from="receiver"))
        for value in (2.35e9, 2.2e9, 2.34e9, 2.35e9, 2.33e9)
    )
    evidence = msgspec.structs.replace(row().evidence, runs=runs, facts={"runs_asked": 5})
    recorded = row(evidence=evidence, value=2.314e9)
    for text, verdict, value in (
        (">= 2.3 Gbps in 4 of 5 runs", PASS, 2.33e9),
        (">= 2.3 Gbps in every run", FAIL, 2.2e9),
        ("p5 of intervals >= 2.1 Gbps", PASS, 2.2e9),
        ("p5 of intervals >= 2.3 Gbps", FAIL, 2.2e9),
    ):
        _, found = judge_rows([recorded], limits(text), SIMPLE, source="limits.toml")
        assert (found.new, found.value) == (verdict, pytest.approx(value)), found.reason
    _, found = judge_rows([recorded], limits("min interval >= 2.3 Gbps"), SIMPLE, source="limits.toml")
    assert "run 2 of 5" in found.reason
    fewer = row(evidence=msgspec.structs.replace(evidence, facts={"runs_asked": 6}), value=2.314e9)
    for text in (">= 2.1 Gbps in every run", "min interval >= 2.1 Gbps"):
        _, found = judge_rows([fewer], limits(text), SIMPLE, source="limits.toml")
        assert found.new is OPEN
        assert "Only 5 of 6 runs were made" in found.reason


def test_the_rule_of_the_limits_file_wins_over_the_command():
    recorded = row(rates=[2.34e9, 2.36e9, 2.32e9] * 7)
    text = ">= 2.3399 Gbps"
    by_file = limits(text, more="rule = 'guarded'\nrole = 'vendor'\n")
    found = judge_row(recorded, by_file, SIMPLE, source="limits.toml")
    assert (found.new, found.rule) == (OPEN, "guarded (vendor)")
    found = judge_row(recorded, limits(text), SIMPLE, source="limits.toml")
    assert (found.new, found.rule) == (PASS, "simple")
    found = judge_row(recorded, limits(text, more="rule = 'simple'\n"), VENDOR, source="limits.toml")
    assert (found.new, found.rule) == (PASS, "simple")
