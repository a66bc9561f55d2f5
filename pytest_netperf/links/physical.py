"""A pair of physical ports, cabled to each other: claimed, lent to two namespaces, proved, and always brought home.

    port a --> netns a        each in a namespace of its own, so that everything between them must leave the machine
    port b --> netns b        by one and come in by the other

Nothing is renamed. What a port was is on disk before it is changed (`links.port_journal`), and the way home is explicit
(`links.port_home`).
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import operator
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.ethtool import Ethtool
from pytest_netperf.links.namespace import Namespace
from pytest_netperf.links.pair import Pair, lab_addresses
from pytest_netperf.links.port_asked import AskedSettings, asked_text
from pytest_netperf.links.port_home import Trip, bring_home
from pytest_netperf.links.port_inventory import read_inventory
from pytest_netperf.links.port_journal import PortClaim, PortJournal, journals
from pytest_netperf.links.port_lend import begin_journal, lend
from pytest_netperf.links.port_refusal import read_machine_use, refusals
from pytest_netperf.links.port_rescue import Rescued, rescue_ports
from pytest_netperf.links.ports import HostPort, find_port, list_ports
from pytest_netperf.links.wifi import ONE_RADIO, join_ad_hoc, work_ad_hoc

__all__ = ["PhysicalPair", "given_address"]

_GOVERNOR_CLAIM: Final = "governor-of-all-CPUs"
_CARRIER_SECONDS: Final = 30.0  # e1000e takes 3 s, some modules 10


class PhysicalPair(Pair):
    """Made and closed inside the keeper, in the thread whose network namespace is the ports' home.

    ``spec`` has mtu, ``ports`` (end -> port, allow_addressed, allow_virtual) and ``holder``, which others read who want
    the same port. Raises PortHeldError, or LinkError; then both ports are as they were, or it says what is not.
    """

    carrier_seconds = _CARRIER_SECONDS
    poll_seconds = 0.01
    proof_seconds = 10.0  # some ports drop what they send in the first seconds of a link
    burst_bits = 0.0

    def __init__(self, index: int, spec: Mapping[str, Any], abandoned: Callable[[], bool]) -> None:
        from pyroute2 import IPRoute

        super().__init__(index, spec["mtu"], abandoned)
        self._asked: dict[str, Any] = spec.get("asked", {})
        self._claims: list[PortClaim] = []
        self._journals: dict[str, PortJournal] = {}
        self._wifi = False
        self._home = IPRoute(ext_ack=True)
        try:
            rescued = rescue_ports(self._home, spec["holder"])
            found = self._find(spec["ports"], rescued)
            if "governor" in self._asked:  # of the whole machine; before any port, as for all
                self._claims.append(PortClaim(_GOVERNOR_CLAIM, spec["holder"]))
            for port_id in sorted(port.port_id for port in found.values()):  # in one order for all, so that nobody
                self._claims.append(PortClaim(port_id, spec["holder"]))  # waits for somebody who waits for him
            left = [each.text for each in rescued if each.problems and each.port_id in self._claimed()]
            if left:
                raise LinkError("; ".join(left))
            found = self._find(spec["ports"], rescued)  # again: whoever held them may have changed them
            if {port.port_id for port in found.values()} != self._claimed():
                raise LinkError("the ports of this machine changed while they were claimed; run it again")
            self.refuse(found, spec["ports"])
            if rescued:
                self.facts["ports_rescued"] = [each.text for each in rescued]
            self._lend(found, spec["ports"])
            self._configure_both()
            self.prove()
            if self._asked:
                self.facts["settings"] = self.both(self._in_force)
            self.facts["negotiated"] = self.both(self._negotiated)
            self.facts["inventory"] = self.both(lambda end: read_inventory(self.ports[end]["interface"]))
        except BaseException as error:
            problems = self._bring_home()
            if problems:
                raise LinkError(f"{error}; and {_not_restored(problems)}") from error
            raise

    def _claimed(self) -> set[str]:
        return {claim.port_id for claim in self._claims} - {_GOVERNOR_CLAIM}

    def _find(self, wanted: Mapping[str, Mapping[str, Any]], rescued: Sequence[Rescued]) -> dict[str, HostPort]:
        ports = list_ports(self._home)
        found = {}
        for end, each in wanted.items():
            try:
                found[end] = find_port(each["port"], ports)
            except LinkError as error:
                self._refuse_lent(each["port"])
                raise LinkError("; ".join([str(error), *(each.text for each in rescued if each.problems)])) from None
        if len({port.index for port in found.values()}) < len(found):
            raise LinkError(
                f"{wanted['a']['port']} and {wanted['b']['port']} are one port: {found['a'].label}; a link joins two"
            )
        return found

    def _refuse_lent(self, text: str) -> None:
        """A port that is not here may be in use: its holder is the better answer."""
        for journal in journals():
            if HostPort.of_record(journal.before["port"]).is_called(text):
                PortClaim(journal.port_id, {}).close()

    def refuse(self, found: Mapping[str, HostPort], wanted: Mapping[str, Mapping[str, Any]]) -> None:
        """Raises LinkError with every reason why these ports must not be taken."""
        reasons, use = [], read_machine_use(self._home)
        for end, port in found.items():
            allowed = {name: bool(wanted[end].get(name)) for name in ("allow_addressed", "allow_virtual")}
            reasons += [f"port {end} ({port.label}): {reason}" for reason in refusals(port, self._home, use, **allowed)]
        self._wifi = all(port.wifi for port in found.values())
        if not self._wifi:
            reasons += [f"port {end} ({port.label}): {ONE_RADIO}" for end, port in found.items() if port.wifi]
        if reasons:
            raise LinkError("; ".join(reasons))

    def _lend(self, found: Mapping[str, HostPort], wanted: Mapping[str, Mapping[str, Any]]) -> None:
        """Write down what both ports are, and move each into a namespace of its own."""
        for end in found:
            self.ends[end] = Namespace(end)
        for namespace in self.ends.values():
            namespace.wait_started()
        for end, port in found.items():
            journal = self._journals[end] = begin_journal(port, self._home, self._asked)
            lend(port, journal, self._home, self.ends[end])
        for end, port in found.items():
            addresses = self.addresses_of(end, wanted[end])
            self.ports[end] = {"interface": port.name, "name": port.label, "mac": port.mac, **addresses}
            self.facts[f"port_{end}_is"] = port.label
            if (advice := port.advice(wanted[end]["port"])) is not None:
                self.facts[f"port_{end}_advice"] = advice

    def addresses_of(self, end: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Addresses and prefix lengths of an end: those of the bench file in the place of the run's own."""
        given = (given_address(wanted.get(key)) for key in ("address", "address6"))
        return functools.reduce(operator.or_, given, {**lab_addresses(self.index)[end]})

    def _configure_both(self) -> None:
        for end, port in self.ports.items():
            settings = f", {asked_text(self._asked)}" if self._asked else ""
            self._journals[end].note(f"set MTU {self.mtu}{settings} and lab addresses, and take it up")
            port["index"] = self.ends[end].call(socket.if_nametoindex, port["interface"])
        self.both(self._configure)

    def _configure(self, end: str) -> None:
        from pyroute2.netlink.exceptions import NetlinkError

        ipr, port = self.ends[end].ipr, self.ports[end]
        (link,) = ipr.link("get", index=port["index"])
        if link.get_attr("IFLA_MTU") != self.mtu:
            try:
                ipr.link("set", index=port["index"], mtu=self.mtu)
            except NetlinkError as error:
                low, high = link.get_attr("IFLA_MIN_MTU"), link.get_attr("IFLA_MAX_MTU")
                allowed = f"; its driver allows {low} to {high}" if high else ""
                raise LinkError(
                    f"port {port['name']} refuses an MTU of {self.mtu}: {os.strerror(error.code)}{allowed}"
                ) from None
        wanted = port["address6"] if "prefix6" in port else None
        self.add_addresses(end)
        if wanted and port["address6"] is None:
            raise LinkError(
                f"port {port['name']} cannot have the address {wanted}: IPv6 is off in this kernel, or the MTU of "
                f"{self.mtu} is below 1280"
            )
        asked = AskedSettings(port["interface"], port["name"], self._asked)
        asked.write_down()
        if self._wifi:
            work_ad_hoc(port["index"], port["name"])
        ipr.link("set", index=port["index"], state="up")
        asked.write_up()
        self._join(end)

    def _join(self, end: str) -> None:
        if self._wifi:
            port = self.ports[end]
            self.facts[f"port_{end}_wifi"] = join_ad_hoc(port["index"], self.index, port["name"])

    def up_again(self, end: str) -> None:
        """See `Pair`."""
        super().up_again(end)
        self._join(end)

    def _in_force(self, end: str) -> str:
        port = self.ports[end]
        return AskedSettings(port["interface"], port["name"], self._asked).verify()

    def _negotiated(self, end: str) -> dict[str, Any]:
        with Ethtool(self.ports[end]["interface"]) as port:
            return port.link()

    def no_carrier(self, end: str) -> str:
        """See `Pair`."""
        if self._wifi:
            return f"port {self.ports[end]['name']} has not joined the ad hoc network after {self.carrier_seconds:g} s"
        return (
            f"port {self.ports[end]['name']} has no carrier after {self.carrier_seconds:g} s: look at the cable, at "
            "both of its ends, and at the module"
        )

    def where_to_look(self) -> str:
        """See `Pair`."""
        if self._wifi:
            return ": both ports have joined an ad hoc network, but they do not hear each other; look at their antennas"
        return (
            f": both ports have a carrier, but {self.ports['a']['name']} and {self.ports['b']['name']} do not reach "
            "each other; is the cable in these two?"
        )

    def shape(self, _packet_bytes: int) -> dict[str, float | None]:
        """A wire needs no shaper."""
        return dict.fromkeys(self.ends)

    def bounce(self) -> None:
        """Both ports down and up again, until the link works. Raises LinkError."""
        self.both(lambda end: self.ends[end].ipr.link("set", index=self.ports[end]["index"], state="down"))
        self.both(self.up_again)
        self.prove()
        if self._asked:
            self.both(self._in_force)

    def traffic_begins(self) -> None:
        """Nothing comes and goes with it."""

    def traffic_ends(self) -> None:
        """Nothing to take back."""

    def close(self) -> None:
        """Bring both ports home. Raises LinkError with everything that is not as it was."""
        problems = self._bring_home()
        if problems:
            raise LinkError(_not_restored(problems))

    def _bring_home(self) -> list[str]:
        trips = [
            Trip(journal, self.ends.get(end), self.ports.get(end, {}).get("index"))
            for end, journal in self._journals.items()
        ]
        left = bring_home(trips, self._home)
        names = {journal.port_id: journal.before["state"]["name"] for journal in self._journals.values()}
        problems = [f"port {names[port]} ({port}): {each}" for port, said in left.items() for each in said]
        self._journals.clear()
        for namespace in self.ends.values():  # only now: what is left in them may hold them for minutes
            namespace.close()
        self.ends.clear()
        for claim in self._claims:
            claim.close()
        self._claims.clear()
        with contextlib.suppress(Exception):
            self._home.close()
        return problems


def given_address(address: str | None) -> dict[str, Any]:
    """The address of a bench file and its prefix length, by the keys of a port that they go into."""
    if address is None:
        return {}
    interface = ipaddress.ip_interface(address)
    six = "6" if interface.version == 6 else ""
    return {f"address{six}": str(interface.ip), f"prefix{six}": interface.network.prefixlen}


def _not_restored(problems: list[str]) -> str:
    return (
        f"a port is not as it was before the run: {'; '.join(problems)}. What it was is in its journal: see to what "
        "keeps it, then run pytest-netperf clean"
    )
