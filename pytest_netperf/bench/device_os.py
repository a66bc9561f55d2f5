"""What real devices are told for a state, by their operating system: shipped as data in ``bench/os``, a file for each.

A state of the bench file that says what a simulated device does (``nat = true``, ``firewall = { rules = 100 }``) is the
same state on a real one, when its ``os`` has commands for each part of it. Commands of the state's own win.
"""

from __future__ import annotations

import functools
import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

from pytest_netperf.bench.state_commands import StateCommands, filled, words_of
from pytest_netperf.errors import LinkError

if TYPE_CHECKING:
    from pytest_netperf.bench.device_state import DeviceState
    from pytest_netperf.bench.model import Device

__all__ = ["SYSTEMS", "commands_for", "read_system"]

SYSTEMS: Final = ("linux", "openwrt", "opnsense", "routeros")


@functools.cache
def read_system(name: str) -> dict[str, Any]:
    """The file of one operating system: what it was tried on, its sources, and a table for each part of a state."""
    from importlib import resources  # late: most benches tell no device anything

    return tomllib.loads(resources.files("pytest_netperf.bench").joinpath("os", f"{name}.toml").read_text("utf-8"))


def commands_for(device: Device, state: DeviceState) -> dict[str, StateCommands]:
    """Part of the state -> its commands, in the order in which they are entered; empty where the device has none.

    Raises LinkError for a part that its operating system has no commands for, and where ``sides`` is missing.
    """
    if device.ssh is None:
        return {}
    if state.commands is not None:
        return {state.name: _filled(device, state.name, state.commands, {})}
    if device.system is None:
        return {}
    system = read_system(device.system)
    found = {}
    for part, words in _parts(state).items():
        table = system.get(part)
        if table is None:
            known = ", ".join(key for key, value in system.items() if isinstance(value, dict))
            raise LinkError(
                f"state {state.name!r} of {device.serial}: there are no ready commands for {part} on "
                f"{device.system!r}, only for {known}; write enter, check, expect and undo beside it"
            )
        shell = system.get("shell")
        commands = StateCommands(
            enter=tuple(table["enter"]), check=table["check"], expect=table["expect"], undo=tuple(table["undo"])
        )
        ready = _filled(device, state.name, commands, words)
        found[part] = ready if shell is None else _in_shell(ready, shell)
    return found


def _parts(state: DeviceState) -> dict[str, dict[str, str]]:
    """Each part of a state that a device has to do, and the words of its commands."""
    parts: dict[str, dict[str, str]] = {}
    if state.nat:
        parts["nat"] = {}
    if state.firewall_rules:
        parts["firewall"] = {"rules": str(state.firewall_rules)}
    if state.inspection_rules:
        parts["inspection"] = {"rules": str(state.inspection_rules)}
    if state.rate_limit_bps is not None:
        parts["rate_limit"] = {"kbit": str(round(state.rate_limit_bps / 1000))}
    if state.dpi_side is not None:
        parts["dpi"] = {}
    if state.monitoring_per_second is not None:
        parts["monitoring"] = {}
    service = state.service or ("suricata" if state.suricata_side is not None else None)
    if service is not None:  # where it looks, and for what, is in its configuration on the device
        parts["service"] = {"service": service}
    return parts


def _filled(device: Device, state: str, commands: StateCommands, words: dict[str, str]) -> StateCommands:
    sides = dict(zip("ab", device.sides, strict=True)) if device.sides is not None else {}
    if device.sides is None and words_of(commands) & {"a", "b"} and device.system is not None:
        raise LinkError(
            f"state {state!r} of {device.serial}: its commands name the device's own interfaces at the ends of the "
            'link; write them beside its ssh, such as sides = { a = "eth1", b = "eth0" }'
        )
    return filled(commands, {**sides, **words})


def _in_shell(commands: StateCommands, shell: str) -> StateCommands:
    """The commands for a login shell that is no POSIX shell; they hold no single quotes and no newlines."""

    def wrapped(text: str) -> str:
        assert not re.search(r"['\n!]", text), text
        return f"{shell} '{text}'"

    return StateCommands(
        enter=tuple(map(wrapped, commands.enter)),
        check=wrapped(commands.check),
        expect=commands.expect,
        undo=tuple(map(wrapped, commands.undo)),
        seconds=commands.seconds,
    )
