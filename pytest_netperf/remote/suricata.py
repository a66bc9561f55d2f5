"""A driver for Suricata (7 and newer): started, asked, stopped, on a device over ssh or on this machine.

    with connect(SshTarget(host="192.0.2.1", user="root")) as device:
        Suricata(device, interfaces=["igb0", "igb1"]).start()   # -> the sentence that proves it

It runs beside the device's own configuration, with one rule and a control socket of ours; a device that starts its own
(OPNsense, a system unit) is told so by ``start`` and ``stop``, and only asked whether it runs. Everything is done by
the documented command line of ``suricata`` and ``suricatasc``.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol, get_args

from pytest_netperf.errors import ConfigError, LinkError, ServiceMissingError

__all__ = ["PATTERN", "Answer", "Capture", "Shell", "Suricata"]

Capture = Literal["nfqueue", "af-packet", "netmap", "pcap"]
PATTERN: Final = "netperf-suricata-proof"
"""A packet that holds this text is dropped, or alerted where it only looks on."""
_RULE_ID: Final = 4_294_000_001  # above those that rule sets use
_NOT_FOUND: Final = 127
_LOOK_S: Final = 0.2


class Answer(Protocol):
    """What a command said."""

    status: int
    stdout: str
    stderr: str


class Shell(Protocol):
    """Where commands run: `remote.ssh.SshConnection`, or a namespace of this machine."""

    def run(self, command: str, *, timeout: float = 30.0, stdin: str = "") -> Answer:
        """Run a command to its end."""


class Suricata:
    """One Suricata on one machine. What it raises is LinkError, or ServiceMissingError where it is not installed."""

    def __init__(
        self,
        shell: Shell,
        *,
        capture: Capture = "af-packet",
        interfaces: Sequence[str] = (),
        queues: Sequence[int] = (),
        config: str = "/etc/suricata/suricata.yaml",
        folder: str = "/run/netperf-suricata",
        start: str | None = None,
        stop: str | None = None,
        socket: str | None = None,
        patience_s: float = 120.0,
    ) -> None:
        """``start`` and ``stop``: the device's own commands, with the ``socket`` of its configuration; left out, we
        start ``suricata`` with its ``config``, and all that is ours is in ``folder``. Loading all rules takes up to
        ``patience_s``.
        """
        if capture not in get_args(Capture):
            raise ConfigError(f"Suricata: capture {capture!r} is not one of {', '.join(get_args(Capture))}")
        if (start is None) != (stop is None):
            raise ConfigError("Suricata: give both start and stop, or none of them")
        if start is None and not (queues if capture == "nfqueue" else interfaces):
            needed = "queues" if capture == "nfqueue" else "interfaces"
            raise ConfigError(f"Suricata: capture {capture!r} needs {needed}; name one or more")
        self._shell, self._capture, self._config, self._folder = shell, capture, config, folder
        self._interfaces, self._queues = list(interfaces), list(queues)
        self._own_start, self._own_stop = start, stop
        self._socket = socket or (f"{folder}/socket" if start is None else "")
        self._patience_s = patience_s

    @property
    def command(self) -> str:
        """The command that starts it."""
        if self._own_start is not None:
            return self._own_start
        capture = {
            "nfqueue": [word for queue in self._queues for word in ("-q", str(queue))],
            "af-packet": [f"--af-packet={name}" for name in self._interfaces],
            "netmap": [f"--netmap={name}" for name in self._interfaces],
            "pcap": [word for name in self._interfaces for word in ("-i", name)],
        }[self._capture]
        return shlex.join(
            [
                "suricata", "-D", "-c", self._config, "-s", f"{self._folder}/netperf.rules", "-l", self._folder,
                "--pidfile", f"{self._folder}/pid", "--set", "unix-command.enabled=yes",
                "--set", f"unix-command.filename={self._socket}", *capture,
            ]
        )  # fmt: skip

    @property
    def rule(self) -> str:
        """The rule by which it can be proved. Where packets do not wait for it, it cannot drop them."""
        action = "drop" if self._capture == "nfqueue" else "alert"
        return f'{action} ip any any -> any any (msg:"netperf proof"; content:"{PATTERN}"; sid:{_RULE_ID}; rev:1;)\n'

    def version(self) -> str:
        """Such as "7.0.3"."""
        answer = self._shell.run("suricata -V")
        words = (answer.stdout + answer.stderr).split()
        if answer.status == _NOT_FOUND or "version" not in words:
            raise _missing("suricata -V", answer)
        return words[words.index("version") + 1]

    def start(self) -> str:
        """Start it, wait until it works, and say how that was proved."""
        version = self.version()
        if self._own_start is None:
            folder = shlex.quote(self._folder)
            self._run(f"mkdir -p {folder} && cat > {folder}/netperf.rules", stdin=self.rule)
        self._run(self.command)
        deadline = time.monotonic() + self._patience_s
        while (uptime := self._ask("uptime", must=False)) is None:
            if time.monotonic() > deadline:
                raise LinkError(
                    f"Suricata does not answer {self._patience_s:g} s after `{self.command}`: {self._last_words()}"
                )
            time.sleep(_LOOK_S)
        return f"Suricata {version}, up for {uptime} s, {self._rules_and_mode()}"

    def check(self) -> str:
        """The same of one that runs already; LinkError where it does not."""
        return f"Suricata {self.version()}, up for {self._ask('uptime')} s, {self._rules_and_mode()}"

    def packets(self) -> int | None:
        """How many its interfaces saw, all together; None of a capture without them."""
        counted = [self._ask(f"iface-stat {name}") for name in self._interfaces]
        return sum(int(each["pkts"]) for each in counted) if counted else None

    def stop(self) -> str:
        """Stop it, wait until it is gone, and say so. That it never ran is fine."""
        if self._own_stop is not None:
            self._run(self._own_stop)
        elif self._ask("shutdown", must=False) is None:
            return "Suricata does not run on the device: nothing answers at its socket"
        deadline = time.monotonic() + self._patience_s
        while self._ask("uptime", must=False) is not None:
            if time.monotonic() > deadline:
                raise LinkError(f"Suricata still answers {self._patience_s:g} s after it was told to end")
            time.sleep(_LOOK_S)
        return "Suricata was told to end, and does not answer any more"

    def _rules_and_mode(self) -> str:
        stats = self._ask("ruleset-stats")
        try:
            loaded, failed = (sum(int(each[name]) for each in stats) for name in ("rules_loaded", "rules_failed"))
        except (TypeError, KeyError, ValueError):
            raise LinkError(f"Suricata answers ruleset-stats by {stats!r}, which is not known here") from None
        if not loaded:
            raise LinkError("Suricata runs without a rule, so it inspects nothing; look at its rule-files")
        wrong = f", {failed} of them failed" if failed else ""
        return f"mode {self._ask('running-mode')}, capture {self._ask('capture-mode')}, {loaded} rules loaded{wrong}"

    def _ask(self, command: str, *, must: bool = True) -> Any:
        """The answer to a command of the control socket; None where it does not answer and need not."""
        words = ["suricatasc", "-c", command, *([self._socket] if self._socket else [])]
        answer = self._shell.run(shlex.join(words))
        if answer.status == _NOT_FOUND:
            raise _missing("suricatasc", answer)
        try:
            said = json.loads(answer.stdout.strip().splitlines()[-1])
            if said["return"] == "OK":
                return said["message"]
        except (ValueError, KeyError, TypeError, IndexError):
            pass
        if not must:
            return None
        said = (answer.stdout + answer.stderr).strip() or "nothing"
        raise LinkError(f"Suricata: `{shlex.join(words)}` says {said.splitlines()[-1]}; it does not run as it should")

    def _run(self, command: str, stdin: str = "") -> None:
        answer = self._shell.run(command, timeout=self._patience_s, stdin=stdin)
        if answer.status:
            said = (answer.stderr or answer.stdout).strip() or "it does not say why"
            raise LinkError(f"Suricata: `{command}` failed with status {answer.status}: {said.splitlines()[-1]}")

    def _last_words(self) -> str:
        said = self._shell.run(f"tail -n 3 {shlex.quote(self._folder)}/suricata.log").stdout.strip()
        return said.replace("\n", " / ") or "its log is empty"


def _missing(command: str, answer: Answer) -> ServiceMissingError:
    said = (answer.stderr or answer.stdout).strip() or "it says nothing"
    return ServiceMissingError(
        f"Suricata is not installed where this state needs it (`{command}`: {said.splitlines()[-1]}); install it where "
        "the system has a package of it (Debian 12 has none), or leave the state out"
    )
