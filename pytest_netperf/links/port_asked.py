"""The settings that a test asks for, on one port: written where they differ, and read back while its link works.

Putting them back is the matter of the way home (`links.port_home`): what the port was is in its journal. A driver that
refuses is a LinkError with the name of the port and what the driver said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pytest_netperf.bench.port_wishes import wish_text
from pytest_netperf.errors import LinkError
from pytest_netperf.links.ethtool import OFFLOADS, Ethtool
from pytest_netperf.links.host_files import governor_files, irq_files, read_cpus, read_file, write_file
from pytest_netperf.links.port_reading import link_modes
from pytest_netperf.links.port_settings import PortSettings

__all__ = ["AskedSettings", "asked_text"]

_GROUPS: Final = {"ring": "rings", "pause": "pause", "eee": "eee", "negotiation": "link", "offloads": "offloads"}
"""Setting of a test -> group of `PortSettings`, in the order in which they are written."""
_BY_THE_LINK: Final = frozenset({"negotiation", "pause", "eee"})
"""What both ends may have a say in: read back only when the link is there."""
_HALF_DUPLEX, _FULL_DUPLEX = 0, 1


class AskedSettings:
    """What one port shall be set to. Everything here runs in the thread of its namespace."""

    def __init__(self, interface: str, label: str, asked: Mapping[str, Any]) -> None:
        self._interface, self._label, self._asked = interface, label, asked
        self._open = {name: asked[name] for name in _GROUPS if name in asked}

    def write_down(self) -> None:
        """Before the port goes up, so that its link is negotiated once. What a driver refuses now is tried again."""
        self._write(lambda _name, _error: None)
        # Once more on the port that is up, where it differs: some drivers begin anew then. A forced speed cannot be
        # read before the carrier, and to write it twice would cost it twice.
        forced = not self._asked.get("negotiation", {}).get("autoneg", True)
        done = {"negotiation"} - self._open.keys() if forced else set()
        self._open = {name: self._asked[name] for name in _GROUPS if name in self._asked and name not in done}

    def write_up(self) -> None:
        """What is left, on the port that is up: some drivers know their hardware only then. Raises LinkError, also for
        what reads back otherwise, so that nobody waits for a carrier in vain."""
        self._write(self._refused)
        for name in ("irq_cpus", "governor"):
            if name in self._asked:
                self._write_files(name)

    def _write(self, refuse: Callable[[str, OSError], None]) -> None:
        with PortSettings(self._interface) as port:
            for name, wanted in list(self._open.items()):
                now = port.read()[_GROUPS[name]]
                if now is None:
                    refuse(name, OSError("the driver does not know this setting"))
                    continue
                try:
                    target = _target(name, wanted, now, port)
                    if target != now:
                        port.write(_GROUPS[name], target)
                except OSError as error:
                    refuse(name, error)
                else:
                    del self._open[name]

    def _refused(self, name: str, error: OSError) -> None:
        more = ""
        if name == "ring":
            with PortSettings(self._interface) as port:
                most = port.most_ring_entries()
            more = f"; it has at most {most['rx']} rx and {most['tx']} tx entries" if most else ""
        raise LinkError(self._cannot(name, f"{error.strerror or error}{more}"))

    def _cannot(self, name: str, why: str) -> str:
        with Ethtool(self._interface) as port:
            driver = port.driver()["driver"] or "unknown"
        return f"port {self._label} cannot be set to {name} {_words(name, self._asked[name])}; driver {driver}: {why}"

    def _write_files(self, name: str) -> None:
        files = irq_files(self._interface) if name == "irq_cpus" else governor_files()
        if not files:
            none = "the port has no interrupts of its own" if name == "irq_cpus" else "this machine sets no frequencies"
            raise LinkError(self._cannot(name, none))
        for file in files:
            try:
                write_file(file, self._asked[name])
            except OSError as error:
                raise LinkError(self._cannot(name, f"{file}: {error.strerror}")) from None

        self._verify({name: wanted for name, wanted in self._asked.items() if name not in _BY_THE_LINK})

    def verify(self) -> str:
        """Read everything back, now that the link works. Returns what is in force, in words. Raises LinkError."""
        self._verify(self._asked)
        return asked_text(self._asked)

    def _verify(self, asked: Mapping[str, Any]) -> None:
        with PortSettings(self._interface) as port:
            now, offloads, link = port.read(), port.offloads(), port.link()
        for name, wanted in asked.items():
            found = self._found(name, wanted, now, offloads, link)
            if found is not None:
                raise LinkError(self._cannot(name, f"read back it has {found}"))

    def _found(
        self,
        name: str,
        wanted: Any,
        now: Mapping[str, Any],
        offloads: Mapping[str, str],
        link: Mapping[str, Any],
    ) -> str | None:
        """What a setting is, where that is not what was asked; None when it is."""
        group = now.get(_GROUPS.get(name, "")) or {}
        match name:
            case "offloads":
                states = {key: offloads.get(key, "cannot") for key in wanted}
                wrong = {key: said for key, said in states.items() if (said == "on") != wanted[key]}
                more = "off: it needs another one that is off, or the port does not have it"
                return ", ".join(f"{key} {more if said == 'cannot' else said}" for key, said in wrong.items()) or None
            case "ring" | "pause":
                kind = type(next(iter(wanted.values())))
                other = {key: kind(group[key]) for key in wanted if group[key] != int(wanted[key])}
                decided = "; the other end decides, unless autoneg is False too"
                more = decided if name == "pause" and group["autoneg"] else ""
                return _words(name, other) + more if other else None
            case "eee":
                return None if bool(group.get("enabled")) == wanted else f"eee {'off' if wanted else 'on'}"
            case "negotiation":
                got = (link["speed_bps"], link["duplex"], link["autoneg"])
                if got == (wanted["mbps"] * 1e6, wanted["duplex"], wanted["autoneg"]):
                    return None
                speed = "no speed" if got[0] is None else f"{got[0] / 1e6:g} Mbit/s {got[1]} duplex"
                return f"{speed}, autonegotiation {'on' if got[2] else 'off'}"
            case "irq_cpus":
                others = [file for file in irq_files(self._interface) if read_cpus(file) != read_cpus(wanted)]
                return f"other CPUs in {', '.join(others)}" if others else None
            case "governor":
                others = [file for file in governor_files() if read_file(file) != wanted]
                return f"another one in {', '.join(others)}" if others else None
        return None


def asked_text(asked: Mapping[str, Any]) -> str:
    """All of them in words."""
    return "; ".join(f"{name} {_words(name, value)}" for name, value in asked.items())


def _words(name: str, value: Any) -> str:
    if name == "negotiation":
        return f"{value['mbps']:g}M {value['duplex']} duplex, {'negotiated' if value['autoneg'] else 'forced'}"
    return wish_text(name, tuple(value.items()) if isinstance(value, Mapping) else value)


def _target(name: str, wanted: Any, now: Mapping[str, Any], port: PortSettings) -> dict[str, Any]:
    """The whole group, as it shall be. Raises OSError for what the port cannot be."""
    match name:
        case "offloads":
            wishes = set(now["wanted"])
            for short, on in wanted.items():
                features = {each for each in OFFLOADS[short] if not (on and each.endswith("-hw"))}
                wishes = wishes | (features & port.available_features()) if on else wishes - features
            return {**now, "wanted": sorted(wishes)}
        case "eee":
            return {**now, "enabled": int(wanted)}
        case "negotiation":
            return _negotiation(wanted, now, port)
    return {**now, **{key: int(value) for key, value in wanted.items()}}


def _negotiation(wanted: Mapping[str, Any], now: Mapping[str, Any], port: PortSettings) -> dict[str, Any]:
    supported = port.supported_link_modes()
    offered = link_modes(wanted["mbps"], wanted["duplex"]) & supported
    if not offered:
        raise OSError("it has no such link mode")
    words = len(now["advertised"]) // 8
    old = sum(
        int.from_bytes(bytes.fromhex(now["advertised"])[4 * at : 4 * at + 4], "little") << 32 * at
        for at in range(words)
    )
    advertised = (old & ~link_modes(None, None)) | offered
    target = {
        **now,
        "autoneg": int(wanted["autoneg"]),
        "advertised": advertised.to_bytes(4 * words, "little").hex() if wanted["autoneg"] else now["advertised"],
    }
    if not wanted["autoneg"]:
        duplex = _FULL_DUPLEX if wanted["duplex"] == "full" else _HALF_DUPLEX
        target |= {"mbps": wanted["mbps"], "duplex": duplex, "port": port.connector()}
    return target
