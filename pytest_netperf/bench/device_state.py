"""States of a device: what a ``[[device.state]]`` table says, and how a simulated device is put in one.

A state has a name that tests ask for (``netperf_link(device_state="ips")``). What stands beside the name is how a
simulated device does it; a real one is brought there by the hook `pytest_netperf_device_state`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from pytest_netperf.bench.toml_table import TomlTable, shown
from pytest_netperf.quantities import parse_rate

__all__ = ["PLAIN", "SIDES", "DeviceState", "Side", "read_state"]

Side = Literal["a", "b", "both"]
SIDES: Final[tuple[Side, ...]] = get_args(Side)
MOST_RULES: Final = 10_000
_JUMBO: Final = (68, 65534)


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
    largest_mtu: int | None = None
    """Above this MTU in bytes the state does not exist, for ``reason``."""
    reason: str | None = None

    @property
    def is_simulated(self) -> bool:
        """Whether it says what a simulated device does."""
        return bool(self.nat or self.firewall_rules or self.inspection_rules or self.rate_limit_bps)

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that put a simulated device into it."""
        nft = ("nft",) if self.nat or self.firewall_rules else ()
        return (*nft, *(("iptables-restore", "ip6tables-restore") if self.inspection_rules else ()))

    @property
    def only_rate_bps(self) -> float | None:
        """The rate, when that is all: then it says what the device still delivers."""
        other = self.nat or self.firewall_rules or self.inspection_rules
        return None if other else self.rate_limit_bps

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
    nothing = table.table("not_applicable")
    table.close()
    state = DeviceState(
        name=name,
        nat=bool(nat),
        firewall_rules=_rules(firewall),
        inspection_rules=_rules(inspection),
        inspection_side="a" if inspection is None else inspection.choice("side", SIDES, "a"),
        rate_limit_bps=rate,
        largest_mtu=_required_integer(nothing, "mtu_above"),
        reason=None if nothing is None else nothing.text("reason", required=True),
    )
    for inner in (firewall, inspection, nothing):
        if inner is not None:
            inner.close()
    if name == PLAIN.name and state != PLAIN:
        table.wrong("name", '"plain" is the state in which nothing is switched on; give this one another name')
    return state


def _rules(table: TomlTable | None) -> int | None:
    if table is None:
        return None
    if not table.given("rules"):
        table.wrong("rules", "is missing; write how many, such as rules = 10")
    return table.integer("rules", 1, MOST_RULES, "rules")


def _required_integer(table: TomlTable | None, key: str) -> int | None:
    if table is None:
        return None
    if not table.given(key):
        table.wrong(key, "is missing; write the largest MTU at which the state exists, such as mtu_above = 1500")
    return table.integer(key, *_JUMBO, "bytes")
