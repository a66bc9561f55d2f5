"""Wi-Fi ports: they move between network namespaces with their radio (phy), and find each other without a cable.

    radio of a --> netns a, ad hoc          both in one network of their own (IBSS, IEEE 802.11), without encryption
    radio of b --> netns b, ad hoc          and without an access point

An ad hoc network needs no program: the kernel does it all. What is read here is read by netlink quickly, what changes
the kernel goes through pyroute2. Everything is of the calling thread's namespace.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_netperf.errors import LinkError
from pytest_netperf.links.netlink import GENERIC, attribute, attributes, exchange

__all__ = ["ONE_RADIO", "join_ad_hoc", "mode_back", "move_radio", "read_mode", "wifi_refusals", "work_ad_hoc"]

ONE_RADIO: Final = (
    "it is Wi-Fi, and the other end is not: two Wi-Fi ports find each other ad hoc; an access point in between is "
    "not supported in this version"
)

_FREQUENCY_MHZ: Final = 2412  # channel 1: where every country lets a station begin to send
_CONTROLLER, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2  # linux/genetlink.h
_GET_INTERFACE = 5  # linux/nl80211.h
_WIPHY, _INDEX, _NAME, _MODE = 1, 3, 4, 5
_STATION: Final = "station"
_MODES: Final = ("unspecified", "adhoc", _STATION, "ap", "ap_vlan", "wds", "monitor", "mesh_point")
_SUPPLICANT: Final = Path("/run/wpa_supplicant")


class _Interface(NamedTuple):
    number: int
    """Index of the interface."""
    name: str
    radio: int
    """Number of its phy."""
    mode: str


def read_mode(index: int) -> str | None:
    """As what a Wi-Fi port works ("station", "adhoc", "ap" ...); None for one that is not Wi-Fi."""
    found = next((each for each in _interfaces() if each.number == index), None)
    return found.mode if found is not None else None


def wifi_refusals(index: int, carrier: bool) -> list[str]:
    """Why the radio of this port must not be taken, each with the way out."""
    here = list(_interfaces())
    own = next((each for each in here if each.number == index), None)
    if own is None:
        return ["it is Wi-Fi of an old kind, without a phy that could move into a network namespace (nl80211)"]
    found = []
    others = [each.name for each in here if each.radio == own.radio and each.number != index]
    if others:
        found.append(
            f"{', '.join(others)} is on the same radio and would move with it; remove it first (iw dev {others[0]} del)"
        )
    if own.mode != _STATION:
        found.append(
            f"it works as {own.mode}, which could not be given back; make it a station first: ip link set {own.name} "
            f"down, iw dev {own.name} set type managed"
        )
    elif carrier:
        found.append(
            f"it has joined a Wi-Fi network, which it would lose; leave it first (iw dev {own.name} disconnect)"
        )
    if (_SUPPLICANT / own.name).exists():
        found.append(f"wpa_supplicant takes care of it; let go of it first (wpa_cli -i {own.name} terminate)")
    return found


def move_radio(index: int, namespace: int) -> None:
    """Move the radio of this port, and the port with it, into the namespace of a descriptor. Raises OSError."""
    radio = next((each.radio for each in _interfaces() if each.number == index), None)
    if radio is None:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
    _change("set_wiphy_netns_by_fd", radio, namespace)


def mode_back(index: int, mode: str) -> None:
    """Let a port that is down work as this again; one in an ad hoc network leaves it. Raises OSError."""
    if read_mode(index) != mode:
        _change("set_interface_type", index, mode)


def join_ad_hoc(index: int, network: int, label: str) -> dict[str, Any]:
    """Let a port, that is up after this, work ad hoc in the network of this number; what the network is. LinkError."""
    name, cell = f"netperf-{network}", f"02:00:5e:ad:{network >> 8 & 0xFF:02x}:{network & 0xFF:02x}"
    try:
        _change("join_ibss", index, name, _FREQUENCY_MHZ, cell, channel_fixed=True, width=1)
        width = "20 MHz"
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise _unable(label, "join an ad hoc network", error) from None
        try:  # a driver without 802.11n in an ad hoc network
            _change("join_ibss", index, name, _FREQUENCY_MHZ, cell, channel_fixed=True, width=0)
        except OSError as error:
            raise _unable(label, "join an ad hoc network", error) from None
        width = "20 MHz without 802.11n"
    return {"ad_hoc_network": name, "bssid": cell, "frequency_mhz": _FREQUENCY_MHZ, "width": width}


def work_ad_hoc(index: int, label: str) -> None:
    """Make a station, that is down, ready for an ad hoc network. Raises LinkError."""
    try:
        _change("set_interface_type", index, "adhoc")
    except OSError as error:
        raise _unable(label, "work ad hoc, without an access point", error) from None


def _unable(label: str, what: str, error: OSError) -> LinkError:
    return LinkError(f"port {label} cannot {what}: {os.strerror(error.errno or 0)}; its driver may not know how")


def _interfaces() -> Iterator[_Interface]:
    """Every Wi-Fi interface; none where the kernel has no Wi-Fi at all."""
    try:
        family = _family()
        answer = exchange(GENERIC, family, struct.pack("=BBxx", _GET_INTERFACE, 0), dump=True)
    except OSError:
        return
    for message in answer:
        known = dict(attributes(message[4:]))
        if _INDEX in known:  # else it is not an interface of the network, as of P2P
            index, radio, mode = (struct.unpack("=I", known[key])[0] for key in (_INDEX, _WIPHY, _MODE))
            name = known[_NAME].rstrip(b"\0").decode("utf-8", "replace")
            yield _Interface(index, name, radio, _MODES[mode] if mode < len(_MODES) else f"mode {mode}")


def _family() -> int:
    question = struct.pack("=BBxx", _GET_FAMILY, 1) + attribute(_FAMILY_NAME, b"nl80211\0")
    (answer,) = exchange(GENERIC, _CONTROLLER, question)
    return int(struct.unpack("=H", dict(attributes(answer[4:]))[_FAMILY_ID])[0])


def _change(what: str, *arguments: Any, **options: Any) -> None:
    from pyroute2.iwutil import IW
    from pyroute2.netlink.exceptions import NetlinkError

    with IW() as radio:
        try:
            getattr(radio, what)(*arguments, **options)
        except NetlinkError as error:
            raise OSError(error.code, os.strerror(error.code)) from None
