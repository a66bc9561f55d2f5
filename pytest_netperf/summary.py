"""The end of a run on the terminal: verdicts, where everything is, and what went wrong."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytest_netperf.record.schema import Sheet

__all__ = ["OtherTerminal", "Summary", "Terminal", "shown"]


class Terminal(Protocol):
    """As much of pytest's terminal as a summary needs."""

    @property
    def hasmarkup(self) -> bool:
        """Whether it shows colours."""

    def section(self, title: str, sep: str = "=") -> None:
        """A line with a title in its middle."""

    def write_line(self, line: str, **markup: bool) -> None:
        """A line."""


class OtherTerminal:
    """Plain words on stdout, where a plugin such as pytest-rich put another terminal in the place of pytest's."""

    hasmarkup = False

    def __init__(self) -> None:
        self.width = shutil.get_terminal_size().columns

    def section(self, title: str, sep: str = "=") -> None:
        """A line with a title in its middle, below whatever stands in this one."""
        self.write_line("\n" + f" {title} ".center(self.width - 1, sep))

    def write_line(self, line: str, **markup: bool) -> None:  # noqa: ARG002 - the markup is left out
        """A line."""
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a run ends with."""

    sheets: list[tuple[Sheet, list[Path]]]
    journal: Path | None
    kept: list[str]
    """Namespaces."""
    without_row: list[str]
    """Serial numbers of devices that nothing was planned for."""
    problems: list[str]
    not_stored: str | None
    """Why the store has not everything, and below it the command that mends it."""
    store_command: str

    def write(self, terminal: Terminal, width: int, verbose: int) -> None:
        """A line for each row, one for each device, and where the sheets are."""
        if not self.sheets and not self.problems and not self.kept:
            return
        from pytest_netperf.report.terminal import device_lines

        terminal.section("network acceptance", sep="=")
        for sheet, paths in self.sheets:
            where = shown(paths[0]) if paths else "(no sheet)"
            for line, markup in device_lines(sheet, where, verbose, bool(terminal.hasmarkup), width):
                terminal.write_line(line, **markup)
            for path in paths[1:]:
                terminal.write_line(f"  also written: {shown(path)}")
        if self.journal is not None:
            terminal.write_line(f"journal: {shown(self.journal)}")
        if self.kept:
            terminal.write_line(f"kept namespaces: {' '.join(self.kept)}")
            terminal.write_line(f"  enter one:   ip netns exec {self.kept[0]} bash")
            terminal.write_line("  remove them: pytest-netperf clean")
        for serial in self.without_row:
            terminal.write_line(
                f"{serial}   NO SHEET   no test of this run has a link or a row for this device", yellow=True
            )
        for problem in self.problems:
            terminal.write_line(f"ERROR: {problem}", red=True)
        if self.not_stored is not None:
            terminal.write_line(f"WARNING: {self.not_stored}", yellow=True)
            terminal.write_line(f"  all is in the journal; later: {self.store_command}")


def shown(path: Path) -> str:
    """As people type it: relative to where they are, when it is below."""
    with contextlib.suppress(ValueError):
        return os.fspath(path.resolve().relative_to(Path.cwd()))
    return os.fspath(path)
