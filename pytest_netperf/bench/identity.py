"""What tells a device from others of its kind, in the ``[[device]]`` table of a bench file; its serial's pattern."""

from __future__ import annotations

import re
from typing import Any, Final

from pytest_netperf.bench.toml_table import TomlTable, shown

__all__ = ["read_identity", "read_serial_pattern"]

_TEXTS: Final = ("part_number", "hardware_revision", "firmware", "bios", "nic_stepping")
_MAC: Final = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
_EXAMPLE: Final = 'macs = ["00:00:5e:00:53:01"]'


def read_identity(table: TomlTable) -> dict[str, Any]:
    """The fields of `bench.model.Device` that say which one it is, but for serial, model and batch."""
    return {"macs": _macs(table), **{key: table.text(key) for key in _TEXTS}}


def _macs(table: TomlTable) -> tuple[str, ...]:
    """MAC addresses of its ports, in small letters, each once."""
    value = table.take("macs")
    if value is None:
        return ()
    if not isinstance(value, list):
        table.wrong("macs", f"{shown(value)} is not a list; write one such as {_EXAMPLE}")
        return ()
    macs: list[str] = []
    for each in value:
        if not isinstance(each, str) or not _MAC.fullmatch(each):
            table.wrong("macs", f"{shown(each)} is not a MAC address; write a list such as {_EXAMPLE}")
        elif each.lower() in macs:
            table.wrong("macs", f"{shown(each)} is there more than once; a MAC address is of one port")
        else:
            macs.append(each.lower())
    return tuple(macs)


def read_serial_pattern(table: TomlTable) -> str | None:
    """The regular expression for serials, of a profile."""
    pattern = table.text("serial_pattern")
    if pattern is None:
        return None
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        table.wrong(
            "serial_pattern",
            f'{shown(pattern)} is no regular expression: {error}; write one such as serial_pattern = "BOX2-[0-9]{{4}}"',
        )
        return None
    return pattern
