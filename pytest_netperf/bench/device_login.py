"""The keys of a ``[[device]]`` table that say how the device itself is told to change its state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pytest_netperf.bench.device_os import SYSTEMS
from pytest_netperf.bench.ssh_table import read_ssh
from pytest_netperf.bench.toml_table import TomlTable, shown

if TYPE_CHECKING:
    from pytest_netperf.bench.device_state import DeviceState

__all__ = ["read_login"]

_INTERFACE: Final = re.compile(r"[A-Za-z0-9_.:@/-]{1,32}")
_NO_LOGIN: Final = 'is told to the device over ssh; add ssh = "root@198.18.0.1" to its [[device]] table, or remove it'


def read_login(table: TomlTable, states: Sequence[DeviceState]) -> dict[str, Any]:
    """The fields ``ssh``, ``system`` and ``sides`` of a device; what is wrong is noted."""
    ssh = read_ssh(table)
    system = table.text("os")
    if system is not None and system not in SYSTEMS:
        table.wrong("os", f"{shown(system)} is not one of {', '.join(SYSTEMS)}", near=(system, SYSTEMS))
    sides = _sides(table.table("sides"))
    for key in ("os", "sides"):
        if table.given(key) and not table.given("ssh"):
            table.wrong(key, _NO_LOGIN)
    if not table.given("ssh"):
        for number, state in enumerate(states):
            if state.commands is not None:
                table.wrong(f"state[{number}].enter", _NO_LOGIN)
    return {"ssh": ssh, "system": system if system in SYSTEMS else None, "sides": sides}


def _sides(table: TomlTable | None) -> tuple[str, str] | None:
    if table is None:
        return None
    names = {end: table.text(end, required=True) for end in "ab"}
    for end, name in names.items():
        if name is not None and not _INTERFACE.fullmatch(name):
            table.wrong(end, f'{shown(name)} is not the name of an interface of the device, such as "eth0"')
    table.close()
    a, b = names.values()
    return (a, b) if a is not None and b is not None else None
