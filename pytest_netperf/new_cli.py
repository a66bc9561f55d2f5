"""``pytest-netperf new``: a starter suite that passes as it is, on a simulated link."""

from __future__ import annotations

import argparse
import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from pytest_netperf.errors import ConfigError

__all__ = ["add_arguments", "run"]

_FILES: Final = ("README.md", "bench.toml", "limits.toml", "pytest.ini", "test_acceptance.py.txt")
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("folder", type=Path, metavar="NAME", help="the folder to make; its name is the model's too")
    parser.add_argument("--model", help="model of the device; default: the folder's name")
    parser.add_argument("--serial", help="serial number of the first device; default: MODEL-0001")
    parser.add_argument("--speed", default="1G", help="speed of its link; default: 1G")


def run(asked: argparse.Namespace) -> int:
    """Write the suite. Returns 0. Raises ConfigError, and leaves what is there as it is."""
    from pytest_netperf.bench.bench_file import parse_bench
    from pytest_netperf.judge.limits_file import parse_limits_file

    folder: Path = asked.folder
    model = _plain(
        "NAME" if asked.model is None else "--model", asked.model if asked.model is not None else folder.resolve().name
    )
    values = {
        "model": model,
        "serial": _plain("--serial", f"{model}-0001" if asked.serial is None else asked.serial),
        "speed": asked.speed,
    }
    texts = {
        name.removesuffix(".txt"): (files("pytest_netperf.starter") / name).read_text("utf-8").format(**values)
        for name in _FILES
    }
    parse_bench(texts["bench.toml"], f"{folder / 'bench.toml'} (with --speed {asked.speed})")
    parse_limits_file(texts["limits.toml"], str(folder / "limits.toml"))
    _make(folder)
    for name, text in texts.items():
        with (folder / name).open("x", encoding="utf-8") as file:
            file.write(text)
    print(f"{folder} is made: {', '.join(sorted(texts))}\nnow: cd {folder} && pytest")
    return 0


def _plain(what: str, text: str) -> str:
    if not _PLAIN.fullmatch(text):
        raise ConfigError(
            f"{what} {text!r}: expected letters, digits and . _ + - only, because it names files of results; "
            "give another with --model"
        )
    return text


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}; give a folder that can be made") from None
    if taken:
        shown = ", ".join(taken[:3]) + (" ..." if len(taken) > 3 else "")
        raise ConfigError(f"{folder} is not empty ({shown}); nothing is overwritten, give a new name")
