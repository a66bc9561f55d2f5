"""The few system calls that Python 3.11 does not offer, by ctypes, and what this process may do."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

__all__ = [
    "CLONE_NEWNET",
    "CLONE_NEWNS",
    "CLONE_NEWPID",
    "CLONE_NEWUSER",
    "bind_mount",
    "die_with_parent",
    "has_capabilities",
    "setns",
    "sysfs_of_this_thread",
    "unmount",
    "unshare",
    "user_namespace_advice",
]

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

_PR_SET_PDEATHSIG = 1
_MS_BIND = 0x1000
_MNT_DETACH = 2
_SYS_FSOPEN, _SYS_FSCONFIG, _SYS_FSMOUNT = 430, 431, 432  # the same on every architecture
_FSCONFIG_CMD_CREATE = 6
_CAP_NET_ADMIN = 12
_CAP_SYS_ADMIN = 21

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """unshare(2) for the calling thread. Raises OSError."""
    _checked(_libc.unshare(flags), "unshare")


def setns(fd: int) -> None:
    """Move the calling thread into the network namespace of this descriptor. Raises OSError."""
    _checked(_libc.setns(fd, CLONE_NEWNET), "setns")


def die_with_parent(signal: int) -> None:
    """Ask the kernel to send ``signal`` to this process when the thread that started it ends."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl")


def bind_mount(source: str, target: str) -> None:
    """mount --bind. Raises OSError."""
    _checked(_libc.mount(source.encode(), target.encode(), None, _MS_BIND, None), "mount")


def unmount(target: str) -> None:
    """umount --lazy. Raises OSError."""
    _checked(_libc.umount2(os.fsencode(target), _MNT_DETACH), "umount")


def sysfs_of_this_thread() -> int:
    """A folder descriptor of the sysfs of this thread's network namespace, without an entry in any mount table.

    (A thread that entered a namespace still sees the old one below /sys.) Raises OSError.
    """
    context = _libc.syscall(_SYS_FSOPEN, b"sysfs", 1)
    _checked(min(context, 0), "fsopen")
    try:
        _checked(_libc.syscall(_SYS_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0), "fsconfig")
        mounted = int(_libc.syscall(_SYS_FSMOUNT, context, 1, 0))
        _checked(min(mounted, 0), "fsmount")
        return mounted
    finally:
        os.close(context)


def has_capabilities() -> bool:
    """Whether this process may make network namespaces and devices without a user namespace of its own."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            effective = int(line.split()[1], 16)
            return all(effective >> bit & 1 for bit in (_CAP_NET_ADMIN, _CAP_SYS_ADMIN))
    return False


def user_namespace_advice(number: int | None = None) -> str:
    """One line that says what to enable, read from the kernel's switches; ``number`` is the errno of the refusal."""
    user_switches = (
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1"),
        ("/proc/sys/user/max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=15000"),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    )
    switches = (
        ("/proc/sys/user/max_net_namespaces", "0", "sudo sysctl user.max_net_namespaces=15000"),
        ("/proc/sys/user/max_pid_namespaces", "0", "sudo sysctl user.max_pid_namespaces=15000"),
    )
    for path, closed, command in switches if has_capabilities() else (*user_switches, *switches):
        try:
            value = Path(path).read_text().strip()
        except OSError:
            continue
        if value == closed:
            return f"this kernel does not let this user make network namespaces: run `{command}`, or run as root"
    if number == errno.ENOSPC:
        return (
            "the kernel's limit on namespaces is reached: end what holds them, or raise user.max_net_namespaces, "
            "user.max_pid_namespaces and user.max_user_namespaces (sudo sysctl)"
        )
    return (
        "this process may not make network namespaces (in a container, start it with --privileged or "
        "--cap-add SYS_ADMIN --cap-add NET_ADMIN), or run as root"
    )
