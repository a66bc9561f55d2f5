"""Shared by the tests of the plugin: a project folder in which real pytest processes run, and what they leave."""

from __future__ import annotations

import contextlib
import fcntl
import io
import itertools
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from project_ini import INI

from pytest_netperf.cli import main


@dataclass(frozen=True)
class Run:
    """One finished pytest process."""

    code: int
    text: str
    """stdout and stderr."""
    output: Path
    """--netperf-output of this run."""

    @property
    def sheets(self) -> dict[str, dict[str, Any]]:
        """Serial -> sheet.json."""
        return {path.parts[-3]: json.loads(path.read_text()) for path in self.output.glob("*/*/sheet.json")}

    @property
    def sheet(self) -> dict[str, Any]:
        (sheet,) = self.sheets.values()
        return sheet

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The rows of all sheets: test name with parameters and quantity, ``test_a[SIM-0001]::power``, -> row."""
        return {row["id"].split("::", 1)[1]: row for sheet in self.sheets.values() for row in sheet["rows"]}

    @property
    def verdicts(self) -> dict[str, str]:
        """As `rows`, without the device and link: ``test_a::power`` -> "PASS". The ids must stay different."""
        short = {re.sub(r"\[(SIM-0001[^\]-]*-?)(?:sim-[^\]/]*)?", "[", name): row for name, row in self.rows.items()}
        assert len(short) == len(self.rows), self.rows.keys()
        return {name.replace("[]", ""): row["verdict"] for name, row in short.items()}

    @property
    def journal(self) -> Path:
        (journal,) = (self.output / "journals").glob("*.jsonl")
        return journal

    def has(self, *texts: str) -> None:
        """Each text is in the output, whatever the line breaks."""
        flat = " ".join(self.text.split())
        for text in texts:
            assert " ".join(text.split()) in flat, f"{text!r} is not in:\n{self.text}"

    def is_clean(self) -> None:
        """Whatever the user did wrong, they see words and not our insides."""
        assert "INTERNALERROR" not in self.text, self.text
        assert "Traceback" not in self.text, self.text
        assert "pytest_netperf/" not in self.text, self.text


class Project:
    """A user's project folder."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self._numbers = itertools.count(1)
        pytester.makefile(".ini", pytest=INI)

    def write(self, files: Mapping[str, str] | None = None, /, **tests: str) -> None:
        """Write files by their names, and tests by their module names (with ``import pytest`` before them)."""
        for name, text in (files or {}).items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name, text in tests.items():
            (self.path / f"{name}.py").write_text(f"import pytest\n{text}")

    def run(self, *arguments: str, env: Mapping[str, str] | None = None, wrap: tuple[str, ...] = ()) -> Run:
        """Run pytest to its end, its results in a folder of this run. The terminal is 200 columns wide."""
        output = self.path / f"results-{next(self._numbers)}"
        done = self.process(
            sys.executable, "-m", "pytest", f"--netperf-output={output}", *arguments, env=env, wrap=wrap
        )  # fmt: skip
        return Run(done.returncode, done.stdout, output)

    def on_terminal(self, *arguments: str) -> Run:
        """As `run`, with a terminal of 120 columns instead of a pipe; the text has its escape sequences."""
        output = self.path / f"results-{next(self._numbers)}"
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
        with subprocess.Popen(
            [sys.executable, "-m", "pytest", f"--netperf-output={output}", *arguments],
            cwd=self.path,
            env={**outside, "TERM": "xterm", "COLUMNS": "120", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        ) as process:
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError):  # the other side is closed
                while piece := os.read(ours, 65536):
                    shown += piece
        os.close(ours)
        return Run(process.returncode, shown.decode(), output)

    def process(
        self, *command: str, env: Mapping[str, str] | None = None, wrap: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        # The pytest of a test is not a worker of the pytest that runs the tests.
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
        return subprocess.run(
            [*wrap, *command],
            cwd=self.path,
            env={**outside, "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )

    def command_in_process(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The console command without a process of its own, for what ends before it does anything."""
        said, code = io.StringIO(), 0
        with contextlib.chdir(self.path), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                code = main(arguments)
            except SystemExit as error:  # argparse
                code = int(error.code or 0)
        return subprocess.CompletedProcess(arguments, code, said.getvalue())

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The console command pytest-netperf."""
        return self.process(sys.executable, "-m", "pytest_netperf.cli", *arguments)


@pytest.fixture
def project(pytester: pytest.Pytester) -> Iterator[Project]:
    """An empty project folder with short measurements; warnings of Python are errors in it."""
    return Project(pytester)


@pytest.fixture(params=[(), ("-n2",)], ids=["one process", "two workers"])
def workers(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Arguments with which everything must be equal."""
    return request.param
