"""The guest's first files: busybox, a few modules and a script that puts this machine's root under a RAM layer.

The guest sees the machine's own files, read-only; what it writes stays in its memory and ends with it. Only the shared
folder (``/lab`` in the guest) is written through.
"""

from __future__ import annotations

import gzip
import shlex
import stat
from pathlib import Path

from lab_kernel import GuestKernel
from lab_python import PYTHON_MOUNT, PYTHON_PATH

__all__ = ["ROOT_TAG", "SHARE_TAG", "write_initramfs"]

ROOT_TAG = "labroot"
SHARE_TAG = "labshare"
_MODULES = ("virtio_pci", "virtio_console", "9p", "9pnet_virtio", "overlay", "virtio_blk", "ext4")
_INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /host /memory /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs dev /dev
for module in {modules}; do /bin/busybox insmod /modules/$module || echo "lab: $module not loaded"; done
options=trans=virtio,version=9p2000.L,msize=524288,cache=loose
/bin/busybox mount -t 9p -o ro,$options {root_tag} /host
/bin/busybox mount -t tmpfs -o mode=755,size=75% memory /memory
/bin/busybox mkdir /memory/upper /memory/work
/bin/busybox mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work overlay /root
/bin/busybox mkdir -p /root/lab /root/usr/lib/modules /root{python_mount}
/bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288 {share_tag} /root/lab
[ ! -b /dev/vda ] || /bin/busybox mount -t ext4 -o ro /dev/vda /root{python_mount}
/bin/busybox mount --bind /host{kernel_modules} /root/usr/lib/modules
/bin/busybox mount -t proc proc /root/proc
/bin/busybox mount -t sysfs sysfs /root/sys
/bin/busybox mount -t devtmpfs dev /root/dev
/bin/busybox mount -t tmpfs -o mode=755 run /root/run
/bin/busybox mkdir -p /root/dev/pts /root/dev/shm
/bin/busybox mount -t devpts devpts /root/dev/pts
/bin/busybox mount -t tmpfs shm /root/dev/shm
/bin/busybox hostname lab
export PYTHONPATH={python_path}
exec /bin/busybox switch_root /root {agent}
"""


def write_initramfs(to: Path, kernel: GuestKernel, agent: list[str]) -> None:
    """An initramfs that ends by executing ``agent``, a command by this machine's paths, as process 1."""
    modules = kernel.modules(*_MODULES)
    init = _INIT.format(
        modules=" ".join(shlex.quote(path.name) for path in modules),
        root_tag=ROOT_TAG,
        share_tag=SHARE_TAG,
        python_mount=PYTHON_MOUNT,
        python_path=PYTHON_PATH,
        kernel_modules=shlex.quote(str(kernel.tree / "lib" / "modules")),
        agent=shlex.join(agent),
    )
    files = {"bin/busybox": kernel.busybox.read_bytes(), "init": init.encode()}
    files |= {f"modules/{path.name}": path.read_bytes() for path in modules}
    archive = b"".join(_entry(folder, stat.S_IFDIR | 0o755, b"") for folder in ("bin", "modules", "dev"))
    archive += b"".join(_entry(name, stat.S_IFREG | 0o755, content) for name, content in files.items())
    to.write_bytes(gzip.compress(archive + _entry("TRAILER!!!", 0, b""), compresslevel=1))


def _entry(name: str, mode: int, content: bytes) -> bytes:
    """One file of a cpio archive in the format "newc" (Documentation/driver-api/early-userspace of Linux)."""
    path = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)
