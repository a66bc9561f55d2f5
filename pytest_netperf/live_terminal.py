"""Where running measurements are shown: pytest's terminal, without its capture, and without breaking its lines."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import IO, Any

import pytest

__all__ = ["Below", "Between"]


class Between:
    """On lines of their own, between those of whatever reporter there is."""

    def __init__(self, config: pytest.Config, reporter: Any) -> None:
        self._config, self._reporter = config, reporter

    @contextlib.contextmanager
    def __call__(self) -> Iterator[IO[str]]:
        """The terminal as a file, at the beginning of a line."""
        with _without_capture(self._config):
            self._reporter.ensure_newline()
            yield _Writer(self._reporter)

    def leave(self, file: IO[str]) -> None:
        """Something that stays for a while is about to be drawn."""

    def come_back(self, file: IO[str]) -> None:
        """It is gone."""


class Below:
    """Below the line that pytest is writing; when what was shown is gone, pytest goes on where it was."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._columns: int | None = None

    @staticmethod
    def fits(config: pytest.Config, reporter: Any) -> bool:
        """Whether pytest itself writes, and nobody writes between its words: not another reporter, not -s."""
        return type(reporter).__module__ == "_pytest.terminal" and config.getoption("capture", "no") != "no"

    @contextlib.contextmanager
    def __call__(self) -> Iterator[IO[str]]:
        """The terminal as a file."""
        with _without_capture(self._config):
            yield sys.stdout

    def leave(self, file: IO[str]) -> None:
        """Go to the line below, and remember where pytest was."""
        writer = self._config.get_terminal_writer()
        writer.flush()
        self._columns = writer.width_of_current_line % max(1, writer.fullwidth)
        if self._columns:
            file.write("\n")

    def come_back(self, file: IO[str]) -> None:
        """What was drawn is wiped out, and the cursor is where it began."""
        if self._columns:
            file.write(f"\x1b[1A\x1b[{self._columns}C")
            file.flush()


@contextlib.contextmanager
def _without_capture(config: pytest.Config) -> Iterator[None]:
    capture = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
        yield


class _Writer(io.StringIO):
    """pytest's terminal as a file."""

    def __init__(self, reporter: Any) -> None:
        super().__init__()
        self._reporter = reporter

    def write(self, text: str) -> int:
        self._reporter.write(text, flush=True)
        return len(text)

    def flush(self) -> None:
        """Every write is."""

    def isatty(self) -> bool:
        return bool(self._reporter.isatty)
