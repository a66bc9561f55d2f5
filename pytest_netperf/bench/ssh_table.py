"""The keys of a table that say how another machine is reached over ssh: ``ssh``, ``ssh_port`` and so on."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Final

from pytest_netperf.bench.ssh_target import SshTarget
from pytest_netperf.bench.toml_table import TomlTable, shown

__all__ = ["SSH_KEYS", "read_ssh"]

SSH_KEYS: Final = ("ssh", "ssh_port", "ssh_key", "ssh_known_hosts")
_USER: Final = re.compile(r"[^\s@:/\\]{1,64}")
_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})")
_EXAMPLE: Final = 'ssh = "root@198.18.0.2"'


def read_ssh(table: TomlTable) -> SshTarget | None:
    """The machine that a table names; None where it names none, or wrongly, which is noted."""
    text = table.text("ssh")
    port = table.integer("ssh_port", 1, 65535, "a TCP port")
    key, known_hosts = _file(table, "ssh_key"), _file(table, "ssh_known_hosts")
    if text is None:
        for name in SSH_KEYS[1:]:
            if table.given(name) and not table.given("ssh"):
                table.wrong(name, f"says nothing without the machine; add {_EXAMPLE}")
        return None
    user, at, host = text.rpartition("@")
    bare = host.removeprefix("[").removesuffix("]")
    if at and not _USER.fullmatch(user):
        table.wrong("ssh", f"{shown(text)} has no user before the @; write {_EXAMPLE}")
        return None
    if not _is_host(bare):
        hint = "; the port has a key of its own, ssh_port" if re.fullmatch(r"[^:]+:\d+", host) else ""
        table.wrong("ssh", f"{shown(text)} is not a user and a host{hint}; write {_EXAMPLE}")
        return None
    return SshTarget(host=bare, user=user or None, port=port, key=key, known_hosts=known_hosts)


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _NAME.fullmatch(text) is not None
    return True


def _file(table: TomlTable, key: str) -> str | None:
    """A file by its whole path: where pytest is started must not matter."""
    text = table.text(key)
    if text is not None and not (text.startswith("~/") or Path(text).is_absolute()):
        table.wrong(key, f'{shown(text)} is not a whole path; write one such as "~/.ssh/bench" or "/etc/netperf/key"')
        return None
    return text
