"""What becomes of ports of this machine that the keeper is asked for: a pair, or a path through a real device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_netperf.links.physical import PhysicalPair

__all__ = ["take_ports"]


def take_ports(index: int, spec: Mapping[str, Any], abandoned: Callable[[], bool]) -> PhysicalPair:
    """Take, lend and prove the ports of ``spec``; its ``topology`` says what is between them. Raises LinkError."""
    match spec.get("topology", "pair"):
        case "routed":
            from pytest_netperf.links.routed_ports import RoutedPorts

            return RoutedPorts(index, spec, abandoned)
        case "switched":
            from pytest_netperf.links.switched_ports import SwitchedPorts

            return SwitchedPorts(index, spec, abandoned)
        case "remote":
            from pytest_netperf.links.near_port import NearPort

            return NearPort(index, spec, abandoned)
    return PhysicalPair(index, spec, abandoned)
