"""Two ways to show running measurements: a line every ten seconds, and a table that is drawn anew each second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

from pytest_netperf.live.progress import Progress, pieces, sparkline, text_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["LinesView", "TableView", "Terminal", "View"]

LINE_EVERY_S: Final = 10.0
_BAR, _SPARK = 12, 12
_FIRST_AFTER_S: Final = 1.5
"""A measurement that is over sooner is not worth a table."""

_WIDE: Final = 120
"""A terminal of so many columns has a measurement on one line; a narrower one has its name on a line above."""


class Terminal(Protocol):
    """The terminal without pytest's capture."""

    def __call__(self) -> AbstractContextManager[IO[str]]:
        """Gives it as a file."""

    def leave(self, file: IO[str]) -> None:
        """Something that stays for a while is about to be drawn on it."""

    def come_back(self, file: IO[str]) -> None:
        """It is gone."""


class View(Protocol):
    """Told of every look, and of the end of every test."""

    def show(self, progress: Progress) -> None:
        """A measurement goes on."""

    def done(self, test: str) -> None:
        """A test is over, and pytest is about to say so."""

    def close(self) -> None:
        """The run is over."""


class LinesView:
    """For logs: a plain line for each running measurement every ten seconds, and nothing for short ones."""

    def __init__(self, terminal: Terminal, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal, self._clock = terminal, clock
        self._last_s: dict[str, float] = {}
        self._lock = threading.Lock()

    def show(self, progress: Progress) -> None:
        """See `View`."""
        now_s = self._clock()
        with self._lock:
            if now_s - self._last_s.setdefault(progress.test, now_s) < LINE_EVERY_S:
                return
            self._last_s[progress.test] = now_s
            with self._terminal() as file:
                file.write(f"  {text_line(progress)}\n")
                file.flush()

    def done(self, test: str) -> None:
        """See `View`."""
        with self._lock:
            self._last_s.pop(test, None)

    def close(self) -> None:
        """See `View`."""


class TableView:
    """For people at a terminal: a row for each running measurement, gone when they are over. Needs rich."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._seen: dict[str, Progress] = {}
        self._rates: dict[str, list[float]] = {}
        self._live: Any = None
        self._lock = threading.Lock()

    def show(self, progress: Progress) -> None:
        """See `View`."""
        with self._lock:
            self._seen[progress.test] = progress
            if progress.rates_bps:
                self._rates.setdefault(progress.test, []).append(sum(progress.rates_bps))
            if self._live is None and max(progress.elapsed_s, progress.waited_s) < _FIRST_AFTER_S:
                return
            with self._terminal() as file:
                self._draw(file)

    def _draw(self, file: IO[str]) -> None:
        from rich.console import Console
        from rich.live import Live

        if self._live is None:
            self._terminal.leave(file)
            self._live = Live(
                console=Console(file=file, force_terminal=True),
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(self._drawing(self._live.console.width), refresh=True)

    def _drawing(self, width: int) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        is_wide = width >= _WIDE
        table = Table.grid(padding=(0, 2, 0, 0))
        for _ in range(7):
            table.add_column(no_wrap=True)
        lines: list[RenderableType] = []
        for test, progress in self._seen.items():
            done = min(1.0, progress.elapsed_s / progress.planned_s) if progress.planned_s else 0.0
            bar = "━" * round(done * _BAR) + "╌" * (_BAR - round(done * _BAR))
            figures = (bar, *pieces(progress)[:2], sparkline(self._rates.get(test, ()), _SPARK), *pieces(progress)[2:])
            name = Text(progress.label, no_wrap=True, overflow="ellipsis")
            if is_wide:
                table.add_row(*figures, name)
            else:
                lines += [name, Text("  ".join(each for each in figures if each), no_wrap=True, overflow="ellipsis")]
        return table if is_wide else Group(*lines)

    def done(self, test: str) -> None:
        """See `View`."""
        with self._lock:
            self._rates.pop(test, None)
            self._seen.pop(test, None)
            self._stop()  # pytest is about to write; whoever still measures brings the table back

    def _stop(self) -> None:
        if self._live is not None:
            with self._terminal() as file:
                self._live.stop()
                self._terminal.come_back(file)
            self._live = None

    def close(self) -> None:
        """See `View`."""
        with self._lock:
            self._stop()
