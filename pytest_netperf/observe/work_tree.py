"""The git commit of a folder: which version of a test suite measured."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

__all__ = ["git_commit"]

_TIMEOUT_S: Final = 10


def git_commit(folder: Path) -> tuple[str | None, bool | None]:
    """The commit that is checked out in a folder, and whether tracked files below the folder differ from it.

    Both are None where there is no git, no work tree or no commit; the second also where git does not answer.
    """
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    if commit is None or commit[0] != 0:
        return None, None
    state = _git(folder, "diff-index", "--quiet", "HEAD", "--", ".")
    return commit[1].strip(), None if state is None or state[0] not in (0, 1) else state[0] == 1


def _git(folder: Path, *arguments: str) -> tuple[int, str] | None:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.returncode, done.stdout
