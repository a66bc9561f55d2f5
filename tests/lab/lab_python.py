"""A disk with what Python imports in the guest: its standard library, pytest and its like, and this checkout's package.

The guest could read all of it from this machine's own files, but each look at a file there is a question to the host,
and an import asks hundreds: half of a guest's time went with that. A disk of its own is read once. It also keeps one
state of the working tree for all tests of a run, whatever is edited meanwhile.
"""

from __future__ import annotations

import compileall
import shutil
import subprocess
import sysconfig
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

__all__ = ["PYTHON_MOUNT", "PYTHON_PATH", "write_python_disk"]

PYTHON_MOUNT = "/lab-python"
PYTHON_PATH = ":".join(f"{PYTHON_MOUNT}/{name}" for name in ("checkout", "site", "lib", "lib/lib-dynload"))
"""For PYTHONPATH; what is not on the disk is found where it always is."""

_PACKAGES = ("pytest-netperf", "pytest-xdist")
_CHECKOUT = Path(__file__).resolve().parents[2]
_NOT_NEEDED = ("site-packages", "test", "tests", "config-*", "idlelib", "ensurepip", "lib2to3", "tkinter", "turtledemo")
_MIB = 1 << 20


def write_python_disk(to: Path) -> None:
    """An ext4 image, made without mounting anything."""
    with tempfile.TemporaryDirectory(prefix="netperf-lab-python-") as work:
        tree = Path(work)
        shutil.copytree(_CHECKOUT / "pytest_netperf", tree / "checkout" / "pytest_netperf")
        shutil.copytree(sysconfig.get_path("stdlib"), tree / "lib", ignore=shutil.ignore_patterns(*_NOT_NEEDED))
        for name in _needed():
            for file in distribution(name).files or ():
                if ".." not in file.parts and file.locate().is_file():
                    target = tree / "site" / file
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(file.locate(), target)
        # What nobody has compiled yet (PYTHONDONTWRITEBYTECODE) each process of the guest would compile again.
        compileall.compile_dir(tree, quiet=2, stripdir=work, prependdir=PYTHON_MOUNT)
        size = sum(path.stat().st_size + 4096 for path in tree.rglob("*"))
        with to.open("wb") as image:
            image.truncate(size + size // 4 + 16 * _MIB)
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", str(tree), str(to)], check=True)


def _needed() -> list[str]:
    """The distributions of this environment that those in _PACKAGES need, without extras."""
    found: dict[str, None] = {}
    wanted = list(_PACKAGES)
    while wanted:
        name = wanted.pop()
        if name.lower() in found:
            continue
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:  # the package itself has one more than this environment, set up for an older state
            continue
        found[name.lower()] = None
        for text in needs:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted.append(requirement.name)
    return [name for name in found if name != "pytest-netperf"]
