"""What the lab's guest boots: Debian's own kernel and busybox, unpacked into a cache folder and never installed.

    python tests/lab/lab_kernel.py        fetches it where it is missing and prints where it is

This machine's boot and its modules are not touched.
"""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CACHE", "GuestKernel", "KernelError", "guest_kernel"]

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "lab"
_META_PACKAGE = "linux-image-amd64"
_BUSYBOX = "busybox-static"
_SECONDS = 240


class KernelError(Exception):
    """The kernel could not be had; says what was run, what it said, and the way out."""


@dataclass(frozen=True, slots=True)
class GuestKernel:
    """An unpacked kernel package, with a busybox beside it."""

    tree: Path
    version: str

    @property
    def image(self) -> Path:
        return self.tree / "boot" / f"vmlinuz-{self.version}"

    @property
    def busybox(self) -> Path:
        return next(path for path in (self.tree / "bin/busybox", self.tree / "usr/bin/busybox") if path.exists())

    def modules(self, *names: str) -> list[Path]:
        """The files of these modules and of all that they need, in the order in which they can be loaded."""
        command = ["modprobe", "--dirname", self.tree, "--set-version", self.version, "--show-depends", "--all", *names]
        lines = _run([str(word) for word in command]).splitlines()
        files = [Path(line.split()[1]) for line in lines if line.startswith("insmod ")]  # else it is built in
        return list(dict.fromkeys(files))


def guest_kernel(cache: Path = CACHE) -> GuestKernel:
    """The unpacked kernel, fetched where it is not there yet. Raises KernelError."""
    tree = cache / "kernel"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be fetching it just now
        if not tree.exists():
            with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache) as work:
                _unpack(Path(work))
                (Path(work) / "tree").rename(tree)
    return GuestKernel(tree, _version(tree))


def _unpack(work: Path) -> None:
    packages = [_package(), _BUSYBOX]
    _run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *packages], work)
    archives = list(work.glob("*.deb"))
    if len(archives) != len(packages):
        raise KernelError(f"`apt-get download {' '.join(packages)}` left {len(archives)} packages in {work}")
    tree = work / "tree"
    for archive in archives:
        _run(["dpkg-deb", "--extract", str(archive), str(tree)])
    if not (tree / "lib").exists():  # from Debian 13 on modules are in /usr/lib
        (tree / "lib").symlink_to("usr/lib")
    _run(["depmod", "-b", str(tree), _version(tree)])


def _package() -> str:
    """The package of the kernel itself, on which the package without a version depends."""
    for update in (False, True):
        if update:
            _run(["apt-get", "-q", "update"])
        shown = subprocess.run(
            ["apt-cache", "show", "--no-all-versions", _META_PACKAGE], capture_output=True, text=True, check=False
        )
        if found := re.search(r"^Depends:.*?\b(linux-image-[0-9][\w.+-]*)", shown.stdout, re.MULTILINE):
            return found[1]
    raise KernelError(
        f"apt knows no package {_META_PACKAGE}: {shown.stderr.strip() or shown.stdout.strip() or 'it says nothing'}. "
        "The lab boots Debian's kernel and needs a Debian mirror in the sources of apt, once"
    )


def _version(tree: Path) -> str:
    images = list((tree / "boot").glob("vmlinuz-*"))
    if len(images) != 1:
        raise KernelError(f"one kernel expected in {tree / 'boot'}, found {len(images)}. Remove {tree} and run again")
    return images[0].name.removeprefix("vmlinuz-")


def _run(command: list[str], folder: Path | None = None) -> str:
    words = " ".join(command)
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except FileNotFoundError:
        raise KernelError(f"no {command[0]} in PATH; `./run lab` installs what the lab needs") from None
    except subprocess.TimeoutExpired:
        raise KernelError(f"`{words}`: no end within {_SECONDS} s") from None
    if done.returncode != 0:
        raise KernelError(f"`{words}` failed:\n{(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout


if __name__ == "__main__":
    try:
        kernel = guest_kernel()
    except KernelError as error:
        sys.exit(str(error))
    print(f"kernel {kernel.version} in {kernel.tree}")
