"""What the strategies make is what marks, traffic calls, the bench parser and the readers of records take."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pytest_netperf import strategies
from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.bench.fault_table import parse_fault
from pytest_netperf.errors import ConfigError
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.marks import link_settings
from pytest_netperf.record import schema
from pytest_netperf.record.canonical import encode
from pytest_netperf.report.schema import sheet_schema
from pytest_netperf.traffic.request import make_workload

WITHOUT_HYPOTHESIS = """
import sys
sys.modules["hypothesis"] = None
import pytest_netperf.strategies
"""


@given(strategies.link_conditions())
def test_a_mark_takes_any_conditions(conditions) -> None:
    request = link_settings([pytest.mark.netperf_link(**conditions).mark])
    assert dict(request.sweeps)["mtu"] == (conditions["mtu"],)


@given(st.data(), strategies.mtus())
def test_a_traffic_call_takes_any_workload(data, mtu) -> None:
    for protocol, made in (("tcp", strategies.tcp_workloads(mtu)), ("udp", strategies.udp_workloads(mtu))):
        arguments = data.draw(made)
        workload = make_workload(
            protocol, dict(arguments), mtu=mtu, speed_bps=1e9, default_duration_s=60, default_omit_s=1
        )
        assert workload.duration_s == 1
        assert workload.mss_bytes == arguments.get("mss")
        assert (workload.bitrate_bps is None) is (protocol == "tcp")


@given(st.data(), st.sampled_from([10e6, 1e9, 100e9]), strategies.mtus())
def test_a_link_takes_any_fault(data, speed_bps, mtu) -> None:
    fault, mistakes = parse_fault(data.draw(strategies.faults(speed_bps, mtu)), "fault")
    assert mistakes == []
    assert fault is not None
    assert fault.problem(speed_bps, mtu) is None


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.bench_files())
def test_the_parser_takes_any_bench_file(text) -> None:
    bench = parse_bench(text)
    assert len(bench.devices) == text.count("[[device]]")
    assert sum(len(device.links) for device in bench.devices) == text.count("[[device.link]]")
    assert sum(bool(link.fault) for device in bench.devices for link in device.links) == text.count("fault = ")


def list_of(strategy, count):
    """As many examples, the same each time."""
    made = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value) -> None:
        made.append(value)

    collect()
    return made


def test_bench_files_are_of_all_kinds() -> None:
    benches = [parse_bench(text) for text in list_of(strategies.bench_files(), 100)]
    links = [link for bench in benches for device in bench.devices for link in device.links]
    assert {len(bench.devices) for bench in benches} == {1, 2, 3}
    assert {link.topology for link in links} == {"pair", "routed", "switched"}
    assert {link.fault is None for link in links} == {bool(link.physical_ports) for link in links} == {True, False}
    assert {link.fault.stall for link in links if link.fault} == {True, False}


RECORDS = [each for each in vars(schema).values() if isinstance(each, type) and issubclass(each, msgspec.Struct)]


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_any_record_comes_back_as_it_was(kind) -> None:
    @settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
    @given(strategies.records(kind))
    def comes_back(record) -> None:
        assert msgspec.json.decode(encode(record), type=kind) == record

    comes_back()


def test_every_field_of_a_record_is_made_and_left_out() -> None:
    shallow = strategies.records(schema.Evidence, runs=st.just(()))
    attempts = st.lists(strategies.records(schema.Attempt, evidence=st.just(schema.Evidence())), max_size=1).map(tuple)
    rows = list_of(strategies.rows(evidence=shallow, attempts=attempts), 150)
    for field in msgspec.structs.fields(schema.Row):
        values = {msgspec.json.encode(getattr(row, field.name)) for row in rows}
        assert len(values) > 1, field.name


@settings(deadline=None, max_examples=10)
@given(strategies.rows(verdict=st.just(Verdict.FAIL), quantity=st.just("power")))
def test_fields_may_be_given(row) -> None:
    assert (row.verdict, row.quantity) == (Verdict.FAIL, "power")


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.sheets())
def test_any_sheet_fits_the_published_schema(sheet) -> None:
    document = json.loads(encode(sheet))
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    assert sum(sheet.counts.values()) == len(sheet.rows) > 0


VALIDATOR = Draft202012Validator(sheet_schema())


def test_a_sweep_is_the_same_each_time_and_begins_with_the_simplest() -> None:
    values = strategies.sweep(strategies.mtus(), 4)
    assert values[0] == 576
    assert len(set(values)) == 4
    assert strategies.sweep(strategies.mtus(), 4) == values
    assert strategies.sweep(strategies.mtus(), 2) == values[:2]


def test_a_sweep_of_more_values_than_there_are() -> None:
    with pytest.raises(ConfigError, match=r"sweep\(booleans\(\), 3\): there are only 2 different values; ask for less"):
        strategies.sweep(st.booleans(), 3)


def test_on_a_link_few_examples_are_made_and_a_failing_one_is_not_tried_again_and_again() -> None:
    seen: list[int] = []

    @strategies.on_a_link(examples=4)
    @given(st.integers(0, 1000))
    def holds(value) -> None:
        seen.append(value)

    holds()
    first, seen[:] = list(seen), []
    holds()
    assert len(first) == 4
    assert seen == first

    @strategies.on_a_link(examples=4)
    @given(st.integers(10, 1000))
    def fails(value) -> None:
        seen.append(value)
        assert value < 10

    seen.clear()
    with pytest.raises(AssertionError):
        fails()
    assert len(seen) <= 3  # found, and once more to be sure


def test_without_hypothesis_it_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HYPOTHESIS], capture_output=True, text=True, check=False, cwd=Path.cwd()
    )
    assert done.stderr.splitlines()[-1] == (
        "ImportError: pytest_netperf.strategies needs hypothesis (import of hypothesis halted; None in sys.modules): "
        "pip install 'pytest-netperf[strategies]'"
    )


def test_every_strategy_is_in_the_docs_as_it_is() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "property-tests.md"
    documented = re.findall(r"^\| `(\w+)\((.*?)\)`", page.read_text("utf-8"), re.MULTILINE)
    assert {name for name, _ in documented} == set(strategies.__all__) - {"on_a_link", "sweep"}
    for name, arguments in documented:
        parameters = inspect.signature(getattr(strategies, name)).parameters.values()
        plain = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
        assert arguments.replace("1e9", "1000000000.0") == ", ".join(map(str, plain)), name
