"""Hypothesis strategies for records, made from the types of their fields: what the schema allows, and nothing else.

The public names are those of `pytest_netperf.strategies`, which says what is missing without hypothesis.
"""

from __future__ import annotations

import enum
import functools
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.quantities import quantities
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import DeviceInfo, Evidence, Planned, Row, RunInfo, Sheet

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["records", "rows", "runs", "sheets"]

S = TypeVar("S", bound=msgspec.Struct)

_whole_numbers = st.integers(0, 2**53)  # what JSON readers keep exactly
_numbers = st.floats(allow_nan=False, allow_infinity=False)
_texts = st.text(max_size=20)
_anything = st.none() | st.booleans() | _whole_numbers | _numbers | _texts | st.lists(_texts, max_size=2)
_PLAIN: dict[object, SearchStrategy[Any]] = {
    Any: _anything,
    bool: st.booleans(),
    float: _numbers,
    int: _whole_numbers,
    str: _texts,
    type(None): st.none(),
}


def records(kind: type[S], **fields: SearchStrategy[Any]) -> SearchStrategy[S]:
    """Records of one kind (`pytest_netperf.record.schema`), any that its types allow: for who reads and writes them.

    ``fields`` are strategies for some of its fields. Numbers are finite, as in JSON; fields need not fit one another.
    """
    return _struct(kind, (), fields)


def _struct(kind: type[S], inside: tuple[type, ...], given: dict[str, SearchStrategy[Any]]) -> SearchStrategy[S]:
    """A field that has a default keeps it now and then; a list of what is being made just now stays empty."""
    hints = _hints(kind)
    required, optional = {}, {}
    for field in msgspec.structs.fields(kind):
        made = given.get(field.name)
        if made is not None:
            required[field.name] = made
        elif field.required:
            required[field.name] = _of(hints[field.name], (*inside, kind))
        else:
            optional[field.name] = _of(hints[field.name], (*inside, kind))
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: kind(**values))


@functools.cache
def _of(hint: Any, inside: tuple[type, ...]) -> SearchStrategy[Any]:
    """Values of a type hint."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of([_of(each, inside) for each in arguments])
    if origin is tuple and arguments[-1] is Ellipsis:
        again = arguments[0] in inside
        most = 1 if len(inside) > 1 else 2  # what is deep inside need not be long
        return st.just(()) if again else st.lists(_of(arguments[0], inside), max_size=most).map(tuple)
    if origin is tuple:
        return st.tuples(*(_of(each, inside) for each in arguments))
    if origin is dict:
        return st.dictionaries(_of(arguments[0], inside), _of(arguments[1], inside), max_size=3)
    if issubclass(hint, enum.Enum):
        return st.sampled_from(list(hint))
    return _struct(hint, inside, {})


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def rows(**fields: SearchStrategy[Any]) -> SearchStrategy[Row]:
    """Rows of a run, each of a quantity that there is, in its unit."""
    return st.sampled_from(quantities()).flatmap(
        lambda known: records(Row, **{"quantity": st.just(known.name), "unit": st.just(known.unit), **fields})
    )


@st.composite
def runs(draw: Callable[..., Any]) -> tuple[list[Planned], list[Row], list[str], bool]:
    """What a journal has of a run: its plan, its rows, the tests that had begun and not ended, whether it is whole.

    Each planned row may have arrived, several times or never; some rows were never planned, others deselected.
    """
    any_row = rows(evidence=records(Evidence, runs=st.just(())), attempts=st.just(()), waived=st.just(False))
    arrived: list[Row] = []
    planned: list[Planned] = []
    running: list[str] = []
    for number in range(draw(st.integers(0, 4))):
        device = DeviceInfo(serial=draw(st.sampled_from(["A-1", "A-2"])))
        test = f"test_it.py::test_{number}"
        fixed = {"id": f"{test}::row", "test": test, "device": device, "required": draw(st.booleans())}
        verdicts = draw(st.lists(st.sampled_from(Verdict), max_size=3))
        made = [
            msgspec.structs.replace(draw(any_row), **fixed, verdict=verdict, attempt=attempt)
            for attempt, verdict in enumerate(verdicts, 1)
        ]
        made = [
            msgspec.structs.replace(row, value=draw(_numbers))
            if row.verdict is Verdict.PASS and row.value is None
            else row
            for row in made
        ]
        arrived += made
        if draw(st.booleans()) or not made:
            planned.append(
                Planned(
                    id=f"{test}::row",
                    test=test,
                    device=device,
                    quantity=made[0].quantity if made else "throughput",
                    unit=made[0].unit if made else "bit/s",
                    selected=draw(st.sampled_from([True, True, False])),
                )
            )
            if draw(st.booleans()):
                running.append(test)
    return planned, arrived, running, draw(st.booleans())


@st.composite
def sheets(draw: Callable[..., Any]) -> Sheet:
    """Acceptance sheets as the end of a run makes them: for reporters and whatever else reads them."""
    run = draw(records(RunInfo, run_id=st.from_regex(r"\A2026[0-9]{4}T[0-9]{6}-[0-9a-f]{4}\Z"), waivers=st.just(())))
    planned, arrived, running, complete = draw(
        runs().filter(lambda made: any(plan.selected for plan in made[0]) or made[1])
    )
    made = build_sheets(run, planned, arrived, running=running, complete=complete)
    return made[0] if len(made) == 1 else draw(st.sampled_from(made))
