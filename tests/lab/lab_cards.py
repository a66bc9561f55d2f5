"""The network cards of the lab's guest: models of QEMU, two of each, joined by a cable."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PAIRS", "LabPair", "LabPort", "device"]


@dataclass(frozen=True, slots=True)
class LabPort:
    """One card of the guest. ``slot`` is its PCIe root port (hot-plug), None for one on the old PCI bus."""

    id: str
    model: str
    mac: str
    slot: str | None


@dataclass(frozen=True, slots=True)
class LabPair:
    """Two cards of one model, joined by one cable."""

    model: str
    driver: str
    a: LabPort
    b: LabPort

    @property
    def ports(self) -> tuple[LabPort, LabPort]:
        return self.a, self.b


def _pair(number: int, model: str, driver: str, hot_plug: bool) -> LabPair:
    ends = [
        LabPort(
            f"card{number}{end}", model, f"02:00:5e:10:{number:02x}:0{end}", f"slot{number}{end}" * hot_plug or None
        )
        for end in (1, 2)
    ]
    return LabPair(model, driver, *ends)


PAIRS = {
    pair.model: pair
    for pair in (
        _pair(1, "e1000e", "e1000e", hot_plug=True),  # Intel 82574L
        _pair(2, "vmxnet3", "vmxnet3", hot_plug=True),  # 10G
        _pair(3, "e1000", "e1000", hot_plug=False),  # Intel 82540EM
        _pair(4, "rtl8139", "8139cp", hot_plug=False),  # 100M
        _pair(5, "virtio-net-pci", "virtio_net", hot_plug=True),
    )
}


def device(port: LabPort) -> dict[str, str]:
    """What QEMU is told of a card, at its start or when it is plugged in."""
    device = {"driver": port.model, "id": port.id, "netdev": f"cable-{port.id}", "mac": port.mac}
    return device | ({"bus": port.slot} if port.slot else {})
