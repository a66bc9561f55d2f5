"""No module is so long that nobody sees the flow of it."""

from __future__ import annotations

from pathlib import Path

import pytest_netperf

LONGEST = 400


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    modules = list(Path(pytest_netperf.__file__).parent.rglob("*.py"))
    lines = {path.name: path.read_text("utf-8").count("\n") for path in modules}
    assert len(modules) > 200
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}
