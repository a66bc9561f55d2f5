"""The iperf3 of Debian's later suites, each unpacked into a folder of its own beside this machine's.

    python tests/newer_iperf3.py          fetches what is missing and prints version and folder of each

A folder holds the program with its whole C library, and a script named ``iperf3`` that starts it by its own loader: put
the folder first in PATH. Nothing is installed, and apt's own lists and caches are neither read nor written: apt runs
with private ones and takes the mirror from this machine's configuration.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

__all__ = ["SUITES", "FetchError", "newer_iperf3", "newer_versions", "why_not"]

SUITES = ("trixie", "forky")
"""Debian 13 (iperf3 3.18) and the one after it (3.22 in 2026)."""

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "iperf3"
_KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp")
_FETCH_SECONDS = 240


class FetchError(Exception):
    """A suite's iperf3 could not be had; says what was run, what it said, and the way out."""


def why_not() -> str | None:
    """Why this machine cannot have the iperf3 of later suites; None when it can."""
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {}
    if system.get("ID") != "debian":
        return f"this is not Debian but {system.get('PRETTY_NAME', 'unknown')}"
    missing = [program for program in ("apt-get", "dpkg-deb") if shutil.which(program) is None]
    return f"no {' and no '.join(missing)} in PATH" if missing else None


def newer_versions() -> list[Any]:
    """The suites as parameters of a test, marked: they are left out where this machine cannot have them."""
    import pytest

    return [pytest.param(suite, marks=pytest.mark.newer_iperf3, id=f"iperf3-of-{suite}") for suite in SUITES]


def newer_iperf3(suite: str, cache: Path = CACHE) -> Path:
    """The folder with the suite's ``iperf3``, fetched when it is not there yet. Raises FetchError."""
    folder = cache / suite
    if (folder / "iperf3").exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{suite}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test session may be fetching it just now
        if not (folder / "iperf3").exists():
            with tempfile.TemporaryDirectory(prefix=f"{suite}-", dir=cache) as work:
                made = _make(suite, Path(work))
                shutil.rmtree(folder, ignore_errors=True)
                made.rename(folder)
    return folder


def _make(suite: str, work: Path) -> Path:
    """The finished folder inside ``work``, ready to be renamed."""
    for name in ("state/lists/partial", "cache/archives/partial", "none", "tree"):
        (work / name).mkdir(parents=True)
    # With an empty list of installed packages apt resolves the whole tree down to the C library.
    (work / "status").touch()
    (work / "sources.list").write_text(f"{_source(suite)}\n")
    settings = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": work / "none",
        "Dir::Etc::preferences": work / "no-preferences",
        "Dir::Etc::preferencesparts": work / "none",
        "Dir::State": work / "state",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "Acquire::Languages": "none",
        "Acquire::Retries": 2,
        "Acquire::http::Timeout": 20,
        "APT::Sandbox::User": "root",
        "APT::Update::Post-Invoke": "",
    }
    apt = ["apt-get", "-q", *(part for name, value in settings.items() for part in ("-o", f"{name}={value}"))]
    # Any failure to fetch is an error here; without the option apt would go on with what it has.
    _run(suite, [*apt, "-o", "APT::Update::Error-Mode=any", "update"])
    _run(suite, [*apt, "install", "--download-only", "--no-install-recommends", "--yes", "iperf3"])
    for archive in sorted((work / "cache" / "archives").glob("*.deb")):
        _run(suite, ["dpkg-deb", "--extract", archive, work / "tree"])
    return _assemble(suite, work)


def _assemble(suite: str, work: Path) -> Path:
    """Of all that was unpacked: the program, its loader and the libraries, and the script that starts them."""
    made = work / "made"
    made.mkdir()
    libraries = [path.parent for path in (work / "tree").glob("usr/lib/*/libc.so.6")]
    loaders = [path for path in (work / "tree").glob("usr/lib/*/ld-linux*.so.*") if path.is_file()]
    program = work / "tree" / "usr/bin/iperf3"
    if len(libraries) != 1 or len(loaders) != 1 or not program.is_file():
        raise FetchError(
            f"iperf3 of Debian {suite}: expected a program, a C library and a loader in its packages, found "
            f"{[str(path.relative_to(work / 'tree')) for path in (program, *libraries, *loaders) if path.exists()]}. "
            f"Look whether Debian has moved them, or take {suite!r} out of SUITES in {__file__}"
        )
    (made / "lib").mkdir()
    for library in libraries[0].glob("*.so*"):
        shutil.copy2(library, made / "lib", follow_symlinks=False)
    (made / "bin").mkdir()
    shutil.copy2(program, made / "bin" / "iperf3")
    script = made / "iperf3"
    # exec: the process that was started is iperf3 itself, for signals and for the parent's death.
    start = f'exec "$here/lib/{loaders[0].name}" --inhibit-cache --library-path "$here/lib" "$here/bin/iperf3" "$@"'
    script.write_text(f"#!/bin/sh\nhere=${{0%/*}}\n{start}\n")
    script.chmod(0o755)
    return made


def _source(suite: str) -> str:
    """The apt source of the suite, on the mirror that this machine's own suite comes from."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    targets = _run(suite, ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"])
    mirrors = [line.split()[0] for line in targets.splitlines() if line.split()[1:] == [codename, "main"]]
    if not mirrors:
        raise FetchError(
            f"iperf3 of Debian {suite}: apt has no source of this machine's own suite ({codename or 'unknown'}, "
            "component main), from which the mirror is taken. Add one to /etc/apt/sources.list"
        )
    keyring = next((path for path in _KEYRINGS if Path(path).exists()), None)
    return f"deb {f'[signed-by={keyring}] ' if keyring else ''}{mirrors[0]} {suite} main"


def _run(suite: str, command: list[str | Path]) -> str:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
        )
        said, failed = done.stderr or done.stdout, done.returncode != 0
    except subprocess.TimeoutExpired:
        said, failed = f"no end within {_FETCH_SECONDS} s", True
    if failed:
        brief = " ".join(word for word in words if "::" not in word and word != "-o")
        raise FetchError(
            f"iperf3 of Debian {suite} could not be fetched: `{brief}` failed:\n{said.strip()[-1500:]}\n"
            "The machine needs its Debian mirror for this, once. Without it, leave the tests out: -m 'not newer_iperf3'"
        )
    return done.stdout


def main() -> int:
    """Fetch all suites side by side; exit code 1 with the reason when one cannot be had."""
    if reason := why_not():
        print(f"newer versions of iperf3 are left out: {reason}")
        return 0
    with ThreadPoolExecutor() as pool:
        fetches = {suite: pool.submit(newer_iperf3, suite) for suite in SUITES}
    code = 0
    for suite, fetch in fetches.items():
        try:
            folder = fetch.result()
        except FetchError as error:
            print(error, file=sys.stderr)
            code = 1
            continue
        version = subprocess.run([folder / "iperf3", "--version"], capture_output=True, text=True, check=True).stdout
        print(f"{suite}: {' '.join(version.split()[:2])} in {folder}")
    return code


if __name__ == "__main__":
    sys.exit(main())
