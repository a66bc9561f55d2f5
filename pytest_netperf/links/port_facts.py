"""What is true of a port beside its counters: driver, link, offloads, flow control, queues and bus.

Read around each run, in the thread of the port's namespace, without any privilege. The same for a physical port and an
end of a simulated link; what a port does not have, or its driver does not say, is None, never 0.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from pytest_netperf.links.bus import bus_of
from pytest_netperf.links.ethtool import Ethtool, standard_pause
from pytest_netperf.links.kernel import sysfs_of_this_thread
from pytest_netperf.links.queues import queues_of

__all__ = ["driver_counters", "read_port_facts"]

_US: Final = 1e-6

# Names of ``ethtool -S`` that mean the same, by driver (drivers/net/ethernet and drivers/net/usb of Linux 6.1). All
# that a port has of one line are added: XON and XOFF are both pause frames, as the kernel's standard counters count.
_DRIVER_COUNTERS: Final[dict[str, tuple[str, ...]]] = {
    "rx_pause": (
        "rx_flow_control_xon", "rx_flow_control_xoff",  # e1000, e1000e, igb, igc, ixgbe
        "port.link_xon_rx", "port.link_xoff_rx",  # i40e
        "link_xon_rx.nic", "link_xoff_rx.nic",  # ice
        "rx_pause_ctrl_phy",  # mlx5
        "rx_xon_pause_rcvd", "rx_xoff_pause_rcvd",  # tg3
        "rx_xon_frames", "rx_xoff_frames",  # bnx2
        "rx_pause_frames",  # bnxt_en, macb, be2net
        "mmc_rx_pause_frames",  # stmmac
        "rx_pause",  # mlx4, bcmgenet
    ),
    "tx_pause": (
        "tx_flow_control_xon", "tx_flow_control_xoff",
        "port.link_xon_tx", "port.link_xoff_tx",
        "link_xon_tx.nic", "link_xoff_tx.nic",
        "tx_pause_ctrl_phy",
        "tx_xon_sent", "tx_xoff_sent",
        "tx_xon_frames", "tx_xoff_frames",
        "tx_pause_frames",
        "mmc_tx_pause_frame",
        "tx_pause",
    ),
    "rx_pause_us": ("rx_global_pause_duration", "rx_pause_duration"),  # mlx5, mlx4
    "tx_pause_us": ("tx_global_pause_duration", "tx_pause_duration"),
    "rx_crc_errors": (
        "rx_crc_errors",  # e1000, e1000e, igb, igc, ixgbe, bnx2
        "port.rx_crc_errors",  # i40e
        "rx_crc_errors.nic",  # ice
        "rx_crc_errors_phy",  # mlx5
        "rx_fcs_errors",  # tg3
        "rx_fcs_err_frames",  # bnxt_en
        "mmc_rx_crc_error",  # stmmac
        "rx_frame_check_sequence_errors",  # macb
    ),
    "rx_missed": (
        "rx_missed_errors",  # e1000, e1000e, igb, igc, ixgbe
        "rx_missed",  # r8169, r8152
        "rx_out_of_buffer",  # mlx5
        "port.rx_discards",  # i40e
        "rx_discards",  # tg3
        "mmc_rx_fifo_overflow",  # stmmac
    ),
}  # fmt: skip


def read_port_facts(interface: str, index: int, own_queue: int | None = None) -> dict[str, Any]:
    """Everything about one port of the calling thread's namespace: the fields of `observe.observation.PortFacts`.

    ``own_queue`` is the handle of the root queue that shapes a simulated link. What does not answer raises nothing.
    """
    with Ethtool(interface) as port:
        facts: dict[str, Any] = {**port.driver(), **port.link(), **port.pause(), **port.eee()}
        facts["offloads"] = port.offloads()
        facts["counters"] = driver_counters(port.statistics())
    facts["counters"] |= standard_pause(interface)
    facts["queues"] = queues_of(index, own_queue)
    try:
        sysfs = sysfs_of_this_thread()
    except OSError:
        return facts
    try:
        return facts | bus_of(interface, sysfs)
    finally:
        os.close(sysfs)


def driver_counters(statistics: Mapping[str, int]) -> dict[str, int | float]:
    """What drivers count under names of their own; without those that this driver does not have. Times in seconds."""
    found: dict[str, int | float] = {}
    for name, known in _DRIVER_COUNTERS.items():
        values = [statistics[each] for each in known if each in statistics]
        if values and name.endswith("_us"):
            found[f"{name.removesuffix('_us')}_s"] = sum(values) * _US
        elif values:
            found[name] = sum(values)
    return found
