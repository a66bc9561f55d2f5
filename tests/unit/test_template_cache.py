"""Compiled templates: kept, used, made anew for another text, and done without where they cannot be kept."""

from __future__ import annotations

import sys
from pathlib import Path

import jinja2
import pytest

from pytest_netperf.report.template_cache import compiled_templates


def render(folder: Path, text: str) -> str:
    """What a template of this text says, in an environment of its own as another process would have."""
    loader = jinja2.DictLoader({"a.j2": text})
    environment = jinja2.Environment(loader=loader, autoescape=True, bytecode_cache=compiled_templates(folder))
    return environment.get_template("a.j2").render(x="<1>")


def test_the_second_process_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = tmp_path / "__pycache__"
    assert render(folder, "a {{ x }}") == "a &lt;1&gt;"
    (kept,) = folder.iterdir()
    compiled: list[str] = []
    real = jinja2.Environment.compile
    monkeypatch.setattr(
        jinja2.Environment, "compile", lambda self, *a, **k: compiled.append("once") or real(self, *a, **k)
    )
    assert render(folder, "a {{ x }}") == "a &lt;1&gt;"
    assert compiled == []
    assert render(folder, "b {{ x }}") == "b &lt;1&gt;", "a template that changed since"
    kept.write_bytes(kept.read_bytes()[:40])
    assert render(folder, "b {{ x }}") == "b &lt;1&gt;", "half a file"
    assert len(compiled) == 2


def test_a_folder_that_cannot_be_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "file").touch()
    assert render(tmp_path / "file" / "__pycache__", "a {{ x }}") == "a &lt;1&gt;"


def test_nothing_is_written_where_python_writes_no_compiled_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert render(tmp_path / "__pycache__", "a {{ x }}") == "a &lt;1&gt;"
    assert list(tmp_path.iterdir()) == []
