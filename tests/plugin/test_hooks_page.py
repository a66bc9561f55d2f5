"""The example of each hook in docs/reference/hooks.md, in one run: what it says happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_netperf import hookspecs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "hooks.md"
pytest_plugins = ["pytester"]
pytestmark = pytest.mark.netns


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_every_hook_has_an_example_and_all_of_them_work(project):
    examples = blocks("python conftest")
    names = [name for block in examples for name in re.findall(r"^def (pytest_\w+)", block, re.MULTILINE)]
    assert names == hookspecs.__all__
    (bench,), (test,) = blocks("toml bench"), blocks("python test bench")
    limits = "\n\npytestmark = pytest.mark.netperf_limit(jitter='<= 1 ms')\n"  # of UDP, which nobody measures
    project.write({"bench.toml": bench, "conftest.py": "\n\n".join(examples), "test_it.py": test + limits})
    run = project.run("--netperf-bench=bench.toml", "--netperf-engine=mine", "-s")
    run.is_clean()
    assert run.sheet["software"]["engine"] == "mine"
    rows = {name.split("[")[1]: row for name, row in run.rows.items()}
    assert {name.split("/")[-1].partition("]")[0] for name in rows} == {"plain", "asleep"}
    asleep = rows["BOX-1/lan/asleep]::temperature"]
    assert (asleep["value"], asleep["verdict"]) == (41.5, "PASS")
    assert asleep["evidence"]["facts"]["device_state_proof"] == "the box says that it is asleep"
    assert "\nBOX-1 lan jitter: INCONCLUSIVE: " in run.text
    assert Path("verdicts.txt").read_text().split()[1:4] == ["BOX-1", "NOT", "PROVEN"]
    assert "verdicts.txt" in run.text
    assert [section["title"] for section in run.sheet["sections"]] == ["Room"]
