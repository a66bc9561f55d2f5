"""States of a device: what a ``[[device.state]]`` table says, and how a simulated device is put in one.

A state has a name that tests ask for (``netperf_link(device_state="ips")``). What stands beside the name is how a
simulated device does it; a real one is brought there by the hook `pytest_netperf_device_state`, by commands over ssh
that stand there too, or by those that its operating system has for it (`bench.device_os`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pytest_netperf.bench.state_commands import StateCommands, read_commands
from pytest_netperf.bench.toml_table import TomlTable, shown
from pytest_netperf.quantities import parse_rate
from pytest_netperf.units import parse_ratio

__all__ = ["PLAIN", "SIDES", "DeviceState", "Side", "read_state"]

Side = Literal["a", "b", "both"]
SIDES: Final[tuple[Side, ...]] = get_args(Side)
MOST_RULES: Final = 10_000
SURICATA_CONFIG: Final = "/etc/suricata/suricata.yaml"
MOST_READINGS: Final = 1000
LEAST_CPU: Final = 0.01
_JUMBO: Final = (68, 65534)
_SERVICE: Final = re.compile(r"[A-Za-z0-9_.@-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """One state of a device."""

    name: str
    nat: bool = False
    """What leaves at side b has the address of the device there (masquerading)."""
    firewall_rules: int | None = None
    """Rules of a stateful packet filter that each new connection passes."""
    inspection_rules: int | None = None
    """Patterns that are searched for in the payload of each packet."""
    inspection_side: Side = "a"
    """The port where that is done; "both" does it twice."""
    rate_limit_bps: float | None = None
    """The rate at which bits leave each port, in place of a service that cannot be simulated."""
    dpi_side: Side | None = None
    """The ports where a program looks at each packet (nDPI), without holding it up; None: it does not run."""
    monitoring_per_second: int | None = None
    """How often a program reads the counters and the connections, as a traffic graph does; None: it does not run."""
    cpu_limit: float | None = None
    """The share of one CPU that both programs may take together."""
    suricata_side: Side | None = None
    """The ports where Suricata inspects each packet inline, on a machine that has it; None: it does not run."""
    suricata_config: str = SURICATA_CONFIG
    """Its configuration file."""
    service: str | None = None
    """A service of a real device, which its operating system starts and stops."""
    commands: StateCommands | None = None
    """What a real device is told over ssh, where that is not what its operating system has for it."""
    largest_mtu: int | None = None
    """Above this MTU in bytes the state does not exist, for ``reason``."""
    reason: str | None = None

    @property
    def is_simulated(self) -> bool:
        """Whether it says what a simulated device does."""
        return bool(self._costs_cpu or self.rate_limit_bps)

    @property
    def _costs_cpu(self) -> bool:
        by_kernel = self.nat or self.firewall_rules or self.inspection_rules
        return bool(by_kernel or self.dpi_side or self.monitoring_per_second or self.suricata_side)

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that put a simulated device into it."""
        nft = ("nft",) if self.nat or self.firewall_rules else ()
        by_iptables = self.inspection_rules or self.suricata_side
        iptables = ("iptables-restore", "ip6tables-restore") if by_iptables else ()
        dpi = ("ndpiReader",) if self.dpi_side else ()
        return (*nft, *iptables, *dpi, *(("suricata", "suricatasc") if self.suricata_side else ()))

    @property
    def only_rate_bps(self) -> float | None:
        """The rate, when that is all: then it says what the device still delivers."""
        return None if self._costs_cpu else self.rate_limit_bps

    def not_applicable(self, mtu: int) -> str | None:
        """Why this state does not exist at this MTU, or None where it does."""
        if self.largest_mtu is None or mtu <= self.largest_mtu:
            return None
        return f"state {self.name!r} does not exist at MTU {mtu} (at most {self.largest_mtu}): {self.reason}"


PLAIN: Final = DeviceState(name="plain")
"""The state of a device in which nothing was switched on; each device has it."""


def read_state(table: TomlTable) -> DeviceState:
    """The state that a ``[[device.state]]`` table describes; what is wrong goes to the mistakes of the document."""
    name = table.text("name", required=True) or ""
    if name and (not name.isprintable() or any(each in name for each in " /\\[]:")):
        table.wrong(
            "name", f"{shown(name)} is a part of test ids; write it without spaces, slashes, colons and brackets"
        )
    nat = table.flag("nat", default=False)
    firewall = table.table("firewall")
    inspection = table.table("inspection")
    rate = table.quantity("rate_limit", parse_rate, "1.2 Gbps")
    dpi, monitoring, suricata = (table.table(key) for key in ("dpi", "monitoring", "suricata"))
    cpu = table.quantity("cpu_limit", parse_ratio, "25 %")
    service, commands = table.text("service"), read_commands(table)
    if service is not None and not _SERVICE.fullmatch(service):
        table.wrong("service", f'{shown(service)} is not the name of a service, such as "suricata"')
    nothing = table.table("not_applicable")
    table.close()
    state = DeviceState(
        name=name,
        nat=bool(nat),
        firewall_rules=_rules(firewall),
        inspection_rules=_rules(inspection),
        inspection_side="a" if inspection is None else inspection.choice("side", SIDES, "a"),
        rate_limit_bps=rate,
        dpi_side=None if dpi is None else dpi.choice("side", SIDES, "both"),
        monitoring_per_second=_required_integer(
            monitoring, "per_second", 1, MOST_READINGS, "readings", "how often it reads, such as per_second = 50"
        ),
        cpu_limit=cpu,
        suricata_side=None if suricata is None else suricata.choice("side", SIDES, "a"),
        suricata_config=(None if suricata is None else suricata.text("config")) or SURICATA_CONFIG,
        service=service,
        commands=commands,
        largest_mtu=_required_integer(
            nothing,
            "mtu_above",
            *_JUMBO,
            "bytes",
            "the largest MTU at which the state exists, such as mtu_above = 1500",
        ),
        reason=None if nothing is None else nothing.text("reason", required=True),
    )
    if cpu is not None and dpi is None and monitoring is None:
        table.wrong(
            "cpu_limit",
            "is one of the programs that a device runs, and this state runs none; add dpi = {} or monitoring = {...}, "
            "or make a device that forwards slowly by rate_limit or inspection",
        )
    elif cpu is not None and not LEAST_CPU <= cpu <= 1:
        table.wrong("cpu_limit", f"{cpu:.3%} is not from {LEAST_CPU:.0%} to 100 % of one CPU")
    for inner in (firewall, inspection, dpi, monitoring, suricata, nothing):
        if inner is not None:
            inner.close()
    if name == PLAIN.name and state != PLAIN:
        table.wrong("name", '"plain" is the state in which nothing is switched on; give this one another name')
    return state


def _rules(table: TomlTable | None) -> int | None:
    return _required_integer(table, "rules", 1, MOST_RULES, "rules", "how many, such as rules = 10")


def _required_integer(table: TomlTable | None, key: str, low: int, high: int, unit: str, what: str) -> int | None:
    if table is None:
        return None
    if not table.given(key):
        table.wrong(key, f"is missing; write {what}")
    return table.integer(key, low, high, unit)
