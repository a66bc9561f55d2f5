"""A second Ctrl-C: leave at once, and say what is left.

The first one is pytest's: the test that runs is ABORTED, its fixtures are torn down, the sheets are written. Whoever
presses again while that goes on wants to leave now. Nothing is lost by it: the journal has every row that was over, and
the keeper brings ports home by itself when its owner is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["SecondInterrupt", "last_words"]

_SHOW_CURSOR = b"\x1b[?25h"


class SecondInterrupt:
    """Of every process that may measure.

    ``what_is_left`` is asked at the first Ctrl-C: lines, or None to leave the next one as it is.
    """

    def __init__(self, what_is_left: Callable[[], list[str] | None]) -> None:
        self._what_is_left = what_is_left
        self._last_words: bytes | None = None
        self._is_armed = self._is_asked = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """The first: from now on the next one does not wait for what pytest still has to do."""
        if (
            not issubclass(excinfo.type, KeyboardInterrupt)  # pytest.exit() comes here too
            or threading.current_thread() is not threading.main_thread()
            or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        ):
            return
        signal.signal(signal.SIGINT, self._leave)
        self._is_armed = True
        left = self._what_is_left()
        if left is None:
            self.pytest_unconfigure()
        else:
            self._last_words = "".join(f"{line}\n" for line in left).encode()
        if self._is_asked:  # while that was found out
            os.kill(os.getpid(), signal.SIGINT)

    def _leave(self, number: int, _: FrameType | None) -> None:
        if self._last_words is None:
            self._is_asked = True
            return
        signal.signal(number, signal.SIG_DFL)  # a third one need not even wait for this
        with contextlib.suppress(Exception):  # pytest may be writing at this moment
            sys.stdout.flush()
        if self._last_words:
            with contextlib.suppress(OSError):
                os.write(2, (_SHOW_CURSOR if os.isatty(2) else b"") + b"\n" + self._last_words)
        os.kill(os.getpid(), number)  # so that a shell knows why

    def pytest_unconfigure(self) -> None:
        """The run is over, with everything that it had to do."""
        if self._is_armed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._is_armed = False


def last_words(journal: str) -> list[str]:
    """What people can do with what a run leaves that was cut short; the path as they would type it."""
    return [
        "Interrupted again: leaving now, before the end of this run was written.",
        f"journal, with every row that was over: {journal}",
        f"  make its sheets:    pytest-netperf sheet {journal}",
        "  links and ports are put back by the keeper of this run, within seconds; if not: pytest-netperf clean",
    ]
