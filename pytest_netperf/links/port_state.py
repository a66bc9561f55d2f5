"""Everything that makes a port what it is, read before the first change and compared after the last.

Plain data, for a journal on disk. What a driver or a kernel does not know is None.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_netperf.errors import LinkError
from pytest_netperf.links.port_records import ADDRESSES, NEIGHBOURS, ROUTES, read_records
from pytest_netperf.links.port_settings import PortSettings
from pytest_netperf.links.wifi import read_mode

__all__ = ["ATTRIBUTES", "FLAGS", "RECORDS", "differences", "read_port_state", "read_sysctls", "sysctl_path"]

FLAGS: Final = {"up": 0x1, "no_arp": 0x80, "promisc": 0x100, "allmulti": 0x200, "multicast": 0x1000}
"""Flags of the interface that somebody sets (linux/if.h)."""

ATTRIBUTES: Final = {
    "mtu": "IFLA_MTU",
    "txqueuelen": "IFLA_TXQLEN",
    "mac": "IFLA_ADDRESS",
    "group": "IFLA_GROUP",
    "alias": "IFLA_IFALIAS",
    "gso_max_bytes": "IFLA_GSO_MAX_SIZE",
    "gso_max_segments": "IFLA_GSO_MAX_SEGS",
    "gro_max_bytes": "IFLA_GRO_MAX_SIZE",
}
RECORDS: Final = (ADDRESSES, ROUTES, NEIGHBOURS)

_SYSCTLS: Final = ("ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh")


def read_port_state(ipr: Any, index: int) -> dict[str, Any]:
    """The state of one interface of the calling thread's namespace. Raises LinkError when it is not there."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        (link,) = ipr.link("get", index=index)
    except NetlinkError as error:
        raise LinkError(f"the port with index {index} is gone ({os.strerror(error.code)})") from None
    name: str = link.get_attr("IFLA_IFNAME")
    properties = link.get_attr("IFLA_PROP_LIST")
    with PortSettings(name) as settings:
        groups = settings.read()
    return {
        "name": name,
        "index": index,
        "altnames": sorted(properties.get_attrs("IFLA_ALT_IFNAME")) if properties else [],
        **{field: link.get_attr(attribute) for field, attribute in ATTRIBUTES.items()},
        "wifi_mode": read_mode(index),
        "flags": {flag: bool(link["flags"] & bit) for flag, bit in FLAGS.items()},
        "qdisc": link.get_attr("IFLA_QDISC"),
        "settings": groups,
        "sysctls": read_sysctls(name),
        **{what: read_records(what, index) for what in RECORDS},
    }


def read_sysctls(name: str) -> dict[str, str]:
    """``ipv4/conf/rp_filter`` and its like: what the kernel keeps for each interface, and forgets when it moves."""
    found = {}
    for kind in _SYSCTLS:  # some 120 files for each port, each time: by descriptors, which takes a quarter of the time
        try:
            folder = os.open(Path("/proc/sys/net") / kind / name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:  # IPv6 is off for this port
            continue
        try:
            for key in sorted(os.listdir(folder)):  # noqa: PTH208 - names only
                with contextlib.suppress(OSError):  # stable_secret that nobody set
                    found[f"{kind}/{key}"] = _read(key, folder)
        finally:
            os.close(folder)
    return found


def _read(name: str, folder: int) -> str:
    file = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(file, 4096).decode().strip()
    finally:
        os.close(file)


def sysctl_path(key: str, name: str) -> Path:
    """The file of one of them."""
    kind, _, leaf = key.rpartition("/")
    return Path("/proc/sys/net") / kind / name / leaf


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What is not as it was, a text for each; empty when everything is."""
    found = [
        f"{field}: was {_text(before.get(field))}, is {_text(after.get(field))}"
        for field in ("name", "altnames", "wifi_mode", *ATTRIBUTES)
        if before.get(field) != after.get(field)  # a journal of an earlier version has no Wi-Fi in it
    ]
    found += _of_mapping("", before["flags"], after["flags"])
    if before["flags"]["up"] and after["flags"]["up"] and before["qdisc"] != after["qdisc"]:  # it has one when it is up
        found.append(f"qdisc: was {before['qdisc']}, is {after['qdisc']}")
    for group, wanted in before["settings"].items():
        now = after["settings"][group]
        if wanted is None or now is None:
            found += [] if wanted == now else [f"{group}: was {_text(wanted)}, is {_text(now)}"]
        elif group == "offloads":
            found += _of_offloads(wanted, now)
        else:
            found += _of_mapping(f"{group} ", wanted, now)
    found += _of_mapping("sysctl ", before["sysctls"], after["sysctls"])
    for what in RECORDS:
        was, now = ({each["key"]: each["is"] for each in state[what]} for state in (before, after))
        found += [f"{what}: {was[key]} is missing" for key in was if key not in now]
        found += [f"{what}: {now[key]} was not there" for key in now if key not in was and not _of_carrier(now[key])]
    return found


def _of_carrier(record: str) -> bool:
    """A link-local address: the kernel gives one to a port that is up and finds its carrier, whenever that is."""
    return record.startswith("fe80:")


def _of_mapping(prefix: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [
        f"{prefix}{key}: was {_text(was.get(key))}, is {_text(now.get(key))}"
        for key in sorted(was.keys() | now.keys())
        if was.get(key) != now.get(key) and not _is_link_result(prefix, key, was, now)
    ]


def _is_link_result(prefix: str, key: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """A speed that one of both does not know: without a carrier a driver has none, whatever was set."""
    return prefix == "link " and key in ("mbps", "duplex", "port") and None in (was.get("mbps"), now.get("mbps"))


def _of_offloads(was: Mapping[str, list[str]], now: Mapping[str, list[str]]) -> list[str]:
    found = []
    for which, word in (("wanted", "wanted"), ("on", "on")):
        before, after = set(was[which]), set(now[which])
        found += [f"offload {name}: was {word}, is not" for name in sorted(before - after)]
        found += [f"offload {name}: was not {word}, is" for name in sorted(after - before)]
    return found


def _text(value: object) -> str:
    return "not there" if value is None else str(value)
