"""Engines that a conftest brings: chosen by name, refused by name, and held against what every engine must do."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "conftest_examples/own_engine"

pytestmark = pytest.mark.netns
pytest_plugins = ["pytester"]

LIARS = """
import subprocess, sys
from dataclasses import dataclass
import msgspec, pytest
from socket_engine import SocketEngine
from pytest_netperf.conformance import EngineConformance


def changed(result, **of_flow):
    flows = tuple(msgspec.structs.replace(flow, **of_flow) for flow in result.flows)
    return msgspec.structs.replace(result, flows=flows)


class CountsWhatItSent(SocketEngine):
    def run(self, link, workload, watch=None):
        result = super().run(link, workload, watch)
        flow = result.flows[0]
        return changed(result, received_bytes=flow.received_bytes * 3 // 2, received_bps=flow.received_bps * 3 / 2)


class LeavesAProcess(SocketEngine):
    def run(self, link, workload, watch=None):
        link.b.popen(["sleep", "60"])
        return super().run(link, workload, watch)


class CountsWhatIsOmitted(SocketEngine):
    def run(self, link, workload, watch=None):
        both = msgspec.structs.replace(workload, omit_s=0.0, duration_s=workload.omit_s + workload.duration_s)
        result = msgspec.structs.replace(super().run(link, both, watch), workload=workload)
        return changed(result, received_seconds=workload.duration_s)


class DoesNotRefuse(SocketEngine):
    def check(self, workload):
        pass


class TrustsWhatWasCut(SocketEngine):
    def run(self, link, workload, watch=None):
        from pytest_netperf.traffic.engine import EngineFailure
        try:
            result = super().run(link, workload, watch)
        except EngineFailure:
            result = super().run(link, msgspec.structs.replace(workload, duration_s=1.0), watch)
        return msgspec.structs.replace(result, trusted=True)


class NeverLooks(SocketEngine):
    def run(self, link, workload, watch=None):
        return super().run(link, workload, None)


def conformance(liar):
    return type("Test" + liar.__name__, (EngineConformance,), {"engine": pytest.fixture(lambda self: liar())})


for liar in (CountsWhatItSent, LeavesAProcess, CountsWhatIsOmitted, DoesNotRefuse, TrustsWhatWasCut, NeverLooks):
    globals()["Test" + liar.__name__] = conformance(liar)
"""


def test_the_conformance_tests_find_engines_that_lie(pytester: pytest.Pytester) -> None:
    shutil.copy(EXAMPLE / "socket_engine.py", pytester.path)
    pytester.makepyfile(test_liars=LIARS)
    caught = {
        "CountsWhatItSent": "test_tcp[forward]",
        "LeavesAProcess": "test_tcp[forward]",
        "CountsWhatIsOmitted": "test_omitted_seconds_do_not_count",
        "DoesNotRefuse": "test_an_option_is_done_or_refused[bitrate_bps]",
        "TrustsWhatWasCut": "test_a_killed_process_is_never_a_result[a]",
        "NeverLooks": "test_what_the_watch_raises_ends_the_run",
    }
    ids = [f"test_liars.py::Test{liar}::{test}" for liar, test in caught.items()]
    run = pytester.runpytest_subprocess("-pno:cacheprovider", "-Werror", "-rfE", *ids)
    lines = run.stdout.str()
    for liar, test in caught.items():
        assert re.search(rf"^(FAILED|ERROR) test_liars\.py::Test{liar}::{re.escape(test)}", lines, re.MULTILINE), lines
    assert "more than the wire carries: is it what the receiver counted?" in lines
    assert "processes of the engine are left" in lines
    assert "a run whose process was killed was trusted" in lines


@pytest.mark.parametrize(
    ("name", "refused", "why"),
    [
        ("sockets", "udp()", "the engine sockets sends one plain TCP stream"),
        ("one-stream", "tcp(streams=2)", "the engine one-stream sends one stream"),
    ],
)
def test_an_engine_of_a_conftest_measures_and_is_named_on_the_sheet(
    pytester: pytest.Pytester, name: str, refused: str, why: str
) -> None:
    if name == "sockets":
        for file in ("socket_engine.py", "conftest.py"):
            shutil.copy(EXAMPLE / file, pytester.path)
    else:
        page = (EXAMPLE.parents[1] / "docs/how-to/custom-engine.md").read_text("utf-8")
        pytester.makeconftest(page.split("```python conftest\n")[1].split("```")[0])
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.netperf_link(speed="100M")
        @pytest.mark.netperf_limit(throughput=">= 50 % of ceiling")
        def test_rate(iperf3):
            iperf3.tcp()

        @pytest.mark.netperf_link(speed="100M")
        @pytest.mark.netperf_limit(throughput=">= 50 % of ceiling")
        def test_refused(iperf3):
            iperf3.{refused}
        """
    )
    run = pytester.runpytest_subprocess(
        "-pno:cacheprovider", f"--netperf-engine={name}", "--netperf-duration=1", "--netperf-omit=0",
        "-onetperf_reference=off",
    )  # fmt: skip
    (path,) = pytester.path.glob("netperf-results/SIM-0001/*/sheet.json")
    sheet = json.loads(path.read_text("utf-8"))
    rows = {row["id"].split("::")[1].split("[")[0]: row for row in sheet["rows"]}
    assert rows["test_rate"]["verdict"] == "PASS", run.stdout.str()
    assert rows["test_rate"]["evidence"]["facts"]["engine"] == name
    assert sheet["software"]["engine"] == name
    assert rows["test_refused"]["verdict"] == "ERROR"
    assert why in rows["test_refused"]["reason"]


@pytest.mark.parametrize(
    ("conftest", "engine", "said"),
    [
        ("{'sockets': SocketEngine}", "socket", "there is no engine 'socket'; write iperf3"),
        ("{'sockets': SocketEngine}", "socket", "or one that the hook pytest_netperf_engines brings: sockets"),
        ("[SocketEngine]", "sockets", "it must return a dict of names"),
        ("{'My engine': SocketEngine}", "sockets", "names an engine 'My engine'"),
        ("{'iperf3': SocketEngine}", "sockets", "brings an engine 'iperf3', and there is one of that name"),
        ("{'sockets': SocketEngine()}", "sockets", "must be a class or function without arguments"),
    ],
)
def test_what_is_no_engine_is_refused_before_anything_runs(
    pytester: pytest.Pytester, conftest: str, engine: str, said: str
) -> None:
    shutil.copy(EXAMPLE / "socket_engine.py", pytester.path)
    pytester.makeconftest(
        f"from socket_engine import SocketEngine\ndef pytest_netperf_engines():\n    return {conftest}\n"
    )
    pytester.syspathinsert(pytester.path)
    with pytest.raises(pytest.UsageError) as caught:
        pytester.parseconfigure(f"--netperf-engine={engine}")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("object", "has no name, version, can_stop, check, run"),
        ("lambda: __import__('socket_engine').SocketEngine()", "calls itself 'sockets'"),
    ],
)
def test_what_turns_out_to_be_no_engine_is_the_reason_of_the_row(
    pytester: pytest.Pytester, made: str, said: str
) -> None:
    shutil.copy(EXAMPLE / "socket_engine.py", pytester.path)
    pytester.makeconftest(f"def pytest_netperf_engines():\n    return {{'mine': {made}}}\n")
    pytester.makepyfile(
        "def test_rate(iperf3):\n    iperf3.tcp()\n",
    )
    run = pytester.runpytest_inprocess("-pno:cacheprovider", "--netperf-engine=mine", "-onetperf_reference=off")
    assert said in run.stdout.str()
    assert "ERROR" in run.stdout.str()
    assert run.ret == 1


def test_iperf3_does_what_the_example_refuses(pytester: pytest.Pytester) -> None:
    """The rest of the conformance tests, of which the example skips these."""
    pytester.makepyfile(
        test_iperf3="""
        import pytest
        from pytest_netperf.conformance import EngineConformance
        from pytest_netperf.traffic.engine import make_engine

        class TestIperf3(EngineConformance):
            @pytest.fixture
            def engine(self):
                return make_engine("iperf3")
        """
    )
    tests = ("udp", "udp_loss_is_seen", "a_run_that_has_seen_enough_is_a_result", "tcp[bidirectional]")
    run = pytester.runpytest_subprocess(
        "-pno:cacheprovider", "-Werror", *(f"test_iperf3.py::TestIperf3::test_{test}" for test in tests)
    )
    run.assert_outcomes(passed=len(tests))
