"""The house rule over the import graph: data flows one way, and what is pure stays pure. Read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_netperf

ROOT = Path(pytest_netperf.__file__).parent
ROOMS = ("bench", "remote", "links", "traffic", "observe", "judge", "record", "store", "report", "batch")
"""In the order in which data flows; a module imports from its own room and from earlier ones."""
FOR_ALL = {"errors", "quantities", "units", "physics"}
JOINTS = {
    "attach", "attempts", "baseline_cli", "batch_cli", "bench_check", "bench_cli", "bench_init", "cli", "collection",
    "conformance", "device_states", "doctor", "doctor_cli", "engines", "export_cli", "fixtures", "history",
    "hookspecs", "interrupt", "live", "live_terminal", "live_view", "long_runs", "marks", "method_mark", "new_cli",
    "option_values", "options", "plans", "plugin", "probes", "record_strategies", "recorder", "reference", "rows",
    "run_info", "screening", "selftest", "selftest_cli", "series_cli", "session", "sign_cli", "starter", "store_cli",
    "strategies", "summary", "tester_check", "trials", "verify_cli",
}  # fmt: skip
VOCABULARY = {
    # Data that rooms before them speak in: no behaviour, nothing but structs and enums.
    "traffic.result",
    "observe.observation",
    "judge.verdict",
    "record.evidence",
    "record.identification",
    "record.schema",
}
ORCHESTRATION = {
    # Where traffic and observation are put together, in this order: counters, traffic, counters.
    "observe.measure",
}
PURE = (
    "judge",
    "physics",
    "quantities",
    "units",
    "record.evidence",
    "record.identification",
    "record.schema",
    "record.canonical",
    "record.ledger",
    "record.stretch",
    "record.migrate",
    "record.together",
    "record.waivers",
    "errors",
)
IMPURE_MODULES = {
    "pytest", "_pytest", "os", "io", "subprocess", "socket", "shutil", "tempfile", "threading", "asyncio", "time",
    "datetime", "random", "secrets", "pathlib", "pyroute2", "logging", "platform", "glob", "signal", "select",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "breakpoint"}


def name_of(path: Path) -> str:
    """``judge.limits`` for judge/limits.py, ``judge`` for judge/__init__.py, "" for the package itself."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {name_of(path): ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def imports(tree: ast.AST, *, typing_only: bool = False) -> Iterator[str]:
    """Every module that a source imports, at any depth; what stands under TYPE_CHECKING only when asked for."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            if typing_only:
                for child in node.body:
                    yield from imports(ast.Module(body=[child], type_ignores=[]), typing_only=True)
            for child in node.orelse:
                yield from imports(ast.Module(body=[child], type_ignores=[]), typing_only=typing_only)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            assert node.module is not None
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield inside if inside.removeprefix("pytest_netperf.") in SOURCES else node.module
        else:
            yield from imports(node, typing_only=typing_only)


def own(module: str) -> set[str]:
    """The modules of this package that a module imports when it runs."""
    found = {name for name in imports(SOURCES[module]) if name.split(".")[0] == "pytest_netperf"}
    return {name.removeprefix("pytest_netperf").removeprefix(".") for name in found} - {""}


def room(module: str) -> str:
    return module.split(".")[0]


def in_rooms() -> list[str]:
    return [module for module in SOURCES if room(module) in ROOMS]


def test_every_module_has_its_place():
    places = {room(module) for module in SOURCES} - {""}
    assert places - set(ROOMS) - FOR_ALL - JOINTS == set()
    assert set(ROOMS) | FOR_ALL | JOINTS <= places | {"strategies"}, "this test knows a module that is gone"
    assert set(SOURCES) >= VOCABULARY | ORCHESTRATION


@pytest.mark.parametrize("module", in_rooms())
def test_a_room_imports_only_from_earlier_ones(module):
    allowed = set(ROOMS[: ROOMS.index(room(module)) + 1]) | FOR_ALL
    assert {name for name in own(module) if room(name) not in allowed and name not in VOCABULARY} == set()


@pytest.mark.parametrize("module", sorted(FOR_ALL))
def test_what_everyone_may_use_uses_nobody(module):
    assert {room(name) for name in own(module)} <= FOR_ALL


@pytest.mark.parametrize("module", sorted(VOCABULARY))
def test_vocabulary_is_data_only(module):
    assert own(module) <= VOCABULARY | FOR_ALL


def at_import_time(module: str) -> ast.Module:
    """The source without the bodies of its functions."""

    class WithoutFunctions(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:  # noqa: ARG002 - the interface of ast
            return None

    return WithoutFunctions().visit(ast.parse(ast.unparse(SOURCES[module])))


def test_no_circle_of_imports():
    graph = {
        module: {name.removeprefix("pytest_netperf.") for name in imports(at_import_time(module))} & set(SOURCES)
        for module in SOURCES
    }
    while leaves := {module for module, needs in graph.items() if not needs & graph.keys()}:
        graph = {module: needs for module, needs in graph.items() if module not in leaves}
    assert sorted(graph) == []


def users_of(package: str, *, typing_only: bool) -> set[str]:
    return {
        module
        for module, tree in SOURCES.items()
        if any(name.split(".")[0] == package for name in imports(tree, typing_only=typing_only))
    }


def test_only_links_and_observe_know_pyroute2():
    assert {room(module) for module in users_of("pyroute2", typing_only=True)} <= {"links", "observe"}


def test_only_the_joints_know_pytest():
    for package in ("pytest", "_pytest", "xdist", "pytest_html", "pluggy"):
        assert {room(module) for module in users_of(package, typing_only=True)} <= JOINTS, package


def test_marks_names_pytest_for_its_types_only():
    assert "marks" not in users_of("pytest", typing_only=False)


def test_private_parts_of_pytest_are_left_alone():
    assert users_of("_pytest", typing_only=True) == set()


@pytest.mark.parametrize(
    "module", [module for module in SOURCES if any(module == name or room(module) == name for name in PURE)]
)
def test_pure_modules_touch_nothing(module):
    tree = SOURCES[module]
    assert {name.split(".")[0] for name in imports(tree)} & IMPURE_MODULES == set()
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert called & IMPURE_CALLS == set()


@pytest.mark.parametrize(
    "module",
    [
        "",
        "plugin",
        "options",
        "marks",
        "collection",
        "attempts",
        "fixtures",
        "history",
        "session",
        "reference",
        "tester_check",
    ],
)
def test_what_every_pytest_run_loads_is_light(module):
    """At import time: imports inside functions are for those who need them."""
    heavy = {"msgspec", "jinja2", "pyroute2", "json", "asyncio", "multiprocessing", "tomllib", "sqlite3"}
    assert {name.split(".")[0] for name in imports(at_import_time(module))} & heavy == set()


def test_this_test_sees_what_it_looks_for():
    """It reads source text; so it proves here that a violation would be seen, at every depth."""
    tree = ast.parse(
        "from typing import TYPE_CHECKING\n"
        "import os\n"
        "if TYPE_CHECKING:\n    import socket\n"
        "class A:\n    def f(self):\n        if True:\n            from subprocess import run\n"
        "try:\n    import select\nexcept ImportError:\n    import signal\n"
        "from pytest_netperf.judge import limits\n"
    )
    assert set(imports(tree)) >= {"os", "subprocess", "select", "signal", "pytest_netperf.judge.limits"}
    assert "socket" not in set(imports(tree))
    assert "socket" in set(imports(tree, typing_only=True))
