"""Copies everything that the tests read but the package itself: python tests/without_source.py FOLDER.

What is imported there can only be what is installed (`tox -e wheel`, `tox -e sdist`).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = (
    "tests",
    "docs",
    "conftest_examples",
    "benchmarks",
    "README.md",
    "CHANGELOG.md",
    "pyproject.toml",
    "tox.ini",
    "run",
)


def main() -> None:
    folder = Path(sys.argv[1])
    for name in NEEDED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".lab*", "netperf-results")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy2(ROOT / name, folder / name)


if __name__ == "__main__":
    main()
