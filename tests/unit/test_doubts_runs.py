"""Doubts between the rows of a device: rows alike but for their direction, or but for the size of their packets."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from record_samples import RUN, make_row, plan_of

from pytest_netperf.judge.doubt_runs import compare_rows
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import Evidence, Row, Run
from pytest_netperf.record.together import together

CONDITIONS = {"speed": 2.5e9, "mtu": 1500, "protocol": "tcp", "streams": 1, "ip_version": 4}


def measured(name: str, gbps: float | None, direction: str = "forward", /, **known: Any) -> Row:
    """A throughput; ``facts`` are evidence, what is no field of a row is a condition."""
    facts = {"engine": "iperf3", "congestion": "cubic", **known.pop("facts", {})}
    runs = known.pop("runs", ())
    link = known.pop("link", "p1")
    fields = {key: known.pop(key) for key in list(known) if key in Row.__struct_fields__}
    conditions = {**CONDITIONS, "direction": direction, "test": name, **known}
    return make_row(
        link,
        **{
            "id": f"t.py::{name}::throughput",
            "test": f"t.py::{name}",
            "value": None if gbps is None else gbps * 1e9,
            "conditions": {key: value for key, value in conditions.items() if value is not None},
            "evidence": Evidence(facts=facts, runs=runs),
            **fields,
        },
    )


def found(*rows: Row) -> dict[str, list[str]]:
    """Test -> what was seen, each with the name of its doubt."""
    return {
        row_id.split("::")[1]: [f"{doubt.name}: {doubt.seen}" for doubt in doubts]
        for row_id, doubts in compare_rows(rows).items()
    }


# ---- directions ------------------------------------------------------------------------------------------------------


def test_directions_of_two_tests_that_differ():
    text = ["Directions differ: Forward delivered 2.33 Gbit/s and reverse 1.177 Gbit/s."]
    rows = [measured("out", 2.33), measured("back", 1.177, "reverse")]
    assert found(*rows) == {"out": text, "back": text}
    assert found(*reversed(rows)) == found(*rows)
    assert found(measured("out", 2.33), measured("back", 1.9, "reverse")) == {}


def test_of_several_rows_of_a_direction_the_best_counts():
    rows = [measured("out", 2.33), measured("again", 1.1), measured("back", 2.3, "reverse")]
    assert found(*rows) == {}
    assert set(found(*rows[:2], measured("back", 1.2, "reverse"))) == {"out", "again", "back"}


@pytest.mark.parametrize(
    "other",
    [
        {"streams": 4},
        {"mss": 536},
        {"mtu": 9000},
        {"ip_version": 6},
        {"link": "p2"},
        {"quantity": "frame_rate"},
        {"statistic": "min interval"},
        {"verdict": Verdict.INVALID},
        {"verdict": Verdict.CRASHED},
        {"value": None},
        {"value": 0.0},
        {"link": None},
        {"facts": {"offered_bps": 1.2e9}},
        {"facts": {"asked_window_bytes": 4096}},
        {"facts": {"congestion": "bbr"}},
        {"facts": {"engine": "libiperf"}},
        {"facts": {"simulated_fault": "fault-loss1%"}},
        {"offloads": "off"},
    ],
    ids=str,
)
def test_only_rows_alike_are_compared(other):
    assert found(measured("out", 2.33), measured("back", 1.1, "reverse", **other)) == {}


def test_a_failed_row_and_one_for_information_are_compared_too():
    rows = [measured("out", 2.33, required=False), measured("back", 1.1, "reverse", verdict=Verdict.FAIL)]
    assert set(found(*rows)) == {"out", "back"}


def test_bidirectional_far_below_each_way_alone():
    alone = [measured("out", 2.33), measured("back", 2.3, "reverse")]

    def both(forward: float, reverse: float) -> Row:
        facts = {"forward_received_bps": forward * 1e9, "reverse_received_bps": reverse * 1e9}
        return measured("both", min(forward, reverse), "bidirectional", facts=facts)

    assert found(*alone, both(2.28, 1.412)) == {
        "both": [
            "Bidirectional far below each way alone: Reverse delivered 1.412 Gbit/s beside the other direction, and "
            "2.3 Gbit/s alone."
        ]
    }
    assert len(found(*alone, both(1.4, 1.4))["both"]) == 2
    assert found(*alone, both(2.28, 2.28)) == {}
    assert found(both(1.4, 1.4)) == {}
    assert found() == {}


# ---- sweeps ----------------------------------------------------------------------------------------------------------

# Goodput of two ports of a mini router that were cabled to each other, as published, one run for each MSS.
MSS = (88, 216, 472, 984, 1240, 1478, 3960, 7960, 8960, 9176)
PLAIN_10G = (1.58, 3.37, 5.78, 7.92, 8.66, 8.77, 7.19, 9.20, 9.21, 9.21)
ZEROCOPY_10G = (1.74, 3.89, 7.41, 5.97, 8.25, 8.77, 9.1, 9.2, 9.21, 9.21)
PLAIN_2G5 = (1.0, 1.62, 1.95, 2.13, 2.17, 2.19, 2.28, 2.30, 2.31, 2.31)


def sweep(rates: tuple[float, ...], sizes: tuple[int, ...] = MSS, axis: str = "mss", **known: Any) -> list[Row]:
    conditions = {"speed": 10e9, "mtu": 9216, **known}
    return [
        measured(f"{axis}{size}", rate, **{**conditions, axis: size}) for size, rate in zip(sizes, rates, strict=True)
    ]


def test_dips_that_were_published():
    assert found(*sweep(ZEROCOPY_10G)) == {
        "mss984": [
            "Dip in a sweep: At MSS 984 it is 5.97 Gbit/s, but 7.41 Gbit/s at MSS 472 and 8.25 Gbit/s at MSS 1240."
        ]
    }
    assert set(found(*sweep(PLAIN_10G))) == {"mss3960"}
    assert found(*sweep(PLAIN_2G5)) == {}


def test_the_sweeps_of_two_settings_are_two():
    """One that is lower all over is no row of dips in the other."""
    lower = [
        msgspec.structs.replace(row, id=row.id + "z")
        for row in sweep(tuple(rate / 2 for rate in PLAIN_2G5), facts={"asked_zerocopy": True})
    ]
    assert found(*sweep(PLAIN_2G5), *lower) == {}


def test_a_sweep_over_the_mtu():
    rows = sweep((2.35, 1.9, 2.47), (1500, 4000, 9000), "mtu")
    assert found(*rows) == {
        "mtu4000": [
            "Dip in a sweep: At MTU 4000 it is 1.9 Gbit/s, but 2.35 Gbit/s at MTU 1500 and 2.47 Gbit/s at MTU 9000."
        ]
    }


def test_a_row_without_an_mss_has_that_of_its_mtu():
    rows = [measured("small", 2.2, mss=536), measured("middle", 1.5, mss=1200), measured("full", 2.3)]
    (seen,) = found(*rows)["middle"]
    assert seen.endswith("2.2 Gbit/s at MSS 536 and 2.3 Gbit/s at the MSS of MTU 1500.")


@pytest.mark.parametrize(
    ("middle", "known", "raised"),
    [
        (2.0, {}, True),
        (2.08, {}, False),  # a tenth below the smaller neighbour, or less
        (2.0, {"uncertainty": 0.29e9}, True),
        (2.0, {"uncertainty": 0.32e9}, False),
        (2.0, {"runs": tuple(Run(throughput_bps=2e9, evidence=Evidence()) for _ in range(5))}, False),
    ],
    ids=["far below", "near", "outside U", "within U", "repeated"],
)
def test_what_one_run_cannot_prove(middle, known, raised):
    rows = [measured("a", 2.31, mss=536), measured("b", middle, mss=1000, **known), measured("c", 2.35, mss=1448)]
    assert ("b" in found(*rows)) is raised


def test_a_dip_that_was_seen_twice_is_no_dip_of_one_run():
    rows = [measured("a", 2.3, mss=536), measured("b", 1.5, mss=1000), measured("c", 2.35, mss=1448)]
    assert set(found(*rows)) == {"b"}
    assert found(*rows, measured("again", 1.5, mss=1000)) == {}


def test_the_ends_of_a_sweep_have_one_neighbour():
    assert found(*sweep((2.3, 1.2), (536, 1448))) == {}
    assert found(*sweep((1.2, 2.3, 1.2), (536, 1000, 1448))) == {}


# ---- on the sheet ----------------------------------------------------------------------------------------------------


def test_the_sheet_has_them_and_no_verdict_changes():
    rows = [*sweep(ZEROCOPY_10G), measured("back", 4.0, "reverse", mss=8960, mtu=9216, speed=10e9)]
    rows[3] = msgspec.structs.replace(rows[3], verdict=Verdict.FAIL)
    (sheet,) = build_sheets(RUN, plan_of(rows), rows, complete=True)
    named = {row.test.split("::")[1]: [text.partition(":")[0] for text in row.evidence.doubts] for row in sheet.rows}
    assert {test: doubts for test, doubts in named.items() if doubts} == {
        "mss984": ["Dip in a sweep"],
        "mss8960": ["Directions differ"],
        "back": ["Directions differ"],
    }
    assert {row.id: row.verdict for row in sheet.rows} == {row.id: row.verdict for row in rows}


def test_looking_again_and_in_another_order_changes_nothing():
    rows = [*sweep(ZEROCOPY_10G), measured("back", 4.0, "reverse", mss=8960, mtu=9216, speed=10e9)]
    once = together(rows)
    assert once != rows
    assert together(once) == once
    mixed = rows[:]
    random.Random(3).shuffle(mixed)
    assert sorted(together(mixed), key=lambda row: row.id) == sorted(once, key=lambda row: row.id)
