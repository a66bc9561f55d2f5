"""States of a simulated device: address translation, a packet filter, inspection of what packets hold, a slow service.

    nat         nft: masquerade of what leaves at side b
    firewall    nft: a stateful filter; each new connection passes all its rules
    inspection  iptables: patterns that are searched for in the payload of each packet, at one port or at both
    rate_limit  the shapers of the device's ports
    dpi, monitoring, cpu_limit, suricata: programs that the device runs (`links.device_programs`)

A state is entered when the link is up and proved, is proved by packets of its own (what the far end sees, what does not
arrive, what the counters of the rules say), and goes with the device. It lives in the device's namespace only.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.queues import queues_of

if TYPE_CHECKING:
    from pytest_netperf.links.through_device import ThroughDevice

__all__ = ["cross", "enter_state", "find_program", "run_on_device"]

_TABLE: Final = "netperf_state"
_CHAIN: Final = "NETPERF"
_SEARCHED_BYTES: Final = 65535
_REFUSED_PORT: Final = 9  # discard (RFC 863): nobody measures on it
_ANSWER_MS: Final = 150
_TRIES: Final = 10
_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/sbin:/sbin"
_PACKAGES: Final = {"nft": "nftables", "ndpiReader": "libndpi-bin", "suricata": "suricata"}
_PROGRAM_SECONDS: Final = 30


def enter_state(path: ThroughDevice, state: Mapping[str, Any]) -> dict[str, str]:
    """Put the device into a state (the fields of `bench.device_state.DeviceState`), and prove each part of it.

    Returns part -> how it was proved. Raises LinkError.
    """
    proofs = {}
    for part, enter in (("nat", _nat), ("firewall", _firewall), ("inspection", _inspection), ("rate_limit", _rate)):
        proof = enter(path, state)
        if proof is not None:
            proofs[part] = proof
    if state.get("dpi_side") or state.get("monitoring_per_second") or state.get("suricata_side"):
        from pytest_netperf.links.device_programs import DevicePrograms

        path.programs = DevicePrograms(path, state)
        proofs |= path.programs.enter()
    return proofs


def _nat(path: ThroughDevice, state: Mapping[str, Any]) -> str | None:
    if not state.get("nat"):
        return None
    outside = path.ports["device_b"]["interface"]
    rule = f'oifname "{outside}" counter masquerade'
    _nft(path, "nat", f"type nat hook postrouting priority srcnat; policy accept; {rule}")
    seen = []
    for family, key in _families(path):
        source = cross(path, b"nat", family=family)
        expected = path.ports["device_b"][key]
        if source != expected:
            raise LinkError(
                f"device state: NAT is not in force: the far end sees a packet of {path.ports['a'][key]} as from "
                f"{source or 'nobody'}, expected {expected}, the address of the device there"
            )
        seen.append(expected)
    return f"end b sees packets of end a as from {' and '.join(seen)}, the device's own address"


def _firewall(path: ThroughDevice, state: Mapping[str, Any]) -> str | None:
    count = state.get("firewall_rules")
    if not count:
        return None
    # What is known passes at once, as in every stateful filter; only what is new passes the rules. The last of them
    # refuses something that can be tried.
    rules = [
        f"udp dport {number % 1000 + 10} ip daddr 192.0.2.{number % 254 + 1} counter drop"
        for number in range(count - 1)
    ]
    rules.append(f"udp dport {_REFUSED_PORT} counter drop")
    body = "; ".join(["ct state established,related counter accept", *rules, "ct state new counter accept", "drop"])
    _nft(path, "firewall", f"type filter hook forward priority filter; policy drop; {body}")
    before = _nft_counters(path, "firewall")
    if cross(path, b"firewall") is None:
        raise LinkError("device state: the firewall lets nothing pass")
    if cross(path, b"firewall", port=_REFUSED_PORT, patience=1) is not None:
        raise LinkError(
            f"device state: the firewall is not in force: UDP port {_REFUSED_PORT}, which it refuses, passes"
        )
    after = _nft_counters(path, "firewall")
    refused, passed = after[count] - before[count], after[count + 1] - before[count + 1]
    if refused < 1 or passed < 1:
        raise LinkError(
            f"device state: the counters of the firewall do not rise with traffic (rule {count}: {refused} packets, "
            f"new connections: {passed})"
        )
    return f"rule {count} of {count} refused a packet and counted it; a new connection passed all of them"


def _inspection(path: ThroughDevice, state: Mapping[str, Any]) -> str | None:
    count, side = state.get("inspection_rules"), state.get("inspection_side", "a")
    if not count:
        return None
    ports = [path.ports[f"device_{end}"]["interface"] for end in ("ab" if side == "both" else side)]
    for family, _ in _families(path):
        _iptables(path, family, _inspection_rules(ports, count))
    for family, _ in _families(path):
        before, _ = _inspected(path, family, ports)
        if cross(path, b"nothing to see here", family=family) is None:
            raise LinkError("device state: the inspection lets nothing pass")
        if cross(path, b"x" * 40 + _pattern(count - 1).encode() + b"x" * 40, family=family, patience=1) is not None:
            raise LinkError("device state: the inspection is not in force: a packet with its last pattern passes")
        dropped, passed = _inspected(path, family, ports)
        if dropped <= before or not all(passed):
            raise LinkError("device state: the counters of the inspection do not rise with traffic")
    where = "both ports" if side == "both" else f"the port at side {side}"
    return f"a packet with the last of {count} patterns was dropped and counted at {where}, others pass"


def _inspection_rules(ports: Sequence[str], count: int) -> str:
    """Each packet passes the chain once for each port at which it is inspected, whichever way it goes."""
    searching = f"-m string --algo bm --to {_SEARCHED_BYTES} --string"
    return "\n".join(
        [
            "*filter",
            f":{_CHAIN} - [0:0]",
            *(f"-A FORWARD {way} {port} -j {_CHAIN}" for port in ports for way in ("-i", "-o")),
            *(f"-A {_CHAIN} {searching} {_pattern(number)} -j DROP" for number in range(count)),
            "COMMIT",
            "",
        ]
    )


def _pattern(number: int) -> str:
    return f"netperf-signature-{number:05}"


def _rate(path: ThroughDevice, state: Mapping[str, Any]) -> str | None:
    limit = state.get("rate_limit_bps")
    if limit is None:
        return None
    path.limit_device(limit)
    shown = []
    for end in ("device_a", "device_b"):
        index, own = path.ports[end]["index"], path.own_queue(end)
        queues = path.device.call(queues_of, index, own) or []
        rate = next((queue["rate_bps"] for queue in queues if queue["ours"]), None)
        if rate is None or rate > limit * 1.01:
            raise LinkError(f"device state: the rate limit of {limit:g} bit/s is not in force at {end}: {rate}")
        shown.append(f"{rate / 1e6:.0f}")
    return f"the kernel limits the device's ports to {' and '.join(shown)} Mbit/s of frames"


# Packets of our own


def _families(path: ThroughDevice) -> Iterator[tuple[int, str]]:
    """The IP versions of the link, and the key of their addresses."""
    yield socket.AF_INET, "address"
    if all(port["address6"] is not None for port in path.ports.values()):
        yield socket.AF_INET6, "address6"


def cross(
    path: ThroughDevice, payload: bytes, *, family: int = socket.AF_INET, port: int = 0, patience: int = _TRIES
) -> str | None:
    """Send a datagram from end a to end b: the address that end b sees as its sender, or None when nothing arrives."""
    key = "address" if family == socket.AF_INET else "address6"
    with (
        path.ends["a"].socket(family, socket.SOCK_DGRAM) as sender,
        path.ends["b"].socket(family, socket.SOCK_DGRAM) as receiver,
    ):
        sender.bind((path.ports["a"][key], 0))
        path.ends["b"].call(receiver.bind, (path.ports["b"][key], port))
        poller = select.poll()
        poller.register(receiver, select.POLLIN)
        for _ in range(patience):
            sender.sendto(payload, receiver.getsockname()[:2])
            if poller.poll(_ANSWER_MS):
                data, source = receiver.recvfrom(65535)
                return str(source[0]) if data == payload else None
    return None


# Programs


def _nft(path: ThroughDevice, chain: str, body: str) -> None:
    """One chain of our table; nft reads one statement a line or after a semicolon."""
    run_on_device(
        path, ["nft", "-f", "-"], f"table inet {_TABLE} {{ chain {chain} {{ {body}; }}; }}\n".replace("; ", ";\n")
    )


def _nft_counters(path: ThroughDevice, chain: str) -> list[int]:
    """Packets that each rule of a chain counted, in their order."""
    listed = json.loads(run_on_device(path, ["nft", "-j", "list", "chain", "inet", _TABLE, chain]))
    rules = [each["rule"]["expr"] for each in listed["nftables"] if "rule" in each]
    return [part["counter"]["packets"] for rule in rules for part in rule if "counter" in part]


def _iptables(path: ThroughDevice, family: int, rules: str) -> None:
    program = "iptables-restore" if family == socket.AF_INET else "ip6tables-restore"
    run_on_device(path, [program, "--noflush"], rules)


def _inspected(path: ThroughDevice, family: int, ports: Sequence[str]) -> tuple[int, list[int]]:
    """Packets that the rule of the last pattern dropped, and those that each port handed over for inspection."""
    program = "iptables-save" if family == socket.AF_INET else "ip6tables-save"
    rules = [
        line.split() for line in run_on_device(path, [program, "-c", "-t", "filter"]).splitlines() if "] -A " in line
    ]
    counted = [(int(rule[0].split(":")[0].lstrip("[")), rule[2:]) for rule in rules]
    dropped = [packets for packets, rule in counted if rule[0] == _CHAIN]
    return dropped[-1], [sum(packets for packets, rule in counted if port in rule) for port in ports]


def find_program(name: str) -> str:
    """Where a program that a state needs is, in PATH or among root's programs. Raises LinkError."""
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), _SYSTEM_PATH])
    # The variant of iptables that is built on nftables needs no lock file, which only root can open.
    program = shutil.which(name.replace("tables-", "tables-nft-"), path=search) or shutil.which(name, path=search)
    if program is None:
        raise LinkError(
            f"this state of the simulated device needs the program {name}, which is not in PATH or /usr/sbin; install "
            f"it: sudo apt-get install {_PACKAGES.get(name, 'iptables')}"
        )
    return program


def run_on_device(path: ThroughDevice, argv: Sequence[str], text: str = "") -> str:
    """Run a program in the namespace of the device, with this text on its input; returns its output."""
    program = find_program(argv[0])
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": _PROGRAM_SECONDS, "check": False}
    try:
        done = path.device.call(subprocess.run, [program, *argv[1:]], input=text, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LinkError(f"the simulated device cannot run {program}: {error}") from None
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it does not say why"])[0]
        raise LinkError(
            f"this kernel cannot put the simulated device into this state: {program}: {said} (it needs nf_tables, "
            "nf_conntrack, nft_compat and xt_string; try `sudo modprobe -a nf_tables nft_compat xt_string`)"
        )
    return done.stdout
