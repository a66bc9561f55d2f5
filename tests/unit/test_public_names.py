"""The names that users import: each is there, from its home, in the docs, and costs nothing before it is asked for."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import pytest_netperf

ROOT = Path(pytest_netperf.__file__).parent
DOCS = Path(__file__).resolve().parents[2] / "docs"
PUBLIC = ("conformance", "errors", "hookspecs", "probes", "quantities", "record.schema", "strategies")
"""Modules that the docs tell users to import from, beside the package itself."""


def for_type_checkers() -> dict[str, tuple[str, ...]]:
    """Module -> names of what stands under ``if TYPE_CHECKING:``."""
    tree = ast.parse((ROOT / "__init__.py").read_text("utf-8"))
    (only,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in only.body if isinstance(node, ast.ImportFrom)]
    return {str(node.module): tuple(alias.name for alias in node.names) for node in imports}


def test_all_names_are_there_from_where_type_checkers_see_them() -> None:
    homes = for_type_checkers()
    assert sorted(pytest_netperf.__all__) == sorted(
        [*(name for names in homes.values() for name in names), "__version__"]
    )
    for home, names in homes.items():
        for name in names:
            assert getattr(pytest_netperf, name) is getattr(import_module(home), name)
    assert dir(pytest_netperf) == sorted(pytest_netperf.__all__)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'pytest_netperf' has no attribute 'Ipref3'"):
        pytest_netperf.Ipref3  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Ipref3'"):
        from pytest_netperf import Ipref3  # type: ignore[attr-defined]  # noqa: F401


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import pytest_netperf; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name for name in done.stdout.split() if name.startswith("pytest_netperf")} == {"pytest_netperf"}


def test_every_public_name_is_in_the_docs() -> None:
    page = (DOCS / "reference" / "python.md").read_text("utf-8")
    assert [name for name in pytest_netperf.__all__ if f"| `{name}` |" not in page and name != "__version__"] == []
    assert [module for module in PUBLIC if f"`pytest_netperf.{module}`" not in page] == []


@pytest.mark.parametrize("module", PUBLIC)
def test_what_a_public_module_offers_is_there_and_says_what_it_is(module: str) -> None:
    made = import_module(f"pytest_netperf.{module}")
    assert made.__doc__
    for name in made.__all__:
        offered = getattr(made, name)
        if callable(offered) and not hasattr(offered, "__origin__"):
            assert offered.__doc__, name
            members = vars(offered).items() if isinstance(offered, type) else ()
            undocumented = [
                key for key, value in members if not key.startswith("_") and callable(value) and not value.__doc__
            ]
            assert undocumented == [], name
