"""States of a device side by side on the sheet: what stands together, and the change against the plain one."""

from __future__ import annotations

import msgspec
import pytest
from record_samples import make_row

from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.schema import Evidence, Row
from pytest_netperf.report.language import load_words
from pytest_netperf.report.state_section import state_sections

WORDS = load_words("en")


def in_state(state: str | None, value: float | None, verdict: Verdict = Verdict.PASS, **known: object) -> Row:
    conditions = {"speed": 2.5e9, "mtu": 1500, "direction": "forward", "device_state": state, **known}
    row = make_row("lan-wan", verdict, value=value, reason="because")
    return msgspec.structs.replace(
        row, test=f"test_it.py::test_rate[{state}]", conditions={k: v for k, v in conditions.items() if v is not None}
    )


def test_the_drop_against_plain():
    rows = [in_state("ips-both", 0.507e9), in_state("ips", 1.08e9, Verdict.FAIL), in_state("plain", 2.35e9)]
    (section,) = state_sections(rows, WORDS)
    assert section["title"] == "States side by side: 2.5G port lan-wan, throughput"
    assert section["header"] == ["State", "Value", "Against plain", "Limit", "Verdict"]
    assert [line[:3] for line in section["table"]] == [
        ["plain", "2.35 Gbit/s", "-"],
        ["ips", "1.08 Gbit/s", "-54.0 %"],
        ["ips-both", "507 Mbit/s", "-78.4 %"],
    ]
    assert [line[-1] for line in section["table"]] == ["PASS", "FAIL", "PASS"]
    assert section["text"] == ["MTU 1500, forward"]


def test_what_was_measured_beside_the_goodput():
    facts = {"measured_frame_rate": 85e3, "measured_wire_rate": 980e6, "measured_tester_cpu": 0.5}
    rows = [
        msgspec.structs.replace(in_state("plain", 937e6), evidence=Evidence(facts={**facts, "measured_dut_cpu": 0.45})),
        msgspec.structs.replace(in_state("nat", 936e6), evidence=Evidence(facts=facts)),
        in_state("ips", None, Verdict.NOT_APPLICABLE),
    ]
    (section,) = state_sections(rows, WORDS)
    assert section["header"][4:] == ["frame rate", "wire rate", "tester cpu", "dut cpu", "Verdict"]
    assert [line[4:-1] for line in section["table"]] == [
        ["85 kframe/s", "980 Mbit/s", "50 %", "45 %"],
        ["85 kframe/s", "980 Mbit/s", "50 %", "-"],
        ["-", "-", "-", "-"],
    ]


def test_what_is_not_applicable_stands_beside_its_conditions():
    missing = in_state("ips", None, Verdict.NOT_APPLICABLE, mtu=9000, direction=None)
    rows = [in_state("plain", 2.4e9, mtu=9000), missing, in_state("plain", 2.3e9), in_state("ips", 1e9)]
    jumbo, usual = state_sections(rows, WORDS)
    assert jumbo["table"][1] == ["ips", "-", "-", missing.limit or "-", "NOT APPLICABLE"]
    assert [line[0] for line in usual["table"]] == ["plain", "ips"]


def test_without_a_plain_one_there_is_nothing_to_compare_with():
    (section,) = state_sections([in_state("ips", 1e9), in_state("nat", 2e9)], WORDS)
    assert [line[:3] for line in section["table"]] == [["nat", "2 Gbit/s", "-"], ["ips", "1 Gbit/s", "-"]]


def test_a_plain_zero_is_no_divisor():
    (section,) = state_sections([in_state("plain", 0.0), in_state("nat", 5.0)], WORDS)
    assert [line[2] for line in section["table"]] == ["-", "-"]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [in_state("plain", 2e9)],
        [in_state(None, 2e9), in_state(None, 1e9)],
        [in_state("plain", 2e9), in_state("ips", 1e9, mtu=9000)],  # they differ in more than the state
        [in_state("plain", None, Verdict.NOT_RUN), in_state("ips", None, Verdict.NOT_RUN)],
    ],
)
def test_no_section_without_two_states_under_the_same_conditions(rows):
    assert state_sections(rows, WORDS) == []


def test_what_is_expected_has_a_column_where_it_is_known():
    published = msgspec.structs.replace(in_state("ips", 1e9), expected=1.08e9)
    (section,) = state_sections([in_state("plain", 2e9), published], WORDS)
    assert section["header"][4] == "Expected"
    assert [line[4] for line in section["table"]] == ["-", "1.08 Gbit/s"]
