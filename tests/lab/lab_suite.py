"""What the lab's tests use in the guest: a pair of ports by the names of its kernel, and pytest over a folder."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab_guest import Done, Guest, LabPair, Running

__all__ = ["KEEPER", "PYTHON", "Pair", "Suite", "bench", "no_keeper", "views", "wait_until"]

PYTHON = sys.executable
KEEPER = "[p]ytest_netperf.links.keeper"  # a pattern that does not match itself
_NETNS_TESTS = Path(__file__).resolve().parents[1] / "netns"
sys.path.insert(0, str(_NETNS_TESTS))  # stand_in, their reader of ports: by ip, ethtool and /proc
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_VIEW = "import json, sys; sys.path.insert(0, sys.argv[1]); from stand_in import view\n"
_VIEW += "print(json.dumps({name: view(name) for name in sys.argv[2:]}))"


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 60.0, every: float = 0.2) -> Any:
    """What ``condition`` gives as soon as it is true. To ask is work for the guest: not too often."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(every)
    return found


@dataclass
class Pair:
    """A pair of the guest by the names that its kernel knows."""

    guest: Guest
    cards: LabPair
    a: str
    b: str

    @property
    def names(self) -> tuple[str, str]:
        return self.a, self.b

    def view(self) -> dict[str, Any]:
        """Everything that is set on both ports, read in the guest by ip, ethtool and /proc; None for one not there."""
        return views(self.guest, {"": self})[""]

    def read(self, name: str, file: str) -> str:
        """A file of a port in sysfs; empty where it cannot be read."""
        return self.guest.run(["cat", f"/sys/class/net/{name}/{file}"]).stdout.strip()

    def up(self) -> None:
        """Both ports up, until both have a carrier."""
        for name in self.names:
            self.guest.run(["ip", "link", "set", name, "up"]).check()
        self.carrier()

    def carrier(self) -> None:
        """Until both have a carrier."""
        wait_until(lambda: [self.read(name, "carrier") for name in self.names] == ["1", "1"], "both have a carrier")

    def down(self) -> None:
        for name in self.names:
            self.guest.run(["ip", "link", "set", name, "down"]).check()


def views(guest: Guest, pairs: Mapping[str, Pair]) -> dict[str, dict[str, Any]]:
    """`Pair.view` of several pairs, in one process."""
    names = [name for pair in pairs.values() for name in pair.names]
    command = [PYTHON, "-c", _VIEW, str(_NETNS_TESTS), *names]
    seen = json.loads(guest.run(command, timeout_s=300, warm=True).check())
    return {key: {name: seen[name] for name in pair.names} for key, pair in pairs.items()}


def bench(serial: str, *pairs: Pair) -> str:
    """A device of a bench file, with a link for each pair: one end by its PCI address, the other by its MAC."""
    text = f'[[device]]\nserial = "{serial}"\n'
    for ends in pairs:
        place = ends.guest.run(["readlink", "-f", f"/sys/class/net/{ends.a}/device"]).check()
        bus = _PCI.findall(place)[-1]  # a virtio device sits below its PCI function
        speed = "100M" if ends.cards.model == "rtl8139" else "1G"
        text += f'[[device.link]]\nname = "{ends.cards.model}"\nspeed = "{speed}"\n'
        text += f'a = {{ port = "pci-{bus}", allow_addressed = true }}\nb = {{ port = "mac-{ends.cards.b.mac}" }}\n'
    return text


def no_keeper(guest: Guest) -> None:
    """Until no keeper is left: then all ports are home."""
    wait_until(lambda: guest.run(["pgrep", "-f", KEEPER]).returncode, "the keepers end", 90, every=0.5)


@dataclass
class Suite:
    """A folder with tests and a bench file, and pytest in the guest over it. Only this project's plugin is loaded."""

    guest: Guest
    name: str
    path: str = field(init=False)

    def write(self, files: Mapping[str, str]) -> None:
        self.path = self.guest.push(files, self.name)

    def begin(self, *arguments: str, **more_env: str) -> Running:
        command = [PYTHON, "-m", "pytest", "-q", "-p", "pytest_netperf.plugin", "-p", "no:cacheprovider"]
        command += ["-o", "netperf_reference=off", *arguments]
        env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "300", **more_env}
        return self.guest.begin(command, env=env, folder=self.path, warm=True)

    def run(self, *arguments: str, timeout_s: float = 280) -> Done:
        return self.begin(*arguments).wait(timeout_s)

    def sheet(self, serial: str) -> dict[str, Any]:
        (path,) = self.guest.pull(self.path).glob(f"netperf-results/{serial}/*/sheet.json")
        return json.loads(path.read_text())

    def has(self, file: str) -> bool:
        return (self.guest.pull(self.path) / file).exists()
