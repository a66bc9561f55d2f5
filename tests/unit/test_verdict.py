"""The verdict lattice: combining only ever worsens, and nothing is accepted without evidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.judge.verdict import WORST_LAST, DeviceVerdict, Verdict, device_verdict, worst

verdicts = st.sampled_from(Verdict)
SETTLED = ("PASS", "FAIL", "NOT_APPLICABLE")


@dataclass
class Judged:
    verdict: Verdict
    required: bool = True


def rows(*names: str) -> list[Judged]:
    """Rows by verdict; a name in brackets is not required."""
    return [Judged(Verdict[name.strip("()")], required=not name.startswith("(")) for name in names]


def test_every_verdict_has_its_rank_with_pass_best_and_fail_worst():
    assert sorted(WORST_LAST, key=lambda verdict: verdict.name) == sorted(Verdict, key=lambda verdict: verdict.name)
    assert WORST_LAST[0] is Verdict.PASS
    assert WORST_LAST[-1] is Verdict.FAIL


def test_no_attempt_is_not_a_pass():
    assert worst([]) is Verdict.NOT_RUN
    assert worst(iter([Verdict.PASS])) is Verdict.PASS


@pytest.mark.parametrize("other", [verdict for verdict in Verdict if verdict is not Verdict.PASS])
def test_a_pass_repairs_nothing(other):
    assert worst([Verdict.PASS, other, Verdict.PASS]) is other


@given(st.lists(verdicts, min_size=1))
def test_combining_is_a_lattice(many):
    combined = worst(many)
    assert combined in many
    assert worst(reversed(many)) is combined
    assert worst([*many, combined]) is combined
    assert reduce(lambda first, second: worst([first, second]), many) is combined
    assert (combined is Verdict.PASS) == (set(many) == {Verdict.PASS})


@given(st.lists(verdicts), verdicts)
def test_one_more_never_makes_it_better(many, more):
    if many:
        assert WORST_LAST.index(worst([*many, more])) >= WORST_LAST.index(worst(many))


@pytest.mark.parametrize(
    ("judged", "device"),
    [
        ([], "NOT_PROVEN"),
        (["PASS"], "ACCEPTED"),
        (["PASS", "PASS"], "ACCEPTED"),
        (["(PASS)"], "NOT_PROVEN"),
        (["PASS", "(FAIL)"], "ACCEPTED"),
        (["FAIL"], "REJECTED"),
        (["PASS", "FAIL"], "REJECTED"),
        (["FAIL", "ERROR", "INVALID", "CRASHED"], "REJECTED"),
        (["SKIPPED", "SKIPPED"], "NOT_PROVEN"),
        (["(FAIL)"], "NOT_PROVEN"),
        (["PASS", "NOT_APPLICABLE"], "ACCEPTED"),
        (["FAIL", "NOT_APPLICABLE"], "REJECTED"),
        (["NOT_APPLICABLE", "NOT_APPLICABLE"], "NOT_PROVEN"),
        (["NOT_APPLICABLE", "(PASS)"], "NOT_PROVEN"),
        *((["PASS", verdict.name], "NOT_PROVEN") for verdict in Verdict if verdict.name not in SETTLED),
    ],
)
def test_the_verdict_of_a_device(judged, device):
    assert device_verdict(rows(*judged)) is DeviceVerdict[device]


many_rows = st.lists(st.builds(Judged, verdicts, st.booleans()), max_size=6)


@given(many_rows)
def test_accepted_needs_evidence_and_rejected_a_fail(judged):
    device = device_verdict(judged)
    required = [row.verdict for row in judged if row.required and row.verdict is not Verdict.NOT_APPLICABLE]
    assert (device is DeviceVerdict.ACCEPTED) == (bool(required) and set(required) == {Verdict.PASS})
    assert (device is DeviceVerdict.REJECTED) == (Verdict.FAIL in required)


@given(many_rows, verdicts)
def test_one_more_required_row_never_turns_a_verdict_better(judged, more):
    before, after = device_verdict(judged), device_verdict([*judged, Judged(more)])
    if before is DeviceVerdict.REJECTED:
        assert after is DeviceVerdict.REJECTED
    if after is DeviceVerdict.ACCEPTED:
        assert more is Verdict.PASS or (more is Verdict.NOT_APPLICABLE and before is DeviceVerdict.ACCEPTED)
        applicable = (Verdict.PASS, Verdict.NOT_APPLICABLE)
        assert all(row.verdict in applicable for row in judged if row.required)
