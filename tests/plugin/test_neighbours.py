"""Other plugins of pytest, and parts of pytest that are switched off: verdict, sheet and exit code stay the same.

Those that are not installed here are left out; `tox -e neighbours` has all of them.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytest_plugins = ["pytester"]

SUITE = """
@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 50 Mbps")
def test_line_rate(iperf3):
    iperf3.tcp()

@pytest.mark.netperf_limit(power="<= 5 W", temperature="<= 50 degC")
def test_idle(netperf_record):
    netperf_record("power", 4, "W")

def test_plain():
    pass
"""
MODULES = {
    "asyncio": "pytest_asyncio",
    "bdd": "pytest_bdd",
    "cov": "pytest_cov",
    "html": "pytest_html",
    "randomly": "pytest_randomly",
    "rerunfailures": "pytest_rerunfailures",
    "rich": "pytest_rich",
    "sugar": "pytest_sugar",
    "timeout": "pytest_timeout",
    "xdist": "xdist",
}
ARGUMENTS = {
    "asyncio": ("-oasyncio_default_fixture_loop_scope=function",),
    "cov": ("--cov=.",),
    "html": ("--html=report.html", "--self-contained-html"),
    "rerunfailures": ("--reruns=1",),
    "timeout": ("--timeout=60",),
}
HERE = [name for name, module in MODULES.items() if find_spec(module) is not None]
TERMINALS = {"rich": ("--rich",), "sugar": ("--force-sugar",)}


def together(*left_out: str) -> list[str]:
    """The arguments of all neighbours that are here, with those that are left out switched off."""
    off = [f"-pno:{'rich' if name == 'rich' else MODULES[name]}" for name in left_out if name in HERE]
    return [*off, *(argument for name in HERE if name not in left_out for argument in ARGUMENTS.get(name, ()))]


def assert_same(run) -> None:
    """Two rows pass; one was never measured, which this run allows."""
    assert run.code == 0, run.text
    assert run.verdicts == {
        "test_line_rate[100M]::throughput": "PASS",
        "test_idle::power": "PASS",
        "test_idle::temperature": "INCONCLUSIVE",
    }
    assert (run.sheet["verdict"], run.sheet["complete"]) == ("NOT PROVEN", True)
    assert "INTERNALERROR" not in run.text, run.text


@pytest.fixture
def suite(project):
    project.write(test_suite=SUITE)
    return project


def test_all_at_once(suite, workers):
    run = suite.run(*workers, *together(), "--netperf-allow-inconclusive")
    assert_same(run)
    run.has("network acceptance", "temperature was never measured")
    if "rerunfailures" in HERE:
        run.has("1 inconclusive", "1 rerun")
        assert "2 attempts" in run.text


@pytest.mark.parametrize(
    "off", [("terminal",), ("skipping",), ("xdist", "junitxml", "warnings", "logging", "cacheprovider", "timeout")]
)
def test_without_parts_of_pytest(suite, off):
    """Nothing is shown without a terminal; what is written and the exit code do not depend on that."""
    run = suite.run(*(f"-pno:{name}" for name in off), "--netperf-allow-inconclusive")
    assert_same(run)
    assert ("network acceptance" in run.text) is ("terminal" not in off)


@pytest.mark.parametrize("name", ["pytest", *(name for name in TERMINALS if name in HERE)])
def test_whoever_has_the_terminal(suite, name):
    """Sheets and verdicts are told there too, each on lines of their own."""
    others = [each for each in TERMINALS if each != name]
    run = suite.on_terminal(*TERMINALS.get(name, ()), *together(*others), "--netperf-allow-inconclusive")
    assert_same(run)
    lines = [line.rstrip() for line in run.text.replace("\r", "\n").splitlines()]
    assert any(line.strip("=\x1b[0123456789m ") == "network acceptance" for line in lines), run.text
    assert any("NOT PROVEN   2 of 3 rows passed" in line for line in lines), run.text


if {"asyncio", "bdd"} <= set(HERE):  # tox -e neighbours

    def test_coroutines_and_scenarios(suite):
        """Traffic from a coroutine, from a thread of its loop, and from a step, each on the link of its test."""
        suite.write(
            {"links.feature": "Feature: links\n  Scenario: rate\n    When iperf3 sends\n"},
            test_suite=SUITE,
            test_others="""
import asyncio
from pytest_bdd import scenario, when

pytestmark = [pytest.mark.netperf_link(speed="100M"), pytest.mark.netperf_limit(throughput=">= 50 Mbps")]

@pytest.mark.asyncio
async def test_coroutine(iperf3):
    iperf3.tcp()

@pytest.mark.asyncio
async def test_thread(iperf3):
    await asyncio.to_thread(iperf3.tcp)

@pytest.mark.usefixtures("iperf3")
@scenario("links.feature", "rate")
def test_scenario():
    pass

@when("iperf3 sends")
def iperf3_sends(iperf3):
    iperf3.tcp()
""",
        )
        run = suite.run("test_others.py", *together("rerunfailures"))
        assert run.code == 0, run.text
        assert set(run.verdicts.values()) == {"PASS"}
        assert len(run.verdicts) == 3
