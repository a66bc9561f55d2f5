"""Every doubt is registered, says all that a doubt must say, and stands in the documentation as it is in the code."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from record_samples import make_row

import pytest_netperf.judge
from pytest_netperf.judge.decision import get_rule
from pytest_netperf.judge.doubt import EFFECTS, KnownDoubt
from pytest_netperf.judge.doubt_iperf3 import KNOWN_FAULTS
from pytest_netperf.judge.doubts import KNOWN, RULES
from pytest_netperf.judge.limit_text import parse_limit
from pytest_netperf.judge.replay import judge_row
from pytest_netperf.judge.verdict import Verdict

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/doubts.md").read_text("utf-8")


def table(first: str) -> list[tuple[str, ...]]:
    """The rows of all tables of the page whose first column has this heading."""
    rows, inside = [], False
    for line in PAGE.splitlines():
        cells = tuple(cell.strip() for cell in line.strip("|").split("|")) if line.startswith("|") else ()
        if not cells:
            inside = False
        elif cells[0] == first:
            inside = True
        elif inside and not set(cells[0]) <= {"-", " "}:
            rows.append(cells)
    return rows


def test_the_page_lists_every_doubt_with_all_it_says():
    expected = [(known.name, known.sign, known.meaning, known.next_step, known.effect) for known in KNOWN]
    assert table("name") == expected


def test_the_page_says_what_each_kind_does():
    assert table("kind") == list(EFFECTS.items())


def test_the_page_lists_the_known_faults():
    listed = re.findall(r"^- (.+)$", PAGE, re.MULTILINE)
    assert listed == [fault.what for fault in KNOWN_FAULTS]


def test_every_doubt_and_every_rule_of_a_module_is_registered():
    doubts, rules = set(), set()
    for found in pkgutil.iter_modules(pytest_netperf.judge.__path__):
        if found.name.startswith("doubt_") or found.name == "path":
            module = importlib.import_module(f"pytest_netperf.judge.{found.name}")
            doubts |= {value.name for value in vars(module).values() if isinstance(value, KnownDoubt)}
            rules |= {rule.__name__ for rule in getattr(module, "RULES", ())}
    assert doubts == {known.name for known in KNOWN}
    assert rules == {rule.__name__ for rule in RULES}
    assert len(KNOWN) == len(doubts)
    assert len(RULES) == len(rules)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_a_doubt_is_whole_sentences_that_begin_with_its_name(known):
    for sentence in (known.sign, known.meaning, known.next_step):
        assert sentence[0].isupper()
        assert sentence.endswith((".", ")."))
        assert "|" not in sentence
    doubt = known.seen("Something was seen.")
    assert doubt.text == f"{known.name}: Something was seen. {known.meaning} {known.next_step}"
    assert doubt.kind == known.kind
    if known.or_note:
        assert known.seen("Something was seen.", note=True).kind == "note"
    else:
        with pytest.raises(AssertionError):
            known.seen("Something was seen.", note=True)


# ---- what a journal keeps of it --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ({"rate_explained": False, "tester_limited": "Tester CPU bound: x."}, Verdict.INCONCLUSIVE),
        ({"rate_explained": True, "tester_limited": "Tester CPU bound: x."}, Verdict.FAIL),
        ({"rate_explained": False}, Verdict.FAIL),
    ],
)
def test_a_row_judged_again_still_knows_its_tester(facts, verdict):
    import msgspec

    row = make_row("p1")
    row = msgspec.structs.replace(row, evidence=msgspec.structs.replace(row.evidence, facts=facts))
    assert row.value is not None
    limit = parse_limit("throughput", f">= {row.value * 1.01} bit/s")
    found = judge_row(row, [limit], get_rule(), source="limits.toml")
    assert found.new is verdict, found.reason
