"""What a sheet identifies: the device, the station it was measured on, and the procedure. A part of `record.schema`."""

from __future__ import annotations

import msgspec

__all__ = ["Cable", "DeviceInfo", "DeviceRecord", "EvidenceFile", "Nic", "Procedure", "StationInfo"]


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The thing under test, as each row names it. From the bench file."""

    serial: str
    """Serial number; it names the sheet. Where the profile of the model has a `serial_pattern`, it matches that."""
    model: str | None = None
    """Model name; a profile of that name says what is known of the model."""
    batch: str | None = None
    """Production batch, or lot of a delivery. From --netperf-batch, or the bench file."""


class DeviceRecord(DeviceInfo, frozen=True, kw_only=True):
    """The thing under test, with everything that tells it from others of its kind. From the bench file."""

    part_number: str | None = None
    """Part number of the vendor."""
    hardware_revision: str | None = None
    """Revision of the hardware."""
    macs: tuple[str, ...] = ()
    """MAC addresses of its ports, in small letters."""
    firmware: str | None = None
    """Version of the firmware or of the operating system on it."""
    bios: str | None = None
    """Version of its BIOS or boot loader."""
    nic_stepping: str | None = None
    """Stepping (silicon revision) of its network controllers, such as "I225-V B3"."""


class Nic(msgspec.Struct, frozen=True, kw_only=True):
    """A physical port that the bench file names, as this machine has it. From the machine."""

    port: str
    """Its name in the bench file. From the bench file."""
    used_by: str
    """Device (or "station"), link and end that it is for, such as "R86S-U4-0007/sfp/a". From the bench file."""
    interface: str | None = None
    """Name that the kernel gave it; null when the port was not there."""
    mac: str | None = None
    """Its MAC address."""
    driver: str | None = None
    """Kernel driver."""
    pci: str | None = None
    """PCI address; null for a port that is on none."""
    pci_id: str | None = None
    """PCI vendor and device, such as "8086:15f3"."""
    revision: str | None = None
    """PCI revision: the stepping of the controller, such as "0x03"."""


class Cable(msgspec.Struct, frozen=True, kw_only=True):
    """What joins the ports of a link. From the bench file."""

    used_by: str
    """Device (or "station") and link, such as "R86S-U4-0007/sfp"."""
    media: str | None = None
    """Medium, such as "2.5GBASE-T" or "dac"."""
    cable: str | None = None
    """Which cable or transceiver, such as its inventory number."""


class StationInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured. From the machine."""

    name: str | None = None
    """Name of the bench. From the bench file, or the host's name."""
    location: str | None = None
    """Where it stands. From the bench file."""
    host: str | None = None
    """Name of the machine."""
    system: str | None = None
    """Its operating system."""
    kernel: str | None = None
    """Release of its kernel."""
    machine: str | None = None
    """Its architecture."""
    product: str | None = None
    """What its maker calls the machine (DMI)."""
    bios: str | None = None
    """Version and date of its BIOS (DMI)."""
    cpu: str | None = None
    """Model of its processor."""
    cpus: int | None = None
    """CPUs that the run could use."""
    congestion_control: str | None = None
    """TCP congestion control that the kernel uses unless a link asks for another."""
    nics: tuple[Nic, ...] = ()
    """The physical ports that the bench file names for the devices of this run and for the station."""
    cables: tuple[Cable, ...] = ()
    """The cables that the bench file names for them."""


class EvidenceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the result rests on. From the machine."""

    what: str
    """What it is: "bench file", "limits file", "waivers file", "baselines file"."""
    name: str
    """The path as the user gave it."""
    sha256: str
    """SHA-256 of its bytes, in hexadecimal."""
    bytes: int
    """Its size."""
    copy: str | None = None
    """The copy of it below the output folder; null when none could be made."""


class Procedure(msgspec.Struct, frozen=True, kw_only=True):
    """By what it was measured and judged. From the machine."""

    suite: str | None = None
    """Name of the test suite. From --netperf-suite, or the name of pytest's rootdir."""
    version: str | None = None
    """Version of the suite. From --netperf-suite-version."""
    commit: str | None = None
    """Git commit of the suite; null when it is in no git work tree."""
    modified: bool | None = None
    """True when files of the suite differ from that commit; null when there is none."""
    command: str | None = None
    """The command line."""
    bench_file: str | None = None
    """Bench file, as it was given. From --netperf-bench."""
    bench_sha256: str | None = None
    """SHA-256 of the bench file; null for the built-in bench."""
    limits_file: str | None = None
    """Limits file, as it was given. From --netperf-limits."""
    limits_sha256: str | None = None
    """SHA-256 of the limits file."""
    decision_rule: str | None = None
    """The decision rule of the run, and what chance of a wrong verdict it leaves (ISO/IEC 17025, 7.8.6). A row that
    was judged by another names it. From --netperf-rule and --netperf-role."""
